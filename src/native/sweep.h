// A count metric along sorted switches: a step function of the strength, or of one bias.
//
// The value of each class is rounded to fixed point before it is added to the totals. These
// then depend on the class counts alone, not on the order of the switches.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace reprior {

constexpr double EQUAL_VALUES = 0x1p-48;  // profile/constants.py: EQUAL_VALUES
constexpr int64_t SWITCHES_PER_PAUSE = 1 << 16;
constexpr double NARROWEST = 1e-10;       // profile/constants.py: NARROWEST

// How the values of the classes become one value. From LINEAR on, samples are counted in cells that are
// smaller than classes: pairs of label and prediction, or the classes of every image. Labels, losers
// and winners of switches are then cells, and everything per class below is per cell.
enum class Mean : uint8_t {
    ARITHMETIC, GEOMETRIC, HARMONIC, LEAST, CORRELATION, KAPPA, LINEAR, WEIGHTED_KAPPA, PER_IMAGE
};

// When a class takes part.
enum Part : uint8_t { NEVER, IF_PREDICTED, ALWAYS };

constexpr double LARGEST_ZERO = 0x1p-40;        // metrics/ratios.py: LARGEST_ZERO
constexpr double LEAST_DISAGREEMENT = 0x1p-40;  // metrics/ratios.py: LEAST_DISAGREEMENT

// A mean over classes of gain·TP / (support·S + predicted·P + true_positive·TP), or a coefficient
// of agreement between labels and predictions.
struct Metric {
    std::vector<uint8_t> part;   // a `Part` per class
    std::vector<double> share;   // the weight of each class in the sum; the addend of each pair
    std::vector<int32_t> klass;  // the class of every cell, for PER_IMAGE; else empty
    std::vector<double> second;  // the second addend of each pair, for WEIGHTED_KAPPA; else empty
    Mean mean;
    bool pooled;                 // whether all classes count as one
    bool weighted;               // whether the shares sum to 1, so that no number of classes divides
    double gain, support, predicted, true_positive;
    double everything;  // the weight of all samples where the ratio is of all but the class; else 0
    double all;         // the weight of all samples
    double chance;      // what the mean is of predictions by chance; it is rescaled to 0
    double unit;        // of the fixed-point values

    double ratio(double tp, double p, double s) const {
        if (everything > 0.0) tp = everything - s - p + tp, p = everything - p, s = everything - s;
        const double divisor = support * s + predicted * p + true_positive * tp;
        return divisor > 0.0 ? gain * tp / divisor : 0.0;
    }
    bool always(size_t j) const { return pooled || part[j] == ALWAYS; }
    bool if_predicted(size_t j) const { return !pooled && part[j] == IF_PREDICTED; }
    // Whether only switches that change a true positive change the metric.
    bool by_hits() const {
        return predicted == 0.0 && everything == 0.0 && mean < Mean::CORRELATION &&
               std::find(part.begin(), part.end(), (uint8_t)IF_PREDICTED) == part.end();
    }
};

// Sorted switches; `count` and `weight` are null where every switch is one sample of weight 1.
struct SwitchColumns {
    int64_t n;
    const double *position;
    const int32_t *label, *loser, *winner;
    const int64_t *count;
    const double *weight;
};

// True positives, predicted, the plain number predicted, and support of every class.
struct Tallies {
    std::vector<double> tp, predicted;
    std::vector<int64_t> plain;
    std::vector<double> support;

    size_t n_classes() const { return tp.size(); }

    // Where no sample is left, weights leave rounding behind.
    void clear_rounding() {
        for (size_t j = 0; j < tp.size(); ++j)
            if (plain[j] == 0) tp[j] = predicted[j] = 0.0;
    }

    void pool() {
        for (size_t j = 1; j < tp.size(); ++j) {
            tp[0] += tp[j], predicted[0] += predicted[j], plain[0] += plain[j], support[0] += support[j];
        }
        tp.resize(1), predicted.resize(1), plain.resize(1), support.resize(1);
    }
};

// log2(x) of x > 0 and 2**x of x ≤ 0, to some units in the last place: series, so that the bits do
// not depend on the system's mathematics library.
inline double binary_logarithm(double x) {
    int exponent;
    double m = std::frexp(x, &exponent);
    if (m < 0.70710678118654752) m *= 2.0, --exponent;
    const double s = (m - 1.0) / (m + 1.0), square = s * s;
    constexpr double terms[] = {1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
                                1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
    double sum = 0.0;
    for (const double term : terms) sum = sum * square + term;
    return exponent + 2.0 * s * sum * 1.4426950408889634;
}

inline double binary_power(double x) {
    const double whole = std::rint(x), rest = (x - whole) * 0.69314718055994531;
    constexpr double terms[] = {1.0 / 14, 1.0 / 13, 1.0 / 12, 1.0 / 11, 1.0 / 10, 1.0 / 9, 1.0 / 8,
                                1.0 / 7,  1.0 / 6,  1.0 / 5,  1.0 / 4,  1.0 / 3,  1.0 / 2, 1.0};
    double sum = 1.0;
    for (const double term : terms) sum = 1.0 + sum * rest * term;
    return std::ldexp(sum, (int)std::max(whole, -2000.0));
}

// The smallest of K values that change one at a time.
class Tournament {
  public:
    explicit Tournament(size_t n) {
        while (leaves < n) leaves *= 2;
        value.assign(2 * leaves, std::numeric_limits<double>::infinity());
    }
    void set(size_t i, double x) {
        i += leaves;
        value[i] = x;
        while (i > 1) {
            i /= 2;
            value[i] = std::min(value[2 * i], value[2 * i + 1]);
        }
    }
    double least() const { return value[1]; }

  private:
    size_t leaves = 1;
    std::vector<double> value;
};

// Call `work` with the mean as a constant.
template <class Work> auto by_mean(Mean mean, Work work) {
    switch (mean) {
    case Mean::ARITHMETIC: return work(std::integral_constant<Mean, Mean::ARITHMETIC>{});
    case Mean::GEOMETRIC: return work(std::integral_constant<Mean, Mean::GEOMETRIC>{});
    case Mean::HARMONIC: return work(std::integral_constant<Mean, Mean::HARMONIC>{});
    case Mean::LEAST: return work(std::integral_constant<Mean, Mean::LEAST>{});
    case Mean::CORRELATION: return work(std::integral_constant<Mean, Mean::CORRELATION>{});
    case Mean::LINEAR: return work(std::integral_constant<Mean, Mean::LINEAR>{});
    case Mean::WEIGHTED_KAPPA: return work(std::integral_constant<Mean, Mean::WEIGHTED_KAPPA>{});
    case Mean::PER_IMAGE: return work(std::integral_constant<Mean, Mean::PER_IMAGE>{});
    default: return work(std::integral_constant<Mean, Mean::KAPPA>{});
    }
}

class Sweep {
  public:
    // Start from class counts, of one class where the metric is pooled.
    Sweep(const Metric &metric, Tallies tallies)
        : metric(metric), now(std::move(tallies)), least(metric.mean == Mean::LEAST ? now.n_classes() : 1) {
        addends.resize(3 * now.n_classes());
        counted.resize(now.n_classes());
        int32_t n_classes = 0;
        for (const int32_t k : metric.klass) n_classes = std::max(n_classes, k + 1);
        of_class.resize((size_t)n_classes);
        by_mean(metric.mean, [&](auto mean) {
            for (size_t j = 0; j < now.n_classes(); ++j) update<mean()>(j);
        });
        if (metric.mean != Mean::CORRELATION && metric.mean != Mean::KAPPA) return;
        int64_t squares = 0;
        for (const double support : now.support) squares += fixed(support / metric.all * (support / metric.all));
        labels = 1.0 - (double)squares / metric.unit;
    }

    double value() const {
        return by_mean(metric.mean, [&](auto mean) { return value_of<mean()>(); });
    }

    // Write the steps from `low` on and return how many there are: at most one per switch, and one.
    // `pause` is called now and then, and may throw.
    template <class Pause>
    int64_t run(const SwitchColumns &switches, double low, double *start, double *values, Pause pause) {
        return by_mean(metric.mean, [&](auto mean) { return run_as<mean()>(switches, low, start, values, pause); });
    }

  private:
    using Addends = std::array<int64_t, 3>;

    // The ratios of one class, summed over images, and what their mean adds.
    struct OverImages {
        int64_t total = 0, images = 0, addend = 0;
    };

    const Metric &metric;
    Tallies now;
    Tournament least;
    std::vector<int64_t> addends;  // (3, K)
    std::vector<uint8_t> counted;
    std::vector<OverImages> of_class;
    std::array<uint64_t, 3> total{};
    int64_t divisor = 0;
    double labels = 0.0;  // 1 less the sum of the squared shares of the labels

    template <Mean MEAN, class Pause>
    int64_t run_as(const SwitchColumns &switches, double low, double *start, double *values, Pause pause) {
        const bool by_hits = metric.by_hits();
        int64_t used = 0;
        start[0] = low, values[0] = value_of<MEAN>();
        for (int64_t i = 0; i < switches.n; ++i) {
            if (i % SWITCHES_PER_PAUSE == 0) pause();
            const int64_t heads = switches.count ? switches.count[i] : 1;
            const double amount = switches.weight ? switches.weight[i] : (double)heads;
            const int32_t label = switches.label[i], loser = switches.loser[i], winner = switches.winner[i];
            if (loser == label || !by_hits) change<MEAN>(loser, -heads, -amount, loser == label);
            if (winner == label || !by_hits) change<MEAN>(winner, heads, amount, winner == label);
            const double after = value_of<MEAN>();
            if (switches.position[i] == start[used]) {
                values[used] = after;
                if (used > 0 && values[used - 1] == after) --used;
            } else if (after != values[used]) {
                ++used;
                start[used] = switches.position[i], values[used] = after;
            }
        }
        return used + 1;
    }

    double sum(size_t t) const { return (double)(int64_t)total[t]; }

    template <Mean MEAN> double value_of() const {
        const double n = metric.weighted ? 1.0 : (double)std::max<int64_t>(divisor, 1);
        if constexpr (MEAN == Mean::ARITHMETIC) {
            const double mean = sum(0) / (n * metric.unit);
            if (metric.chance == 0.0) return mean;
            return (mean - metric.chance) / (1.0 - metric.chance);
        } else if constexpr (MEAN == Mean::GEOMETRIC) {
            return total[1] ? 0.0 : binary_power(sum(0) / (n * metric.unit));
        } else if constexpr (MEAN == Mean::HARMONIC) {
            return total[2] ? 0.0 : n / (sum(0) + sum(1) / metric.unit);
        } else if constexpr (MEAN == Mean::LEAST) {
            return divisor ? least.least() : 0.0;
        } else if constexpr (MEAN == Mean::LINEAR) {
            return sum(0) / metric.unit * metric.gain;
        } else if constexpr (MEAN == Mean::WEIGHTED_KAPPA) {
            const double agreement = sum(0) / metric.unit, by_chance = sum(1) / metric.unit;
            return 1.0 - by_chance < LEAST_DISAGREEMENT ? 0.0 : (agreement - by_chance) / (1.0 - by_chance);
        } else if constexpr (MEAN == Mean::PER_IMAGE) {
            return sum(0) / (n * metric.unit);
        } else {
            const double hits = sum(0) / metric.unit, by_chance = sum(1) / metric.unit;
            const double predictions = 1.0 - sum(2) / metric.unit;
            if constexpr (MEAN == Mean::KAPPA) {
                return 1.0 - by_chance < LEAST_DISAGREEMENT ? 0.0 : (hits - by_chance) / (1.0 - by_chance);
            } else {
                if (labels < LEAST_DISAGREEMENT || predictions < LEAST_DISAGREEMENT) return 0.0;
                return (hits - by_chance) / (std::sqrt(labels) * std::sqrt(predictions));
            }
        }
    }

    int64_t fixed(double x) const { return std::llrint(x * metric.unit); }

    template <Mean MEAN> void change(int32_t party, int64_t heads, double amount, bool right) {
        const size_t c = metric.pooled ? 0 : (size_t)party;
        now.plain[c] += heads;
        now.predicted[c] += amount;
        if (right) now.tp[c] += amount;
        update<MEAN>(c);
    }

    template <Mean MEAN> void update(size_t c) {
        // Weights that cancel leave rounding behind: the plain number says whether c is predicted.
        const bool is_predicted = now.plain[c] > 0;
        const bool among = metric.always(c) || (metric.if_predicted(c) && is_predicted);
        // The tallies themselves stay: amid switches at one position a class may hold less than none.
        const double tp = is_predicted ? now.tp[c] : 0.0, predicted = is_predicted ? now.predicted[c] : 0.0;
        if constexpr (MEAN == Mean::LINEAR) {
            replace<1>(c, {fixed(predicted / metric.all * metric.share[c])});
            return;
        } else if constexpr (MEAN == Mean::WEIGHTED_KAPPA) {
            const double share = predicted / metric.all;
            replace<2>(c, {fixed(share * metric.share[c]), fixed(share * metric.second[c])});
            return;
        } else if constexpr (MEAN == Mean::PER_IMAGE) {
            update_class(c, among, among ? fixed(metric.ratio(tp, predicted, now.support[c])) : 0);
            return;
        }
        divisor += (int)among - (int)counted[c];
        counted[c] = among;
        if constexpr (MEAN >= Mean::CORRELATION) {
            const double share = predicted / metric.all;
            replace<3>(c, {fixed(tp / metric.all), fixed(share * (now.support[c] / metric.all)), fixed(share * share)});
            return;
        }
        const double ratio = among ? metric.ratio(tp, predicted, now.support[c]) : 0.0;
        if constexpr (MEAN == Mean::ARITHMETIC) {
            replace<1>(c, {fixed(metric.weighted ? ratio * metric.share[c] : ratio)});
        } else if constexpr (MEAN == Mean::GEOMETRIC) {
            replace<2>(c, ratio > LARGEST_ZERO ? Addends{fixed(binary_logarithm(ratio)), 0} : Addends{0, among});
        } else if constexpr (MEAN == Mean::HARMONIC) {
            const double inverse = ratio > LARGEST_ZERO ? 1.0 / ratio : 0.0;
            const double whole = std::floor(inverse);
            replace<3>(c, {(int64_t)whole, fixed(inverse - whole), among && !(ratio > LARGEST_ZERO)});
        } else if constexpr (MEAN == Mean::LEAST) {
            least.set(c, among ? (ratio > LARGEST_ZERO ? ratio : 0.0) : std::numeric_limits<double>::infinity());
        }
    }

    // Give cell c another ratio: it changes the mean of its class over images.
    void update_class(size_t c, bool among, int64_t ratio) {
        OverImages &its = of_class[(size_t)metric.klass[c]];
        const bool before = its.images > 0;
        its.total += ratio - addends[c];
        its.images += (int)among - (int)counted[c];
        addends[c] = ratio, counted[c] = among;
        divisor += (int)(its.images > 0) - (int)before;
        const int64_t addend = fixed((double)its.total / ((double)std::max<int64_t>(its.images, 1) * metric.unit));
        total[0] += (uint64_t)addend - (uint64_t)its.addend;
        its.addend = addend;
    }

    // Take the addends of class c from the totals, and add others.
    template <size_t N> void replace(size_t c, const Addends &after) {
        for (size_t t = 0; t < N; ++t) {
            int64_t &before = addends[t * now.n_classes() + c];
            total[t] += (uint64_t)after[t] - (uint64_t)before;
            before = after[t];
        }
    }
};

struct Interval {
    double low, high, value;
};

// The best interval of n steps that end at `high`: see profile/objective.py, best_interval.
inline Interval best_interval(const double *start, const double *value, int64_t n, double high, double spared) {
    const double none = -std::numeric_limits<double>::infinity();
    double top = none, any_top = none;
    for (int64_t i = 0; i < n; ++i) {
        const double end = i + 1 < n ? start[i + 1] : high;
        any_top = std::max(any_top, value[i]);
        if (end - start[i] >= NARROWEST || start[i] == high || start[i] == spared) top = std::max(top, value[i]);
    }
    if (top == none) top = any_top;
    Interval best{0.0, 0.0, top};
    double width = -1.0, distance = 0.0;
    bool best_counts = false;
    for (int64_t i = 0; i < n; ++i) {
        if (!(value[i] >= top - EQUAL_VALUES)) continue;
        const double low = start[i];
        while (i + 1 < n && value[i + 1] >= top - EQUAL_VALUES) ++i;
        const double end = i + 1 < n ? start[i + 1] : high;
        const bool counts = end - low >= NARROWEST || (low <= spared && spared < end) || start[i] == high;
        const double away = low <= 0.0 && 0.0 <= end ? 0.0 : std::min(std::fabs(low), std::fabs(end));
        const bool wider = end - low > width || (end - low == width && away < distance);
        if (counts > best_counts || (counts == best_counts && wider)) {
            best.low = low, best.high = end;
            width = end - low, distance = away, best_counts = counts;
        }
    }
    return best;
}

}  // namespace reprior
