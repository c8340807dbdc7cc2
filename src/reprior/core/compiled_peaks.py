"""Where the largest score of a row is, compiled (numba).

Maxima are taken of integers: a float's bits, read as an integer and with those of negative
numbers turned round, are in the order of the floats, and numba takes a maximum of integers with
vector instructions, of floats it does not.

Loops run over unsigned indices: numba need not ask whether one counts from the end, and slices,
whose references it would count, are not needed.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numba import njit

from reprior.core.prefetching import ask_ahead

__all__ = [
    "BLOCK",
    "ONE",
    "WIDTH",
    "ZERO",
    "Index",
    "bits_of",
    "peak_of",
    "peaks",
    "place_of",
    "places_in",
    "top_of",
]

Index: TypeAlias = Any
"""A signed or unsigned integer: compiled code must not mix the two."""

#: Classes that are taken in one go, with vector instructions; those of a block in which nobody
#: is near are never looked at one by one.
WIDTH = 128
BLOCK: Index = np.uintp(WIDTH)

ZERO: Index = np.uintp(0)
ONE: Index = np.uintp(1)

# Compiled code is invisible to line coverage; tests/tuning/test_compiled.py checks all of it
# against the array-API pass, bit for bit, and tests/core/test_shift_predictions.py against NumPy.


def bits_of(scores: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Contiguous scores of 32 or 64 bits as integers."""
    return scores.view(np.int64 if scores.itemsize == 8 else np.int32)


def places_in(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The places in a block, counted down to 1, of the type of the bits."""
    return np.arange(WIDTH, 0, -1).astype(bits.dtype)


@njit(nogil=True, cache=True, forceinline=True)
def top_of(bits: Any, i: Index, start: Index, stop: Index) -> Any:  # pragma: no cover
    """The largest of a block of floats, as its ordinal, of their bits."""
    mask = np.iinfo(bits.dtype).max
    top = bits.dtype.type(bits[i, start] ^ ((bits[i, start] >> 63) & mask))
    for k in range(start + ONE, stop):
        top = max(top, bits.dtype.type(bits[i, k] ^ ((bits[i, k] >> 63) & mask)))
    return top


@njit(nogil=True, cache=True, forceinline=True)
def place_of(
    bits: Any, i: Index, start: Index, stop: Index, top: Any, places: Any
) -> Index:  # pragma: no cover
    """Where in a block the float of ordinal ``top`` is first; ``places`` count down to 1."""
    back = bits.dtype.type(top ^ ((top >> 63) & np.iinfo(bits.dtype).max))
    at = bits.dtype.type(0)
    for k in range(start, stop):
        at = max(at, places[k - start] if bits[i, k] == back else bits.dtype.type(0))
    return np.int64(start + BLOCK - np.uintp(at))


@njit(nogil=True, cache=True, forceinline=True)
def peak_of(scores: Any, bits: Any, i: Index, places: Any) -> Index:  # pragma: no cover
    """The model's own arg max, as NumPy has it."""
    n_classes: Index = np.uintp(scores.shape[1])
    best, first = top_of(bits, i, ZERO, min(BLOCK, n_classes)), ZERO
    for start in range(BLOCK, n_classes, BLOCK):
        here = top_of(bits, i, start, min(start + BLOCK, n_classes))
        if here > best:
            best, first = here, start
    a = place_of(bits, i, first, min(first + BLOCK, n_classes), best, places)
    if best == 0:  # 0.0, and -0.0 is as large
        a = 0
        while scores[i, a] != 0.0:
            a += 1
    return a


@njit(nogil=True, cache=True)
def peaks(scores: Any, bits: Any, places: Any, origin: Any) -> bool:  # pragma: no cover
    """Write the model's own arg max of every row; whether each is finite."""
    n_rows: Index = np.uintp(scores.shape[0])
    well = True
    for i in range(n_rows):
        ask_ahead(scores, i)
        a = peak_of(scores, bits, i, places)
        origin[i] = a
        well &= -np.inf < scores[i, a] < np.inf
    return well
