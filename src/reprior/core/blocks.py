"""The NumPy path of :mod:`reprior.core.tilt`: the same formula, one cache-sized block a time.

Plain NumPy expressions stream a large array through memory once per operation. Here every
operation of the formula is applied to one block while it is in the processor's cache, into
buffers that are used again, so that no temporary is larger than a block.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior.core.tilt import Tilt

__all__ = ["tilt_blocks"]

BLOCK_BYTES = 1 << 19
"""Size of a block. Measured: 128 KB is slower by a fifth, more than 512 KB gains nothing."""

SHORT_ROW = 24
"""Rows of fewer classes than this are turned, so that reductions run along the samples: NumPy's
overhead per row costs more than the transposition. Measured for float32 and float64."""

SHORT_RUN = 64
"""The same for classes on an inner axis, with fewer entries than this behind it."""


def tilt_blocks(z: NDArray[Any], tilt: Tilt, *, axis: int) -> NDArray[Any] | None:
    """Return the (log-)posterior of every row along ``axis``, or None if a row has none."""
    axis %= z.ndim
    dtype = np.dtype(tilt.dtype)
    if z.flags.f_contiguous and not z.flags.c_contiguous:
        turned = tilt_blocks(z.T, tilt, axis=z.ndim - 1 - axis)
        return None if turned is None else turned.T
    z = np.ascontiguousarray(z)
    out = np.empty(z.shape, dtype=dtype if z.dtype.kind in "iu" else z.dtype)
    n_classes, inner = z.shape[axis], math.prod(z.shape[axis + 1 :])
    shape = (-1, n_classes) if inner == 1 else (-1, n_classes, inner)
    source, target = z.reshape(shape), out.reshape(shape)
    turn = n_classes < SHORT_ROW if inner == 1 else inner < SHORT_RUN
    shift = tilt.shift.astype(dtype)
    shift = shift.reshape((-1,) + (1,) * (source.ndim - 1 if turn else source.ndim - 2))
    size = min(z.size, max(n_classes, BLOCK_BYTES // dtype.itemsize))
    buffers = np.empty((2, size), dtype=dtype)
    with np.errstate(all="ignore"):
        for block in _blocks(source.shape, dtype.itemsize):
            rows, result = source[block], target[block]
            if turn:
                rows, result = np.moveaxis(rows, 1, 0), np.moveaxis(result, 1, 0)
            if not _apply(tilt, rows, result, shift, buffers, axis=0 if turn else 1):
                return None
    return out


def _blocks(shape: tuple[int, ...], itemsize: int) -> Iterator[tuple[slice, ...]]:
    """Yield slices that cut (outer, K) or (outer, K, inner) in blocks with whole rows."""
    budget = max(1, BLOCK_BYTES // (itemsize * shape[1]))
    inner = shape[2] if len(shape) == 3 else 1
    step = max(1, budget // inner)
    for start in range(0, shape[0], step):
        outer = slice(start, start + step)
        if len(shape) == 2:
            yield (outer,)
            continue
        for left in range(0, inner, budget):
            yield outer, slice(None), slice(left, left + budget)


def _apply(
    tilt: Tilt,
    rows: NDArray[Any],
    result: NDArray[Any],
    shift: NDArray[Any],
    buffers: NDArray[Any],
    *,
    axis: int,
) -> bool:
    """Write the posterior of one block into ``result``; tell whether every row has one."""
    scores, mass = (buffer[: rows.size].reshape(rows.shape) for buffer in buffers)
    if tilt.kind != "logits" and not _are_distributions(tilt, rows, mass, axis):
        return False
    tempered = rows
    if tilt.kind == "probs":
        tempered = np.log(rows, out=scores, dtype=tilt.dtype)
    if tilt.temperature != 1.0:
        tempered = np.divide(tempered, tilt.temperature, out=scores, dtype=tilt.dtype)
    np.add(tempered, shift, out=scores)
    # NaN and +inf come through the maximum: one small array tells of every bad score.
    peak = _peak(scores, axis)
    if not np.isfinite(peak).all():
        return False
    np.subtract(scores, peak, out=scores)
    np.exp(scores, out=mass)
    total = _total(mass, axis)
    if tilt.log:
        np.subtract(scores, np.log(total).astype(tilt.dtype), out=result, casting="same_kind")
    else:
        np.divide(mass, total.astype(tilt.dtype), out=result, casting="same_kind")
    return True


def _peak(scores: NDArray[Any], axis: int) -> NDArray[Any]:
    """Return the row maxima; like ``max`` they are NaN where the row has a NaN."""
    peak: NDArray[Any]
    if scores.ndim == 2 and axis == 1:
        # Half the time of `max`, whose inner loop is slow on rows of tens or hundreds.
        peak = scores[np.arange(len(scores)), scores.argmax(axis=1)][:, None]
    else:
        peak = scores.max(axis=axis, keepdims=True)
    return peak


def _total(mass: NDArray[Any], axis: int) -> NDArray[np.float64]:
    """Return the row sums, accumulated in float64."""
    total: NDArray[np.float64]
    if mass.ndim == 2 and axis == 1:
        # As exact as `sum(dtype=float64)` and twice as fast on rows.
        total = np.einsum("nk->n", mass, dtype=np.float64, casting="unsafe")[:, None]
    else:
        total = np.sum(mass, axis=axis, keepdims=True, dtype=np.float64)
    return total


def _are_distributions(tilt: Tilt, rows: NDArray[Any], mass: NDArray[Any], axis: int) -> bool:
    if tilt.kind == "log_probs":
        rows = np.exp(rows, out=mass, dtype=tilt.dtype)
    off = np.abs(_total(rows, axis) - 1.0)
    return bool(np.all(off <= tilt.sum_tolerance) and rows.min() >= 0)
