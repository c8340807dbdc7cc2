"""Numbers that the tuning modules share, each with its reason."""

from __future__ import annotations

__all__ = [
    "AFTER_ZERO",
    "EQUAL_VALUES",
    "NARROWEST",
    "SMALLEST_STRENGTH",
    "WIDEST_BOUND",
    "shown_bound",
]

#: "Just after 0". At λ = 0 the prediction is the model's own arg max (lowest index), from the
#: next number on the larger slope wins a tie: such a switch sits at the smallest positive float.
AFTER_ZERO = 5e-324

#: The least strength above 0 that a fit returns. It changes no score other than 0, and stays above
#: 0 when a temperature divides it or a file rounds it.
SMALLEST_STRENGTH = 1e-150

#: Metric values closer than this differ only by the rounding of ratios and of their sum (with
#: 10,000 classes 48 fractional bits are left, and the mean of their roundings is below 2**-49).
EQUAL_VALUES = 2.0**-48

#: Intervals of strengths narrower than this lie between switches that differ only by rounding
#: (equal odds that were divided differently): no prediction could aim at them.
NARROWEST = 1e-10


#: The upper bound is doubled while the best strength lies near it, up to here.
WIDEST_BOUND = 8.0


def shown_bound(bound: float) -> float:
    """Return a bound of strengths as messages show it: just after 0 is shown as 0."""
    return 0.0 if bound == AFTER_ZERO else bound
