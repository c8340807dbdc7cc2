"""The formula itself: softmax(a·z + b) over the class axis, its logarithm, or its arg max.

Host arrays go through the kernels, see :mod:`reprior.core.posterior_rows`. :func:`tilt_at_once`
is the formula in the array API, for every other library and for gradients; a test holds the two
equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from reprior.core import kernels
from reprior.core.arrays import (
    Array,
    Namespace,
    compute_dtype,
    constant,
    device_of,
    is_floating,
    is_numpy_namespace,
    is_traced,
    namespace,
    to_numpy,
)
from reprior.core.binary import contract, expand, expanded_axis, is_single_score, resolve_class_axis
from reprior.core.checks import first_index, short_number
from reprior.core.logspace import (
    as_scores,
    log_scores,
    normalise,
    refuse_scores,
    row_element,
    sum_tolerance,
    warn_if_probs,
    warn_if_single_probs,
)
from reprior.core.posterior_rows import decide_rows, posterior_rows
from reprior.exceptions import Argument, Element, ScoresError, Setting

__all__ = ["Tilt", "decide_at_once", "refuse_tilt", "tilt_at_once", "tilt_decisions", "tilt_scores"]


@dataclass(frozen=True, eq=False)
class Tilt:
    """What is done to the log-scores of every row: divide by T or multiply by a, then add b."""

    shift: NDArray[np.float64]
    """b: λ·w, or a bias; one per class."""
    temperature: float = 1.0
    scales: NDArray[np.float64] | None = None
    """a, one per class, in the place of 1/T."""

    @cached_property
    def scale(self) -> NDArray[np.float64]:
        """What the log-scores of every class are multiplied by."""
        if self.scales is not None:
            return np.ascontiguousarray(self.scales)
        return np.full(self.shift.size, 1.0 / self.temperature)

    @property
    def native(self) -> bool:
        """Whether the kernels, which multiply, can do it: 1/T is a number."""
        return math.isfinite(1.0 / self.temperature)


def tilt_scores(scores: Any, tilt: Tilt, *, kind: str, class_axis: int, log: bool) -> Array:
    """Return the (log-)posterior of the scores' shape, library, device and dtype.

    Scores are checked, the tilt was before. Integers give float64. One score per sample of two
    classes gives the probability of class 1.
    """
    xp = namespace(scores)
    given = as_scores(scores, xp)
    axis = resolve_class_axis(given.shape, tilt.shift.size, class_axis)
    single = is_single_score(given.shape, tilt.shift.size, axis)
    if kind == "logits" and not is_traced(given):
        if single:
            warn_if_single_probs(given, xp=xp)
        else:
            warn_if_probs(given, axis=axis, xp=xp)
    tolerance = sum_tolerance(given.dtype, kind, tilt.shift.size)
    z, at = _columns(given, kind, axis, xp) if single else (given, axis)

    def by_kernel(view: NDArray[Any]) -> NDArray[Any] | None:
        return posterior_rows(
            view, tilt.scale, tilt.shift, kind=kind, axis=at, tolerance=tolerance, log=log
        )

    def at_once() -> Array | None:
        return tilt_at_once(z, tilt, kind=kind, axis=at, xp=xp, log=log, tolerance=tolerance)

    result = _computed(z, tilt, by_kernel, at_once, xp)
    if result is None:
        refuse_tilt(z, tilt, kind=kind, axis=at, tolerance=tolerance)
    if single:
        result = contract(result, given.shape, xp=xp, class_axis=axis)
    if result.dtype == given.dtype or not is_floating(given.dtype):
        return result
    with np.errstate(over="ignore"):  # a log-posterior below the reach of float16 is −inf there
        return xp.astype(result, given.dtype, copy=False)


def tilt_decisions(scores: Any, tilt: Tilt, *, kind: str, class_axis: int) -> Array:
    """Return the class of the largest posterior, lowest among equals, as :func:`tilt_scores`.

    It is that of the posterior as computed, before it is rounded to a dtype of 16 bits.
    """
    xp = namespace(scores)
    given = as_scores(scores, xp)
    axis = resolve_class_axis(given.shape, tilt.shift.size, class_axis)
    single = is_single_score(given.shape, tilt.shift.size, axis)
    if kind == "logits" and not is_traced(given):
        if single:
            warn_if_single_probs(given, xp=xp)
        else:
            warn_if_probs(given, axis=axis, xp=xp)
    tolerance = sum_tolerance(given.dtype, kind, tilt.shift.size)
    z, at = _columns(given, kind, axis, xp) if single else (given, axis)

    def by_kernel(view: NDArray[Any]) -> NDArray[Any] | None:
        return decide_rows(view, tilt.scale, tilt.shift, kind=kind, axis=at, tolerance=tolerance)

    def at_once() -> Array | None:
        return decide_at_once(z, tilt, kind=kind, axis=at, xp=xp, tolerance=tolerance)

    result = _computed(z, tilt, by_kernel, at_once, xp)
    if result is None:
        refuse_tilt(z, tilt, kind=kind, axis=at, tolerance=tolerance)
    return result


def _columns(given: Array, kind: str, axis: int, xp: Namespace) -> tuple[Array, int]:
    """Return single scores as those of two classes, and their class axis."""
    columns = expand(given, kind, xp=xp, class_axis=axis)
    return columns, expanded_axis(given.ndim, axis)


def _computed(
    z: Array,
    tilt: Tilt,
    by_kernel: Callable[[NDArray[Any]], NDArray[Any] | None],
    at_once: Callable[[], Array | None],
    xp: Namespace,
) -> Array | None:
    """Return what a kernel gives of host arrays, or array code of others."""
    host = z
    if is_numpy_namespace(xp) and (z.dtype.kind in "iu" or not z.dtype.isnative):
        host = z.astype(np.float64 if z.dtype.kind in "iu" else z.dtype.newbyteorder("="))
    view = kernels.host_view(host) if tilt.native else None
    if view is None:
        if not is_numpy_namespace(xp):
            return at_once()
        with np.errstate(all="ignore"):
            return at_once()
    found = by_kernel(view)
    return None if found is None else kernels.as_library(found, host)


def tilt_at_once(
    z: Array, tilt: Tilt, *, kind: str, axis: int, xp: Namespace, log: bool, tolerance: float
) -> Array | None:
    """Return the (log-)posterior of every row along ``axis``, or None if a row has none.

    No operation is in place and none leaves the library, so gradients flow. Values that cannot
    be looked at are not checked. It comes in the dtype of :func:`compute_dtype`.
    """
    tilted = _tilted(z, tilt, kind=kind, axis=axis, xp=xp, tolerance=tolerance)
    peak = xp.max(tilted, axis=axis, keepdims=True)
    if not is_traced(peak) and not bool(xp.all(xp.isfinite(peak))):
        return None
    return normalise(tilted, peak, axis=axis, xp=xp, log=log)


def decide_at_once(
    z: Array, tilt: Tilt, *, kind: str, axis: int, xp: Namespace, tolerance: float
) -> Array | None:
    """Return the first class of the largest posterior along ``axis``, or None if a row has none."""
    tilted = _tilted(z, tilt, kind=kind, axis=axis, xp=xp, tolerance=tolerance)
    if not is_traced(tilted) and not bool(xp.all(xp.isfinite(xp.max(tilted, axis=axis)))):
        return None
    if tilted.shape[axis] != 2:
        return xp.argmax(tilted, axis=axis)
    # Two classes need no arg max, which lazy arrays in several chunks are slow at.
    negative, positive = (xp.take(tilted, constant([k], xp, like=z), axis=axis) for k in (0, 1))
    return xp.squeeze(xp.astype(positive > negative, xp.int64), axis=axis)


def _tilted(
    z: Array, tilt: Tilt, *, kind: str, axis: int, xp: Namespace, tolerance: float
) -> Array:
    """Return a·z + b in the compute dtype; an impossible class stays so whatever its scale."""
    dtype = compute_dtype(xp, z.dtype, device_of(z))
    if kind == "logits":
        log_z = xp.astype(z, dtype, copy=False)
    else:
        log_z = log_scores(z, kind, axis=axis, xp=xp, tolerance=tolerance)
    shape = (-1,) + (1,) * (z.ndim - 1 - axis)
    shift = xp.reshape(constant(tilt.shift, xp, like=z, dtype=dtype), shape)
    if tilt.scales is None:
        return (log_z if tilt.temperature == 1.0 else log_z / tilt.temperature) + shift
    scales = xp.reshape(constant(tilt.scales, xp, like=z, dtype=dtype), shape)
    gone = log_z == -xp.inf
    return xp.where(gone, log_z, xp.where(gone, xp.zeros_like(log_z), log_z) * scales + shift)


def refuse_tilt(z: Array, tilt: Tilt, *, kind: str, axis: int, tolerance: float) -> NoReturn:
    """Say why a row has no posterior: a bad score, or no class left that is possible."""
    refuse_scores(z, kind, axis=axis, tolerance=tolerance)
    host = to_numpy(z)
    shift = tilt.shift.reshape((-1,) + (1,) * (host.ndim - 1 - axis))
    impossible = host <= 0 if kind == "probs" else np.isneginf(host.astype(np.float64))
    removed = np.all(impossible | np.isneginf(shift), axis=axis)
    if removed.any() and tilt.scales is None:
        raise refusal_of_excluded(row_element(first_index(removed), host.ndim, axis))
    if removed.any():
        raise ScoresError(
            argument="scores",
            rule="must leave some class whose bias is finite possible in every row",
            got=row_element(first_index(removed), host.ndim, axis),
            remedy="Drop the sample.",
        )
    largest = np.abs(host).max()
    if tilt.scales is not None:
        raise ScoresError(
            argument="scores",
            rule="must stay finite when scaled",
            got=f"scores up to {largest:g} and scales up to {np.abs(tilt.scales).max():g}",
            remedy="Pass scores of a wider dtype.",
        )
    raise ScoresError(
        argument="scores",
        rule="must stay finite when divided by the temperature",
        got=[
            f"scores up to {largest:g} and ",
            Setting("temperature", short_number(tilt.temperature)),
        ],
        remedy="Pass scores of a wider dtype, or a higher temperature.",
    )


def refusal_of_excluded(row: Element) -> ScoresError:
    """Return the error for a row whose every possible class has target prior 0."""
    return ScoresError(
        argument="scores",
        rule=[
            "must leave some class of positive ",
            Argument("target_prior"),
            " possible in every row",
        ],
        got=[row, ", whose every possible class has target prior 0"],
        remedy="Give one of them a positive target prior, or drop the sample.",
    )
