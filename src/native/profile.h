// The profile pass: winners at λ = 0 and at both bounds, and every switch in between.
//
// A sample's score for class k is a line in the strength, s_k(λ) = z_k + λ·w_k. Each row is read
// for its largest score and its winner at a bound, in the scores' own precision. Lines that come
// within rounding of each other are compared again in float64, so the result is that of float64
// arithmetic: the bits of the array code. Rows whose winners at the bounds differ are walked: every
// class that wins in between lies above the two lines where those cross.
//
// Slopes are those of all rows (SharedLines), or each row has its own (RowLines): as an array of the
// scores' shape, or as the difference to other scores, to which the lines lead at λ = 1.

constexpr double AFTER_ZERO = 5e-324;  // the first strength after λ = 0
constexpr double FLOOR = 1e-30;        // below float32's normal numbers rounding is absolute
constexpr int64_t TILE_SCORES = 1 << 13;
constexpr int BLOCK_VECTORS = 16;
constexpr int64_t PREFETCH_BYTES = 1 << 14;  // memory is asked for so far ahead of its use

template <class T> constexpr double rounding() { return sizeof(T) == 4 ? 2.0 * 1.1920928955078125e-07 : 0.0; }

// λ·w of all classes, in the scores' precision (padded to whole vectors) and in float64. In
// float32 a line is off by at most u·(|s| + 3·|λ·w|), u = 2⁻²⁴; row_ends allows 6·u.
template <class T> struct Shift {
    T *shift;
    double *exact;
    T absolute;

    void set(double strength, const double *slope, int64_t n_classes) {
        double most = 0.0;
        for (int64_t k = 0; k < n_classes; ++k) {
            const double x = strength * slope[k];
            exact[k] = x;
            shift[k] = (T)x;
            const double size = x < 0 ? -x : x;
            most = size > most && size < __builtin_inf() ? size : most;
        }
        absolute = (T)(most + FLOOR);
    }
};

// The lines of a row at one strength, with slopes that all rows share.
template <class T> struct SharedLines {
    static constexpr bool own = false;
    const Shift<T> &shift;
    const double *slopes;

    REPRIOR_INLINE Vec<T> at(Vec<T> z, int64_t k, Mask<T>) { return z + load(shift.shift + k); }
    bool well() const { return true; }
    double slope(const T *, int64_t k) const { return slopes[k]; }
    double exact(const T *row, int64_t k) const { return (double)row[k] + shift.exact[k]; }
    T absolute() const { return shift.absolute; }
};

enum class Slopes : int { shared, own, to_scores };

// The slope of class k in a row of its own slopes, or of scores at λ = 1. A class that the scores
// rule out stays out.
template <class T, Slopes mode> inline double slope_of(const T *row, const T *along, int64_t k) {
    if constexpr (mode == Slopes::own) return (double)along[k];
    else return row[k] > -(T)__builtin_inf() ? (double)along[k] - (double)row[k] : 0.0;
}

// The same with slopes of the row's own. In float32 a line is off by at most u·(|s| + 3·|λ·w|), as
// above.
template <class T, Slopes mode> struct RowLines {
    static constexpr bool own = true;
    const T *along;
    double strength;
    T banned;  // a value that no class may have; NaN if all may be
    Vec<T> steepest = fill<T>(0);
    Mask<T> good = first_lanes<T>(Vec<T>::lanes);

    REPRIOR_INLINE Vec<T> at(Vec<T> z, int64_t k, Mask<T> real) {
        const Vec<T> zero = fill<T>(0), infinity = fill((T)__builtin_inf());
        Vec<T> w = select<T>(real, load(along + k), zero);
        good = good & (w < infinity) & ~(w == fill(banned));
        if constexpr (mode == Slopes::to_scores) w = select<T>(z > zero - infinity, w - z, zero);
        const Vec<T> size = larger(w, zero - w);
        steepest = larger(select<T>(size < infinity, size, zero), steepest);
        return z + fill((T)strength) * w;
    }
    bool well() const { return bits(good) == (1u << Vec<T>::lanes) - 1; }
    double slope(const T *row, int64_t k) const { return slope_of<T, mode>(row, along, k); }
    double exact(const T *row, int64_t k) const { return (double)row[k] + strength * slope(row, k); }
    T absolute() const { return (T)((strength < 0 ? -strength : strength) * (double)largest(steepest) + FLOOR); }
};

// Scratch of one call.
template <class T> struct ProfileScratch {
    T *tile, *along, *block_top;
    double *slope;
    int32_t *origin, *start, *end, *found, *moving;
    Shift<T> at_low, at_high, at_one;
    void *memory;

    bool allocate(int64_t rows, int64_t n_classes) {
        const int64_t lanes = Vec<T>::lanes;
        const int64_t width = (n_classes + lanes) / lanes * lanes + lanes;
        const int64_t blocks = n_classes / (lanes * BLOCK_VECTORS) + 2;
        const int64_t n_t = 2 * (rows * n_classes + lanes) + blocks + 3 * width;
        const int64_t n_i = 4 * rows + n_classes + 1;
        const size_t bytes = n_t * sizeof(T) + 4 * n_classes * sizeof(double) + n_i * sizeof(int32_t) + 256;
        memory = calloc(bytes, 1);
        if (!memory) return false;
        double *d = (double *)memory;
        at_low.exact = d, at_high.exact = d + n_classes, at_one.exact = d + 2 * n_classes;
        slope = d + 3 * n_classes;
        T *t = (T *)(d + 4 * n_classes);
        tile = t, t += rows * n_classes + lanes;
        along = t, t += rows * n_classes + lanes;
        block_top = t, t += blocks;
        at_low.shift = t, t += width;
        at_high.shift = t, t += width;
        at_one.shift = t, t += width;
        int32_t *i = (int32_t *)t;
        origin = i, start = i + rows, end = i + 2 * rows, moving = i + 3 * rows, found = i + 4 * rows;
        return true;
    }
};

// Whether k wins a tie: larger slope, then larger score; the lower index is met first.
template <class T> inline bool beats(const T *row, const double *slope, int64_t k, int64_t best) {
    return slope[k] != slope[best] ? slope[k] > slope[best] : row[k] > row[best];
}

// The winner among listed classes, in float64.
template <class T, class Lines>
inline int32_t settle(const T *row, const Lines &lines, const int32_t *found, int64_t n) {
    int32_t best = found[0];
    double top = lines.exact(row, best);
    for (int64_t j = 1; j < n; ++j) {
        const int32_t k = found[j];
        const double s = lines.exact(row, k);
        if (s < top) continue;
        const double w = lines.slope(row, k), best_w = lines.slope(row, best);
        if (s > top || w > best_w || (w == best_w && row[k] > row[best])) best = k, top = s;
    }
    return best;
}

// The first of the largest scores, and the winner at a shift. False if the row has NaN, +inf, or no
// class that can win.
template <class T, class Lines>
inline bool row_ends(const T *row, int64_t n_classes, Lines lines, ProfileScratch<T> &scratch, int32_t &origin,
                     int32_t &winner) {
    constexpr int lanes = Vec<T>::lanes;
    constexpr T relative = (T)(1.5 * rounding<T>());
    const T infinity = (T)__builtin_inf();
    int64_t n_near = 0;
    int32_t *near = scratch.found;
    if (n_classes <= lanes) {
        const Mask<T> real = first_lanes<T>((int)n_classes);
        const Vec<T> z = select<T>(real, load(row), fill<T>(-infinity));
        const Vec<T> line = lines.at(z, 0, real);
        const T peak = largest(select<T>(z < fill(infinity), z, fill(infinity)));
        const T top = largest(line);
        const T level = top - relative * ((top < 0 ? -top : top) + lines.absolute());
        uint32_t b = bits(~(line < fill(level)) & real);
        const uint32_t first = bits(z == fill(peak));
        if (!(peak > -infinity && peak < infinity && lines.well() && top > -infinity)) return false;
        origin = lowest_bit(first);
        winner = lowest_bit(b);
        if (__builtin_expect(!(b & (b - 1)), 1)) return true;
        for (; b; b &= b - 1) near[n_near++] = lowest_bit(b);
        winner = settle(row, lines, near, n_near);
        return true;
    }
    const Mask<T> all = first_lanes<T>(lanes);
    constexpr int64_t block = (int64_t)lanes * BLOCK_VECTORS;
    const int64_t n_blocks = (n_classes + block - 1) / block;
    T peak = -infinity, top = -infinity;
    int64_t peak_block = 0;
    Mask<T> well = first_lanes<T>(lanes);
    for (int64_t b = 0; b < n_blocks; ++b) {
        const int64_t stop = (b + 1) * block < n_classes ? (b + 1) * block : n_classes;
        Vec<T> highest = fill<T>(-infinity), raised = fill<T>(-infinity);
        for (int64_t k = b * block; k < stop; k += lanes) {
            const int64_t at_k = k + lanes <= n_classes ? k : n_classes - lanes;
            const Vec<T> z = load(row + at_k), line = lines.at(z, at_k, all);
            highest = larger(z, highest);
            raised = larger(line, raised);
            well = well & (z < fill(infinity));
        }
        const T block_peak = largest(highest), block_top = largest(raised);
        scratch.block_top[b] = block_top;
        if (block_peak > peak) peak = block_peak, peak_block = b;
        top = block_top > top ? block_top : top;
    }
    if (bits(well) != (1u << lanes) - 1 || !lines.well() || !(peak > -infinity && top > -infinity)) return false;
    origin = -1;
    for (int64_t k = peak_block * block; k < n_classes; k += lanes) {
        const int64_t at_k = k + lanes <= n_classes ? k : n_classes - lanes;
        const uint32_t b = bits(load(row + at_k) == fill(peak));
        if (b) {
            origin = (int32_t)(at_k + lowest_bit(b));
            break;
        }
    }
    if (origin < 0) return false;  // another thread has written to the scores
    const T level = top - relative * ((top < 0 ? -top : top) + lines.absolute());
    for (int64_t b = 0; b < n_blocks; ++b) {
        if (scratch.block_top[b] < level) continue;
        const int64_t stop = (b + 1) * block < n_classes ? (b + 1) * block : n_classes;
        for (int64_t k = b * block; k < stop; k += lanes) {
            const int64_t at_k = k + lanes <= n_classes ? k : n_classes - lanes;
            uint32_t some = bits(~(lines.at(load(row + at_k), at_k, all) < fill(level)));
            some &= ~((1u << (k - at_k)) - 1);  // lanes that the vector before has seen
            for (; some; some &= some - 1) near[n_near++] = (int32_t)(at_k + lowest_bit(some));
        }
    }
    if (!n_near) return false;  // another thread, as above
    winner = n_near == 1 ? near[0] : settle(row, lines, near, n_near);
    return true;
}

// List the classes above lines a and b at strength x, of slopes in between; `level` is the lower
// of the two there.
template <class T>
inline int64_t candidates(const T *row, int64_t n_classes, const double *slope, const Shift<T> &at_one,
                          int32_t a, int32_t b, double x, double level, int32_t *found) {
    constexpr int lanes = Vec<T>::lanes;
    const double size = x < 0 ? -x : x, height = level < 0 ? -level : level;
    const T least = (T)(level - rounding<T>() * (height + (size > 1.0 ? size : 1.0) * (double)at_one.absolute));
    const T at = (T)x;
    int64_t count = 0;
    for (int64_t k = 0; k < n_classes; k += lanes) {
        int64_t at_k = k;
        uint32_t some;
        if (k + lanes <= n_classes) {
            some = bits(~(load(row + k) + fill(at) * load(at_one.shift + k) < fill(least)));
        } else if (n_classes >= lanes) {
            at_k = n_classes - lanes;
            some = bits(~(load(row + at_k) + fill(at) * load(at_one.shift + at_k) < fill(least)));
            some &= ~((1u << (k - at_k)) - 1);
        } else {
            some = bits(~(load(row) + fill(at) * load(at_one.shift) < fill(least)));
            some &= (1u << n_classes) - 1;
        }
        for (; some; some &= some - 1) {
            const int32_t c = (int32_t)(at_k + lowest_bit(some));
            if (c == a || c == b) continue;
            const bool above = (double)row[c] + x * slope[c] > level;
            if (above && slope[a] < slope[c] && slope[c] < slope[b]) found[count++] = c;
        }
    }
    return count;
}

// Write the switches of one row from line `here` to line b.
template <class T>
inline void walk_row(const T *row, int64_t n_classes, const double *slope, const Shift<T> &at_one, double low,
                     double high, int32_t here, int32_t b, int64_t label, double weight, int32_t *found,
                     ProfileTables &out) {
    double last = low == 0.0 ? AFTER_ZERO : low;
    auto write = [&](int32_t to) {
        const int64_t j = out.used++;
        out.position[j] = last;
        out.label[j] = (int32_t)label, out.loser[j] = here, out.winner[j] = to, out.row[j] = out.current;
        if (out.switch_weight) out.switch_weight[j] = weight;
        here = to;
    };
    if (slope[here] == -__builtin_inf()) {
        // A class that is ruled out above λ = 0 hands over to the largest score among the others.
        int32_t best = -1;
        for (int32_t k = 0; k < n_classes; ++k)
            if (slope[k] != -__builtin_inf() && (best < 0 || row[k] > row[best])) best = k;
        if (best < 0) return;  // another thread has written to the slopes
        write(best);
        if (!(slope[b] > slope[here])) return;
    }
    const double at_here = (double)row[here], at_b = (double)row[b];
    const double cross = (at_here - at_b) / (slope[b] - slope[here]);
    double x = cross > low ? cross : low;
    x = x < high ? x : high;
    const double line_a = at_here + x * slope[here], line_b = at_b + x * slope[b];
    const int64_t count =
        candidates(row, n_classes, slope, at_one, here, b, x, line_a < line_b ? line_a : line_b, found);
    found[count] = b;
    while (here != b) {
        int32_t to = b;
        double where = cross;
        if (count) {  // the line that first crosses `here` from below
            to = -1;
            where = __builtin_inf();
            for (int64_t j = 0; j <= count; ++j) {
                const int32_t k = found[j];
                if (!(slope[k] > slope[here])) continue;
                const double meet = ((double)row[here] - (double)row[k]) / (slope[k] - slope[here]);
                if (to < 0 || meet < where || (meet == where && beats(row, slope, k, to))) to = k, where = meet;
            }
        }
        if (to < 0) to = b;  // another thread, as above
        // Rounding must not take a walk back, or past the end.
        last = where > last ? where : last;
        last = last < high ? last : high;
        write(to);
    }
}

inline void tally(const int64_t *labels, const double *weights, const int32_t *winner, int64_t n,
                  int64_t n_classes, int64_t *counts, double *sums, int first) {
    // Support is row 0; true positives and predicted are rows `first` and `first` + 1.
    int64_t *right = counts + first * n_classes, *predicted = right + n_classes;
    for (int64_t i = 0; i < n; ++i) {
        if (labels[i] < 0) continue;
        right[labels[i]] += winner[i] == labels[i];
        predicted[winner[i]] += 1;
    }
    if (!sums) return;
    double *weight_right = sums + first * n_classes, *weight_predicted = weight_right + n_classes;
    for (int64_t i = 0; i < n; ++i) {
        if (labels[i] < 0) continue;
        weight_right[labels[i]] += winner[i] == labels[i] ? weights[i] : 0.0;
        weight_predicted[winner[i]] += weights[i];
    }
}

template <class T, Slopes mode>
int64_t profile_of(const RowsView &view, const int64_t *labels, const double *weights, const double *slopes,
                   const RowsView &direction, double low, double high, int64_t first, ProfileTables &out) {
    const int64_t n_classes = view.n_classes, n = view.n_outer * view.n_inner;
    const int64_t step = TILE_SCORES / n_classes > 1 ? TILE_SCORES / n_classes : 1;
    ProfileScratch<T> s;
    if (!s.allocate(step, n_classes)) return INT64_MIN;
    if constexpr (mode == Slopes::shared) {
        s.at_low.set(low, slopes, n_classes);
        s.at_high.set(high, slopes, n_classes);
        s.at_one.set(1.0, slopes, n_classes);
    }
    const double *slope = mode == Slopes::shared ? slopes : s.slope;
    const T banned = (T)(low < 0 ? -__builtin_inf() : __builtin_nan(""));
    const bool in_place = is_contiguous(view);
    int64_t result = n;
    for (; first < n; first += step) {
        const int64_t rows = step < n - first ? step : n - first;
        if (out.used + rows * n_classes > out.capacity) {
            result = first;
            break;
        }
        const int64_t *y = labels + first;
        const double *v = weights ? weights + first : nullptr;
        const T *tile = read_tile(view, first, rows, s.tile);
        const T *along = mode == Slopes::shared ? nullptr : read_tile(direction, first, rows, s.along);
        int64_t n_moving = 0;
        for (int64_t r = 0; r < rows; ++r) {
            if (y[r] < 0) continue;
            const T *row = tile + r * n_classes;
            const T *own = mode == Slopes::shared ? nullptr : along + r * n_classes;
            if (in_place)
                for (int64_t byte = 0; byte < n_classes * (int64_t)sizeof(T); byte += 64) {
                    __builtin_prefetch((const char *)row + PREFETCH_BYTES + byte);
                    if constexpr (mode != Slopes::shared) __builtin_prefetch((const char *)own + PREFETCH_BYTES + byte);
                }
            auto ends = [&](const Shift<T> &shift, double strength, int32_t &winner) {
                if constexpr (mode == Slopes::shared)
                    return row_ends(row, n_classes, SharedLines<T>{shift, slopes}, s, s.origin[r], winner);
                else return row_ends(row, n_classes, RowLines<T, mode>{own, strength, banned}, s, s.origin[r], winner);
            };
            auto steeper = [&](int32_t a, int32_t b) {
                if constexpr (mode == Slopes::shared) return slopes[a] > slopes[b];
                else return slope_of<T, mode>(row, own, a) > slope_of<T, mode>(row, own, b);
            };
            bool well = true;
            if (low == 0.0) {
                well = ends(s.at_high, high, s.end[r]);
                s.start[r] = s.origin[r];
            } else {
                well = ends(s.at_low, low, s.start[r]);
                s.end[r] = s.origin[r];
                if (well && high != 0.0) well = ends(s.at_high, high, s.end[r]);
                else if (well && !steeper(s.end[r], s.start[r]))
                    s.start[r] = s.end[r];  // on top at 0 and no steeper: on top all the way
            }
            if (!well) {
                free(s.memory);
                return -1 - (first + r);
            }
            s.moving[n_moving] = (int32_t)r;
            n_moving += steeper(s.end[r], s.start[r]);
        }
        for (int64_t j = 0; j < n_moving; ++j) {
            const int64_t r = s.moving[j];
            const T *row = tile + r * n_classes;
            if constexpr (mode != Slopes::shared) {
                for (int64_t k = 0; k < n_classes; ++k) s.slope[k] = slope_of<T, mode>(row, along + r * n_classes, k);
                s.at_one.set(1.0, s.slope, n_classes);
            }
            out.current = (int32_t)(first + r);
            walk_row(row, n_classes, slope, s.at_one, low, high, s.start[r], s.end[r], y[r], v ? v[r] : 1.0, s.found,
                     out);
        }
        for (int64_t r = 0; r < rows; ++r) out.start[first + r] = s.start[r], out.origin[first + r] = s.origin[r];
        for (int64_t r = 0; r < rows; ++r)
            if (y[r] >= 0) out.counts[y[r]] += 1;
        if (out.sums)
            for (int64_t r = 0; r < rows; ++r)
                if (y[r] >= 0) out.sums[y[r]] += v[r];
        tally(y, v, s.start, rows, n_classes, out.counts, out.sums, 1);
        tally(y, v, s.origin, rows, n_classes, out.counts, out.sums, 3);
    }
    free(s.memory);
    return result;
}

template <class T>
int64_t profile_as(const RowsView &view, const int64_t *labels, const double *weights, const double *slopes,
                   const RowsView *direction, bool to_scores, double low, double high, int64_t first,
                   ProfileTables &out) {
    if (!direction)
        return profile_of<T, Slopes::shared>(view, labels, weights, slopes, view, low, high, first, out);
    if (to_scores)
        return profile_of<T, Slopes::to_scores>(view, labels, weights, slopes, *direction, low, high, first, out);
    return profile_of<T, Slopes::own>(view, labels, weights, slopes, *direction, low, high, first, out);
}

int64_t profile(const RowsView &view, const int64_t *labels, const double *weights, const double *slopes,
                const RowsView *direction, bool to_scores, double low, double high, int64_t first,
                ProfileTables &out) {
    const bool wide = view.type == ScoreType::f64 || (direction && direction->type == ScoreType::f64);
    const auto work = wide ? profile_as<double> : profile_as<float>;
    return work(view, labels, weights, slopes, direction, to_scores, low, high, first, out);
}
