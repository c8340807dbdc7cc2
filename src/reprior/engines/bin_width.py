"""How wide bins of switches may be: a profile is exact at their edges alone."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

from reprior.exceptions import OptionError

__all__ = ["refuse_wide_bins"]

FEWEST_BINS = 2
"""With a single one there is nothing to choose from but the bounds."""


def refuse_wide_bins(resolution: Any, bounds: Sequence[float]) -> None:
    """Refuse a resolution that leaves no strength between the bounds to choose.

    Examples
    --------
    >>> refuse_wide_bins(1.0, (0.0, 2.0))
    >>> refuse_wide_bins("auto", (0.0, 2.0))
    """
    width = float(bounds[1]) - float(bounds[0])
    if not isinstance(resolution, Real) or not float(resolution) * FEWEST_BINS > width > 0:
        return
    raise OptionError(
        f"`resolution` must be at most half the width of the bounds, {width:g}. Got "
        f"{float(resolution):g}: the strength could only be at the edges of such bins. Pass at "
        f"most {width / FEWEST_BINS:g}, for example 0.0001, or wider bounds."
    )
