// Switches entered in a table of every grid point and class: see profile/binning.py.
#pragma once
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "sweep.h"

namespace reprior {

// The first multiple of `resolution` at or after x, as profile/binning.py has it.
inline double grid_point(double x, double resolution) {
    double point = x / resolution;
    if (std::fabs(point) < 0x1p52) {  // beyond that every float is whole
        const double whole = (double)(int64_t)point;
        point = whole + (whole < point);
    }
    point -= (point - 1.0) * resolution >= x;
    point += point * resolution < x;
    return point;
}

// Add `amount` (1 if null) of every switch to its bin: that it moved, who won and who lost it, and
// whether rightly so. `moved` is (J,) and `net` (2, J·K); grid point 0 of the table is `first`.
// Returns whether all switches are within the table; nothing is written if not.
template <class T>
bool enter_bins(const SwitchColumns &switches, const T *amount, double resolution, int64_t first, int64_t n_points,
                int64_t n_classes, T *moved, T *net) {
    std::vector<int64_t> index((size_t)switches.n);
    for (int64_t i = 0; i < switches.n; ++i) {
        const double point = grid_point(switches.position[i], resolution) - (double)first;
        if (!(point >= 0.0 && point < (double)n_points)) return false;
        index[(size_t)i] = (int64_t)point;
    }
    T *const right = net + n_points * n_classes;
    // Whether a switch is right is as good as random: a product costs less than a branch.
    const auto gain = [&](int64_t i) {
        const T each = amount ? amount[i] : (T)1;
        const int64_t cell = index[(size_t)i] * n_classes + switches.winner[i];
        moved[index[(size_t)i]] += each;
        net[cell] += each;
        right[cell] += each * (T)(switches.winner[i] == switches.label[i]);
    };
    const auto lose = [&](int64_t i) {
        const T each = amount ? amount[i] : (T)1;
        const int64_t cell = index[(size_t)i] * n_classes + switches.loser[i];
        net[cell] -= each;
        right[cell] -= each * (T)(switches.loser[i] == switches.label[i]);
    };
    if constexpr (std::is_integral_v<T>) {
        for (int64_t i = 0; i < switches.n; ++i) gain(i), lose(i);
    } else {  // all gains, then all losses: sums of weights round as those of the array code do
        for (int64_t i = 0; i < switches.n; ++i) gain(i);
        for (int64_t i = 0; i < switches.n; ++i) lose(i);
    }
    return true;
}

}  // namespace reprior
