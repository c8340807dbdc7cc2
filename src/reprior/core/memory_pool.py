"""Memory that is used again: what is new to a process the system has to clear, page by page."""

from __future__ import annotations

import math
import weakref
from collections import deque
from typing import Any, TypeAlias

import numpy as np

__all__ = ["MemoryPool"]

Vector: TypeAlias = np.ndarray[Any, Any]


class MemoryPool:
    """Arrays of about one size, made one after another in memory of those that are gone.

    An array keeps its memory for as long as it, or any view of it, is in use. An allocator gives
    arrays of some megabytes back to the system, and asks for new memory for the next one: that
    was seen to cost nearly as much as reading a file into it.

    Examples
    --------
    >>> pool = MemoryPool()
    >>> array = pool.empty((2, 3), np.dtype(np.float32))
    >>> array.shape
    (2, 3)
    """

    def __init__(self) -> None:
        self._free: deque[Vector] = deque()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Vector:
        """An array of any contents; of a dtype that holds values, not objects."""
        size = math.prod(shape)
        block = self._block(size * dtype.itemsize)
        # Views of an array whose memory is no other array's hold that array, and not the block.
        array = np.frombuffer(block.data, dtype, size)
        weakref.finalize(array, self._free.append, block).atexit = False
        return array.reshape(shape)

    def _block(self, n_bytes: int) -> Vector:
        while True:  # whether one is free can change before it is taken
            try:
                block = self._free.popleft()
            except IndexError:
                return np.empty(n_bytes, np.uint8)
            if block.size >= n_bytes:
                return block
