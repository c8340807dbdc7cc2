"""The formula itself: softmax(z / T + shift) over the class axis, or its logarithm.

:func:`tilt_at_once` is the formula in the array API, for every library and for gradients.
NumPy arrays take :func:`reprior.core.blocks.tilt_blocks`, the same in cache-sized blocks; a test
holds the two equal.
"""

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from reprior.core.arrays import (
    Array,
    Namespace,
    constant,
    is_traced,
    to_numpy,
)
from reprior.core.checks import first_index
from reprior.core.logspace import log_scores, normalise, refuse_scores, row_name
from reprior.exceptions import ScoresError

__all__ = ["Tilt", "refuse_tilt", "tilt_at_once"]


@dataclass(frozen=True)
class Tilt:
    """What is done to the log-scores of every row: divide by T, add a shift, normalise."""

    shift: NDArray[np.float64]
    """λ·w, one per class."""
    temperature: float
    kind: str
    log: bool
    """Whether the result is the log-posterior."""
    dtype: Any
    """The dtype to compute in."""
    sum_tolerance: float
    """How far a row of probabilities may be from 1."""


def tilt_at_once(z: Array, tilt: Tilt, *, axis: int, xp: Namespace) -> Array | None:
    """Return the (log-)posterior of every row along ``axis``, or None if a row has none.

    No operation is in place and none leaves the library, so gradients flow. Values that cannot
    be looked at are not checked.
    """
    if tilt.kind == "logits":
        log_z = xp.astype(z, tilt.dtype, copy=False)
    else:
        log_z = log_scores(z, tilt.kind, axis=axis, xp=xp, tolerance=tilt.sum_tolerance)
    if tilt.temperature != 1.0:
        log_z = log_z / tilt.temperature
    shift = constant(tilt.shift, xp, like=z, dtype=tilt.dtype)
    log_z = log_z + xp.reshape(shift, (-1,) + (1,) * (z.ndim - 1 - axis))
    peak = xp.max(log_z, axis=axis, keepdims=True)
    if not is_traced(peak) and not bool(xp.all(xp.isfinite(peak))):
        return None
    return normalise(log_z, peak, axis=axis, xp=xp, log=tilt.log)


def refuse_tilt(z: Array, tilt: Tilt, *, axis: int) -> NoReturn:
    """Say why a row has no posterior: a bad score, or no class left that is possible."""
    refuse_scores(z, tilt.kind, axis=axis, tolerance=tilt.sum_tolerance)
    host = to_numpy(z)
    shift = tilt.shift.reshape((-1,) + (1,) * (host.ndim - 1 - axis))
    impossible = host <= 0 if tilt.kind == "probs" else np.isneginf(host.astype(np.float64))
    removed = np.all(impossible | np.isneginf(shift), axis=axis)
    if removed.any():
        raise ScoresError(
            f"`scores` must leave some class of positive `target_prior` possible in every row. "
            f"Got {row_name(first_index(removed), host.ndim, axis)}, whose every possible class "
            f"has target prior 0. Give one of them a positive target prior, or drop the sample."
        )
    raise ScoresError(
        f"`scores` must stay finite when divided by the temperature. Got scores up to "
        f"{np.abs(host).max():g} and temperature={tilt.temperature:g}. Pass scores of a wider "
        f"dtype, or a higher temperature."
    )
