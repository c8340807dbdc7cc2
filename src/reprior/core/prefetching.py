"""Asking for memory before it is needed, in compiled loops (numba).

A processor guesses what a loop will read next, but only within a page of 4 KiB, and not at all on
some virtual machines. Rows that stream from memory are gone through in half the time where they
have been asked for a few pages ahead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

__all__ = ["AHEAD", "LINE", "ask_ahead", "emit_prefetch"]

LINE = 64
"""Bytes that come at a time."""

AHEAD = 1 << 14
"""Bytes that a row is asked for ahead of its turn: some microseconds, in which it comes."""

READ, KEPT, DATA = 0, 3, 1
"""How memory is asked for: to be read, into all caches, and not as instructions."""


def emit_prefetch(builder: Any, pointer: Any) -> None:  # pragma: no cover
    """Ask for the line of memory at a pointer; nothing is read, and nothing need be there."""
    anything, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [anything, number, number, number])
    function = builder.module.declare_intrinsic("llvm.prefetch", [anything], kind)
    how = [ir.Constant(number, flag) for flag in (READ, KEPT, DATA)]
    builder.call(function, [builder.bitcast(pointer, anything), *how])


def _emit_prefetch_item(_typing: Any, array: Any, index: Any) -> Any:  # pragma: no cover
    """Ask for the line of a C-ordered array that item ``index`` is in, as if it were flat."""
    if array.layout != "C":
        return None

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        emit_prefetch(builder, builder.gep(data, [arguments[1]]))
        return context.get_dummy_value()

    return types.void(array, index), emit


_prefetch: Any = intrinsic(_emit_prefetch_item)


@njit(nogil=True, cache=True, forceinline=True)
def ask_ahead(rows: Any, i: Any) -> None:  # pragma: no cover
    """Ask for a row's worth of memory some rows behind row ``i``, an unsigned index."""
    n_classes, line = np.uintp(rows.shape[1]), np.uintp(LINE // rows.itemsize)
    start = i * n_classes + np.uintp(AHEAD // rows.itemsize)
    for at in range(start, start + n_classes, line):
        _prefetch(rows, at)
