"""The only door to the compiled kernels, :mod:`reprior._native`.

``native`` is the extension, or None where it is not installed or ``REPRIOR_NATIVE=off`` is set;
array-API code then does the same work. ``REPRIOR_NATIVE=require`` makes a missing extension an
error. ``REPRIOR_SIMD`` chooses an instruction set, such as ``baseline``; results are the same.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior.exceptions import OptionError

__all__ = ["description", "native", "serves", "strided_rows"]

_DTYPES = frozenset(map(np.dtype, (np.float16, np.float32, np.float64)))


def _load() -> ModuleType | None:
    choice = os.environ.get("REPRIOR_NATIVE", "")
    if choice not in ("", "off", "require"):
        raise OptionError(
            f"REPRIOR_NATIVE must be 'off' or 'require', or not be set. Got {choice!r}."
        )
    if choice == "off":
        return None
    try:
        from reprior import _native
    except ImportError:
        if choice == "require":
            raise
        return None
    level = os.environ.get("REPRIOR_SIMD", "")
    if level:
        if level not in _native.levels():
            raise OptionError(
                f"REPRIOR_SIMD must be one of {', '.join(_native.levels())} on this processor. "
                f"Got {level!r}."
            )
        _native.set_level(level)
    return _native


native: ModuleType | None = _load()
"""The extension, or None."""


def serves(scores: Any) -> bool:
    """Whether the kernels take an array: a plain NumPy array of floats of 16, 32 or 64 bits."""
    return native is not None and type(scores) is np.ndarray and scores.dtype in _DTYPES


def strided_rows(scores: NDArray[Any]) -> NDArray[Any]:
    """View scores (..., K) as (outer, inner, K), as the kernels take rows.

    Axes of samples are merged where their strides allow it. What has no such view, is not aligned
    or has strides that are no multiples of the item size is copied.

    Examples
    --------
    >>> maps = np.moveaxis(np.zeros((2, 3, 4, 5)), 1, -1)  # (N, K, H, W), the classes last
    >>> view = strided_rows(maps)
    >>> view.shape, np.shares_memory(view, maps)
    ((2, 20, 3), True)
    """
    if not scores.flags.aligned or any(stride % scores.itemsize for stride in scores.strides):
        scores = np.ascontiguousarray(scores)
    if scores.flags.c_contiguous or scores.size == 0:
        return scores.reshape(1, -1, scores.shape[-1])
    shape, strides = [1], [0]
    for length, stride in zip(scores.shape[:-1], scores.strides[:-1], strict=True):
        if length == 1:
            continue
        if shape[-1] > 1 and strides[-1] == stride * length:
            shape[-1], strides[-1] = shape[-1] * length, stride
        else:
            shape.append(length)
            strides.append(stride)
    if len(shape) > 3:
        return np.ascontiguousarray(scores).reshape(1, -1, scores.shape[-1])
    shape, strides = shape[1:] or [1], strides[1:] or [0]
    outer = [1] * (2 - len(shape)) + shape
    steps = [0] * (2 - len(shape)) + strides
    return np.lib.stride_tricks.as_strided(
        scores, (*outer, scores.shape[-1]), (*steps, scores.strides[-1]), writeable=False
    )


def description() -> str:
    """What computes: the extension with its instruction set, or array code."""
    return "array code" if native is None else f"native ({native.level()})"
