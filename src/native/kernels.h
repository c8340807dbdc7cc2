// What the binding and the kernels of every level agree on: plain structs and one table.
#pragma once
#include <cstdint>

namespace reprior {

enum class ScoreType : int { f16, bf16, f32, f64 };

// Scores of n_outer × n_inner samples and n_classes classes; strides are in elements.
struct RowsView {
    const void *data;
    ScoreType type;
    int64_t n_outer, n_inner, n_classes;
    int64_t outer_stride, inner_stride, class_stride;
};

enum class ScoreKind : int { logits, probs, log_probs };

// What the scores of a row are, and how far from 1 their probabilities may sum.
struct RowRule {
    ScoreKind kind;
    double tolerance;
};

// Where the profile pass counts and writes: see profile.h.
struct ProfileTables {
    int64_t *counts;        // (5, K)
    double *sums;           // (5, K), or null without weights
    double *position;       // (capacity,)
    int32_t *label, *loser, *winner, *row;  // (capacity,); `row` is the index of the sample
    double *switch_weight;                  // (capacity,), or null
    int64_t capacity, used;
    int32_t *start, *origin;  // (N,): the predictions at the lower bound, and at 0
    int32_t current;          // the sample whose switches are written
};

// One modality of a fusion: see fusion.h.
struct Modality {
    RowsView rows;  // of the first pass
    int64_t n_passes, pass_stride;
    double tolerance;       // how far a row of probabilities may be from 1
    const double *factors;  // δ of every sample, or of as many that follow each other as share one; or null
    int64_t samples_per_factor;
};

enum class Rule : int { noisy_or, mean, product };
enum class Form : int { posterior, log, scores };

struct Fusion {
    const Modality *modalities;  // of one shape
    int64_t n_modalities;
    ScoreKind kind;
    Rule rule;
    bool flatten_first;    // δ·z + λ·w, else δ·(z + λ·w)
    const double *slopes;  // w (K,)
};

struct Kernels {
    const char *level;
    // Count samples from `first` on. Returns the next sample to count (the tables are full), the
    // number of samples (all are counted), or −1 − i if sample i cannot be used. Slopes (K,) are those
    // of all samples; with a direction they are its rows, or their differences to the scores.
    int64_t (*profile)(const RowsView &, const int64_t *labels, const double *weights, const double *slopes,
                       const RowsView *direction, bool to_scores, double low, double high, int64_t first,
                       ProfileTables &);
    // posterior.h: each returns where it stopped, −1 − i if sample i cannot be used, or INT64_MIN
    // where there is no memory.
    int64_t (*posterior)(const RowsView &, const RowRule &, const double *scale, const double *bias, bool log,
                         int64_t start, int64_t stop, const RowsView &out);
    int64_t (*decisions)(const RowsView &, const RowRule &, const double *scale, const double *bias, int64_t start,
                         int64_t stop, int64_t *classes);
    int64_t (*tilted_sums)(const RowsView &, const int64_t *labels, const double *weights, const double *scale,
                           const double *shift, const double *slopes, double *out);
    int64_t (*posterior_sums)(const RowsView &, const int64_t *labels, const double *weights, const double *scale,
                              const double *bias, double *out);
    // predictions.h: the same.
    int64_t (*row_totals)(const RowsView &, double tolerance, double *totals);
    int64_t (*largest_classes)(const RowsView &, double tolerance, int64_t *classes);
    int64_t (*add_rows)(const RowsView &, const double *weights, const int64_t *labels, double *sums);
    int64_t (*add_normalised)(const RowsView &, double tolerance, double *factors, double *sums);
    // fusion.h
    int64_t (*entropies)(const Modality &, ScoreKind, double *entropy, double *information);
    int64_t (*fused)(const Fusion &, const double *strengths, Form, const RowsView &out);
    int64_t (*fused_classes)(const Fusion &, const double *strengths, int64_t n_settings, int64_t *classes,
                             int64_t apart);
};

extern const Kernels kernels_baseline;
#ifdef REPRIOR_HAS_AVX
extern const Kernels kernels_avx2;
extern const Kernels kernels_avx512;
#endif

}  // namespace reprior
