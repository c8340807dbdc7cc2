// The binding: checks types, shapes and sizes, releases the interpreter's lock, calls a kernel.
// It does no arithmetic on scores.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <cstring>
#include <chrono>
#include <optional>
#include <string>
#include <nanobind/stl/optional.h>
#ifdef REPRIOR_HAS_AVX
#include <cpuid.h>
#endif

#include "biases.h"
#include "bins.h"
#include "kernels.h"
#include "reliability.h"
#include "sweep.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace reprior;

namespace {

// ------------------------------------------------------------------------------- instruction set

#ifdef REPRIOR_HAS_AVX
constexpr unsigned bit(int i) { return 1u << i; }

// Everything that CMakeLists.txt lets the compiler use at a level. Asked of the processor itself:
// __builtin_cpu_supports needs a library that clang-cl does not link.
const Kernels *best_kernels() {
    constexpr unsigned BASIC = bit(23) | bit(27) | bit(28) | bit(29);  // popcnt, osxsave, avx, f16c
    constexpr unsigned LZCNT = bit(5), AVX2 = bit(3) | bit(5) | bit(8);  // bmi, avx2, bmi2
    constexpr unsigned AVX512 = bit(16) | bit(17) | bit(30) | bit(31);  // f, dq, bw, vl
    constexpr unsigned YMM = 0x6, ZMM = 0xe6;  // registers that the operating system keeps
    unsigned a, b, c, d, basic, extended;
    if (!__get_cpuid(1, &a, &b, &basic, &d) || (basic & BASIC) != BASIC) return &kernels_baseline;
    if (!__get_cpuid(0x80000001, &a, &b, &extended, &d) || !(extended & LZCNT)) return &kernels_baseline;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & AVX2) != AVX2) return &kernels_baseline;
    unsigned kept, high;
    __asm__ volatile("xgetbv" : "=a"(kept), "=d"(high) : "c"(0));
    if ((b & AVX512) == AVX512 && (kept & ZMM) == ZMM) return &kernels_avx512;
    return (kept & YMM) == YMM ? &kernels_avx2 : &kernels_baseline;
}
#else
const Kernels *best_kernels() { return &kernels_baseline; }
#endif

// The levels this processor has, lowest first; null ends the list.
const Kernels *const *levels() {
    static const Kernels *found[4] = {};
    int n = 0;
    found[n++] = &kernels_baseline;
#ifdef REPRIOR_HAS_AVX
    if (best_kernels() != &kernels_baseline) found[n++] = &kernels_avx2;
    if (best_kernels() == &kernels_avx512) found[n++] = &kernels_avx512;
#endif
    return found;
}

const Kernels *kernels = best_kernels();

void set_level(const std::string &name) {
    for (const Kernels *const *k = levels(); *k; ++k)
        if (name == (*k)->level) {
            kernels = *k;
            return;
        }
    throw nb::value_error(("This processor has no level '" + name + "'.").c_str());
}

nb::list level_names() {
    nb::list names;
    for (const Kernels *const *k = levels(); *k; ++k) names.append((*k)->level);
    return names;
}

// ------------------------------------------------------------------------------------- arguments

using Scores = nb::ndarray<nb::ro, nb::ndim<3>, nb::device::cpu>;
using Ints = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Reals = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T, int N> using Out = nb::ndarray<T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const char *rule) {
    if (!condition) throw nb::value_error(rule);
}

// The memory of an array. Nothing else in this file asks for it, so that all of it is aligned.
template <class Array> auto aligned(const Array &array) {
    using T = std::remove_pointer_t<decltype(array.data())>;
    require((uintptr_t)array.data() % alignof(T) == 0, "arrays must be aligned");
    return array.data();
}

template <class Array> auto aligned(const std::optional<Array> &array) {
    return array ? aligned(*array) : nullptr;
}

// Call `work` with a null pointer of the scores' type.
template <class Work> auto by_type(nb::dlpack::dtype type, Work work) {
    if (type == nb::dtype<float>()) return work((const float *)nullptr);
    if (type == nb::dtype<double>()) return work((const double *)nullptr);
    throw nb::type_error("scores must be float32 or float64");
}

template <class T, class Array> const T *scores_of(const Array &array) {
    require(array.dtype() == nb::dtype<T>(), "scores must be of one type");
    require((uintptr_t)array.data() % alignof(T) == 0, "arrays must be aligned");
    return (const T *)array.data();
}

// Lets Ctrl-C end a kernel that may take long: called often and without the lock, it asks the
// interpreter for signals now and then.
class Pause {
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds PERIOD{30};
    Clock::time_point next = Clock::now() + PERIOD;

  public:
    void operator()() {
        if (Clock::now() < next) return;
        {
            nb::gil_scoped_acquire acquire;
            if (PyErr_CheckSignals()) throw nb::python_error();
        }
        next = Clock::now() + PERIOD;
    }
};

uintptr_t size_of(ScoreType type) { return type == ScoreType::f64 ? 8 : type == ScoreType::f32 ? 4 : 2; }

// Scores, or where rows are written, as (outer, inner, K). NumPy has bfloat16 as uint16 only.
template <class Array> RowsView rows_view(const Array &scores) {
    RowsView v;
    v.data = scores.data();  // of a type that is known below
    const auto type = scores.dtype();
    if (type == nb::dtype<double>()) v.type = ScoreType::f64;
    else if (type == nb::dtype<float>()) v.type = ScoreType::f32;
    else if (type.code == (uint8_t)nb::dlpack::dtype_code::Float && type.bits == 16) v.type = ScoreType::f16;
    else if (type.code == (uint8_t)nb::dlpack::dtype_code::Bfloat && type.bits == 16) v.type = ScoreType::bf16;
    else if (type == nb::dtype<uint16_t>()) v.type = ScoreType::bf16;
    else throw nb::type_error("scores must be float16, bfloat16 (also as uint16), float32 or float64");
    v.n_outer = (int64_t)scores.shape(0), v.n_inner = (int64_t)scores.shape(1);
    v.n_classes = (int64_t)scores.shape(2);
    v.outer_stride = scores.stride(0), v.inner_stride = scores.stride(1), v.class_stride = scores.stride(2);
    require((uintptr_t)v.data % size_of(v.type) == 0, "scores and out must be aligned");
    require(v.n_classes >= 1 && v.n_classes < INT32_MAX / 2, "scores must have 1 to 2**30 classes");
    if (v.n_outer == 0 || v.n_inner == 0) v.n_outer = v.n_inner = 0;
    // Views with strides of 0 may have any shape. Kernels count in bytes, of up to 8 for a score.
    require(v.n_outer == 0 || v.n_inner <= INT64_MAX / 16 / v.n_classes / v.n_outer, "there are too many scores");
    return v;
}

void require_labels(const Ints &labels, int64_t n_classes) {
    const int64_t *y = aligned(labels);
    bool good = true;
    for (size_t i = 0; i < labels.shape(0); ++i) good &= y[i] < n_classes;
    require(good, "labels must be below the number of classes; negative ones are left out");
}

// --------------------------------------------------------------------------------------- profile

nb::tuple profile(const Scores &scores, const Ints &labels, std::optional<Reals> weights,
                  std::optional<Reals> slopes, std::optional<Scores> direction, bool to_scores, double low, double high,
                  int64_t first, Out<int64_t, 2> counts, Out<double, 2> sums, Out<double, 1> position,
                  Out<int32_t, 2> parties, Out<double, 1> switch_weight, int64_t used, Out<int32_t, 2> ends) {
    const RowsView view = rows_view(scores);
    const RowsView along = direction ? rows_view(*direction) : view;
    const int64_t n = view.n_outer * view.n_inner, k = view.n_classes;
    require((int64_t)labels.shape(0) == n, "labels must be as many as samples");
    require(!weights || (int64_t)weights->shape(0) == n, "weights must be as many as samples");
    require(slopes.has_value() != direction.has_value(), "either slopes or a direction must be given");
    require(!slopes || (int64_t)slopes->shape(0) == k, "slopes must have shape (K,)");
    require(along.n_outer * along.n_inner == n && along.n_classes == k, "a direction must have as many scores");
    require(low < high && !(low < 0 && high > 0), "bounds must be ordered and not cross 0");
    require(counts.shape(0) == 5 && (int64_t)counts.shape(1) == k, "counts must have shape (5, K)");
    require(sums.shape(0) == 5 && (int64_t)sums.shape(1) == k, "sums must have shape (5, K)");
    const int64_t capacity = (int64_t)position.shape(0);
    require(parties.shape(0) == 4 && (int64_t)parties.shape(1) == capacity, "parties must have shape (4, capacity)");
    require(ends.shape(0) == 2 && (int64_t)ends.shape(1) == n && n < INT32_MAX, "ends must have shape (2, N)");
    require(!weights || (int64_t)switch_weight.shape(0) == capacity, "switch_weight must have the capacity");
    require(used >= 0 && used <= capacity && first >= 0 && first <= n, "first and used must be within the arrays");
    require_labels(labels, k);
    int32_t *p = aligned(parties), *e = aligned(ends);
    ProfileTables out{aligned(counts), weights ? aligned(sums) : nullptr, aligned(position), p, p + capacity,
                      p + 2 * capacity, p + 3 * capacity, weights ? aligned(switch_weight) : nullptr, capacity, used,
                      e, e + n, 0};
    int64_t next;
    {
        nb::gil_scoped_release release;
        next = kernels->profile(view, aligned(labels), aligned(weights), aligned(slopes),
                                direction ? &along : nullptr, to_scores, low, high, first, out);
    }
    if (next == INT64_MIN) throw std::bad_alloc();
    return nb::make_tuple(next, out.used);
}

// ------------------------------------------------------------------------------------- posterior

using WritableRows = nb::ndarray<nb::ndim<3>, nb::device::cpu>;

// What a kernel returned, or the error of a sample: True where all samples are good.
bool all_good(int64_t result) {
    if (result == INT64_MIN) throw std::bad_alloc();
    return result >= 0;
}

int64_t n_samples(const RowsView &view) { return view.n_outer * view.n_inner; }

void require_classes(const Reals &values, const RowsView &view) {
    require((int64_t)values.shape(0) == view.n_classes, "a vector must have one number per class");
}

void require_samples(size_t size, const RowsView &view) {
    require((int64_t)size == n_samples(view), "a vector must have one number per sample");
}

void require_classes_only(const Ints &labels, const RowsView &view) {
    require_samples(labels.shape(0), view);
    const int64_t *y = aligned(labels);
    bool good = true;
    for (size_t i = 0; i < labels.shape(0); ++i) good &= y[i] >= 0 && y[i] < view.n_classes;
    require(good, "labels must be from 0 to the number of classes");
}

constexpr int64_t SCORES_PER_PIECE = 1 << 21;  // some milliseconds between two pauses

// Some samples of a view: whole outer entries, or a part of one.
struct Piece {
    int64_t outer, inner, n_outer, n_inner;

    int64_t first_of(const RowsView &view) const { return outer * view.n_inner + inner; }

    RowsView of(RowsView view) const {
        const int64_t place = outer * view.outer_stride + inner * view.inner_stride;
        view.data = (const char *)view.data + place * (int64_t)size_of(view.type);
        view.n_outer = n_outer, view.n_inner = n_inner;
        return view;
    }
};

// Call work(piece) for all samples in their order, with a pause before each piece. `scores` is how
// many numbers a sample costs.
template <class Work> void by_pieces(const RowsView &view, int64_t scores, Work work) {
    const int64_t most = std::max(SCORES_PER_PIECE / scores, (int64_t)1);
    const int64_t inner_step = std::min(most, view.n_inner);
    const int64_t outer_step = inner_step < view.n_inner ? 1 : most / std::max(view.n_inner, (int64_t)1);
    Pause pause;
    for (int64_t outer = 0; outer < view.n_outer; outer += outer_step)
        for (int64_t inner = 0; inner < view.n_inner; inner += inner_step) {
            pause();
            work(Piece{outer, inner, std::min(outer_step, view.n_outer - outer),
                       std::min(inner_step, view.n_inner - inner)});
        }
}

RowRule row_rule(int kind, double tolerance) {
    require(kind >= 0 && kind <= 2, "kind must be 0 for logits, 1 for probabilities or 2 for log-probabilities");
    return {(ScoreKind)kind, tolerance};
}

void require_range(int64_t start, int64_t stop, const RowsView &view) {
    require(start >= 0 && start <= stop && stop <= n_samples(view), "start and stop must be within the samples");
}

bool posterior(const Scores &scores, int kind, double tolerance, const Reals &scale, const Reals &bias, bool log,
               int64_t start, int64_t stop, const WritableRows &out) {
    const RowsView view = rows_view(scores), to = rows_view(out);
    const RowRule rule = row_rule(kind, tolerance);
    require_classes(scale, view);
    require_classes(bias, view);
    require_range(start, stop, view);
    require(n_samples(to) == n_samples(view) && to.n_classes == view.n_classes,
            "out must have as many samples and classes as the scores");
    require(to.type == view.type, "out must have the dtype of the scores");
    nb::gil_scoped_release release;
    return all_good(kernels->posterior(view, rule, aligned(scale), aligned(bias), log, start, stop, to));
}

bool decisions(const Scores &scores, int kind, double tolerance, const Reals &scale, const Reals &bias, int64_t start,
               int64_t stop, Out<int64_t, 1> classes) {
    const RowsView view = rows_view(scores);
    const RowRule rule = row_rule(kind, tolerance);
    require_classes(scale, view);
    require_classes(bias, view);
    require_range(start, stop, view);
    require_samples(classes.shape(0), view);
    nb::gil_scoped_release release;
    return all_good(kernels->decisions(view, rule, aligned(scale), aligned(bias), start, stop, aligned(classes)));
}

void tilted_sums(const Scores &scores, const Ints &labels, const Reals &weights, const Reals &scale,
                 const Reals &shift, const Reals &slopes, Out<double, 1> sums) {
    const RowsView view = rows_view(scores);
    require_classes_only(labels, view);
    require_samples(weights.shape(0), view);
    require_classes(scale, view);
    require_classes(shift, view);
    require_classes(slopes, view);
    require(sums.shape(0) == 6, "sums must have shape (6,)");
    nb::gil_scoped_release release;
    all_good(kernels->tilted_sums(view, aligned(labels), aligned(weights), aligned(scale), aligned(shift),
                                  aligned(slopes), aligned(sums)));
}

void posterior_sums(const Scores &scores, const Ints &labels, const Reals &weights, const Reals &scale,
                    const Reals &bias, Out<double, 1> sums) {
    const RowsView view = rows_view(scores);
    require_classes_only(labels, view);
    require_samples(weights.shape(0), view);
    require_classes(scale, view);
    require_classes(bias, view);
    require((int64_t)sums.shape(0) == 1 + 2 * view.n_classes, "sums must have shape (1 + 2·K,)");
    nb::gil_scoped_release release;
    all_good(kernels->posterior_sums(view, aligned(labels), aligned(weights), aligned(scale), aligned(bias),
                                     aligned(sums)));
}

// ----------------------------------------------------------------------------------- predictions

bool row_totals(const Scores &scores, double tolerance, Out<double, 1> totals) {
    const RowsView view = rows_view(scores);
    require_samples(totals.shape(0), view);
    nb::gil_scoped_release release;
    return all_good(kernels->row_totals(view, tolerance, aligned(totals)));
}

bool largest_classes(const Scores &scores, double tolerance, Out<int64_t, 1> classes) {
    const RowsView view = rows_view(scores);
    require_samples(classes.shape(0), view);
    nb::gil_scoped_release release;
    return all_good(kernels->largest_classes(view, tolerance, aligned(classes)));
}

void add_rows(const Scores &scores, const Reals &weights, std::optional<Ints> labels, Out<double, 2> sums) {
    const RowsView view = rows_view(scores);
    require_samples(weights.shape(0), view);
    if (labels) require_classes_only(*labels, view);
    require((int64_t)sums.shape(0) == (labels ? view.n_classes : 1) && (int64_t)sums.shape(1) == view.n_classes,
            "sums must have shape (1, K), or (K, K) with labels");
    const double *w = aligned(weights);
    const int64_t *y = aligned(labels);
    double *to = aligned(sums);
    nb::gil_scoped_release release;
    by_pieces(view, view.n_classes, [&](const Piece &piece) {
        const int64_t first = piece.first_of(view);
        all_good(kernels->add_rows(piece.of(view), w + first, y ? y + first : nullptr, to));
    });
}

bool add_normalised(const Scores &scores, double tolerance, Out<double, 1> factors, Out<double, 1> sums) {
    const RowsView view = rows_view(scores);
    require_samples(factors.shape(0), view);
    require((int64_t)sums.shape(0) == view.n_classes, "sums must have one number per class");
    nb::gil_scoped_release release;
    return all_good(kernels->add_normalised(view, tolerance, aligned(factors), aligned(sums)));
}

// ---------------------------------------------------------------------------------------- fusion

using Passes = nb::ndarray<nb::ro, nb::ndim<4>, nb::device::cpu>;

template <class Value> Value named(const std::string &name, const char *const (&names)[3], const char *rule) {
    for (int i = 0; i < 3; ++i)
        if (name == names[i]) return (Value)i;
    throw nb::value_error(rule);
}

ScoreKind kind_of(const std::string &name) {
    return named<ScoreKind>(name, {"logits", "probs", "log_probs"}, "kind must be logits, probs or log_probs");
}

// Scores as (passes, outer, inner, K).
Modality modality_of(const Passes &scores, double tolerance) {
    Modality m;
    m.rows = rows_view(Scores(scores.data(), {scores.shape(1), scores.shape(2), scores.shape(3)}, nb::handle(),
                              {scores.stride(1), scores.stride(2), scores.stride(3)}, scores.dtype()));
    m.n_passes = (int64_t)scores.shape(0), m.pass_stride = scores.stride(0), m.tolerance = tolerance;
    m.factors = nullptr, m.samples_per_factor = 1;
    require(m.n_passes >= 1, "scores must have at least one pass");
    return m;
}

// Some samples of a modality.
Modality part_of(Modality m, const Piece &piece) {
    if (m.factors) m.factors += m.samples_per_factor == 1 ? piece.first_of(m.rows) : piece.outer;
    // Pieces of several images are whole: those of one share a factor, whatever their size.
    if (m.samples_per_factor > 1) m.samples_per_factor = piece.n_inner;
    m.rows = piece.of(m.rows);
    return m;
}

// −1, or which modality is bad.
int64_t which_bad(int64_t bad) {
    if (bad == INT64_MIN) throw std::bad_alloc();
    return bad;
}

bool entropies(const Passes &scores, const std::string &kind, double tolerance, Out<double, 2> out) {
    const Modality modality = modality_of(scores, tolerance);
    const int64_t n = n_samples(modality.rows);
    const ScoreKind of = kind_of(kind);
    require(out.shape(0) == 1 || out.shape(0) == 2, "out must have shape (1, samples) or (2, samples)");
    require((int64_t)out.shape(1) == n, "out must have one number per sample");
    double *entropy = aligned(out), *information = out.shape(0) == 2 ? entropy + n : nullptr;
    nb::gil_scoped_release release;
    int64_t bad = -1;
    by_pieces(modality.rows, modality.rows.n_classes * modality.n_passes, [&](const Piece &piece) {
        if (bad >= 0) return;
        const int64_t first = piece.first_of(modality.rows);
        bad = which_bad(kernels->entropies(part_of(modality, piece), of, entropy + first,
                                           information ? information + first : nullptr));
    });
    return bad < 0;
}

using Factors = std::optional<nb::ndarray<const double, nb::ndim<3>, nb::c_contig, nb::device::cpu>>;

// What is fused, and how: checked, and kept while a kernel runs.
struct FusionOf {
    std::vector<Modality> modalities;
    Fusion fusion;

    FusionOf(const std::vector<Passes> &scores, const std::string &kind, const Reals &tolerances,
             const Factors &factors, const Reals &slopes, const std::string &rule, bool flatten_first) {
        require(!scores.empty() && scores.size() == tolerances.shape(0), "there must be modalities, and a tolerance for each");
        for (size_t m = 0; m < scores.size(); ++m) {
            modalities.push_back(modality_of(scores[m], aligned(tolerances)[m]));
            for (int axis = 1; axis < 4; ++axis)
                require(scores[m].shape(axis) == scores[0].shape(axis), "modalities must have one shape");
        }
        const RowsView &rows = modalities[0].rows;
        require_classes(slopes, rows);
        if (factors) {
            require(factors->shape(0) == scores.size() && factors->shape(1) == scores[0].shape(1) &&
                        (factors->shape(2) == 1 || factors->shape(2) == scores[0].shape(2)),
                    "factors must have shape (modalities, outer, 1) or (modalities, outer, inner)");
            for (size_t m = 0; m < scores.size(); ++m) {
                modalities[m].factors = aligned(*factors) + m * factors->shape(1) * factors->shape(2);
                modalities[m].samples_per_factor = factors->shape(2) == 1 && rows.n_inner > 1 ? rows.n_inner : 1;
            }
        }
        fusion = {modalities.data(), (int64_t)scores.size(), kind_of(kind),
                  named<Rule>(rule, {"noisy_or", "mean", "product"}, "rule must be noisy_or, mean or product"),
                  flatten_first, aligned(slopes)};
    }
    FusionOf(const FusionOf &) = delete;

    // Call work(fusion of some samples, piece) for all samples; returns −1, or which modality is bad.
    template <class Work> int64_t by_pieces(int64_t n_settings, Work work) const {
        const RowsView &rows = modalities[0].rows;
        int64_t scores = 0, bad = -1;
        for (const Modality &m : modalities) scores += rows.n_classes * (m.n_passes + n_settings);
        std::vector<Modality> parts(modalities.size());
        Fusion part = fusion;
        part.modalities = parts.data();
        ::by_pieces(rows, scores, [&](const Piece &piece) {
            if (bad >= 0) return;
            for (size_t m = 0; m < parts.size(); ++m) parts[m] = part_of(modalities[m], piece);
            bad = which_bad(work(part, piece));
        });
        return bad;
    }
};

int64_t fuse(const std::vector<Passes> &scores, const std::string &kind, const Reals &tolerances, const Factors &factors,
             const Reals &slopes, const Reals &strengths, const std::string &rule, bool flatten_first,
             const std::string &form, const WritableRows &out) {
    const FusionOf all(scores, kind, tolerances, factors, slopes, rule, flatten_first);
    require(strengths.shape(0) == scores.size(), "there must be a strength for each modality");
    const Form as = named<Form>(form, {"posterior", "log", "scores"}, "form must be posterior, log or scores");
    require(as != Form::scores || all.fusion.rule == Rule::product, "rule must be product for the form scores");
    const RowsView to = rows_view(out);
    bool wide = false;
    for (const Modality &m : all.modalities) wide |= m.rows.type == ScoreType::f64;
    for (int i = 0; i < 3; ++i) require(out.shape(i) == scores[0].shape(i + 1), "out must have the shape of the scores");
    require(wide ? to.type == ScoreType::f64 : to.type == ScoreType::f32 || to.type == ScoreType::f16,
            "out must be float64 where scores are, else float32 or float16");
    const double *at = aligned(strengths);
    nb::gil_scoped_release release;
    return all.by_pieces(1, [&](const Fusion &part, const Piece &piece) {
        return kernels->fused(part, at, as, piece.of(to));
    });
}

int64_t fused_classes(const std::vector<Passes> &scores, const std::string &kind, const Reals &tolerances,
                      const Factors &factors, const Reals &slopes,
                      const nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu> &strengths,
                      const std::string &rule, bool flatten_first, Out<int64_t, 2> classes) {
    const FusionOf all(scores, kind, tolerances, factors, slopes, rule, flatten_first);
    require(strengths.shape(1) == scores.size(), "there must be a strength for each modality");
    require(classes.shape(0) == strengths.shape(0) && (int64_t)classes.shape(1) == n_samples(all.modalities[0].rows),
            "classes must have shape (settings, samples)");
    const RowsView &rows = all.modalities[0].rows;
    const int64_t n_settings = (int64_t)strengths.shape(0);
    const double *at = aligned(strengths);
    int64_t *to = aligned(classes);
    nb::gil_scoped_release release;
    return all.by_pieces(n_settings, [&](const Fusion &part, const Piece &piece) {
        return kernels->fused_classes(part, at, n_settings, to + piece.first_of(rows), n_samples(rows));
    });
}

// ----------------------------------------------------------------------------------- reliability

void add_reliability_bins(const nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu> &posterior,
                          const Ints &labels, const Reals &weights, const Reals &edges, Out<double, 2> top,
                          Out<double, 3> every) {
    const int64_t n = (int64_t)posterior.shape(0), k = (int64_t)posterior.shape(1);
    const int64_t bins = (int64_t)edges.shape(0) - 1;
    require(bins >= 1 && k >= 1, "there must be classes and bins");
    require((int64_t)labels.shape(0) == n && (int64_t)weights.shape(0) == n,
            "labels and weights must be as many as samples");
    require(top.shape(0) == 3 && (int64_t)top.shape(1) == bins, "top must have shape (3, B)");
    require(every.shape(0) == 3 && (int64_t)every.shape(1) == k && (int64_t)every.shape(2) == bins,
            "every must have shape (3, K, B)");
    by_type(posterior.dtype(), [&](auto *typed) {
        const auto *rows = scores_of<std::remove_const_t<std::remove_pointer_t<decltype(typed)>>>(posterior);
        const int64_t *y = aligned(labels);
        const double *w = aligned(weights), *e = aligned(edges);
        double *of_top = aligned(top), *of_every = aligned(every);
        nb::gil_scoped_release release;
        Pause pause;
        const int64_t most = std::max(SCORES_PER_PIECE / k, (int64_t)1);
        for (int64_t i = 0; i < n; i += most) {
            pause();
            add_reliability(rows + i * k, std::min(most, n - i), k, y + i, w + i, e, bins, of_top, of_every);
        }
    });
}

// ----------------------------------------------------------------------------------------- sweep

using Classes = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Parts = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class Array> void require_size(const Array &array, int64_t size, const char *rule) {
    require((int64_t)array.shape(0) == size, rule);
}

template <class Array> void require_size(const std::optional<Array> &array, int64_t size, const char *rule) {
    if (array) require_size(*array, size, rule);
}

void require_classes(const Classes &classes, int64_t n_classes) {
    const int32_t *c = aligned(classes);
    bool good = true;
    for (size_t i = 0; i < classes.shape(0); ++i) good &= (uint32_t)c[i] < (uint64_t)n_classes;
    require(good, "classes must be from 0 to the number of classes less 1");
}

void make_metric(Metric *metric, const Parts &part, const Reals &share, const Classes &klass, const Reals &second,
                 int mean, bool pooled, bool weighted, double gain, double support, double predicted,
                 double true_positive, double everything, double all, double chance, double unit) {
    const uint8_t *parts = aligned(part);
    const double *shares = aligned(share), *seconds = aligned(second);
    const int32_t *classes = aligned(klass);
    const size_t n = part.shape(0);
    require(share.shape(0) == n, "part and share must have an entry per class");
    require(mean >= 0 && mean <= (int)Mean::PER_IMAGE, "mean must be one of those of Mean");
    require((Mean)mean < Mean::LINEAR || !pooled, "cells cannot be pooled");
    require(klass.shape(0) == ((Mean)mean == Mean::PER_IMAGE ? n : 0), "klass must have an entry per cell of an image");
    require(second.shape(0) == ((Mean)mean == Mean::WEIGHTED_KAPPA ? n : 0), "second must have an entry per pair");
    require_classes(klass, INT32_MAX / 2);
    new (metric) Metric{{parts, parts + n}, {shares, shares + n}, {classes, classes + klass.shape(0)},
                        {seconds, seconds + second.shape(0)},
                        (Mean)mean, pooled, weighted, gain, support, predicted, true_positive, everything, all,
                        chance, unit};
}

SwitchColumns switch_columns(const Reals &position, const Classes &label, const Classes &loser, const Classes &winner,
                             int64_t n_classes) {
    const int64_t n = (int64_t)position.shape(0);
    const char *rule = "columns of switches must be equally long";
    require_size(label, n, rule), require_size(loser, n, rule), require_size(winner, n, rule);
    require_classes(loser, n_classes), require_classes(winner, n_classes);
    return {n, aligned(position), aligned(label), aligned(loser), aligned(winner), nullptr, nullptr};
}

Tallies tallies_of(const Table &tallies, const Ints &plain, const Reals &support) {
    const size_t k = support.shape(0);
    require(tallies.shape(0) == 2 && tallies.shape(1) == k && plain.shape(0) == k,
            "tallies must have shape (2, K), plain and support (K,)");
    const double *t = aligned(tallies), *s = aligned(support);
    const int64_t *n = aligned(plain);
    return {{t, t + k}, {t + k, t + 2 * k}, {n, n + k}, {s, s + k}};
}

int64_t sweep(const Reals &position, const Classes &label, const Classes &loser, const Classes &winner,
              const std::optional<Ints> &count, const std::optional<Reals> &weight, const Table &tallies,
              const Ints &plain, const Reals &support, const Metric &metric, double low, Out<double, 1> start,
              Out<double, 1> value) {
    const int64_t k = (int64_t)support.shape(0);
    require(metric.pooled ? k == 1 : (int64_t)metric.part.size() == k, "counts must be of the metric's classes");
    SwitchColumns columns = switch_columns(position, label, loser, winner, metric.pooled ? INT32_MAX : k);
    require_size(count, columns.n, "count must be as long as position");
    require_size(weight, columns.n, "weight must be as long as position");
    columns.count = aligned(count), columns.weight = aligned(weight);
    require_size(start, columns.n + 1, "start must have one more entry than position");
    require_size(value, columns.n + 1, "value must have one more entry than position");
    double *starts = aligned(start), *values = aligned(value);
    Tallies from = tallies_of(tallies, plain, support);
    nb::gil_scoped_release release;
    return Sweep(metric, std::move(from)).run(columns, low, starts, values, Pause());
}

nb::tuple best_interval_of(const Reals &start, const Reals &value, double high, double spared) {
    const int64_t n = (int64_t)start.shape(0);
    require(n > 0, "there must be a step");
    require_size(value, n, "start and value must be equally long");
    const double *starts = aligned(start), *values = aligned(value);
    Interval best;
    {
        nb::gil_scoped_release release;
        best = best_interval(starts, values, n, high, spared);
    }
    return nb::make_tuple(best.low, best.high, best.value);
}

// ------------------------------------------------------------------------------------------ bins

template <class T>
void enter(const Reals &position, const Classes &label, const Classes &loser, const Classes &winner,
           const std::optional<nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>> &amount,
           double resolution, int64_t first, Out<T, 1> moved, Out<T, 2> net) {
    const int64_t n_points = (int64_t)moved.shape(0), cells = (int64_t)net.shape(1);
    require(n_points > 0 && net.shape(0) == 2 && cells % n_points == 0, "net must have shape (2, J·K)");
    require(resolution > 0, "resolution must be above 0");
    const SwitchColumns columns = switch_columns(position, label, loser, winner, cells / n_points);
    require_size(amount, columns.n, "amount must be as long as position");
    const T *amounts = aligned(amount);
    T *table = aligned(moved), *nets = aligned(net);
    bool within;
    {
        nb::gil_scoped_release release;
        within = enter_bins(columns, amounts, resolution, first, n_points, cells / n_points, table, nets);
    }
    require(within, "switches must be within the bins");
}

// ---------------------------------------------------------------------------------------- biases

using Matrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Column = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

Places places_of(const Out<int32_t, 1> &first, const Out<int32_t, 1> &second, const Out<double, 1> &top,
                 const Out<double, 1> &following, int64_t n) {
    const char *rule = "places must be as many as samples";
    require_size(first, n, rule), require_size(second, n, rule);
    require_size(top, n, rule), require_size(following, n, rule);
    return {aligned(first), aligned(second), aligned(top), aligned(following)};
}

void require_bias_rows(const Matrix &rows, int64_t n_biases) {
    const int64_t k = (int64_t)rows.shape(1);
    require(rows.shape(0) < INT32_MAX && k >= 2 && k < INT32_MAX / 4, "rows must have 2 to 2**29 classes");
    require(k == n_biases, "biases must be as many as classes");
}

void place_all(const Matrix &rows, const Reals &biases, Out<int32_t, 1> first, Out<int32_t, 1> second,
               Out<double, 1> top, Out<double, 1> following) {
    const int64_t n = (int64_t)rows.shape(0), k = (int64_t)rows.shape(1);
    require_bias_rows(rows, (int64_t)biases.shape(0));
    const Places places = places_of(first, second, top, following, n);
    const double *b = aligned(biases);
    by_type(rows.dtype(), [&](auto *typed) {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
        const T *scores = scores_of<T>(rows);
        nb::gil_scoped_release release;
        Pause pause;
        for (int64_t i = 0; i < n; i += ROWS_PER_PAUSE) {
            pause();
            place_rows(scores + i * k, std::min(ROWS_PER_PAUSE, n - i), k, b,
                       {places.first + i, places.second + i, places.top + i, places.following + i});
        }
    });
}

void move_one(const Matrix &rows, const Column &column, Out<double, 1> biases, int64_t k, double bias,
              Out<int32_t, 1> first, Out<int32_t, 1> second, Out<double, 1> top, Out<double, 1> following) {
    const int64_t n = (int64_t)rows.shape(0), n_classes = (int64_t)rows.shape(1);
    require_bias_rows(rows, (int64_t)biases.shape(0));
    require(k >= 0 && k < n_classes, "k must be a class");
    require_size(column, n, "column must be as long as rows");
    const Places places = places_of(first, second, top, following, n);
    double *b = aligned(biases);
    by_type(rows.dtype(), [&](auto *typed) {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
        const T *scores = scores_of<T>(rows), *of_class = scores_of<T>(column);
        nb::gil_scoped_release release;
        move_class(scores, of_class, n, n_classes, b, (int32_t)k, bias, places);
    });
}

void count_predictions(const Classes &labels, const std::optional<Reals> &weights, const Classes &first,
                       Out<double, 2> sums, Out<int64_t, 2> counts) {
    const int64_t n = (int64_t)labels.shape(0), k = (int64_t)counts.shape(1);
    require(counts.shape(0) == 2 && sums.shape(0) == 2 && (int64_t)sums.shape(1) == k,
            "sums and counts must have shape (2, K)");
    require_size(first, n, "first must be as long as labels");
    require_size(weights, n, "weights must be as long as labels");
    require_classes(labels, k), require_classes(first, k);
    const double *w = aligned(weights);
    double *s = aligned(sums);
    int64_t *c = aligned(counts);
    nb::gil_scoped_release release;
    count_first(aligned(labels), w, aligned(first), n, k, s, c);
}

// Check what line searches index with, and call `work` with the samples of the rows' type.
template <class Work>
auto with_samples(const Matrix &rows, const Classes &labels, const std::optional<Reals> &weights,
                  const Out<int32_t, 1> &first, const Out<int32_t, 1> &second, const Reals &support,
                  const Metric &metric, Work work) {
    const int64_t n = (int64_t)rows.shape(0), k = (int64_t)rows.shape(1);
    require_bias_rows(rows, (int64_t)support.shape(0));
    require((int64_t)metric.part.size() == k && metric.mean < Mean::LINEAR, "the metric must be of the rows' classes");
    require_size(labels, n, "labels must be as many as rows");
    require_size(weights, n, "weights must be as many as rows");
    require_classes(labels, k), require_classes(Classes(first), k), require_classes(Classes(second), k);
    const int32_t *y = aligned(labels);
    const double *w = aligned(weights);
    return by_type(rows.dtype(), [&](auto *typed) {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
        return work(Samples<T>{scores_of<T>(rows), n, k, y, w});
    });
}

void require_order(const Ints &order, const Reals &home, int64_t n_classes) {
    require_size(home, n_classes, "home must be as many as classes");
    const int64_t *o = aligned(order);
    bool good = true;
    for (size_t i = 0; i < order.shape(0); ++i) good &= (uint64_t)o[i] < (uint64_t)n_classes;
    require(good, "order must consist of classes");
}

nb::tuple promising_part(const Matrix &rows, const Classes &labels, const std::optional<Reals> &weights,
                         const Column &column, int64_t k, double bias, Out<int32_t, 1> first, Out<int32_t, 1> second,
                         Out<double, 1> top, Out<double, 1> following, const Reals &support, const Metric &metric,
                         double value, Out<double, 2> tallies, Out<int64_t, 1> plain, Out<double, 1> place,
                         Out<int64_t, 1> chosen) {
    const Places places = places_of(first, second, top, following, (int64_t)rows.shape(0));
    return with_samples(rows, labels, weights, first, second, support, metric, [&](auto samples) {
        using T = std::remove_cv_t<std::remove_pointer_t<decltype(samples.rows)>>;
        require(k >= 0 && k < samples.n_classes, "k must be a class");
        require_size(column, samples.n, "column must be as long as rows");
        require_size(place, samples.n, "place must be as long as rows");
        require_size(chosen, samples.n, "chosen must be as long as rows");
        const T *of_class = scores_of<T>(column);
        double *t = aligned(tallies), *at = aligned(place);
        int64_t *n = aligned(plain), *which = aligned(chosen);
        Tallies counts = tallies_of(Table(tallies), Ints(plain), support);
        PromisingPart<T> part;
        {
            nb::gil_scoped_release release;
            part.find(samples, of_class, (int32_t)k, bias, places, metric, value, counts);
            std::copy(counts.tp.begin(), counts.tp.end(), t);
            std::copy(counts.predicted.begin(), counts.predicted.end(), t + samples.n_classes);
            std::copy(counts.plain.begin(), counts.plain.end(), n);
            std::copy(part.place.begin(), part.place.end(), at);
            std::copy(part.chosen.begin(), part.chosen.end(), which);
        }
        return nb::make_tuple(part.chosen.size(), part.before, part.after);
    });
}

std::vector<double> climb_all_lines(const Matrix &rows, const Classes &labels, const std::optional<Reals> &weights,
                                    Out<double, 1> biases, Out<int32_t, 1> first, Out<int32_t, 1> second,
                                    Out<double, 1> top, Out<double, 1> following, const Table &tallies,
                                    const Ints &plain, const Reals &support, const Metric &metric, const Reals &home,
                                    const Ints &order, double value) {
    const Places places = places_of(first, second, top, following, (int64_t)rows.shape(0));
    return with_samples(rows, labels, weights, first, second, support, metric, [&](auto samples) {
        require_size(biases, samples.n_classes, "biases must be as many as classes");
        require_order(order, home, samples.n_classes);
        Tallies counts = tallies_of(tallies, plain, support);
        double *b = aligned(biases);
        const double *h = aligned(home);
        nb::gil_scoped_release release;
        Pause pause;
        return climb_lines(samples, metric, b, places, counts, h, aligned(order), (int64_t)order.shape(0), value,
                           pause);
    });
}

std::pair<std::vector<double>, int64_t> climb_in_box(
    const Matrix &rows, const Classes &labels, const std::optional<Reals> &weights, Out<double, 1> biases,
    Out<int32_t, 1> first, Out<int32_t, 1> second, Out<double, 1> top, Out<double, 1> following, const Table &tallies,
    const Ints &plain, const Reals &support, const Metric &metric, const Reals &home, const Ints &order, double value,
    double radius, int64_t max_cycles) {
    const Places places = places_of(first, second, top, following, (int64_t)rows.shape(0));
    return with_samples(rows, labels, weights, first, second, support, metric, [&](auto samples) {
        require_size(biases, samples.n_classes, "biases must be as many as classes");
        require_order(order, home, samples.n_classes);
        Tallies counts = tallies_of(tallies, plain, support);
        double *b = aligned(biases);
        const double *h = aligned(home);
        nb::gil_scoped_release release;
        Pause pause;
        BiasBox box(samples, b, places, radius);
        std::vector<double> history;
        const int64_t cycles =
            box.climb(metric, counts, h, aligned(order), (int64_t)order.shape(0), value, max_cycles, history, pause);
        std::copy(box.biases.begin(), box.biases.end(), b);
        return std::make_pair(std::move(history), cycles);
    });
}

}  // namespace

NB_MODULE(_native, m) {
    m.doc() = "Compiled kernels of reprior. Use them through reprior.core.kernels.";
    m.def("level", [] { return std::string(kernels->level); }, "Name of the instruction set in use.");
    m.def("levels", level_names, "Names of the instruction sets this processor has, lowest first.");
    m.def("set_level", set_level, "name"_a, "Use the kernels of one instruction set.");

    m.def("profile", profile, "scores"_a, "labels"_a.noconvert(), "weights"_a.none(), "slopes"_a.none(),
          "direction"_a.none(), "to_scores"_a, "low"_a, "high"_a, "first"_a, "counts"_a.noconvert(),
          "sums"_a.noconvert(), "position"_a.noconvert(), "parties"_a.noconvert(), "switch_weight"_a.noconvert(),
          "used"_a, "ends"_a.noconvert(),
          "Count samples at the bounds and write their switches; returns (next sample, switches).");

    // ---- posterior
    m.def("posterior", posterior, "scores"_a, "kind"_a, "tolerance"_a, "scale"_a, "bias"_a, "log"_a, "start"_a,
          "stop"_a, "out"_a.noconvert(),
          "Write softmax(scale·z + bias) or its logarithm of some samples; False if one has none.");
    m.def("decisions", decisions, "scores"_a, "kind"_a, "tolerance"_a, "scale"_a, "bias"_a, "start"_a, "stop"_a,
          "classes"_a.noconvert(),
          "Write the first class of the largest scale·z + bias of some samples; False if one has none.");
    m.def("tilted_sums", tilted_sums, "scores"_a, "labels"_a.noconvert(), "weights"_a, "scale"_a, "shift"_a,
          "slopes"_a, "sums"_a.noconvert(),
          "Write the log-loss, its two slopes and three curvatures.");
    m.def("posterior_sums", posterior_sums, "scores"_a, "labels"_a.noconvert(), "weights"_a, "scale"_a,
          "bias"_a, "sums"_a.noconvert(),
          "Write the log-loss, and the sums over samples of v·p·z and v·p.");

    // ---- predictions
    m.def("row_totals", row_totals, "scores"_a, "tolerance"_a, "totals"_a.noconvert(),
          "Write the sums of rows; False if one is no distribution.");
    m.def("largest_classes", largest_classes, "scores"_a, "tolerance"_a, "classes"_a.noconvert(),
          "Write the first class of the largest score; False if a row cannot be used. A tolerance of "
          "at least 0 asks for distributions.");
    m.def("add_rows", add_rows, "scores"_a, "weights"_a, "labels"_a.noconvert().none(), "sums"_a.noconvert(),
          "Add every row, times its weight, to one sum or to that of its label.");
    m.def("add_normalised", add_normalised, "scores"_a, "tolerance"_a, "factors"_a.noconvert(), "sums"_a.noconvert(),
          "Write what makes every row sum to 1 and add the row times that; False if one is no distribution.");

    // ---- fusion
    m.def("entropies", entropies, "scores"_a, "kind"_a, "tolerance"_a, "out"_a.noconvert(),
          "Write the entropy of every sample's posterior and, in a second row, its mutual information with the pass; "
          "False if a sample has none.");
    m.def("fuse", fuse, "scores"_a, "kind"_a, "tolerances"_a, "factors"_a.none(), "slopes"_a, "strengths"_a, "rule"_a,
          "flatten_first"_a, "form"_a, "out"_a.noconvert(),
          "Write one posterior from several modalities; returns -1, or which of them has none.");
    m.def("fused_classes", fused_classes, "scores"_a, "kind"_a, "tolerances"_a, "factors"_a.none(), "slopes"_a,
          "strengths"_a, "rule"_a, "flatten_first"_a, "classes"_a.noconvert(),
          "Write the class of the largest fused posterior at every setting of the strengths; returns as fuse does.");

    // ---- reliability
    m.def("add_reliability", add_reliability_bins, "posterior"_a, "labels"_a.noconvert(), "weights"_a, "edges"_a,
          "top"_a.noconvert(), "every"_a.noconvert(),
          "Add rows of posteriors to reliability bins of the predicted and of every class.");
    // -- sweep
    nb::class_<Metric>(m, "Metric", "A count metric for given labels.")
        .def("__init__", make_metric, "part"_a.noconvert(), "share"_a.noconvert(), "klass"_a.noconvert(),
             "second"_a.noconvert(), "mean"_a, "pooled"_a, "weighted"_a,
          "gain"_a, "support"_a, "predicted"_a, "true_positive"_a, "everything"_a, "all"_a, "chance"_a, "unit"_a);
    m.def("sweep", sweep, "position"_a.noconvert(), "label"_a.noconvert(), "loser"_a.noconvert(),
          "winner"_a.noconvert(), "count"_a.noconvert().none(), "weight"_a.noconvert().none(),
          "tallies"_a.noconvert(), "plain"_a.noconvert(), "support"_a.noconvert(), "metric"_a, "low"_a,
          "start"_a.noconvert(), "value"_a.noconvert(),
          "Write the steps of a metric along sorted switches; returns how many there are.");
    m.def("best_interval", best_interval_of, "start"_a.noconvert(), "value"_a.noconvert(), "high"_a, "spared"_a,
          "The best interval of a step function: its ends and its value.");

    // -- bins
    m.def("enter_bins", enter<int64_t>, "position"_a.noconvert(), "label"_a.noconvert(), "loser"_a.noconvert(),
          "winner"_a.noconvert(), "amount"_a.noconvert().none(), "resolution"_a, "first"_a, "moved"_a.noconvert(),
          "net"_a.noconvert(),
          "Add switches, or `amount` of each, to a table of bins and classes.");
    m.def("enter_bins", enter<double>, "position"_a.noconvert(), "label"_a.noconvert(), "loser"_a.noconvert(),
          "winner"_a.noconvert(), "amount"_a.noconvert().none(), "resolution"_a, "first"_a, "moved"_a.noconvert(),
          "net"_a.noconvert());

    // -- biases
    m.def("place_rows", place_all, "rows"_a.noconvert(), "biases"_a.noconvert(), "first"_a.noconvert(),
          "second"_a.noconvert(), "top"_a.noconvert(), "following"_a.noconvert(),
          "Write the first two classes of every sample and their scores.");
    m.def("move_class", move_one, "rows"_a.noconvert(), "column"_a.noconvert(), "biases"_a.noconvert(), "k"_a,
          "bias"_a, "first"_a.noconvert(), "second"_a.noconvert(), "top"_a.noconvert(), "following"_a.noconvert(),
          "Give class k another bias and mend the first two classes.");
    m.def("count_first", count_predictions, "labels"_a.noconvert(), "weights"_a.noconvert().none(),
          "first"_a.noconvert(), "sums"_a.noconvert(), "counts"_a.noconvert(),
          "Add up true positives and predicted, weighted and as plain numbers.");
    m.def("promising_part", promising_part, "rows"_a.noconvert(), "labels"_a.noconvert(),
          "weights"_a.noconvert().none(), "column"_a.noconvert(), "k"_a, "bias"_a, "first"_a.noconvert(),
          "second"_a.noconvert(), "top"_a.noconvert(), "following"_a.noconvert(), "support"_a.noconvert(), "metric"_a,
          "value"_a, "tallies"_a.noconvert(), "plain"_a.noconvert(), "place"_a.noconvert(), "chosen"_a.noconvert(),
          "Choose the samples of a class's line where a metric may be above `value`; returns how many, and the places "
          "before and after theirs.");
    m.def("climb_lines", climb_all_lines, "rows"_a.noconvert(), "labels"_a.noconvert(),
          "weights"_a.noconvert().none(), "biases"_a.noconvert(), "first"_a.noconvert(), "second"_a.noconvert(),
          "top"_a.noconvert(), "following"_a.noconvert(), "tallies"_a.noconvert(), "plain"_a.noconvert(),
          "support"_a.noconvert(), "metric"_a, "home"_a.noconvert(), "order"_a.noconvert(), "value"_a,
          "Move each class to the best place on its line; returns the metric after each step.");
    m.def("climb_box", climb_in_box, "rows"_a.noconvert(), "labels"_a.noconvert(), "weights"_a.noconvert().none(),
          "biases"_a.noconvert(), "first"_a.noconvert(), "second"_a.noconvert(), "top"_a.noconvert(),
          "following"_a.noconvert(), "tallies"_a.noconvert(), "plain"_a.noconvert(), "support"_a.noconvert(),
          "metric"_a, "home"_a.noconvert(), "order"_a.noconvert(), "value"_a, "radius"_a, "max_cycles"_a,
          "Go round the classes within a box of biases; returns the metric after each step and the number of rounds.");
}
