// Reliability bins of rows of posteriors: scalar, and the same order of sums as the array code.
#pragma once
#include <cstdint>

namespace reprior {

// Which of the bins of equal width (b/B, (b+1)/B] holds a probability.
template <class T> inline int64_t bin_of(T value, const double *edges, int64_t bins) {
    const double scaled = (double)value * (double)bins;
    int64_t b = scaled >= (double)bins ? bins - 1 : scaled > 0 ? (int64_t)scaled : 0;
    // Off by one at most: an edge belongs to the bin below it, and the product may have rounded.
    if (b > 0 && (double)value <= edges[b]) --b;
    if (b < bins - 1 && (double)value > edges[b + 1]) ++b;
    return b;
}

// Add rows (n, K) with labels and weights to sums of confidence, hits and count: `top` (3, B) of
// the predicted class, `every` (3, K, B) of each class by itself.
template <class T>
void add_reliability(const T *rows, int64_t n, int64_t n_classes, const int64_t *labels, const double *weights,
                     const double *edges, int64_t bins, double *top, double *every) {
    const int64_t size = n_classes * bins;
    for (int64_t i = 0; i < n; ++i) {
        const T *p = rows + i * n_classes;
        const double w = weights[i];
        int64_t best = 0;
        for (int64_t k = 0; k < n_classes; ++k) {
            if (p[k] > p[best]) best = k;
            const int64_t cell = k * bins + bin_of(p[k], edges, bins);
            every[cell] += (double)p[k] * w;
            every[2 * size + cell] += w;
            if (k == labels[i]) every[size + cell] += w;
        }
        const int64_t b = bin_of(p[best], edges, bins);
        top[b] += w * (double)p[best];
        if (best == labels[i]) top[bins + b] += w;
        top[2 * bins + b] += w;
    }
}

}  // namespace reprior
