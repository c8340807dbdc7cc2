// Rows of scores in any layout, read in tiles of contiguous float32 or float64 rows.
//
// A view has samples (outer, inner) and K classes, each with a stride in elements. Contiguous
// float32 and float64 rows are used where they are; everything else (a class axis elsewhere,
// 16-bit types, samples left out) is copied to a tile that stays in the innermost cache.

inline float from_half(uint16_t h) {
    // Shift exponent and mantissa into place and rebias. A denormal is first given an exponent, whose
    // share 2^-14 is taken off again: no float32 on the way is denormal. A thread may have set a flag
    // that takes those for 0, as torch.set_flush_denormal does.
    const uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13;
    uint32_t word = magnitude + 0x38800000;
    float denormal;
    __builtin_memcpy(&denormal, &word, 4);
    denormal -= 0x1p-14f;
    word = magnitude + (magnitude < 0x0f800000 ? 0x38000000u : 0x70000000u);  // a number, or inf and NaN
    if (magnitude < 0x00800000) __builtin_memcpy(&word, &denormal, 4);
    word |= (uint32_t)(h & 0x8000) << 16;
    float result;
    __builtin_memcpy(&result, &word, 4);
    return result;
}

inline float from_bfloat(uint16_t h) {
    uint32_t word = (uint32_t)h << 16;
    float result;
    __builtin_memcpy(&result, &word, 4);
    return result;
}

struct AsIs { template <class T> T operator()(T x) const { return x; } };
struct Half { float operator()(uint16_t x) const { return from_half(x); } };
struct Bfloat { float operator()(uint16_t x) const { return from_bfloat(x); } };

// Copy n samples that follow each other at `stride` to contiguous rows.
template <class T, class S, class Convert>
inline void copy_rows(const S *from, int64_t stride, int64_t class_stride, int64_t n, int64_t n_classes,
                      T *tile, Convert convert) {
    if (class_stride == 1 || n == 1) {
        for (int64_t r = 0; r < n; ++r)
            for (int64_t k = 0; k < n_classes; ++k)
                tile[r * n_classes + k] = convert(from[r * stride + k * class_stride]);
        return;
    }
    // Classes far apart, samples near each other (maps): read along the samples.
    constexpr int64_t STRIP = 16;
    int64_t r = 0;
    for (; r + STRIP <= n; r += STRIP)
        for (int64_t k = 0; k < n_classes; ++k) {
            const S *line = from + r * stride + k * class_stride;
            T *to = tile + r * n_classes + k;
            for (int64_t s = 0; s < STRIP; ++s) to[s * n_classes] = convert(line[s * stride]);
        }
    for (; r < n; ++r)
        for (int64_t k = 0; k < n_classes; ++k)
            tile[r * n_classes + k] = convert(from[r * stride + k * class_stride]);
}

template <class T>
inline void copy_run(const RowsView &v, int64_t first, int64_t n, T *tile) {
    while (n > 0) {
        const int64_t outer = first / v.n_inner, inner = first % v.n_inner;
        const int64_t run = n < v.n_inner - inner ? n : v.n_inner - inner;
        const int64_t at = outer * v.outer_stride + inner * v.inner_stride;
        if (v.type == ScoreType::f64) {
            if constexpr (sizeof(T) == 8)
                copy_rows((const double *)v.data + at, v.inner_stride, v.class_stride, run, v.n_classes, tile, AsIs());
        } else if (v.type == ScoreType::f32)
            copy_rows((const float *)v.data + at, v.inner_stride, v.class_stride, run, v.n_classes, tile, AsIs());
        else if (v.type == ScoreType::f16)
            copy_rows((const uint16_t *)v.data + at, v.inner_stride, v.class_stride, run, v.n_classes, tile, Half());
        else
            copy_rows((const uint16_t *)v.data + at, v.inner_stride, v.class_stride, run, v.n_classes, tile, Bfloat());
        tile += run * v.n_classes;
        first += run;
        n -= run;
    }
}

inline bool is_contiguous(const RowsView &v) {
    const bool rows = v.class_stride == 1 && v.inner_stride == v.n_classes &&
                      (v.n_outer == 1 || v.outer_stride == v.n_inner * v.n_classes);
    return rows && (v.type == ScoreType::f32 || v.type == ScoreType::f64);
}

// Samples [first, first + n) as contiguous rows: in place where they are of type T, else in `tile`.
// T is float64 if the view is.
// Behind the last row there must be memory for a vector: the last samples of a view are copied.
template <class T>
inline const T *read_tile(const RowsView &v, int64_t first, int64_t n, T *tile) {
    const int64_t total = v.n_outer * v.n_inner;
    const int64_t spare = (Vec<T>::lanes + v.n_classes - 1) / v.n_classes;
    const bool same_type = (v.type == ScoreType::f64) == (sizeof(T) == 8);
    if (is_contiguous(v) && same_type && first + n + spare <= total) return (const T *)v.data + first * v.n_classes;
    copy_run(v, first, n, tile);
    return tile;
}
