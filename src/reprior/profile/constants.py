"""Numbers that the tuning modules share, each with its reason."""

from __future__ import annotations

import math

__all__ = [
    "AFTER_ZERO",
    "EQUAL_VALUES",
    "NARROWEST",
    "SMALLEST_STRENGTH",
    "WIDEST_BOUND",
    "fraction_bits",
    "shown_bound",
]

#: "Just after 0". At λ = 0 the prediction is the model's own arg max (lowest index), from the
#: next number on the larger slope wins a tie: such a switch sits at the smallest positive float.
AFTER_ZERO = 5e-324

#: The least strength above 0 that is handed out. It moves no score that is not 0 itself, and is
#: no 0 either once a temperature divides it, or a file rounds it.
SMALLEST_STRENGTH = 1e-150

#: Per-class values are summed as integers of this many fractional bits, so that the sum does not
#: depend on the order in which switches are met. Finer than a double's own rounding of a ratio.
_MOST_FRACTION_BITS = 56

#: Metric values closer than this are equal but for the rounding of ratios and of their sum (with
#: 10,000 classes 48 fractional bits are left, and the mean of their roundings is below 2**-49).
EQUAL_VALUES = 2.0**-48

#: Intervals of strengths narrower than this lie between switches that are one but for rounding
#: (equal odds that were divided differently): no prediction could aim at them.
NARROWEST = 1e-10


#: The upper bound is doubled while the best strength lies near it, up to here.
WIDEST_BOUND = 8.0


def shown_bound(bound: float) -> float:
    """A bound of strengths as a sentence has it: just after 0 is 0 to its reader."""
    return 0.0 if bound == AFTER_ZERO else bound


def fraction_bits(n_classes: int) -> int:
    """Fractional bits that leave room for the sum of ``n_classes`` values in 63 bits."""
    return min(_MOST_FRACTION_BITS, 62 - math.ceil(math.log2(n_classes + 1)))
