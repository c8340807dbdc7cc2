"""The posterior of scores with a scale and a bias per class: softmax(a·z + b).

Its logarithm and its arg max too. Host arrays go through the kernels; the same formula in the
array API beside them is for every other library and for gradients, and a test holds the two equal.
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
from reprior.core.checks import KINDS, check_kind, first_index, short_number
from reprior.core.logspace import (
    as_scores,
    excluded_row,
    log_scores,
    normalise,
    refuse_scores,
    row_element,
    sum_tolerance,
    warn_if_probs,
    warn_if_single_probs,
)
from reprior.core.threads import in_threads, n_shares, shares_out
from reprior.exceptions import Element, OptionError, ScoresError, Setting

__all__ = [
    "AffineMap",
    "affine_posterior",
    "array_decisions",
    "array_posterior",
    "kernel_decisions",
    "kernel_posterior",
    "map_decisions",
    "map_posterior",
    "refuse_rows",
]


BLOCK_SCORES = 1 << 20
"""Scores of one call of a kernel: about a millisecond, so that Ctrl-C is answered at once."""

_REMEDY = "Pass what fit_scaling or as_affine gives."


@dataclass(frozen=True, eq=False)
class AffineMap:
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


def map_posterior(
    scores: Any, affine: AffineMap, *, kind: str, class_axis: int, log: bool
) -> Array:
    """Return the (log-)posterior of the scores' shape, library, device and dtype.

    Scores are checked, the map was before. Integers give float64. One score per sample of two
    classes gives the probability of class 1.
    """
    xp = namespace(scores)
    given, z, axis, class_axis, tolerance = _prepared(scores, affine, kind, class_axis, xp)

    def by_kernel(view: NDArray[Any]) -> NDArray[Any] | None:
        return kernel_posterior(
            view, affine.scale, affine.shift, kind=kind, axis=axis, tolerance=tolerance, log=log
        )

    def by_array_code() -> Array | None:
        return array_posterior(z, affine, kind=kind, axis=axis, xp=xp, log=log, tolerance=tolerance)

    result = _computed(z, affine, by_kernel, by_array_code, xp)
    if result is None:
        refuse_rows(z, affine, kind=kind, axis=axis, tolerance=tolerance)
    if z is not given:
        result = contract(result, given.shape, xp=xp, class_axis=class_axis)
    if result.dtype == given.dtype or not is_floating(given.dtype):
        return result
    with np.errstate(over="ignore"):  # a log-posterior below the reach of float16 is −inf there
        return xp.astype(result, given.dtype, copy=False)


def map_decisions(scores: Any, affine: AffineMap, *, kind: str, class_axis: int) -> Array:
    """Return the class of the largest posterior, the lowest among equals.

    It is that of the posterior as computed, before it is rounded to a dtype of 16 bits.
    """
    xp = namespace(scores)
    _, z, axis, _, tolerance = _prepared(scores, affine, kind, class_axis, xp)

    def by_kernel(view: NDArray[Any]) -> NDArray[Any] | None:
        return kernel_decisions(
            view, affine.scale, affine.shift, kind=kind, axis=axis, tolerance=tolerance
        )

    def by_array_code() -> Array | None:
        return array_decisions(z, affine, kind=kind, axis=axis, xp=xp, tolerance=tolerance)

    result = _computed(z, affine, by_kernel, by_array_code, xp)
    if result is None:
        refuse_rows(z, affine, kind=kind, axis=axis, tolerance=tolerance)
    return result


def _prepared(
    scores: Any, affine: AffineMap, kind: str, class_axis: int, xp: Namespace
) -> tuple[Array, Array, int, int, float]:
    """Return the scores as given; with K columns, and their class axis; the given class axis.

    Last is how far from 1 a row of probabilities may sum.
    """
    n_classes = affine.shift.size
    given = as_scores(scores, xp)
    class_axis = resolve_class_axis(given.shape, n_classes, class_axis)
    single = is_single_score(given.shape, n_classes, class_axis)
    if kind == "logits" and not is_traced(given):
        if single:
            warn_if_single_probs(given, xp=xp)
        else:
            warn_if_probs(given, axis=class_axis, xp=xp)
    tolerance = sum_tolerance(given.dtype, kind, n_classes)
    if not single:
        return given, given, class_axis, class_axis, tolerance
    columns = expand(given, kind, xp=xp, class_axis=class_axis)
    return given, columns, expanded_axis(given.ndim, class_axis), class_axis, tolerance


def _computed(
    z: Array,
    affine: AffineMap,
    by_kernel: Callable[[NDArray[Any]], NDArray[Any] | None],
    by_array_code: Callable[[], Array | None],
    xp: Namespace,
) -> Array | None:
    """Return what a kernel gives of host arrays, or array code of others."""
    host = z
    if is_numpy_namespace(xp) and (z.dtype.kind in "iu" or not z.dtype.isnative):
        host = z.astype(np.float64 if z.dtype.kind in "iu" else z.dtype.newbyteorder("="))
    view = kernels.host_view(host) if affine.native else None
    if view is None:
        if not is_numpy_namespace(xp):
            return by_array_code()
        with np.errstate(all="ignore"):
            return by_array_code()
    result = by_kernel(view)
    return None if result is None else kernels.as_library(result, host)


def array_posterior(
    z: Array, affine: AffineMap, *, kind: str, axis: int, xp: Namespace, log: bool, tolerance: float
) -> Array | None:
    """Return the (log-)posterior of every row along ``axis``, or None if a row has none.

    No operation is in place and none leaves the library, so gradients flow. Values that cannot
    be read are not checked. The result has the dtype of :func:`compute_dtype`.
    """
    mapped = _mapped(z, affine, kind=kind, axis=axis, xp=xp, tolerance=tolerance)
    peak = xp.max(mapped, axis=axis, keepdims=True)
    if not is_traced(peak) and not bool(xp.all(xp.isfinite(peak))):
        return None
    return normalise(mapped, peak, axis=axis, xp=xp, log=log)


def array_decisions(
    z: Array, affine: AffineMap, *, kind: str, axis: int, xp: Namespace, tolerance: float
) -> Array | None:
    """Return the first class of the largest posterior along ``axis``, or None if a row has none."""
    mapped = _mapped(z, affine, kind=kind, axis=axis, xp=xp, tolerance=tolerance)
    if not is_traced(mapped) and not bool(xp.all(xp.isfinite(xp.max(mapped, axis=axis)))):
        return None
    if mapped.shape[axis] != 2:
        return xp.argmax(mapped, axis=axis)
    # Two classes need no arg max, which lazy arrays in several chunks are slow at.
    negative, positive = (xp.take(mapped, constant([k], xp, like=z), axis=axis) for k in (0, 1))
    return xp.squeeze(xp.astype(positive > negative, xp.int64), axis=axis)


def _mapped(
    z: Array, affine: AffineMap, *, kind: str, axis: int, xp: Namespace, tolerance: float
) -> Array:
    """Return a·z + b in the compute dtype; an impossible class stays so whatever its scale."""
    dtype = compute_dtype(xp, z.dtype, device_of(z))
    if kind == "logits":
        log_z = xp.astype(z, dtype, copy=False)
    else:
        log_z = log_scores(z, kind, axis=axis, xp=xp, tolerance=tolerance)
    shape = (-1,) + (1,) * (z.ndim - 1 - axis)
    shift = xp.reshape(constant(affine.shift, xp, like=z, dtype=dtype), shape)
    if affine.scales is None:
        return (log_z if affine.temperature == 1.0 else log_z / affine.temperature) + shift
    scales = xp.reshape(constant(affine.scales, xp, like=z, dtype=dtype), shape)
    impossible = log_z == -xp.inf
    finite = xp.where(impossible, xp.zeros_like(log_z), log_z)
    return xp.where(impossible, log_z, finite * scales + shift)


def refuse_rows(z: Array, affine: AffineMap, *, kind: str, axis: int, tolerance: float) -> NoReturn:
    """Raise why a row has no posterior: a bad score, or no class left that is possible."""
    refuse_scores(z, kind, axis=axis, tolerance=tolerance)
    host = to_numpy(z)
    shift = affine.shift.reshape((-1,) + (1,) * (host.ndim - 1 - axis))
    impossible = host <= 0 if kind == "probs" else np.isneginf(host.astype(np.float64))
    removed = np.all(impossible | np.isneginf(shift), axis=axis)
    if removed.any() and affine.scales is None:
        raise excluded_row(row_element(first_index(removed), host.ndim, axis))
    if removed.any():
        raise ScoresError(
            argument="scores",
            rule="must leave some class whose bias is finite possible in every row",
            got=row_element(first_index(removed), host.ndim, axis),
            remedy="Drop the sample.",
        )
    largest = np.abs(host).max()
    if affine.scales is not None:
        raise ScoresError(
            argument="scores",
            rule="must stay finite when scaled",
            got=f"scores up to {largest:g} and scales up to {np.abs(affine.scales).max():g}",
            remedy="Pass scores of a wider dtype.",
        )
    raise ScoresError(
        argument="scores",
        rule="must stay finite when divided by the temperature",
        got=[
            f"scores up to {largest:g} and ",
            Setting("temperature", short_number(affine.temperature)),
        ],
        remedy="Pass scores of a wider dtype, or a higher temperature.",
    )


def kernel_posterior(
    scores: NDArray[Any],
    scale: NDArray[np.float64],
    bias: NDArray[np.float64],
    *,
    kind: str,
    axis: int,
    tolerance: float,
    log: bool,
) -> NDArray[Any] | None:
    """Return softmax(scale·z + bias) or its logarithm, or None if a row has none.

    ``scores`` are what :func:`reprior.core.kernels.host_view` gives, the classes on ``axis``;
    the result has their dtype, and their layout where it can be. ``kind`` and ``tolerance`` say
    what they are and how far from 1 a row of probabilities may sum.

    Examples
    --------
    >>> scores, scale, bias = np.array([[0.0, 1.0]]), np.ones(2), np.array([1.0, 0.0])
    >>> rows = {"kind": "logits", "axis": 1, "tolerance": 1e-3}
    >>> kernel_posterior(scores, scale, bias, log=False, **rows)
    array([[0.5, 0.5]])
    """
    native: Any = kernels.native
    number = KINDS.index(kind)
    z = _classes_last(scores, axis)
    rows = kernels.strided_rows(z)
    result = np.empty_like(z, subok=False)
    try:
        out = kernels.strided_rows(result, writable=True)
    except ValueError:  # more than two axes of samples that do not follow each other
        result = np.empty(z.shape, z.dtype)
        out = kernels.strided_rows(result, writable=True)

    def work(part: tuple[int, int]) -> bool:
        good: bool = native.posterior(rows, number, tolerance, scale, bias, log, *part, out)
        return good

    if not _all_good(work, rows):
        return None
    return result if z is scores else np.moveaxis(result, -1, axis)


def kernel_decisions(
    scores: NDArray[Any],
    scale: NDArray[np.float64],
    bias: NDArray[np.float64],
    *,
    kind: str,
    axis: int,
    tolerance: float,
) -> NDArray[np.int64] | None:
    """Return the first class of the largest scale·z + bias of every row, or None if one has none.

    The arguments are those of :func:`kernel_posterior`. Nothing is rounded to the scores' dtype.

    Examples
    --------
    >>> scores, scale, bias = np.array([[0.0, 1.0]]), np.ones(2), np.array([2.0, 0.0])
    >>> kernel_decisions(scores, scale, bias, kind="logits", axis=1, tolerance=1e-3)
    array([0])
    """
    native: Any = kernels.native
    number = KINDS.index(kind)
    z = _classes_last(scores, axis)
    rows = kernels.strided_rows(z)
    classes = np.empty(z.shape[:-1], np.int64)
    flat = classes.reshape(-1)

    def work(part: tuple[int, int]) -> bool:
        good: bool = native.decisions(rows, number, tolerance, scale, bias, *part, flat)
        return good

    return classes if _all_good(work, rows) else None


def _classes_last(scores: NDArray[Any], axis: int) -> NDArray[Any]:
    return scores if axis == scores.ndim - 1 else np.moveaxis(scores, axis, -1)


def _all_good(work: Callable[[tuple[int, int]], bool], rows: NDArray[Any]) -> bool:
    """Run ``work`` on ranges of samples, by as many threads as they are worth."""
    outer, inner, n_classes = rows.shape
    n = outer * inner
    step = max(1, BLOCK_SCORES // n_classes)
    n_threads = n_shares(n, rows.size) if shares_out() else 1
    if n_threads == 1 and n <= step:
        return work((0, n))
    step = min(step, -(-n // n_threads))
    parts = [(start, min(start + step, n)) for start in range(0, n, step)]
    return all(in_threads(work, parts, n_threads))


def affine_posterior(
    scores: Any,
    scale: Any,
    bias: Any,
    *,
    kind: str = "logits",
    class_axis: int = -1,
    log: bool = False,
) -> Array:
    r"""Return the posterior of scaled and shifted scores.

    .. math:: P(k|x) = \frac{1}{Z(x)} \exp\bigl(a_k z_k(x) + b_k\bigr)

    where z_k is the log-score of class k for the sample x, a_k the scale and b_k the bias of the
    class, and Z the sum over the classes. A class that is impossible, its log-score −inf, stays
    so whatever its scale.

    Parameters
    ----------
    scores : array of shape (..., K, ...)
        The model's outputs, the classes on ``class_axis``. For two classes also one score per
        sample, that of class 1: shape (N,), or 1 on the class axis.
    scale : float or array-like of shape (K,)
        a, finite: 1/T for a temperature T.
    bias : array-like of shape (K,)
        b, finite, or −inf for a class that is not to be.
    kind : {"logits", "probs", "log_probs"}, default "logits"
        What the scores are.
    class_axis : int, default -1
        The axis of the classes.
    log : bool, default False
        Whether to return the logarithm.

    Returns
    -------
    array of the scores' shape, library, device and dtype (integers: float64)
        The posterior. For one score per sample, the probability of class 1.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger. "On Calibration of Modern Neural Networks", ICML 2017:
       vector scaling.

    Examples
    --------
    >>> import numpy as np
    >>> affine_posterior(np.array([[2.0, 0.0]]), 0.5, [0.0, 1.0])
    array([[0.5, 0.5]])
    """
    check_kind(kind)
    b = _vector(bias, "bias", lowest=True)
    a = np.broadcast_to(_vector(scale, "scale", n_classes=b.size), b.shape)
    return map_posterior(scores, AffineMap(b, scales=a), kind=kind, class_axis=class_axis, log=log)


def _vector(
    values: Any, name: str, *, lowest: bool = False, n_classes: int | None = None
) -> NDArray[np.float64]:
    """Return finite numbers, or −inf where ``lowest``: one per class, or one where K is known."""
    host = to_numpy(values)
    fits = host.ndim == 1 if n_classes is None else host.shape in ((n_classes,), ())
    if host.dtype.kind not in "iuf" or not fits:
        one = "" if n_classes is None else "one number, or "
        raise OptionError(
            argument=name,
            rule=f"must be {one}one number per class",
            got=f"dtype {host.dtype} and shape {host.shape}",
            remedy=_REMEDY,
        )
    numbers = host.astype(np.float64)
    good = np.isfinite(numbers) | (lowest & np.isneginf(numbers))
    if not good.all():
        where = first_index(~good)
        raise OptionError(
            argument=name,
            rule=f"must be finite{' or −inf' if lowest else ''}",
            got=Element(name, where, float(numbers[where])),
            remedy=_REMEDY,
        )
    return numbers
