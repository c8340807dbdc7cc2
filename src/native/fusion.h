// Entropies of posteriors, and posteriors of several modalities fused into one.
//
// Lanes are samples: a chunk holds the scores of as many samples as a vector has lanes, class after
// class, so that nothing is summed across lanes and no class is padded. Numbers are of type T: float64
// if a modality is, else float32. Sums over classes are float64.

constexpr int64_t FUSION_TILE = 1 << 12;  // scores of a modality that are read at a time

// ----------------------------------------------------------------------------------- logarithms

// log(x) of finite x ≥ 0, to about one unit in the last place, as in FreeBSD's logf; −inf of 0.
// That of float64 is in posterior.h.
REPRIOR_INLINE Vec<float> logarithm(Vec<float> x) {
    typedef uint32_t Words __attribute__((vector_size(REGISTER_BYTES)));
    constexpr uint32_t one = 0x3f800000, root_half = 0x3f3504f3, fraction = 0x007fffff;
    constexpr uint32_t magic = 0x4b400000;  // 1.5·2^23
    const Mask<float> none = x == fill(0.0f), denormal = x < fill(0x1p-126f);
    Vec<float> exponent, m;
    x = select<float>(denormal, x * fill(0x1p25f), x);
    for (int i = 0; i < PARTS; ++i) {
        const Words b = (Words)x.part[i] + (one - root_half);
        // 1.5·2^23 + the exponent, whose bias is that of 1.
        exponent.part[i] = (Register<float>::Type)((b >> 23) + (magic - (one >> 23)));
        m.part[i] = (Register<float>::Type)((b & fraction) + root_half);
    }
    exponent = exponent - fill(Exponential<float>::rounding) - select<float>(denormal, fill(25.0f), fill(0.0f));
    const Vec<float> f = m - fill(1.0f), s = f / (fill(2.0f) + f), half = fill(0.5f) * f * f;
    const Vec<float> z = s * s, w = z * z;
    const Vec<float> odd = z * (fill(0.66666662693f) + w * fill(0.28498786688f));
    const Vec<float> r = odd + w * (fill(0.40000972152f) + w * fill(0.24279078841f));
    const Vec<float> found =
        (s * (half + r) + exponent * fill(9.0580006145e-06f) - half + f) + exponent * fill(6.9313812256e-01f);
    return select<float>(none, fill(-__builtin_inff()), found);
}

// log(1 + x) of −1 ≤ x ≤ 1, exact for small x too.
template <class T> REPRIOR_INLINE Vec<T> logarithm_of_one_plus(Vec<T> x) {
    const Vec<T> whole = fill((T)1) + x, off = whole - fill((T)1);
    const Mask<T> small = off == fill((T)0);
    return select<T>(small, x, logarithm(whole) * (x / select<T>(small, fill((T)1), off)));
}

// ---------------------------------------------------------------------------------- wide numbers

// As many float64 as a vector of T has lanes.
template <class T> struct Wide;
template <> struct Wide<double> {
    Vec<double> v;
    static REPRIOR_INLINE Wide zero() { return {fill(0.0)}; }
    static REPRIOR_INLINE Wide of(Vec<double> x) { return {x}; }
    REPRIOR_INLINE void add(Vec<double> x) { v = v + x; }
    REPRIOR_INLINE void add(Wide x) { v = v + x.v; }
    REPRIOR_INLINE Vec<double> narrow() const { return v; }
    void put(double *to) const { store(to, v); }
    template <class F> REPRIOR_INLINE Wide map(F f) const { return {f(v)}; }
    template <class F> REPRIOR_INLINE Wide with(Wide o, F f) const { return {f(v, o.v)}; }
    bool is_one(double tolerance) const {
        const Vec<double> off = v - fill(1.0), most = fill(tolerance), least = fill(-tolerance);
        return bits(((off < most) | (off == most)) & ((off > least) | (off == least))) == 0xff;
    }
};
template <> struct Wide<float> {
    Vec<double> low, high;
    static REPRIOR_INLINE Wide zero() { return {fill(0.0), fill(0.0)}; }
    static REPRIOR_INLINE Wide of(Vec<float> x) {
        constexpr int n = REGISTER_BYTES / 8;
        typedef float Part __attribute__((vector_size(REGISTER_BYTES / 2)));
        Register<double>::Type found[2 * PARTS];
        for (int i = 0; i < PARTS; ++i) {
            found[2 * i] = __builtin_convertvector((part_of<Part, float, 0, n>(x.part[i])), Register<double>::Type);
            found[2 * i + 1] = __builtin_convertvector((part_of<Part, float, 1, n>(x.part[i])), Register<double>::Type);
        }
        Wide wide;
        for (int i = 0; i < PARTS; ++i) wide.low.part[i] = found[i], wide.high.part[i] = found[PARTS + i];
        return wide;
    }
    REPRIOR_INLINE void add(Vec<float> x) { add(of(x)); }
    REPRIOR_INLINE void add(Wide x) { low = low + x.low, high = high + x.high; }
    REPRIOR_INLINE Vec<float> narrow() const {
        float lanes[16];
        store_rounded(lanes, low), store_rounded(lanes + 8, high);
        return load(lanes);
    }
    void put(double *to) const { store(to, low), store(to + 8, high); }
    template <class F> REPRIOR_INLINE Wide map(F f) const { return {f(low), f(high)}; }
    template <class F> REPRIOR_INLINE Wide with(Wide o, F f) const { return {f(low, o.low), f(high, o.high)}; }
    bool is_one(double tolerance) const {
        return Wide<double>{low}.is_one(tolerance) && Wide<double>{high}.is_one(tolerance);
    }
};

struct LogWide { REPRIOR_INLINE Vec<double> operator()(Vec<double> x) const { return logarithm(x); } };
struct Quotient { REPRIOR_INLINE Vec<double> operator()(Vec<double> a, Vec<double> b) const { return a / b; } };
struct Difference { REPRIOR_INLINE Vec<double> operator()(Vec<double> a, Vec<double> b) const { return a - b; } };
struct Scaled {
    double by;
    REPRIOR_INLINE Vec<double> operator()(Vec<double> a) const { return a * fill(by); }
};
struct NotNegative { REPRIOR_INLINE Vec<double> operator()(Vec<double> a) const { return larger(a, fill(0.0)); } };

// --------------------------------------------------------------------------------- chunks in, out

// One axis of samples where that is enough.
inline RowsView joined(RowsView v) {
    if (v.n_inner == 1 || v.n_outer == 1 || v.outer_stride == v.n_inner * v.inner_stride) {
        if (v.n_inner == 1) v.inner_stride = v.outer_stride;
        v.n_inner *= v.n_outer, v.n_outer = 1;
    }
    return v;
}

// Call work(offset in elements, place in the tile, length) for samples [first, first + n):
// pieces that lie on one line of the view and in one chunk.
template <class T, class Work> inline void by_chunks(const RowsView &v, int64_t first, int64_t n, Work work) {
    constexpr int64_t lanes = Vec<T>::lanes;
    for (int64_t done = 0; done < n;) {
        const int64_t outer = (first + done) / v.n_inner, inner = (first + done) % v.n_inner;
        const int64_t lane = done % lanes;
        int64_t length = n - done < lanes - lane ? n - done : lanes - lane;
        if (length > v.n_inner - inner) length = v.n_inner - inner;
        work(outer * v.outer_stride + inner * v.inner_stride, done / lanes * lanes * v.n_classes + lane, length);
        done += length;
    }
}

template <class T, class S, class Convert>
inline void read_chunks(const RowsView &v, int64_t first, int64_t n, T *tile, Convert convert) {
    constexpr int64_t lanes = Vec<T>::lanes;
    const int64_t n_classes = v.n_classes, step = v.inner_stride, apart = v.class_stride;
    by_chunks<T>(v, first, n, [&](int64_t at, int64_t place, int64_t length) {
        const S *from = (const S *)v.data + at;
        T *to = tile + place;
        if (step == 1 && length == lanes) {
            for (int64_t k = 0; k < n_classes; ++k)
                for (int64_t s = 0; s < lanes; ++s) to[k * lanes + s] = convert(from[k * apart + s]);
        } else {
            for (int64_t s = 0; s < length; ++s)
                for (int64_t k = 0; k < n_classes; ++k) to[k * lanes + s] = convert(from[s * step + k * apart]);
        }
    });
    // Lanes beyond the last sample repeat it.
    if (n % lanes == 0) return;
    T *last = tile + n / lanes * lanes * n_classes;
    for (int64_t k = 0; k < n_classes; ++k)
        for (int64_t s = n % lanes; s < lanes; ++s) last[k * lanes + s] = last[k * lanes + n % lanes - 1];
}

template <class T> inline void read_scores(const RowsView &v, int64_t first, int64_t n, T *tile) {
    if constexpr (sizeof(T) == 8) {
        if (v.type == ScoreType::f64) return read_chunks<T, double>(v, first, n, tile, AsIs());
    }
    if (v.type == ScoreType::f32) return read_chunks<T, float>(v, first, n, tile, AsIs());
    if (v.type == ScoreType::f16) return read_chunks<T, uint16_t>(v, first, n, tile, Half());
    read_chunks<T, uint16_t>(v, first, n, tile, Bfloat());
}

template <class T, class S, class Convert>
inline void write_chunks(const RowsView &v, int64_t first, int64_t n, const T *tile, Convert convert) {
    constexpr int64_t lanes = Vec<T>::lanes;
    const int64_t n_classes = v.n_classes, step = v.inner_stride, apart = v.class_stride;
    by_chunks<T>(v, first, n, [&](int64_t at, int64_t place, int64_t length) {
        S *to = (S *)v.data + at;
        const T *from = tile + place;
        if (step == 1 && length == lanes) {
            for (int64_t k = 0; k < n_classes; ++k)
                for (int64_t s = 0; s < lanes; ++s) to[k * apart + s] = convert(from[k * lanes + s]);
        } else {
            for (int64_t s = 0; s < length; ++s)
                for (int64_t k = 0; k < n_classes; ++k) to[s * step + k * apart] = convert(from[k * lanes + s]);
        }
    });
}

template <class T> inline void write_scores(const RowsView &v, int64_t first, int64_t n, const T *tile) {
    if (v.type == ScoreType::f16) {
        if constexpr (sizeof(T) == 4) write_chunks<T, uint16_t>(v, first, n, tile, ToHalf());
    } else {
        write_chunks<T, T>(v, first, n, tile, AsIs());
    }
}

// --------------------------------------------------------------------------------- one modality

// The largest score of every lane; false if a lane has NaN, +inf, or no score above −inf.
template <class T> REPRIOR_INLINE bool chunk_peak(const T *z, int64_t n_classes, Vec<T> &peak) {
    constexpr int lanes = Vec<T>::lanes;
    const Vec<T> lowest = fill((T)-__builtin_inf()), highest = fill((T)__builtin_inf());
    Mask<T> well = first_lanes<T>(lanes);
    peak = lowest;
    for (int64_t k = 0; k < n_classes; ++k) {
        const Vec<T> score = load(z + k * lanes);
        well = well & (score < highest);
        peak = larger(score, peak);
    }
    return bits(well & (peak > lowest)) == bits(first_lanes<T>(lanes));
}

// Leave exp(z − peak) in mass, and return its sums.
template <class T> REPRIOR_INLINE Wide<T> chunk_mass(const T *z, Vec<T> peak, int64_t n_classes, T *mass) {
    constexpr int lanes = Vec<T>::lanes;
    Wide<T> total = Wide<T>::zero();
    for (int64_t k = 0; k < n_classes; ++k) {
        const Vec<T> m = exponential(load(z + k * lanes) - peak);
        store(mass + k * lanes, m);
        total.add(m);
    }
    return total;
}

// Turn scores of a kind to log-scores; false if a lane has none, or should sum to 1 and does not.
template <class T>
inline bool to_log_scores(T *z, int64_t n_classes, ScoreKind kind, double tolerance, Vec<T> &peak) {
    constexpr int lanes = Vec<T>::lanes;
    if (kind != ScoreKind::logits) {
        const Vec<T> zero = fill((T)0);
        Mask<T> negative = ~first_lanes<T>(lanes);
        Wide<T> total = Wide<T>::zero();
        for (int64_t k = 0; k < n_classes; ++k) {
            Vec<T> p = load(z + k * lanes);
            if (kind == ScoreKind::log_probs) {
                // The exponential takes numbers up to 0; NaN is found by chunk_peak.
                const Mask<T> above = p > zero;
                const Vec<T> inverse = exponential(select<T>(above, zero - p, zero));
                p = select<T>(above, fill((T)1) / inverse, exponential(p));
            }
            negative = negative | (p < zero);
            total.add(p);
            if (kind == ScoreKind::probs) store(z + k * lanes, logarithm(p));
        }
        if (bits(negative) || !total.is_one(tolerance)) return false;
    }
    return chunk_peak(z, n_classes, peak);
}

// log Σ exp(z) − Σ z·exp(z) / Σ exp(z), the entropy of every lane.
template <class T> REPRIOR_INLINE Wide<T> chunk_entropy(const T *z, Vec<T> peak, int64_t n_classes) {
    constexpr int lanes = Vec<T>::lanes;
    const Vec<T> zero = fill((T)0);
    Wide<T> total = Wide<T>::zero(), cross = Wide<T>::zero();
    for (int64_t k = 0; k < n_classes; ++k) {
        const Vec<T> shifted = load(z + k * lanes) - peak, mass = exponential(shifted);
        total.add(mass);
        cross.add(mass * select<T>(mass > zero, shifted, zero));
    }
    return total.map(LogWide()).with(cross.with(total, Quotient()), Difference()).map(NotNegative());
}

// Scores of one modality, read tile by tile as chunks of log-scores.
template <class T> struct ModalityReader {
    const Modality *modality;
    RowsView view;
    ScoreKind kind;
    T *tile;          // log-scores
    T *pass, *count;  // with passes: scores of one, and Σ exp(log-posterior − their maximum)

    static int64_t room(const Modality &m, int64_t size) { return (m.n_passes > 1 ? 3 : 1) * size; }

    void begin(const Modality &of, ScoreKind their_kind, int64_t size, T *memory) {
        modality = &of, view = joined(of.rows), kind = their_kind;
        tile = memory, pass = memory + size, count = memory + 2 * size;
    }

    // Read samples [first, first + n). Leave the entropy of the posterior, and its mutual information with
    // the pass, in `doubts` (2, tile samples) if not null. False if a sample has no posterior.
    bool read(int64_t first, int64_t n, int64_t stride, double *doubts) {
        constexpr int lanes = Vec<T>::lanes;
        const int64_t n_classes = view.n_classes, n_chunks = (n + lanes - 1) / lanes;
        if (modality->n_passes > 1) return read_passes(first, n, stride, doubts);
        read_scores(view, first, n, tile);
        for (int64_t c = 0; c < n_chunks; ++c) {
            T *z = tile + c * n_classes * lanes;
            Vec<T> peak;
            if (!to_log_scores(z, n_classes, kind, modality->tolerance, peak)) return false;
            if (!doubts) continue;
            chunk_entropy(z, peak, n_classes).put(doubts + c * lanes);
            Wide<T>::zero().put(doubts + stride + c * lanes);
        }
        return true;
    }

    // The posterior is the mean of the passes': its logarithm is kept as the largest log-posterior of a
    // class and the sum of exponentials of what the others are below it, so that nothing underflows.
    bool read_passes(int64_t first, int64_t n, int64_t stride, double *doubts) {
        constexpr int lanes = Vec<T>::lanes;
        const int64_t n_classes = view.n_classes, n_chunks = (n + lanes - 1) / lanes;
        const Vec<T> lowest = fill((T)-__builtin_inf()), zero = fill((T)0), one = fill((T)1);
        const int64_t size = n_chunks * n_classes * lanes, item = view.type == ScoreType::f64 ? 8 : view.type == ScoreType::f32 ? 4 : 2;
        for (int64_t i = 0; i < size; i += lanes) store(tile + i, lowest), store(count + i, zero);
        for (int64_t i = 0; doubts && i < n_chunks * lanes; ++i) doubts[stride + i] = 0.0;
        for (int64_t p = 0; p < modality->n_passes; ++p) {
            RowsView one_pass = view;
            one_pass.data = (const char *)view.data + p * modality->pass_stride * item;
            read_scores(one_pass, first, n, pass);
            for (int64_t c = 0; c < n_chunks; ++c) {
                T *z = pass + c * n_classes * lanes, *top = tile + c * n_classes * lanes, *s = count + c * n_classes * lanes;
                Vec<T> peak;
                if (!to_log_scores(z, n_classes, kind, modality->tolerance, peak)) return false;
                if (doubts) {
                    double *sum = doubts + stride + c * lanes, own[lanes];
                    chunk_entropy(z, peak, n_classes).put(own);
                    for (int l = 0; l < lanes; ++l) sum[l] += own[l];
                }
                Wide<T> total = Wide<T>::zero();
                for (int64_t k = 0; k < n_classes; ++k) total.add(exponential(load(z + k * lanes) - peak));
                const Vec<T> off = logarithm(total.narrow());
                for (int64_t k = 0; k < n_classes; ++k) {
                    const Vec<T> score = (load(z + k * lanes) - peak) - off, largest_yet = load(top + k * lanes);
                    const Mask<T> above = score > largest_yet, gone = score == lowest;
                    const Vec<T> less = exponential(select<T>(above, largest_yet - score, score - largest_yet));
                    const Vec<T> sum = load(s + k * lanes);
                    const Vec<T> next = select<T>(above, sum * less + one, sum + less);
                    store(s + k * lanes, select<T>(gone, sum, next));
                    store(top + k * lanes, larger(score, largest_yet));
                }
            }
        }
        const Vec<T> share = fill((T)(1.0 / (double)modality->n_passes));
        for (int64_t i = 0; i < size; i += lanes) {
            const Vec<T> top = load(tile + i);
            store(tile + i, select<T>(top > lowest, top + logarithm(load(count + i) * share), lowest));
        }
        if (!doubts) return true;
        for (int64_t c = 0; c < n_chunks; ++c) {
            const T *z = tile + c * n_classes * lanes;
            double *whole = doubts + c * lanes, *information = doubts + stride + c * lanes;
            Vec<T> peak;
            if (!chunk_peak(z, n_classes, peak)) return false;
            chunk_entropy(z, peak, n_classes).put(whole);
            for (int l = 0; l < lanes; ++l) {
                const double more = whole[l] - information[l] / (double)modality->n_passes;
                information[l] = more > 0 ? more : 0.0;  // not below 0, but for rounding
            }
        }
        return true;
    }
};

// Samples of a tile: whole chunks.
template <class T> inline int64_t tile_samples(int64_t n_classes) {
    const int64_t n_chunks = FUSION_TILE / (n_classes * Vec<T>::lanes);
    return (n_chunks > 0 ? n_chunks : 1) * Vec<T>::lanes;
}

template <class T> int64_t entropies_of(const Modality &modality, ScoreKind kind, double *entropy, double *information) {
    const int64_t n = modality.rows.n_outer * modality.rows.n_inner, n_classes = modality.rows.n_classes;
    const int64_t step = tile_samples<T>(n_classes), size = step * n_classes;
    const int64_t bytes = 2 * step * (int64_t)sizeof(double) + ModalityReader<T>::room(modality, size) * (int64_t)sizeof(T);
    double *doubts = (double *)malloc((size_t)bytes);
    if (!doubts) return INT64_MIN;
    ModalityReader<T> reader;
    reader.begin(modality, kind, size, (T *)(doubts + 2 * step));
    bool good = true;
    for (int64_t first = 0; good && first < n; first += step) {
        const int64_t some = n - first < step ? n - first : step;
        good = reader.read(first, some, step, doubts);
        if (!good) break;
        __builtin_memcpy(entropy + first, doubts, (size_t)some * sizeof(double));
        if (information) __builtin_memcpy(information + first, doubts + step, (size_t)some * sizeof(double));
    }
    free(doubts);
    return good ? -1 : 0;
}

// Write the entropy of every sample's posterior, in nats, and its mutual information with the pass if that is not
// null. Returns −1, 0 if a sample has no posterior, or INT64_MIN where there is no memory.
int64_t entropies(const Modality &modality, ScoreKind kind, double *entropy, double *information) {
    if (modality.rows.type == ScoreType::f64) return entropies_of<double>(modality, kind, entropy, information);
    return entropies_of<float>(modality, kind, entropy, information);
}

// ------------------------------------------------------------------------------------------ fusion

// All modalities of a tile, fused at one setting of the strengths or at several.
template <class T> struct Fuser {
    static constexpr int lanes = Vec<T>::lanes;
    const Fusion &fusion;
    int64_t n_classes, n_modalities, n, step;
    ModalityReader<T> *readers;
    T *factors;  // δ (modalities, tile samples)
    T *shifts;   // λ·w (settings, modalities, K)
    T *own;      // posteriors of a chunk, or what the product needs of them (modalities, K, lanes)
    T *fused;    // (K, lanes)
    T *out;      // a tile

    Fuser(const Fusion &f, const double *strengths, int64_t n_settings) : fusion(f) {
        const RowsView &rows = f.modalities[0].rows;
        n_classes = rows.n_classes, n_modalities = f.n_modalities, n = rows.n_outer * rows.n_inner;
        step = tile_samples<T>(n_classes);
        const int64_t size = step * n_classes, chunk = n_classes * lanes, shift = n_modalities * n_classes;
        int64_t room = n_modalities * (step + chunk) + n_settings * shift + chunk + size;
        for (int64_t m = 0; m < n_modalities; ++m) room += ModalityReader<T>::room(f.modalities[m], size);
        const int64_t heads = n_modalities * (int64_t)sizeof(ModalityReader<T>);
        readers = (ModalityReader<T> *)malloc((size_t)(heads + room * (int64_t)sizeof(T)));
        if (!readers) return;
        T *at = (T *)(readers + n_modalities);
        factors = at, at += n_modalities * step;
        shifts = at, at += n_settings * shift;
        own = at, at += n_modalities * chunk;
        fused = at, at += chunk;
        out = at, at += size;
        for (int64_t m = 0; m < n_modalities; ++m) {
            readers[m].begin(f.modalities[m], f.kind, size, at);
            at += ModalityReader<T>::room(f.modalities[m], size);
        }
        for (int64_t i = 0; i < n_settings * n_modalities; ++i)  // a strength of 0 rules no class out
            for (int64_t k = 0; k < n_classes; ++k)
                shifts[i * n_classes + k] = strengths[i] == 0.0 ? (T)0 : (T)(strengths[i] * f.slopes[k]);
    }
    ~Fuser() { free(readers); }
    Fuser(const Fuser &) = delete;

    // Read samples [first, first + some). Returns −1, or the modality that has no posterior.
    int64_t read(int64_t first, int64_t some) {
        for (int64_t m = 0; m < n_modalities; ++m) {
            const Modality &modality = fusion.modalities[m];
            if (!readers[m].read(first, some, step, nullptr)) return m;
            if (!modality.factors) continue;
            T *to = factors + m * step;
            const int64_t shared = modality.samples_per_factor;
            for (int64_t i = 0; i < some; ++i) to[i] = (T)modality.factors[(first + i) / shared];
            for (int64_t i = some; i % lanes; ++i) to[i] = (T)1;
        }
        return -1;
    }

    // Leave in `own` what fusing needs of modality m in chunk c; false if a sample has no posterior.
    bool one(int64_t m, int64_t c, const T *shift, Form form) {
        const T *z = readers[m].tile + c * n_classes * lanes;
        T *to = own + m * n_classes * lanes;
        const bool flattens = fusion.modalities[m].factors != nullptr;
        const Vec<T> factor = flattens ? load(factors + m * step + c * lanes) : fill((T)1);
        if (!flattens)
            for (int64_t k = 0; k < n_classes; ++k) store(to + k * lanes, load(z + k * lanes) + fill(shift[k]));
        else if (fusion.flatten_first)
            for (int64_t k = 0; k < n_classes; ++k) store(to + k * lanes, load(z + k * lanes) * factor + fill(shift[k]));
        else
            for (int64_t k = 0; k < n_classes; ++k) store(to + k * lanes, (load(z + k * lanes) + fill(shift[k])) * factor);
        Vec<T> peak;
        if (!chunk_peak(to, n_classes, peak)) return false;
        if (fusion.rule != Rule::product) normalise(to, peak, form, to);
        return true;
    }

    // Write the (log-)posterior of scores z, which may be where they are.
    void normalise(const T *z, Vec<T> peak, Form form, T *to) {
        if (form == Form::log) {
            Wide<T> total = Wide<T>::zero();
            for (int64_t k = 0; k < n_classes; ++k) total.add(exponential(load(z + k * lanes) - peak));
            const Vec<T> off = logarithm(total.narrow());
            for (int64_t k = 0; k < n_classes; ++k) store(to + k * lanes, (load(z + k * lanes) - peak) - off);
        } else {
            const Vec<T> total = chunk_mass(z, peak, n_classes, to).narrow();
            for (int64_t k = 0; k < n_classes; ++k) store(to + k * lanes, load(to + k * lanes) / total);
        }
    }

    // Fuse what `own` holds. Returns −1, or the number of modalities if they leave no class possible.
    int64_t fuse(Form form, T *to) {
        const int64_t chunk = n_classes * lanes;
        const bool product = fusion.rule == Rule::product, noisy_or = fusion.rule == Rule::noisy_or;
        if (n_modalities == 1 && !product) {
            __builtin_memcpy(to, own, (size_t)chunk * sizeof(T));
            return -1;
        }
        Wide<T> total = Wide<T>::zero();
        const Vec<T> zero = fill((T)0), lowest = fill((T)-__builtin_inf());
        for (int64_t i = 0; i < chunk; i += lanes) {
            Vec<T> f = load(own + i);
            for (int64_t m = 1; m < n_modalities; ++m) {
                Vec<T> p = load(own + m * chunk + i);
                if (product) {
                    f = f + p;
                } else if (form == Form::log) {
                    if (noisy_or) {
                        const Vec<T> q = exponential(select<T>(f < zero, f, zero));
                        p = p + logarithm_of_one_plus(zero - q);
                    }
                    const Vec<T> top = larger(f, p), least = select<T>(f > p, p, f);
                    const Vec<T> both = top + logarithm_of_one_plus(exponential(least - top));
                    f = select<T>(top > lowest, both, lowest);
                } else {
                    // 1 − (1 − q)(1 − p) = q + p − q·p: as exact as p and q are, however small.
                    f = noisy_or ? f + p - f * p : f + p;
                }
            }
            store(fused + i, f);
            total.add(f);
        }
        if (product || form == Form::log) {
            Vec<T> peak;
            if (!chunk_peak(fused, n_classes, peak)) return n_modalities;
            if (form == Form::scores) __builtin_memcpy(to, fused, (size_t)chunk * sizeof(T));
            else normalise(fused, peak, form, to);
        } else {
            const Vec<T> whole = total.narrow();
            for (int64_t i = 0; i < chunk; i += lanes) store(to + i, load(fused + i) / whole);
        }
        return -1;
    }

    int64_t write(Form form, const RowsView &given) {
        const RowsView to = joined(given);
        for (int64_t first = 0; first < n; first += step) {
            const int64_t some = n - first < step ? n - first : step;
            int64_t bad = read(first, some);
            for (int64_t c = 0; bad < 0 && c * lanes < some; ++c) {
                for (int64_t m = 0; bad < 0 && m < n_modalities; ++m)
                    if (!one(m, c, shifts + m * n_classes, form)) bad = m;
                if (bad < 0) bad = fuse(form, out + c * n_classes * lanes);
            }
            if (bad >= 0) return bad;
            write_scores(to, first, some, out);
        }
        return -1;
    }

    int64_t decide(const double *strengths, int64_t n_settings, bool half, int64_t *classes, int64_t apart) {
        for (int64_t first = 0; first < n; first += step) {
            const int64_t some = n - first < step ? n - first : step;
            int64_t bad = read(first, some);
            for (int64_t c = 0; bad < 0 && c * lanes < some; ++c) {
                const int64_t present = some - c * lanes < lanes ? some - c * lanes : lanes;
                for (int64_t s = 0; bad < 0 && s < n_settings; ++s) {
                    const double *now = strengths + s * n_modalities;
                    for (int64_t m = 0; bad < 0 && m < n_modalities; ++m) {
                        if (s > 0 && now[m] == now[m - n_modalities]) continue;  // as it was at the last setting
                        if (!one(m, c, shifts + (s * n_modalities + m) * n_classes, Form::posterior)) bad = m;
                    }
                    if (bad < 0) bad = fuse(Form::posterior, out);
                    if (bad < 0) first_largest(half, present, classes + s * apart + first + c * lanes);
                }
            }
            if (bad >= 0) return bad;
        }
        return -1;
    }

    // The first class of the largest posterior, as it is rounded.
    void first_largest(bool half, int64_t present, int64_t *classes) {
        using I = typename IntegerOf<T>::Type;
        Vec<T> peak = load(out);
        for (int64_t k = 1; k < n_classes; ++k) peak = larger(load(out + k * lanes), peak);
        if constexpr (sizeof(T) == 4) {
            if (half) {
                T least[lanes];
                store(least, peak);
                for (int l = 0; l < lanes; ++l) least[l] = least_of_half(least[l]);
                peak = load(least);
            }
        }
        Vec<I> found = fill((I)0);
        for (int64_t k = n_classes - 1; k >= 0; --k)
            found = select<I>(load(out + k * lanes) < peak, found, fill((I)k));
        I index[lanes];
        store(index, found);
        for (int64_t l = 0; l < present; ++l) classes[l] = index[l];
    }

    // The smallest float32 from 0 on that rounds to the same float16 as p does.
    static float least_of_half(float p) {
        const uint16_t rounded = to_half(p);
        if (rounded == 0) return 0.0f;
        float middle = 0.5f * (from_half(rounded) + from_half((uint16_t)(rounded - 1)));
        uint32_t word;
        __builtin_memcpy(&word, &middle, 4);
        word += rounded & 1;  // ties go to the even one
        __builtin_memcpy(&middle, &word, 4);
        return middle;
    }
};

inline bool any_wide(const Fusion &fusion) {
    bool wide = false;
    for (int64_t m = 0; m < fusion.n_modalities; ++m) wide |= fusion.modalities[m].rows.type == ScoreType::f64;
    return wide;
}

template <class T> int64_t fused_of(const Fusion &fusion, const double *strengths, Form form, const RowsView &out) {
    Fuser<T> fuser(fusion, strengths, 1);
    return fuser.readers ? fuser.write(form, out) : INT64_MIN;
}

// Write the fused posterior of every sample, its logarithm, or (of the product) what its softmax is taken of.
// Returns −1; the modality in which a sample has no posterior, or their number if all together leave none; or
// INT64_MIN where there is no memory.
int64_t fused(const Fusion &fusion, const double *strengths, Form form, const RowsView &out) {
    return any_wide(fusion) ? fused_of<double>(fusion, strengths, form, out) : fused_of<float>(fusion, strengths, form, out);
}

template <class T>
int64_t fused_classes_of(const Fusion &fusion, const double *strengths, int64_t n_settings, bool half, int64_t *classes,
                         int64_t apart) {
    Fuser<T> fuser(fusion, strengths, n_settings);
    return fuser.readers ? fuser.decide(strengths, n_settings, half, classes, apart) : INT64_MIN;
}

// Write the first class of the largest posterior at every setting of the strengths, (settings, samples), where
// settings are `apart` numbers from each other. The posterior is rounded to the widest type of the scores before.
// Returns as `fused` does.
int64_t fused_classes(const Fusion &fusion, const double *strengths, int64_t n_settings, int64_t *classes,
                      int64_t apart) {
    bool half = true;
    for (int64_t m = 0; m < fusion.n_modalities; ++m) half &= fusion.modalities[m].rows.type == ScoreType::f16;
    if (any_wide(fusion)) return fused_classes_of<double>(fusion, strengths, n_settings, half, classes, apart);
    return fused_classes_of<float>(fusion, strengths, n_settings, half, classes, apart);
}
