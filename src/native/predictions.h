// Checks, decisions and sums over rows of probabilities or logits. Sums are float64.

// The sum of a row, and whether it is a distribution to a tolerance.
template <class T> inline double row_total(const T *row, int64_t n_classes, double tolerance, bool &good) {
    Vec<double> sums = fill(0.0);
    Mask<double> negative = ~first_lanes<double>(8);
    for (int64_t k = 0; k < n_classes; k += 8) {
        const Vec<double> p = take(row, k, n_classes, (T)0);
        sums = sums + p;
        negative = negative | (p < fill(0.0));
    }
    const double total = sum(sums), off = total - 1.0;
    good = (off < 0 ? -off : off) <= tolerance && !bits(negative);
    return total;
}

// The first of the largest of a row; false if it has NaN or +inf, or −inf alone.
template <class T> inline bool row_peak(const T *row, int64_t n_classes, int64_t &best) {
    constexpr int lanes = Vec<T>::lanes;
    const Vec<T> infinity = fill((T)__builtin_inf());
    if (n_classes < lanes) {  // a row of one vector
        const Vec<T> z = select<T>(first_lanes<T>((int)n_classes), load(row), fill((T)-__builtin_inf()));
        const T peak = largest(larger(z, fill((T)-__builtin_inf())));
        best = lowest_bit(bits(z == fill(peak)) | (1u << (lanes - 1)));
        return bits(z < infinity) == (1u << lanes) - 1 && peak > (T)-__builtin_inf();
    }
    Vec<T> highest = fill((T)-__builtin_inf());
    Mask<T> well = first_lanes<T>(lanes);
    for (int64_t k = 0; k < n_classes; k += lanes) {  // the last vector overlaps the one before
        const Vec<T> z = load(row + (k + lanes <= n_classes ? k : n_classes - lanes));
        highest = larger(z, highest);
        well = well & (z < infinity);
    }
    best = 0;
    if (bits(well) != (1u << lanes) - 1) return false;
    const T peak = largest(highest);
    if (!(peak > (T)-__builtin_inf())) return false;
    for (int64_t k = 0; k < n_classes; k += lanes) {
        const int64_t at = k + lanes <= n_classes ? k : n_classes - lanes;
        const uint32_t equal = bits(load(row + at) == fill(peak));
        if (!equal) continue;
        best = at + lowest_bit(equal);
        return true;
    }
    return false;  // another thread has written to the scores
}

template <class T>
int64_t row_totals_of(const RowsView &view, double tolerance, double *totals) {
    const int64_t n = view.n_outer * view.n_inner;
    RowReader<T> reader(view);
    if (!reader.ready()) return INT64_MIN;
    for (int64_t i = 0; i < n; ++i) {
        bool good;
        totals[i] = row_total(reader.row(i), view.n_classes, tolerance, good);
        if (!good) return -1 - i;
    }
    return n;
}

template <class T>
int64_t largest_of(const RowsView &view, double tolerance, int64_t *classes) {
    const int64_t n = view.n_outer * view.n_inner;
    RowReader<T> reader(view);
    if (!reader.ready()) return INT64_MIN;
    for (int64_t i = 0; i < n; ++i) {
        const T *row = reader.row(i);
        bool good = true;
        if (tolerance >= 0) row_total(row, view.n_classes, tolerance, good);
        if (!good || !row_peak(row, view.n_classes, classes[i])) return -1 - i;
    }
    return n;
}

template <class T>
int64_t add_rows_of(const RowsView &view, const double *weights, const int64_t *labels, double *sums) {
    const int64_t n = view.n_outer * view.n_inner, n_classes = view.n_classes;
    RowReader<T> reader(view);
    if (!reader.ready()) return INT64_MIN;
    for (int64_t i = 0; i < n; ++i) {
        const T *__restrict row = reader.row(i);
        double *__restrict to = labels ? sums + labels[i] * n_classes : sums;
        const double weight = weights[i];
        for (int64_t k = 0; k < n_classes; ++k) to[k] += weight * (double)row[k];
    }
    return n;
}

template <class T>
int64_t add_normalised_of(const RowsView &view, double tolerance, double *factors, double *sums) {
    const int64_t n = view.n_outer * view.n_inner, n_classes = view.n_classes;
    RowReader<T> reader(view);
    if (!reader.ready()) return INT64_MIN;
    for (int64_t i = 0; i < n; ++i) {
        const T *__restrict row = reader.row(i);
        double *__restrict to = sums;
        bool good;
        const double factor = 1.0 / row_total(row, n_classes, tolerance, good);
        if (!good) return -1 - i;
        factors[i] = factor;
        for (int64_t k = 0; k < n_classes; ++k) to[k] += factor * (double)row[k];
    }
    return n;
}

// Each returns the number of samples, or −1 − i if sample i cannot be used.

// Write the sums of rows; all must be distributions to the tolerance.
int64_t row_totals(const RowsView &view, double tolerance, double *totals) {
    if (view.type == ScoreType::f64) return row_totals_of<double>(view, tolerance, totals);
    return row_totals_of<float>(view, tolerance, totals);
}

// Write the first class of the largest of every row: of a distribution where the tolerance is not
// negative, else of any row with a finite peak and no NaN.
int64_t largest_classes(const RowsView &view, double tolerance, int64_t *classes) {
    if (view.type == ScoreType::f64) return largest_of<double>(view, tolerance, classes);
    return largest_of<float>(view, tolerance, classes);
}

// Add every row, times its weight, to the sums (K,), or with labels to those of its label, (K, K).
int64_t add_rows(const RowsView &view, const double *weights, const int64_t *labels, double *sums) {
    if (view.type == ScoreType::f64) return add_rows_of<double>(view, weights, labels, sums);
    return add_rows_of<float>(view, weights, labels, sums);
}

// Write what makes every row sum to 1, and add the row, times that, to the sums.
int64_t add_normalised(const RowsView &view, double tolerance, double *factors, double *sums) {
    if (view.type == ScoreType::f64) return add_normalised_of<double>(view, tolerance, factors, sums);
    return add_normalised_of<float>(view, tolerance, factors, sums);
}
