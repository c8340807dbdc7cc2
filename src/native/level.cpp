// All kernels for one instruction set. CMake compiles this file once per level, with the level's
// name in REPRIOR_LEVEL and its compiler flags. Everything but the table stays in this file.
#include <cstdint>
#include <cstdlib>
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

#include "kernels.h"

#define REPRIOR_JOIN2(a, b) a##b
#define REPRIOR_JOIN(a, b) REPRIOR_JOIN2(a, b)
#define REPRIOR_TEXT2(a) #a
#define REPRIOR_TEXT(a) REPRIOR_TEXT2(a)

namespace reprior {
namespace {
#include "simd.h"
#include "rows.h"
#include "profile.h"
#include "posterior.h"
#include "predictions.h"
#include "fusion.h"
}  // namespace

extern const Kernels REPRIOR_JOIN(kernels_, REPRIOR_LEVEL);
const Kernels REPRIOR_JOIN(kernels_, REPRIOR_LEVEL) = {
    REPRIOR_TEXT(REPRIOR_LEVEL),
    profile,
    posterior,
    decisions,
    tilted_sums,
    posterior_sums,
    row_totals,
    largest_classes,
    add_rows,
    add_normalised,
    entropies,
    fused,
    fused_classes,
};

}  // namespace reprior
