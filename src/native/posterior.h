// The posterior softmax(a·z + b) of rows of scores, its decisions, and sums of its log-loss.
//
// a·z + b and the log of a row's total are computed in float64 whatever the scores are stored in;
// exponentials of float32 rows are float32, those of sums float64. A class of score −inf stays
// impossible whatever its scale. Rows are read as whole vectors: a last one is padded with −inf.

constexpr int64_t ROWS_TILE = 1 << 12;        // scores that are copied at a time
constexpr int64_t ROWS_AHEAD_BYTES = 1 << 14;  // memory is asked for so far ahead of its use

// ------------------------------------------------------------------------- vectors of float64

// 8 numbers from memory, as float64.
REPRIOR_INLINE Vec<double> load_wide(const double *from) { return load(from); }
REPRIOR_INLINE Vec<double> load_wide(const float *from) {
    typedef float Narrow __attribute__((vector_size(REGISTER_BYTES / 2), aligned(sizeof(float)), may_alias));
    constexpr int lanes = REGISTER_BYTES / 8;
    Vec<double> v;
    for (int i = 0; i < PARTS; ++i)
        v.part[i] = __builtin_convertvector(*(const Narrow *)(from + i * lanes), Register<double>::Type);
    return v;
}

// Round 8 numbers to the type of where they are stored.
REPRIOR_INLINE void store_rounded(double *to, Vec<double> v) { store(to, v); }
REPRIOR_INLINE void store_rounded(float *to, Vec<double> v) {
    typedef float Narrow __attribute__((vector_size(REGISTER_BYTES / 2), aligned(sizeof(float)), may_alias));
    typedef float Plain __attribute__((vector_size(REGISTER_BYTES / 2)));
    constexpr int lanes = REGISTER_BYTES / 8;
    for (int i = 0; i < PARTS; ++i) *(Narrow *)(to + i * lanes) = __builtin_convertvector(v.part[i], Plain);
}

// Two halves as one register.
template <class Whole, class Half> REPRIOR_INLINE Whole joined(Half a, Half b) {
    constexpr int n = sizeof(Half) / sizeof(float);
    if constexpr (n == 8) return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    else if constexpr (n == 4) return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
    else return __builtin_shufflevector(a, b, 0, 1, 2, 3);
}

// 16 numbers, rounded to float32. Narrow stores that are loaded as one wide vector would stall.
REPRIOR_INLINE Vec<float> narrowed(Vec<double> low, Vec<double> high) {
    typedef float Half __attribute__((vector_size(REGISTER_BYTES / 2)));
    Half half[2 * PARTS];
    for (int i = 0; i < PARTS; ++i) half[i] = __builtin_convertvector(low.part[i], Half);
    for (int i = 0; i < PARTS; ++i) half[PARTS + i] = __builtin_convertvector(high.part[i], Half);
    Vec<float> v;
    for (int i = 0; i < PARTS; ++i) v.part[i] = joined<Register<float>::Type>(half[2 * i], half[2 * i + 1]);
    return v;
}

template <class T> struct Exponential;
template <> struct Exponential<float> {
    static constexpr float rounding = 12582912.0f;  // 1.5·2^23 leaves a number, rounded, in the lowest bits
    static constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    static constexpr float normal = -86.9f, lowest = -110.0f;  // exponentials below are denormal, 0
    static constexpr int bias = 127, mantissa = 23;
    static REPRIOR_INLINE Vec<float> polynomial(Vec<float> r) {  // (exp(r) − 1 − r) / r², as in Cephes
        Vec<float> p = fill(1.9875691500e-4f) * r + fill(1.3981999507e-3f);
        p = p * r + fill(8.3334519073e-3f);
        p = p * r + fill(4.1665795894e-2f);
        p = p * r + fill(1.6666665459e-1f);
        return p * r + fill(5.0000001201e-1f);
    }
};
template <> struct Exponential<double> {
    static constexpr double rounding = 6755399441055744.0;  // 1.5·2^52
    static constexpr double ln2_high = 6.93145751953125e-1, ln2_low = 1.42860682030941723212e-6;
    static constexpr double normal = -708.0, lowest = -750.0;
    static constexpr int bias = 1023, mantissa = 52;
    static REPRIOR_INLINE Vec<double> polynomial(Vec<double> r) {  // the series; what is left out is below 2^-52
        Vec<double> p = fill(1.0 / 479001600.0) * r + fill(1.0 / 39916800.0);
        p = p * r + fill(1.0 / 3628800.0);
        p = p * r + fill(1.0 / 362880.0);
        p = p * r + fill(1.0 / 40320.0);
        p = p * r + fill(1.0 / 5040.0);
        p = p * r + fill(1.0 / 720.0);
        p = p * r + fill(1.0 / 120.0);
        p = p * r + fill(1.0 / 24.0);
        p = p * r + fill(1.0 / 6.0);
        return p * r + fill(0.5);
    }
};

// 2 to the whole number that `shifted` holds in its lowest bits.
template <class T> REPRIOR_INLINE Vec<T> power_of_two(Vec<T> shifted) {
    using I = typename IntegerOf<T>::Type;
    for (int i = 0; i < PARTS; ++i) {
        typename Register<I>::Type b = (typename Register<I>::Type)shifted.part[i];
        shifted.part[i] = (typename Register<T>::Type)((b + (I)Exponential<T>::bias) << (I)Exponential<T>::mantissa);
    }
    return shifted;
}

// exp(x) of lowest ≤ x ≤ 0 where it may be denormal: two powers of two, as one does not reach so far.
template <class T> __attribute__((noinline)) Vec<T> with_powers(Vec<T> mantissa, Vec<T> whole) {
    const Vec<T> shift = fill(Exponential<T>::rounding);
    const Vec<T> half = whole * fill((T)0.5) + shift;
    const Vec<T> other = (whole - (half - shift)) + shift;
    return (mantissa * power_of_two(half)) * power_of_two(other);
}

// exp(x) of x ≤ 0, to about one unit in the last place; with denormals and 0.
template <class T> REPRIOR_INLINE Vec<T> exponential(Vec<T> x) {
    using E = Exponential<T>;
    const Vec<T> shift = fill(E::rounding), none = fill((T)0);
    const Mask<T> gone = x < fill(E::lowest), small = x < fill(E::normal);
    x = larger(x, fill(E::lowest));
    const Vec<T> shifted = x * fill((T)1.4426950408889634) + shift, whole = shifted - shift;
    const Vec<T> r = (x - whole * fill(E::ln2_high)) - whole * fill(E::ln2_low);
    const Vec<T> mantissa = (E::polynomial(r) * r) * r + r + fill((T)1);
    // Arithmetic with denormal results takes a hundred cycles: only where there are some.
    if (__builtin_expect(bits(small & ~gone) != 0, 0))
        return with_powers(select<T>(gone, none, mantissa), whole);
    return select<T>(small, none, mantissa) * power_of_two(select<T>(small, shift, shifted));
}

// log(x) of x ≥ 0, to one unit in the last place, as in fdlibm: x = 2^n·(1 + f), s = f / (2 + f).
// Of a number or of a register of them, with integers of the same size: the same bits either way.
template <class Words, class Reals> REPRIOR_INLINE Reals logarithm_of(Reals x) {
    const Reals zero{}, one = zero + 1.0, lowest = zero - __builtin_inf();
    const auto none = x == zero, small = x < zero + 0x1p-1022;
    x = small ? x * 0x1p54 : x;
    Words word;
    __builtin_memcpy(&word, &x, sizeof x);
    // Taking off the bits of √½ leaves n in the exponent and 1 + f between √½ and √2.
    word = word - 0x3fe6a09e667f3bcdLL;
    const Words mantissa = (word & 0xfffffffffffffLL) + 0x3fe6a09e667f3bcdLL;
    // n + 2048 in the lowest bits of 2^52 is a number to subtract from: n may be negative.
    const Words exponent = (((word >> 52) & 0xfffLL) ^ 0x800LL) | 0x4330000000000000LL;
    Reals n, m;
    __builtin_memcpy(&n, &exponent, sizeof n);
    __builtin_memcpy(&m, &mantissa, sizeof m);
    n = n - (4503599627370496.0 + 2048.0) - (small ? zero + 54.0 : zero);
    const Reals f = m - one, s = f / (2.0 + f), z = s * s, w = z * z;
    const Reals even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
    const Reals odd = z * (6.666666666666735130e-01 + w * (2.857142874366239149e-01 +
                      w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    const Reals half = 0.5 * f * f;
    const Reals found = n * 6.93147180369123816490e-01 -
                        ((half - (s * (half + even + odd) + n * 1.90821492927058770002e-10)) - f);
    return none ? lowest : found;
}

inline double logarithm(double x) { return logarithm_of<int64_t>(x); }
inline Vec<double> logarithm(Vec<double> x) {
    for (int i = 0; i < PARTS; ++i) x.part[i] = logarithm_of<Register<int64_t>::Type>(x.part[i]);
    return x;
}

// ---------------------------------------------------------------------------------------- rows

inline int64_t padded(int64_t n_classes) { return (n_classes + 15) / 16 * 16; }

// Rows of a view one after another, each contiguous, with memory behind it up to its padded length:
// what is read there is masked. Rows of other layouts, and the last ones, come through a tile.
template <class T> struct RowReader {
    const RowsView &view;
    T *tile;
    int64_t tile_rows, first, n_read, stop, in_place_stop;

    explicit RowReader(const RowsView &v) : RowReader(v, v.n_outer * v.n_inner) {}
    RowReader(const RowsView &v, int64_t end) : view(v), tile(nullptr), first(0), n_read(0), stop(end), in_place_stop(0) {
        const int64_t width = padded(v.n_classes);
        tile_rows = ROWS_TILE / v.n_classes > 0 ? ROWS_TILE / v.n_classes : 1;
        if (is_contiguous(v)) {
            in_place_stop = v.n_outer * v.n_inner - (width + v.n_classes - 1) / v.n_classes + 1;
            tile_rows = tile_rows < 16 ? tile_rows : 16;
        }
        tile = (T *)calloc((size_t)(tile_rows * v.n_classes + width), sizeof(T));
    }
    ~RowReader() { free(tile); }
    RowReader(const RowReader &) = delete;
    bool ready() const { return tile; }

    const T *row(int64_t i) {
        if (i < in_place_stop) {
            const T *at = (const T *)view.data + i * view.n_classes;
            for (int64_t b = 0; b < view.n_classes * (int64_t)sizeof(T); b += 64)
                __builtin_prefetch((const char *)at + ROWS_AHEAD_BYTES + b);
            return at;
        }
        if (i < first || i >= first + n_read) {
            first = i;
            const int64_t left = stop - i;
            n_read = left < tile_rows ? left : tile_rows;
            copy_run(view, first, n_read, tile);
        }
        return tile + (i - first) * view.n_classes;
    }
};

// 8 numbers of a row from class k on as float64; `padding` beyond the last class.
template <class T> REPRIOR_INLINE Vec<double> take(const T *row, int64_t k, int64_t n_classes, T padding) {
    const Vec<double> v = load_wide(row + k);
    if (k + 8 <= n_classes) return v;
    return select<double>(first_lanes<double>((int)(n_classes - k)), v, fill((double)padding));
}

// A vector of K numbers, padded with zeros.
inline double *with_padding(const double *values, int64_t n_classes, double *to) {
    for (int64_t k = 0; k < padded(n_classes); ++k) to[k] = k < n_classes ? values[k] : 0.0;
    return to;
}

// Leave a·z + b in x, of padded length, and return its maximum; NaN if the row has NaN or +inf.
template <class T>
inline double tilt_row(const T *row, int64_t n_classes, const double *a, const double *b, double *x) {
    const Vec<double> lowest = fill(-__builtin_inf()), highest = fill(__builtin_inf());
    Vec<double> peak = lowest;
    Mask<double> well = first_lanes<double>(8);
    for (int64_t k = 0; k < padded(n_classes); k += 8) {
        const Vec<double> z = take(row, k, n_classes, (T)-__builtin_inf());
        const Vec<double> tilted = select<double>(z > lowest, z * load(a + k) + load(b + k), lowest);
        well = well & (z < highest);
        peak = larger(tilted, peak);
        store(x + k, tilted);
    }
    return bits(well) == 0xff ? largest(peak) : __builtin_nan("");
}

// Leave the log-scores of a row of (log-)probabilities, made to sum to 1, in z, of padded length;
// false if the row is no distribution.
template <class T> inline bool log_row(const T *row, int64_t n_classes, const RowRule &rule, double *z) {
    const Vec<double> one = fill(1.0), none = fill(0.0);
    Vec<double> total = none;
    Mask<double> well = first_lanes<double>(8);
    for (int64_t k = 0; k < padded(n_classes); k += 8) {
        if (rule.kind == ScoreKind::probs) {
            const Vec<double> p = take(row, k, n_classes, (T)0);
            well = well & ~(p < none);
            total = total + p;
            store(z + k, logarithm(p));
        } else {
            const Vec<double> u = take(row, k, n_classes, (T)-__builtin_inf());
            well = well & (u < one);  // far above 0 is a sum far above 1
            total = total + exponential(u);
            store(z + k, u);
        }
    }
    const double mass = sum(total), off = mass - 1.0;
    if (!(bits(well) == 0xff && off <= rule.tolerance && -off <= rule.tolerance)) return false;
    // With a scale per class it matters that rows sum to 1.
    const Vec<double> missing = fill(logarithm(mass));
    for (int64_t k = 0; k < padded(n_classes); k += 8) store(z + k, load(z + k) - missing);
    return true;
}

// Leave a·z + b of a row of any kind in x and return its maximum; not finite if the row has none.
template <class T>
inline double tilt_any(const T *row, int64_t n_classes, const RowRule &rule, const double *a, const double *b,
                       double *x) {
    if (rule.kind == ScoreKind::logits) return tilt_row(row, n_classes, a, b, x);
    if (!log_row(row, n_classes, rule, x)) return __builtin_nan("");
    return tilt_row(x, n_classes, a, b, x);
}

// ----------------------------------------------------------------------------------- posterior

inline uint16_t to_bfloat(float x) {
    uint32_t word;
    __builtin_memcpy(&word, &x, 4);
    return (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);  // to nearest, ties to even; never NaN
}

inline uint16_t to_half(float x) {
    uint32_t word;
    __builtin_memcpy(&word, &x, 4);
    const uint32_t sign = word >> 16 & 0x8000;
    word &= 0x7fffffff;
    if (word >= 0x47800000) return (uint16_t)(sign | (word > 0x7f800000 ? 0x7e00 : 0x7c00));  // 65536 and more
    if (word < 0x38800000) {  // denormal: adding 0.5 rounds to multiples of 2^-24
        float magnitude;
        __builtin_memcpy(&magnitude, &word, 4);
        magnitude += 0.5f;
        __builtin_memcpy(&word, &magnitude, 4);
        return (uint16_t)(sign | (word - 0x3f000000));
    }
    word += 0xfff + (word >> 13 & 1);  // to nearest, ties to even
    return (uint16_t)(sign | ((word - 0x38000000) >> 13));
}

// Write n contiguous rows as samples [first, first + n) of a view.
template <class S, class T, class Convert>
inline void write_rows(S *to, int64_t stride, int64_t class_stride, int64_t n, int64_t n_classes, const T *tile,
                       Convert convert) {
    constexpr int64_t STRIP = 16;
    for (int64_t r = 0; r < n; r += STRIP) {
        const int64_t stop = r + STRIP < n ? r + STRIP : n;
        if (class_stride == 1) {
            for (int64_t s = r; s < stop; ++s)
                for (int64_t k = 0; k < n_classes; ++k) to[s * stride + k] = convert(tile[s * n_classes + k]);
        } else {
            for (int64_t k = 0; k < n_classes; ++k)
                for (int64_t s = r; s < stop; ++s)
                    to[s * stride + k * class_stride] = convert(tile[s * n_classes + k]);
        }
    }
}

struct ToHalf { uint16_t operator()(float x) const { return to_half(x); } };
struct ToBfloat { uint16_t operator()(float x) const { return to_bfloat(x); } };

template <class T> inline void write_run(const RowsView &v, int64_t first, int64_t n, const T *tile) {
    while (n > 0) {
        const int64_t outer = first / v.n_inner, inner = first % v.n_inner;
        const int64_t run = n < v.n_inner - inner ? n : v.n_inner - inner;
        const int64_t at = outer * v.outer_stride + inner * v.inner_stride;
        if constexpr (sizeof(T) == 8)
            write_rows((double *)v.data + at, v.inner_stride, v.class_stride, run, v.n_classes, tile, AsIs());
        else if (v.type == ScoreType::f32)
            write_rows((float *)v.data + at, v.inner_stride, v.class_stride, run, v.n_classes, tile, AsIs());
        else if (v.type == ScoreType::f16)
            write_rows((uint16_t *)v.data + at, v.inner_stride, v.class_stride, run, v.n_classes, tile, ToHalf());
        else
            write_rows((uint16_t *)v.data + at, v.inner_stride, v.class_stride, run, v.n_classes, tile, ToBfloat());
        tile += run * v.n_classes, first += run, n -= run;
    }
}

// Leave exp(x − peak) of a row of padded length in `to`, and return its sum.
template <class T> REPRIOR_INLINE double row_mass(const double *x, double peak, int64_t width, T *to) {
    constexpr int lanes = Vec<T>::lanes;
    const Vec<double> top = fill(peak);
    Vec<double> sums = fill(0.0);
    for (int64_t k = 0; k < width; k += lanes) {
        if constexpr (sizeof(T) == 4) {
            store(to + k, exponential(narrowed(load(x + k) - top, load(x + k + 8) - top)));
            sums = sums + load_wide(to + k);
            sums = sums + load_wide(to + k + 8);
        } else {
            const Vec<double> mass = exponential(load(x + k) - top);
            store(to + k, mass);
            sums = sums + mass;
        }
    }
    return sum(sums);
}

constexpr int64_t LOG_ROWS = 8;     // rows whose totals' logarithms are taken at once
constexpr int64_t LOG_WIDTH = 256;  // of rows up to this length: longer ones leave the cache

template <class T, bool log>
int64_t posterior_of(const RowsView &view, const RowRule &rule, const double *scale, const double *bias,
                     int64_t start, int64_t stop, const RowsView &out) {
    const int64_t n_classes = view.n_classes, width = padded(n_classes);
    const int64_t together = log && width <= LOG_WIDTH ? LOG_ROWS : 1;
    RowReader<T> reader(view, stop);
    // Rows are written with their padding, which the next row covers, but for the last ones, and those
    // of other layouts, which go through a tile.
    const int64_t direct_stop = is_contiguous(out) ? stop - (width + n_classes - 1) / n_classes + 1 : start;
    const int64_t tile_rows = reader.tile_rows;
    double *memory = (double *)malloc((size_t)((3 + together) * width + tile_rows * n_classes) * sizeof(double));
    if (!memory || !reader.ready()) {
        free(memory);
        return INT64_MIN;
    }
    const double *a = with_padding(scale, n_classes, memory), *b = with_padding(bias, n_classes, memory + width);
    double *x = memory + 2 * width;
    T *tile = (T *)(memory + (2 + together) * width);
    int64_t waiting = 0;
    for (int64_t i = start, n; i < stop; i += n) {
        const bool direct = i < direct_stop;
        const int64_t most = direct ? direct_stop - i : stop - i < tile_rows - waiting ? stop - i : tile_rows - waiting;
        n = !log ? 1 : together < most ? together : most;
        T *to = direct ? (T *)out.data + i * n_classes : tile + waiting * n_classes;
        double peak[LOG_ROWS], total[LOG_ROWS];
        for (int64_t r = 0; r < n; ++r) {
            peak[r] = tilt_any(reader.row(i + r), n_classes, rule, a, b, x + r * width);
            if (!(peak[r] > -__builtin_inf() && peak[r] < __builtin_inf())) {
                free(memory);
                return -1 - (i + r);
            }
            T *mass = to + r * n_classes;
            total[r] = row_mass(x + r * width, peak[r], width, mass);
            if (log) continue;
            const Vec<T> whole = fill((T)total[r]);
            for (int64_t k = 0; k < width; k += Vec<T>::lanes) store(mass + k, load(mass + k) / whole);
        }
        if (log) {
            for (int64_t r = n; r < LOG_ROWS; ++r) total[r] = 1.0;
            store(total, logarithm(load(total)));
            for (int64_t r = 0; r < n; ++r) {
                const Vec<double> top = fill(peak[r]), off = fill(total[r]);
                for (int64_t k = 0; k < width; k += 8)
                    store_rounded(to + r * n_classes + k, (load(x + r * width + k) - top) - off);
            }
        }
        if (direct) continue;
        waiting += n;
        if (waiting == tile_rows || i + n == stop) {
            write_run(out, i + n - waiting, waiting, tile);
            waiting = 0;
        }
    }
    free(memory);
    return stop;
}

// Write the (log-)posterior of samples [start, stop). Returns `stop`, or −1 − i if sample i has NaN,
// +inf, no class that is possible and stays finite, or breaks the rule of its kind. `out` has as many
// samples and classes as the view; its axes of samples may be merged in another way.
int64_t posterior(const RowsView &view, const RowRule &rule, const double *scale, const double *bias, bool log,
                  int64_t start, int64_t stop, const RowsView &out) {
    if (view.type == ScoreType::f64)
        return log ? posterior_of<double, true>(view, rule, scale, bias, start, stop, out)
                   : posterior_of<double, false>(view, rule, scale, bias, start, stop, out);
    return log ? posterior_of<float, true>(view, rule, scale, bias, start, stop, out)
               : posterior_of<float, false>(view, rule, scale, bias, start, stop, out);
}

template <class T>
int64_t decisions_of(const RowsView &view, const RowRule &rule, const double *scale, const double *bias,
                     int64_t start, int64_t stop, int64_t *classes) {
    const int64_t n_classes = view.n_classes, width = padded(n_classes);
    RowReader<T> reader(view, stop);
    double *memory = (double *)malloc((size_t)(3 * width) * sizeof(double));
    if (!memory || !reader.ready()) {
        free(memory);
        return INT64_MIN;
    }
    const double *a = with_padding(scale, n_classes, memory), *b = with_padding(bias, n_classes, memory + width);
    double *x = memory + 2 * width;
    int64_t result = stop;
    for (int64_t i = start; i < stop; ++i) {
        const double peak = tilt_any(reader.row(i), n_classes, rule, a, b, x);
        if (!(peak > -__builtin_inf() && peak < __builtin_inf())) {
            result = -1 - i;
            break;
        }
        for (int64_t k = 0; k < width; k += 8) {  // no other thread writes x: the peak is there
            const uint32_t equal = bits(load(x + k) == fill(peak));
            if (!equal) continue;
            classes[i] = k + lowest_bit(equal);
            break;
        }
    }
    free(memory);
    return result;
}

// Write the first class of the largest a·z + b of samples [start, stop). Returns as `posterior` does.
int64_t decisions(const RowsView &view, const RowRule &rule, const double *scale, const double *bias, int64_t start,
                  int64_t stop, int64_t *classes) {
    if (view.type == ScoreType::f64) return decisions_of<double>(view, rule, scale, bias, start, stop, classes);
    return decisions_of<float>(view, rule, scale, bias, start, stop, classes);
}

// ------------------------------------------------------------------------------- log-loss sums

// The sum of v·(log(mass) + peak − own) over samples. Logarithms are taken of some at once, and added
// in the order of the samples.
struct LossSum {
    double mass[8], peak[8], own[8], weight[8], total = 0.0;
    int n = 0;

    void add(double v, double its_mass, double its_peak, double its_own) {
        mass[n] = its_mass, peak[n] = its_peak, own[n] = its_own, weight[n] = v;
        if (++n == 8) close();
    }
    double close() {
        for (int j = n; j < 8; ++j) mass[j] = 1.0;
        store(mass, logarithm(load(mass)));
        for (int j = 0; j < n; ++j) total += weight[j] * (mass[j] + peak[j] - own[j]);
        n = 0;
        return total;
    }
};

template <class T>
int64_t tilted_sums_of(const RowsView &view, const int64_t *labels, const double *weights, const double *scale,
                       const double *shift, const double *slopes, double *out) {
    const int64_t n = view.n_outer * view.n_inner, n_classes = view.n_classes, width = padded(n_classes);
    RowReader<T> reader(view);
    double *memory = (double *)malloc((size_t)(4 * width) * sizeof(double));
    if (!memory || !reader.ready()) {
        free(memory);
        return INT64_MIN;
    }
    const double *a = with_padding(scale, n_classes, memory), *b = with_padding(shift, n_classes, memory + width);
    const double *w = with_padding(slopes, n_classes, memory + 2 * width);
    double *x = memory + 3 * width;
    for (int j = 0; j < 6; ++j) out[j] = 0.0;
    LossSum loss;
    for (int64_t i = 0; i < n; ++i) {
        const T *row = reader.row(i);
        const int64_t y = labels[i];
        const double v = weights[i], own = (double)row[y], own_w = slopes[y];
        const double peak = tilt_row(row, n_classes, a, b, x);
        const Vec<double> top = fill(peak), centre = fill(own), lowest = fill(-__builtin_inf());
        Vec<double> total = fill(0.0), z1 = total, w1 = total, zz = total, zw = total, ww = total;
        for (int64_t k = 0; k < width; k += 8) {
            const Vec<double> u = load(x + k), p = exponential(u - top), slope = load(w + k);
            Vec<double> z = take(row, k, n_classes, (T)0) - centre;
            z = select<double>(z > lowest, z, fill(0.0));
            const Vec<double> pz = p * z, pw = p * slope;
            total = total + p;
            z1 = z1 + pz, w1 = w1 + pw;
            zz = zz + pz * z, zw = zw + pz * slope, ww = ww + pw * slope;
        }
        const double mass = sum(total), mean_z = sum(z1) / mass, mean_w = sum(w1) / mass;
        const double var_z = sum(zz) / mass - mean_z * mean_z, var_w = sum(ww) / mass - mean_w * mean_w;
        loss.add(v, mass, peak, x[y]);
        out[1] += v * mean_z;
        out[2] += v * (mean_w - own_w);
        out[3] += v * (var_z < 0 ? 0.0 : var_z);
        out[4] += v * (sum(zw) / mass - mean_z * mean_w);
        out[5] += v * (var_w < 0 ? 0.0 : var_w);
    }
    out[0] = loss.close();
    free(memory);
    return n;
}

// The six sums of core/log_loss_sums.py: the log-loss of softmax(a·z + shift), slopes and curvatures.
int64_t tilted_sums(const RowsView &view, const int64_t *labels, const double *weights, const double *scale,
                    const double *shift, const double *slopes, double *out) {
    if (view.type == ScoreType::f64) return tilted_sums_of<double>(view, labels, weights, scale, shift, slopes, out);
    return tilted_sums_of<float>(view, labels, weights, scale, shift, slopes, out);
}

template <class T>
int64_t posterior_sums_of(const RowsView &view, const int64_t *labels, const double *weights, const double *scale,
                          const double *bias, double *out) {
    const int64_t n = view.n_outer * view.n_inner, n_classes = view.n_classes, width = padded(n_classes);
    RowReader<T> reader(view);
    double *memory = (double *)calloc((size_t)(5 * width), sizeof(double));
    if (!memory || !reader.ready()) {
        free(memory);
        return INT64_MIN;
    }
    const double *a = with_padding(scale, n_classes, memory), *b = with_padding(bias, n_classes, memory + width);
    double *x = memory + 2 * width, *by_score = memory + 3 * width, *by_class = memory + 4 * width;
    LossSum loss;
    for (int64_t i = 0; i < n; ++i) {
        const T *row = reader.row(i);
        const double peak = tilt_row(row, n_classes, a, b, x), own = x[labels[i]];
        const Vec<double> top = fill(peak), lowest = fill(-__builtin_inf());
        Vec<double> total = fill(0.0);
        for (int64_t k = 0; k < width; k += 8) {
            const Vec<double> p = exponential(load(x + k) - top);
            store(x + k, p);
            total = total + p;
        }
        const double mass = sum(total);
        loss.add(weights[i], mass, peak, own);
        const Vec<double> share = fill(weights[i] / mass);
        for (int64_t k = 0; k < width; k += 8) {
            const Vec<double> p = share * load(x + k);
            Vec<double> z = take(row, k, n_classes, (T)0);
            z = select<double>(z > lowest, z, fill(0.0));
            store(by_class + k, load(by_class + k) + p);
            store(by_score + k, load(by_score + k) + p * z);
        }
    }
    out[0] = loss.close();
    for (int64_t k = 0; k < n_classes; ++k) out[1 + k] = by_score[k], out[1 + n_classes + k] = by_class[k];
    free(memory);
    return n;
}

// The log-loss of softmax(a·z + b), then v·p·z and v·p summed over the samples: (1 + 2·K,).
int64_t posterior_sums(const RowsView &view, const int64_t *labels, const double *weights, const double *scale,
                       const double *bias, double *out) {
    if (view.type == ScoreType::f64) return posterior_sums_of<double>(view, labels, weights, scale, bias, out);
    return posterior_sums_of<float>(view, labels, weights, scale, bias, out);
}
