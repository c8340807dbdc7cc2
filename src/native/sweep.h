// A count metric along sorted switches: a step function of the strength, or of one bias.
//
// The value of each class is rounded to fixed point before it is added to the total. The total
// then depends on the class counts alone, not on the order of the switches.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace reprior {

constexpr double EQUAL_VALUES = 0x1p-48;  // profile/constants.py: EQUAL_VALUES
constexpr double NARROWEST = 1e-10;       // profile/constants.py: NARROWEST

// Mean over classes of gain·TP / (support·S + predicted·P + true_positive·TP).
struct Metric {
    std::vector<uint8_t> always;  // classes that the mean is over whatever is predicted
    bool seen;                    // whether it is over the predicted classes too
    bool pooled;                  // whether all classes count as one
    double gain, support, predicted, true_positive;
    double scale;  // of the fixed-point values

    double below(double tp, double p, double s) const { return support * s + predicted * p + true_positive * tp; }
    double ratio(double tp, double p, double s) const {
        const double divisor = below(tp, p, s);
        return divisor > 0.0 ? gain * tp / divisor : 0.0;
    }
    int64_t fixed(double tp, double p, double s) const { return std::llrint(ratio(tp, p, s) * scale); }
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

class Sweep {
  public:
    // Start from class counts, of one class where the metric is pooled.
    Sweep(const Metric &metric, Tallies tallies) : metric(metric), now(std::move(tallies)) {
        fixed.resize(now.n_classes());
        counted.resize(now.n_classes());
        for (size_t j = 0; j < now.n_classes(); ++j) {
            counted[j] = counts_always(j) || (metric.seen && now.plain[j] > 0);
            fixed[j] = counted[j] ? metric.fixed(now.tp[j], now.predicted[j], now.support[j]) : 0;
            total += (uint64_t)fixed[j];
            divisor += counted[j];
        }
    }

    double value() const { return (double)(int64_t)total / ((double)std::max<int64_t>(divisor, 1) * metric.scale); }

    // Write the steps from `low` on and return how many there are: at most one per switch, and one.
    int64_t run(const SwitchColumns &switches, double low, double *start, double *values) {
        const bool by_hits = metric.predicted == 0.0 && !metric.seen;
        int64_t used = 0;
        start[0] = low, values[0] = value();
        for (int64_t i = 0; i < switches.n; ++i) {
            const int64_t heads = switches.count ? switches.count[i] : 1;
            const double amount = switches.weight ? switches.weight[i] : (double)heads;
            const int32_t label = switches.label[i], loser = switches.loser[i], winner = switches.winner[i];
            if (loser == label || !by_hits) change(loser, -heads, -amount, loser == label);
            if (winner == label || !by_hits) change(winner, heads, amount, winner == label);
            const double after = value();
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

  private:
    const Metric &metric;
    Tallies now;
    std::vector<int64_t> fixed;
    std::vector<uint8_t> counted;
    uint64_t total = 0;
    int64_t divisor = 0;

    bool counts_always(size_t j) const { return metric.pooled || metric.always[j]; }

    void change(int32_t party, int64_t heads, double amount, bool right) {
        const size_t c = metric.pooled ? 0 : (size_t)party;
        now.plain[c] += heads;
        now.predicted[c] += amount;
        if (right) now.tp[c] += amount;
        // Weights that cancel leave rounding behind: the plain number says whether c is predicted.
        const bool is_predicted = now.plain[c] > 0;
        const bool among = counts_always(c) || (metric.seen && is_predicted);
        const int64_t after =
            among && is_predicted ? metric.fixed(now.tp[c], now.predicted[c], now.support[c]) : 0;
        total += (uint64_t)after - (uint64_t)fixed[c];
        divisor += (int)among - (int)counted[c];
        fixed[c] = after, counted[c] = among;
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
