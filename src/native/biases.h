// Per-class biases: the first two classes of every sample, and exact line searches.
//
// A sample's score of class k is z_k + b_k in float64. See tuning/bias_search.py for the array
// code.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "sweep.h"

namespace reprior {

constexpr double INFINITE = std::numeric_limits<double>::infinity();

// ----------------------------------------------------------------------------- first two classes

// Both classes and their scores; equal scores go by the lower index.
struct Places {
    int32_t *first, *second;
    double *top, *following;
};

// Labelled log-scores in C order; `weights` is null where samples have none.
template <class T> struct Samples {
    const T *rows;
    int64_t n, n_classes;
    const int32_t *labels;
    const double *weights;

    double weight(int64_t i) const { return weights ? weights[i] : 1.0; }
};

template <class T>
inline void place_row(const T *row, int64_t n_classes, const double *biases, int64_t i, const Places &places) {
    int64_t a = 0, b = 1;
    double high = (double)row[0] + biases[0], low = (double)row[1] + biases[1];
    if (low > high) {
        std::swap(a, b);
        std::swap(high, low);
    }
    for (int64_t k = 2; k < n_classes; ++k) {
        const double score = (double)row[k] + biases[k];
        if (score > low) {
            if (score > high) {
                b = a, low = high;
                a = k, high = score;
            } else {
                b = k, low = score;
            }
        }
    }
    places.first[i] = (int32_t)a, places.second[i] = (int32_t)b;
    places.top[i] = high, places.following[i] = low;
}

template <class T>
void place_rows(const T *rows, int64_t n, int64_t n_classes, const double *biases, const Places &places) {
    for (int64_t i = 0; i < n; ++i) place_row(rows + i * n_classes, n_classes, biases, i, places);
}

// Mend the places after the bias of class k, whose scores are `column`, went up.
template <class T> void raise_class(const T *column, int64_t n, double bias, int32_t k, const Places &p) {
    for (int64_t i = 0; i < n; ++i) {
        const double score = (double)column[i] + bias;
        if (score < p.following[i]) continue;
        if (p.first[i] == k) {
            p.top[i] = score;
        } else if (score > p.top[i] || (score == p.top[i] && k < p.first[i])) {
            p.second[i] = p.first[i], p.following[i] = p.top[i];
            p.first[i] = k, p.top[i] = score;
        } else if (score > p.following[i] || k <= p.second[i]) {
            p.second[i] = k, p.following[i] = score;
        }
    }
}

// Mend the places after the bias of class k went down.
template <class T>
void lower_class(const T *rows, const T *column, int64_t n, int64_t n_classes, const double *biases, int32_t k,
                 const Places &p) {
    for (int64_t i = 0; i < n; ++i) {
        if (p.first[i] == k) {
            const double score = (double)column[i] + biases[k];
            if (score > p.following[i] || (score == p.following[i] && k < p.second[i])) p.top[i] = score;
            else place_row(rows + i * n_classes, n_classes, biases, i, p);
        } else if (p.second[i] == k) {
            place_row(rows + i * n_classes, n_classes, biases, i, p);
        }
    }
}

template <class T>
void move_class(const T *rows, const T *column, int64_t n, int64_t n_classes, double *biases, int32_t k, double bias,
                const Places &places) {
    const bool raised = bias > biases[k];
    biases[k] = bias;
    if (raised) raise_class(column, n, bias, k, places);
    else lower_class(rows, column, n, n_classes, biases, k, places);
}

// Add up true positives and predicted: plain numbers (2, K), and weights (2, K) where there are some.
inline void count_first(const int32_t *labels, const double *weights, const int32_t *first, int64_t n,
                        int64_t n_classes, double *sums, int64_t *counts) {
    for (int64_t i = 0; i < n; ++i) {
        counts[labels[i]] += labels[i] == first[i];
        counts[n_classes + first[i]] += 1;
    }
    if (!weights) return;
    for (int64_t i = 0; i < n; ++i) {
        sums[labels[i]] += labels[i] == first[i] ? weights[i] : 0.0;
        sums[n_classes + first[i]] += weights[i];
    }
}

// ------------------------------------------------------------------------- steps along one bias

inline void hand_over(int32_t loser, int32_t winner, int32_t label, double weight, Tallies &t) {
    t.predicted[loser] -= weight;
    t.predicted[winner] += weight;
    t.plain[loser] -= 1;
    t.plain[winner] += 1;
    if (label == loser) t.tp[loser] -= weight;
    else if (label == winner) t.tp[winner] += weight;
}

inline Sweep sweep_from(const Metric &metric, Tallies tallies) {
    tallies.clear_rounding();
    if (metric.pooled) tallies.pool();
    return Sweep(metric, std::move(tallies));
}

// The switches of one class, collected in any order.
struct ClassSwitches {
    std::vector<double> place, weight;
    std::vector<int32_t> label, loser;

    void clear() {
        place.clear(), weight.clear(), label.clear(), loser.clear();
    }
    void add(double at, int32_t of_label, int32_t from) {
        place.push_back(at), label.push_back(of_label), loser.push_back(from);
    }

    // The best interval of class k's bias between `low` and `high`, as distances from `home`.
    Interval best(const Metric &metric, Tallies before, int32_t k, double low, double high, double home) {
        const size_t n = place.size();
        order.resize(n), along.resize(n), start.resize(n + 1), value.resize(n + 1);
        for (size_t s = 0; s < n; ++s) order[s] = {place[s] - home, (int32_t)s};
        std::sort(order.begin(), order.end());
        winner.assign(n, k);
        sorted_label.resize(n), sorted_loser.resize(n), sorted_weight.resize(weight.size());
        for (size_t s = 0; s < n; ++s) {
            const size_t from = (size_t)order[s].second;
            along[s] = order[s].first;
            sorted_label[s] = label[from], sorted_loser[s] = loser[from];
            if (!weight.empty()) sorted_weight[s] = weight[from];
        }
        const SwitchColumns columns{(int64_t)n,          along.data(),  sorted_label.data(),
                                    sorted_loser.data(), winner.data(), nullptr,
                                    weight.empty() ? nullptr : sorted_weight.data()};
        const int64_t used =
            sweep_from(metric, std::move(before)).run(columns, low - home, start.data(), value.data(), [] {});
        return best_interval(start.data(), value.data(), used, high - home, NAN);
    }

  private:
    std::vector<std::pair<double, int32_t>> order;
    std::vector<double> along, start, value, sorted_weight;
    std::vector<int32_t> winner, sorted_label, sorted_loser;
};

// The middle of an interval of distances from `home`; the lower end where the middle rounds up.
inline double bias_within(const Interval &interval, double home) {
    const double middle = (interval.low + interval.high) / 2;
    return home + (middle < interval.high ? middle : interval.low);
}

// ------------------------------------------------------------- where along a line it may be better

// Most of a line is far worse than where the bias is now. Samples are put into narrow buckets by
// the distance of their switch, which is quicker than sorting. Where a bucket begins, all class
// counts are known exactly, and until some buckets end the metric is at most what it would be if
// every class lost its wrong samples of these buckets and none of its right ones. Only where that
// is better than the present value, the exact search has to look.
template <class T> class PromisingPart {
  public:
    std::vector<double> place;    // the bias at which each sample comes to class k
    std::vector<int64_t> chosen;  // the samples of the part
    double before, after;         // the last place before theirs, and the first after

    // Choose the samples of the part of class k's line on which the metric may be above `value`.
    // `tallies`, those at `bias`, become those where the part begins.
    void find(const Samples<T> &samples, const T *column, int32_t k, double bias, const Places &places,
              const Metric &metric, double value, Tallies &tallies) {
        fill_buckets(samples, column, k, bias, places);
        sort_by_bucket(samples);
        give_back(samples, k, places, tallies);
        const auto [low, high] = bound_parts(k, metric, value, tallies);
        chosen.clear();
        before = -INFINITE, after = INFINITE;
        if (low < 0) return;
        for (int64_t i = 0; i < samples.n; ++i) {
            if (low <= bucket[i] && bucket[i] <= high) chosen.push_back(i);
            else if (bucket[i] > high) after = std::min(after, place[i]);
            else if (bucket[i] != NOWHERE) before = std::max(before, place[i]);
        }
    }

  private:
    // Distances share a bucket if they agree in exponent and the first six fractional bits.
    // Buckets are for distances from 2**-10 to 2**10; the outermost hold the rest.
    static constexpr int SHIFT = 52 - 6;
    static constexpr int64_t BASE = (1023 - 10) << 6, HALF = 20 << 6, N_BUCKETS = 2 * HALF;
    static constexpr int64_t INFINITE_BITS = 0x7FF0000000000000;
    static constexpr int16_t NOWHERE = -1;  // no bias brings the sample to class k, or takes it away
    // Samples that are bounded together, at least: so many; half of the number of classes, because
    // a bound visits all of them; a share of those between them and the bias, because far away
    // bounds need not be tight.
    static constexpr int64_t TOGETHER = 128, CLASSES_PER_SAMPLE = 2, AWAY_PER_SAMPLE = 16;
    static constexpr double SLACK = 1e-9;  // bounds are rounded

    std::vector<int16_t> bucket;
    std::vector<int32_t> code, codes;  // 4·(best class but for k), plus 1 if it is the label, 2 if k is
    std::vector<double> amounts, ratio, sums;
    std::vector<int64_t> ends, heads;
    double total, divisor;

    void fill_buckets(const Samples<T> &samples, const T *column, int32_t k, double bias, const Places &p) {
        const size_t n = (size_t)samples.n;
        place.resize(n), bucket.resize(n), code.resize(n), codes.resize(n);
        ends.assign(N_BUCKETS, 0);
        for (size_t i = 0; i < n; ++i) {
            const bool holds = p.first[i] == k;
            const double at = (holds ? p.following[i] : p.top[i]) - (double)column[i];
            const double gap = std::fabs(at - bias);
            int64_t bits;
            std::memcpy(&bits, &gap, sizeof bits);
            const int64_t q = std::min(std::max((bits >> SHIFT) - BASE, (int64_t)0), HALF - 1);
            place[i] = at;
            bucket[i] = bits < INFINITE_BITS ? (int16_t)(holds ? HALF - 1 - q : HALF + q) : NOWHERE;
            const int32_t other = holds ? p.second[i] : p.first[i];
            const int32_t label = samples.labels[i];
            code[i] = 4 * other + (label == other ? 1 : label == k ? 2 : 0);
            if (bucket[i] != NOWHERE) ++ends[bucket[i]];
        }
        int64_t begin = 0;
        for (int64_t q = 0; q < N_BUCKETS; ++q) {
            const int64_t size = ends[q];
            ends[q] = begin;
            begin += size;
        }
    }

    // Order codes and weights by bucket; `ends`, where buckets begin, becomes where they end.
    void sort_by_bucket(const Samples<T> &samples) {
        if (samples.weights) amounts.resize(bucket.size());
        for (size_t i = 0; i < bucket.size(); ++i) {
            if (bucket[i] == NOWHERE) continue;
            const int64_t to = ends[bucket[i]]++;
            codes[to] = code[i];
            if (samples.weights) amounts[to] = samples.weights[i];
        }
    }

    // Count as if class k had lost every sample that it can lose.
    void give_back(const Samples<T> &samples, int32_t k, const Places &p, Tallies &tallies) {
        for (int64_t i = 0; i < samples.n; ++i)
            if (p.first[i] == k && bucket[i] != NOWHERE)
                hand_over(k, p.second[i], samples.labels[i], samples.weight(i), tallies);
    }

    void sum_up(int64_t start, int64_t stop) {
        if (amounts.empty()) {
            for (int64_t s = start; s < stop; ++s) sums[codes[s]] += 1.0;
            for (size_t j = 0; j < heads.size(); ++j)
                heads[j] = (int64_t)(sums[4 * j] + sums[4 * j + 1] + sums[4 * j + 2]);
            return;
        }
        for (int64_t s = start; s < stop; ++s) {
            sums[codes[s]] += amounts[s];
            heads[codes[s] >> 2] += 1;
        }
    }

    // The metric is at most this while class k takes the samples summed up, in whatever order.
    double bound(int32_t k, const Metric &metric, const Tallies &t) const {
        if (metric.mean != Mean::ARITHMETIC || metric.everything > 0.0) return INFINITE;
        double own = 0.0, better = 0.0, least = divisor;
        for (size_t j = 0; j < heads.size(); ++j) {
            if (!heads[j]) continue;
            own += sums[4 * j + 2];
            if (metric.part[j] == ALWAYS) {
                const double wrong = sums[4 * j] + sums[4 * j + 2];
                better += rated(j, metric, t.tp[j], t.predicted[j] - wrong, t.support[j]) - ratio[j];
            } else if (metric.part[j] == IF_PREDICTED && heads[j] == t.plain[j]) {
                least -= 1.0;
            }
        }
        if (metric.pooled) {
            double hits = 0.0, predicted = 0.0, support = 0.0;
            for (size_t j = 0; j < heads.size(); ++j)
                hits += t.tp[j], predicted += t.predicted[j], support += t.support[j];
            return metric.ratio(hits + own, predicted, support);
        }
        if (metric.part[k] == ALWAYS)
            better += rated((size_t)k, metric, t.tp[k] + own, t.predicted[k] + own, t.support[k]) - ratio[k];
        const double mean = (total + better) / (metric.weighted ? 1.0 : std::max(least, 1.0));
        return (mean - metric.chance) / (1.0 - metric.chance);
    }

    static double rated(size_t j, const Metric &metric, double tp, double p, double s) {
        return metric.share[j] * metric.ratio(tp, p, s);
    }

    void rate(size_t j, const Metric &metric, const Tallies &t) {
        total -= ratio[j];
        ratio[j] = rated(j, metric, t.tp[j], t.predicted[j], t.support[j]);
        total += ratio[j];
    }

    // Give class k the samples summed up, and forget the sums.
    void take(int32_t k, const Metric &metric, Tallies &t) {
        for (size_t j = 0; j < heads.size(); ++j) {
            if (!heads[j]) continue;
            const double right = sums[4 * j + 1], own = sums[4 * j + 2];
            const double weight = sums[4 * j] + right + own;
            t.tp[j] -= right;
            t.predicted[j] -= weight;
            t.plain[j] -= heads[j];
            if (metric.part[j] == ALWAYS) rate(j, metric, t);
            else if (metric.part[j] == IF_PREDICTED && t.plain[j] == 0) divisor -= 1.0;
            if (metric.part[k] == IF_PREDICTED && t.plain[k] == 0) divisor += 1.0;
            t.tp[k] += own;
            t.predicted[k] += weight;
            t.plain[k] += heads[j];
            sums[4 * j] = sums[4 * j + 1] = sums[4 * j + 2] = 0.0;
            heads[j] = 0;
        }
        if (metric.part[k] == ALWAYS) rate((size_t)k, metric, t);
    }

    // The first and the last bucket of the part that may be above `value`; −1 where there is none.
    std::pair<int64_t, int64_t> bound_parts(int32_t k, const Metric &metric, double value, Tallies &t) {
        const size_t n_classes = t.n_classes();
        ratio.assign(n_classes, 0.0), sums.assign(4 * n_classes, 0.0), heads.assign(n_classes, 0);
        total = divisor = 0.0;
        for (size_t j = 0; j < n_classes; ++j) {
            if (metric.part[j] == ALWAYS) rate(j, metric, t);
            divisor += metric.part[j] == ALWAYS || (metric.part[j] == IF_PREDICTED && t.plain[j] > 0);
        }
        Tallies kept = t;
        int64_t low = -1, high = -1, start = 0, q = 0;
        const int64_t at_bias = ends[HALF - 1], all = ends[N_BUCKETS - 1];
        while (start < all) {
            const int64_t away = start >= at_bias ? start - at_bias : std::max(at_bias - start - TOGETHER, (int64_t)0);
            const int64_t together =
                std::max({TOGETHER, (int64_t)n_classes / CLASSES_PER_SAMPLE, away / AWAY_PER_SAMPLE});
            const int64_t enough = std::min(start + together, all), first_bucket = q;
            while (ends[q] < enough) ++q;
            sum_up(start, ends[q]);
            if (bound(k, metric, t) + SLACK > value) {
                if (low < 0) low = first_bucket, kept = t;
                high = q;
            }
            take(k, metric, t);
            start = ends[q], ++q;
        }
        t = std::move(kept);
        return {low, high};
    }
};

// ------------------------------------------------------------------------- one round along lines

constexpr double OUTSIDE = 1.0;          // tuning/bias_search.py: OUTSIDE
constexpr int64_t CLASSES_AT_ONCE = 16;  // neighbouring scores of a sample share lines of the cache
constexpr int64_t ROWS_PER_PAUSE = 1 << 14;

// Count all over again: nothing adds up that was rounded before.
template <class T> void recount(const Samples<T> &samples, const int32_t *first, Tallies &t) {
    const size_t k = t.n_classes();
    std::vector<double> sums(2 * k, 0.0);
    std::vector<int64_t> counts(2 * k, 0);
    count_first(samples.labels, samples.weights, first, samples.n, (int64_t)k, sums.data(), counts.data());
    for (size_t j = 0; j < k; ++j) {
        t.tp[j] = samples.weights ? sums[j] : (double)counts[j];
        t.predicted[j] = samples.weights ? sums[k + j] : (double)counts[k + j];
        t.plain[j] = counts[k + j];
    }
}

// Move every class of `order` to the best place on its line, where distances are counted from
// `home`. Biases, places and tallies are kept up to date; `value` is the metric now. Returns the
// metric after each step. `pause` is called between passes over the samples, and may throw.
template <class T, class Pause>
std::vector<double> climb_lines(const Samples<T> &samples, const Metric &metric, double *biases, const Places &places,
                                Tallies &tallies, const double *home, const int64_t *order, int64_t n_order,
                                double value, Pause &pause) {
    const int64_t n = samples.n, n_classes = samples.n_classes;
    std::vector<T> turned((size_t)(std::min(CLASSES_AT_ONCE, n_classes) * n));
    std::vector<double> history;
    PromisingPart<T> part;
    ClassSwitches switches;
    int64_t block = -1;
    for (int64_t o = 0; o < n_order; ++o) {
        const int32_t k = (int32_t)order[o];
        if (k / CLASSES_AT_ONCE != block) {
            block = k / CLASSES_AT_ONCE;
            const int64_t low = block * CLASSES_AT_ONCE, high = std::min(low + CLASSES_AT_ONCE, n_classes);
            for (int64_t i = 0; i < n; ++i) {
                if (i % ROWS_PER_PAUSE == 0) pause();
                for (int64_t j = low; j < high; ++j) turned[(j - low) * n + i] = samples.rows[i * n_classes + j];
            }
        }
        const T *const column = turned.data() + (k % CLASSES_AT_ONCE) * n;
        const double before = biases[k];
        Tallies from = tallies;
        pause();
        part.find(samples, column, k, before, places, metric, value, from);
        if (part.chosen.empty()) continue;
        pause();
        switches.clear();
        double low = INFINITE, high = -INFINITE;
        for (const int64_t i : part.chosen) {
            switches.add(part.place[i], samples.labels[i], places.first[i] == k ? places.second[i] : places.first[i]);
            if (samples.weights) switches.weight.push_back(samples.weights[i]);
            low = std::min(low, part.place[i]), high = std::max(high, part.place[i]);
        }
        low = std::isfinite(part.before) ? part.before : low - OUTSIDE;
        high = std::isfinite(part.after) ? part.after : high + OUTSIDE;
        const Interval best = switches.best(metric, std::move(from), k, low, high, home[k]);
        if (!(best.value > value + EQUAL_VALUES)) continue;
        move_class(samples.rows, column, n, n_classes, biases, k, bias_within(best, home[k]), places);
        recount(samples, places.first, tallies);
        // Switches are placed to rounding: what counts is the prediction at the biases themselves.
        const double after = sweep_from(metric, tallies).value();
        if (after > value + EQUAL_VALUES) {
            value = after;
            history.push_back(value);
        } else {
            move_class(samples.rows, column, n, n_classes, biases, k, before, places);
            recount(samples, places.first, tallies);
        }
    }
    return history;
}

// --------------------------------------------------------------------------- rounds within a box

// The samples in doubt while every bias stays within `radius` of where it was. Two classes then
// move against each other by at most twice that: a sample whose first class leads by more keeps
// it, and a class that is further behind never wins it. What is left is sparse.
class BiasBox {
  public:
    template <class T>
    BiasBox(const Samples<T> &samples, const double *biases, const Places &places, double radius)
        : biases(biases, biases + samples.n_classes), centre(this->biases), radius(radius),
          weighted(samples.weights != nullptr) {
        const double reach = 2 * radius * (1 + 0x1p-20);  // leads are rounded
        ends.push_back(0);
        for (int64_t i = 0; i < samples.n; ++i) {
            const double level = places.top[i] - reach;
            if (!(places.following[i] >= level)) continue;
            const T *const row = samples.rows + i * samples.n_classes;
            for (int64_t k = 0; k < samples.n_classes; ++k)
                if ((double)row[k] + biases[k] >= level) classes.push_back((int32_t)k), scores.push_back((double)row[k]);
            ends.push_back((int64_t)classes.size());
            first.push_back(places.first[i]), labels.push_back(samples.labels[i]);
            if (weighted) weights.push_back(samples.weights[i]);
        }
        group_by_class((size_t)samples.n_classes);
    }

    std::vector<double> biases;

    // Go round the classes of `order` until none improves; returns the number of rounds. `pause` is
    // called between classes, and may throw.
    template <class Pause>
    int64_t climb(const Metric &metric, Tallies &tallies, const double *home, const int64_t *order, int64_t n_order,
                  double value, int64_t max_cycles, std::vector<double> &history, Pause &pause) {
        int64_t cycles = 0, still = 0;
        while (cycles < max_cycles && still < n_order) {
            ++cycles;
            for (int64_t o = 0; o < n_order && still < n_order; ++o) {
                const int32_t k = (int32_t)order[o];
                pause();
                ++still;
                Tallies from = tallies;
                const double low = centre[k] - radius, high = centre[k] + radius;
                collect(k, low, high, from);
                if (switches.place.empty()) continue;
                const Interval best = switches.best(metric, std::move(from), k, low, high, home[k]);
                if (!(best.value > value + EQUAL_VALUES)) continue;
                const double before = biases[k];
                move(k, bias_within(best, home[k]), tallies);
                const double after = sweep_from(metric, tallies).value();
                if (after > value + EQUAL_VALUES) {
                    value = after;
                    history.push_back(value);
                    still = 0;
                } else {
                    move(k, before, tallies);
                }
            }
        }
        return cycles;
    }

  private:
    std::vector<double> centre;
    double radius;
    bool weighted;
    // Of every sample in doubt: where its classes in question end, its first class and its label.
    std::vector<int64_t> ends;
    std::vector<int32_t> classes, first, labels;
    std::vector<double> scores, weights;
    // The samples in doubt of every class, and where they begin.
    std::vector<int64_t> starts, members;
    ClassSwitches switches;

    void group_by_class(size_t n_classes) {
        starts.assign(n_classes + 1, 0), members.resize(classes.size());
        for (const int32_t k : classes) ++starts[(size_t)k + 1];
        for (size_t k = 0; k < n_classes; ++k) starts[k + 1] += starts[k];
        std::vector<int64_t> filled = starts;
        for (size_t row = 0; row + 1 < ends.size(); ++row)
            for (int64_t e = ends[row]; e < ends[row + 1]; ++e) members[filled[classes[e]]++] = (int64_t)row;
    }

    struct Rival {
        int32_t best;  // the best class but for k
        double top;    // its score
        double own;    // the score of k without its bias
    };

    Rival rival(int64_t row, int32_t k) const {
        Rival found{-1, -INFINITE, 0.0};
        for (int64_t e = ends[row]; e < ends[row + 1]; ++e) {
            const int32_t j = classes[e];
            if (j == k) {
                found.own = scores[e];
            } else {
                const double score = scores[e] + biases[j];
                if (score > found.top) found.best = j, found.top = score;
            }
        }
        return found;
    }

    double weight(int64_t row) const { return weighted ? weights[row] : 1.0; }

    // The switches of class k between `low` and `high`; `tallies`, of now, become those at `low`.
    void collect(int32_t k, double low, double high, Tallies &tallies) {
        switches.clear();
        for (int64_t m = starts[k]; m < starts[k + 1]; ++m) {
            const int64_t row = members[m];
            const Rival other = rival(row, k);
            if (other.best < 0) continue;
            const double at = other.top - other.own;
            const bool wins = at <= low, holds = first[row] == k;
            if (wins && !holds) hand_over(other.best, k, labels[row], weight(row), tallies);
            else if (holds && !wins) hand_over(k, other.best, labels[row], weight(row), tallies);
            if (low < at && at <= high) {
                switches.add(at, labels[row], other.best);
                if (weighted) switches.weight.push_back(weights[row]);
            }
        }
    }

    void move(int32_t k, double bias, Tallies &tallies) {
        biases[k] = bias;
        for (int64_t m = starts[k]; m < starts[k + 1]; ++m) {
            const int64_t row = members[m];
            const Rival other = rival(row, k);
            const double score = other.own + bias;
            const bool wins = score > other.top || (score == other.top && k < other.best);
            const int32_t now = wins || other.best < 0 ? k : other.best;
            if (now != first[row]) {
                hand_over(first[row], now, labels[row], weight(row), tallies);
                first[row] = now;
            }
        }
    }
};

}  // namespace reprior
