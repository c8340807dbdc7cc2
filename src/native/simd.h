// Vectors of 64 bytes at every level: one, two or four registers of the instruction set.
//
// Every operation works lane by lane or reduces in one fixed order, so a kernel gives the same bits
// at every level. Included inside the namespace of one level (level.cpp). No standard templates are
// used in kernels: the linker would share their code between levels.

// A call passes vectors through memory, in parts: functions of vectors have to be inlined.
// A sanitizer checks every access of theirs, and would take too long to compile them so.
#if defined(__SANITIZE_ADDRESS__)
#define REPRIOR_INLINE inline
#else
#define REPRIOR_INLINE __attribute__((always_inline)) inline
#endif

#if defined(__AVX512F__)
constexpr int REGISTER_BYTES = 64;
#elif defined(__AVX2__)
constexpr int REGISTER_BYTES = 32;
#else
constexpr int REGISTER_BYTES = 16;
#endif
constexpr int VECTOR_BYTES = 64;
constexpr int PARTS = VECTOR_BYTES / REGISTER_BYTES;

template <class T> struct Register;
template <> struct Register<float> {
    typedef float Type __attribute__((vector_size(REGISTER_BYTES)));
    typedef float Unaligned __attribute__((vector_size(REGISTER_BYTES), aligned(sizeof(float)), may_alias));
};
template <> struct Register<double> {
    typedef double Type __attribute__((vector_size(REGISTER_BYTES)));
    typedef double Unaligned __attribute__((vector_size(REGISTER_BYTES), aligned(sizeof(double)), may_alias));
};
template <> struct Register<int32_t> {
    typedef int32_t Type __attribute__((vector_size(REGISTER_BYTES)));
    typedef int32_t Unaligned __attribute__((vector_size(REGISTER_BYTES), aligned(sizeof(int32_t)), may_alias));
};
template <> struct Register<int64_t> {
    typedef int64_t Type __attribute__((vector_size(REGISTER_BYTES)));
    typedef int64_t Unaligned __attribute__((vector_size(REGISTER_BYTES), aligned(sizeof(int64_t)), may_alias));
};

template <class T> struct IntegerOf;
template <> struct IntegerOf<float> { using Type = int32_t; };
template <> struct IntegerOf<double> { using Type = int64_t; };
template <> struct IntegerOf<int32_t> { using Type = int32_t; };
template <> struct IntegerOf<int64_t> { using Type = int64_t; };

// A vector of 64 bytes: 16 lanes of 4 bytes, or 8 of 8.
template <class T> struct Vec {
    static constexpr int lanes = VECTOR_BYTES / (int)sizeof(T);
    typename Register<T>::Type part[PARTS];
};

// A vector of integers whose lanes are 0 or −1.
template <class T> using Mask = Vec<typename IntegerOf<T>::Type>;

#define REPRIOR_LANEWISE(OP)                                                        \
    template <class T> REPRIOR_INLINE Vec<T> operator OP(Vec<T> a, Vec<T> b) {              \
        for (int i = 0; i < PARTS; ++i) a.part[i] = a.part[i] OP b.part[i];         \
        return a;                                                                   \
    }
REPRIOR_LANEWISE(+)
REPRIOR_LANEWISE(-)
REPRIOR_LANEWISE(*)
REPRIOR_LANEWISE(/)
REPRIOR_LANEWISE(&)
REPRIOR_LANEWISE(|)
#undef REPRIOR_LANEWISE

#define REPRIOR_COMPARE(OP)                                                         \
    template <class T> REPRIOR_INLINE Mask<T> operator OP(Vec<T> a, Vec<T> b) {             \
        Mask<T> m;                                                                  \
        for (int i = 0; i < PARTS; ++i) m.part[i] = a.part[i] OP b.part[i];         \
        return m;                                                                   \
    }
REPRIOR_COMPARE(<)
REPRIOR_COMPARE(>)
REPRIOR_COMPARE(==)
#undef REPRIOR_COMPARE

template <class T> REPRIOR_INLINE Vec<T> operator~(Vec<T> a) {
    for (int i = 0; i < PARTS; ++i) a.part[i] = ~a.part[i];
    return a;
}

template <class T> REPRIOR_INLINE Vec<T> load(const T *from) {
    using Unaligned = typename Register<T>::Unaligned;
    Vec<T> v;
    for (int i = 0; i < PARTS; ++i) v.part[i] = *(const Unaligned *)(from + i * (REGISTER_BYTES / sizeof(T)));
    return v;
}

template <class T> REPRIOR_INLINE void store(T *to, Vec<T> v) {
    using Unaligned = typename Register<T>::Unaligned;
    for (int i = 0; i < PARTS; ++i) *(Unaligned *)(to + i * (REGISTER_BYTES / sizeof(T))) = v.part[i];
}

template <class T> REPRIOR_INLINE Vec<T> fill(T x) {
    Vec<T> v;
    for (int i = 0; i < PARTS; ++i) v.part[i] = typename Register<T>::Type{} + x;
    return v;
}

// Where the mask is set a, else b.
template <class T> REPRIOR_INLINE Vec<T> select(Mask<T> mask, Vec<T> a, Vec<T> b) {
    for (int i = 0; i < PARTS; ++i) a.part[i] = mask.part[i] ? a.part[i] : b.part[i];
    return a;
}

// The larger of each pair; b where a is NaN.
template <class T> REPRIOR_INLINE Vec<T> larger(Vec<T> a, Vec<T> b) {
    for (int i = 0; i < PARTS; ++i) a.part[i] = a.part[i] > b.part[i] ? a.part[i] : b.part[i];
    return a;
}

// Lane i is set for i < n.
template <class T> REPRIOR_INLINE Mask<T> first_lanes(int n) {
    using I = typename IntegerOf<T>::Type;
    I iota[Vec<T>::lanes];
    for (int i = 0; i < Vec<T>::lanes; ++i) iota[i] = i;
    return load(iota) < fill<I>(n);
}

// The lower (0) or upper (1) half of a register.
template <class Half, class T, int upper, int n, class Whole> REPRIOR_INLINE Half part_of(Whole v) {
    constexpr int at = upper * n;
    if constexpr (n == 8) return __builtin_shufflevector(v, v, at, at + 1, at + 2, at + 3, at + 4, at + 5, at + 6, at + 7);
    else if constexpr (n == 4) return __builtin_shufflevector(v, v, at, at + 1, at + 2, at + 3);
    else return __builtin_shufflevector(v, v, at, at + 1);
}

// Combine the lanes of a vector, in one fixed order: halves first.
template <class T, class Combine> REPRIOR_INLINE T reduce(Vec<T> v, Combine combine) {
    typedef T Half __attribute__((vector_size(32)));
    typedef T Quarter __attribute__((vector_size(16)));
    Quarter b;
    if constexpr (REGISTER_BYTES == 16) {
        b = combine(combine(v.part[0], v.part[2 % PARTS]), combine(v.part[1 % PARTS], v.part[3 % PARTS]));
    } else {
        Half half;
        if constexpr (REGISTER_BYTES == 32) half = combine(v.part[0], v.part[1 % PARTS]);
        else half = combine(part_of<Half, T, 0, sizeof(Half) / sizeof(T)>(v.part[0]),
                            part_of<Half, T, 1, sizeof(Half) / sizeof(T)>(v.part[0]));
        b = combine(part_of<Quarter, T, 0, sizeof(Quarter) / sizeof(T)>(half),
                    part_of<Quarter, T, 1, sizeof(Quarter) / sizeof(T)>(half));
    }
    if constexpr (sizeof(T) == 4) {
        b = combine(b, __builtin_shufflevector(b, b, 2, 3, 2, 3));
        b = combine(b, __builtin_shufflevector(b, b, 1, 1, 1, 1));
    } else {
        b = combine(b, __builtin_shufflevector(b, b, 1, 1));
    }
    return b[0];
}

struct Larger { template <class V> V operator()(V a, V b) const { return a > b ? a : b; } };
struct Plus { template <class V> V operator()(V a, V b) const { return a + b; } };

// The largest lane; no lane may be NaN.
template <class T> REPRIOR_INLINE T largest(Vec<T> v) { return reduce(v, Larger()); }

// The sum of the lanes.
template <class T> REPRIOR_INLINE T sum(Vec<T> v) { return reduce(v, Plus()); }

// One bit per lane of a mask, lane 0 lowest.
template <class I> REPRIOR_INLINE uint32_t bits(Vec<I> m) {
    uint32_t found = 0;
    for (int i = 0; i < PARTS; ++i) {
        uint32_t some = 0;
        constexpr int lanes = REGISTER_BYTES / (int)sizeof(I);
#if defined(__AVX512F__)
        if constexpr (sizeof(I) == 4) some = _mm512_movepi32_mask((__m512i)m.part[i]);
        else some = _mm512_movepi64_mask((__m512i)m.part[i]);
#elif defined(__AVX2__)
        if constexpr (sizeof(I) == 4) some = (uint32_t)_mm256_movemask_ps((__m256)m.part[i]);
        else some = (uint32_t)_mm256_movemask_pd((__m256d)m.part[i]);
#elif defined(__SSE2__)
        if constexpr (sizeof(I) == 4) some = (uint32_t)_mm_movemask_ps((__m128)m.part[i]);
        else some = (uint32_t)_mm_movemask_pd((__m128d)m.part[i]);
#else
        for (int j = 0; j < lanes; ++j) some |= (uint32_t)(m.part[i][j] & 1) << j;
#endif
        found |= some << (i * lanes);
    }
    return found;
}

inline int lowest_bit(uint32_t b) { return __builtin_ctz(b); }
