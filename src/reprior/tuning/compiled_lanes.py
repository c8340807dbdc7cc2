"""Short rows taken whole, a class per lane of a vector (LLVM's vectors, through numba).

Of a loop over a dozen classes a compiler makes a dozen steps: it takes vectors of whole multiples
only, and what is left one by one. Here a row is loaded as one vector of 4 to 128 lanes; lanes
behind its last class, in which the next row begins, are left out of every answer.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from reprior.core.prefetching import AHEAD, LINE, emit_prefetch

__all__ = ["Lanes", "fits_lanes", "lanes_for", "near_lines", "row_ends"]

FEWEST_LANES, MOST_LANES = 4, 128
"""Four float32 fill the shortest vector registers there are. 128 numbers fill 8 to 64 registers,
and are still sooner gone through than in blocks."""

WIDE, FULL = 512, 0.75
"""Vectors of more bytes than this pay where so much of them is filled, and else not (measured with
vectors of 128, 256 and 512 bits: the loss is a sixth for 65 classes in 128 lanes of 8 bytes)."""

Lanes = tuple[None, ...]
"""As many as there are lanes: of what type such a tuple is, and so what is compiled, says it."""

_types: Any = types  # which says little of its own types

_MASK = ir.IntType(128)
"""What the answers of all lanes are read as, a bit each."""

# Compiled code is invisible to line coverage; tests/tuning/test_compiled.py checks all of it
# against the array-API pass, bit for bit.


def lanes_for(n_classes: int) -> Lanes:
    """As many lanes as a row of so many classes needs, a power of 2.

    Examples
    --------
    >>> len(lanes_for(14))
    16
    """
    n = FEWEST_LANES
    while n < n_classes:
        n *= 2
    return (None,) * n


def fits_lanes(n_classes: int, itemsize: int) -> bool:
    """Whether rows are sooner taken whole than in blocks.

    Examples
    --------
    >>> fits_lanes(100, 8), fits_lanes(65, 8), fits_lanes(65, 4), fits_lanes(129, 4)
    (True, False, True, False)
    """
    n_lanes = len(lanes_for(n_classes))
    filled = n_lanes * itemsize <= WIDE or n_classes >= FULL * n_lanes
    return n_lanes <= MOST_LANES and filled


class _Row:  # pragma: no cover
    """What is emitted for a row: vectors of its scores, and questions to all lanes at once."""

    def __init__(self, context: Any, builder: Any, scores: Any, n_lanes: int) -> None:
        self.builder, self.n_lanes = builder, n_lanes
        self.number = context.get_value_type(scores.dtype)
        self.size = scores.dtype.bitwidth // 8
        self.align = self.size if scores.aligned else 1
        self.integer = ir.IntType(scores.dtype.bitwidth)

    def of(self, kind: Any) -> Any:
        """The type of a vector."""
        return ir.VectorType(kind, self.n_lanes)

    def every(self, value: Any) -> Any:
        """A vector of the same value in every lane."""
        kind, index = self.of(value.type), ir.IntType(32)
        nothing = ir.Constant(kind, ir.Undefined)
        one = self.builder.insert_element(nothing, value, ir.Constant(index, 0))
        lanes = ir.Constant(ir.VectorType(index, self.n_lanes), [0] * self.n_lanes)
        return self.builder.shuffle_vector(one, nothing, lanes)

    def load(self, data: Any, at: Any) -> Any:
        """As many items of an array as there are lanes, from a place on."""
        pointer = self.builder.gep(data, [at])
        found = self.builder.load(self.builder.bitcast(pointer, self.of(self.number).as_pointer()))
        found.align = self.align
        return found

    def ask_ahead(self, data: Any, at: Any) -> None:
        """Ask for as many items some rows behind a place."""
        for start in range(0, self.n_lanes * self.size, LINE):
            distance = ir.Constant(at.type, (AHEAD + start) // self.size)
            emit_prefetch(self.builder, self.builder.gep(data, [self.builder.add(at, distance)]))

    def real(self, n_classes: Any) -> Any:
        """Which lanes have a class."""
        if self.integer.width < n_classes.type.width:
            n_classes = self.builder.trunc(n_classes, self.integer)
        lanes = ir.Constant(self.of(self.integer), list(range(self.n_lanes)))
        return self.builder.icmp_unsigned("<", lanes, self.every(n_classes))

    def largest(self, numbers: Any) -> Any:
        """The largest of all lanes, found among integers that are in the same order.

        A positive NaN is above +inf, a negative one below −inf.
        """
        b, shift, mask = self.builder, self.integer.width - 1, (1 << self.integer.width - 1) - 1

        def turned(bits: Any, constant: Any) -> Any:
            return b.xor(bits, b.and_(b.ashr(bits, constant(shift)), constant(mask)))

        ordinals = turned(
            b.bitcast(numbers, self.of(self.integer)),
            lambda x: ir.Constant(self.of(self.integer), [x] * self.n_lanes),
        )
        name = f"llvm.vector.reduce.smax.v{self.n_lanes}i{self.integer.width}"
        kind = ir.FunctionType(self.integer, [ordinals.type])
        function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
        top = b.call(function, [ordinals])
        return b.bitcast(turned(top, lambda x: ir.Constant(self.integer, x)), self.number)

    def first(self, answers: Any) -> Any:
        """The first lane that says yes; 128, where there is no class, if none does."""
        kind = ir.FunctionType(_MASK, [_MASK, ir.IntType(1)])
        count = self.builder.module.declare_intrinsic("llvm.cttz", [_MASK], kind)
        found = self.builder.call(count, [self._mask(answers), ir.Constant(ir.IntType(1), 0)])
        return self.builder.trunc(found, ir.IntType(64))

    def count(self, answers: Any) -> Any:
        """How many lanes say yes."""
        count = self.builder.module.declare_intrinsic("llvm.ctpop", [_MASK])
        return self.builder.trunc(self.builder.call(count, [self._mask(answers)]), ir.IntType(64))

    def _mask(self, answers: Any) -> Any:
        bits = self.builder.bitcast(answers, ir.IntType(self.n_lanes))
        return bits if self.n_lanes == _MASK.width else self.builder.zext(bits, _MASK)


def _data(context: Any, builder: Any, kind: Any, array: Any) -> Any:  # pragma: no cover
    return context.make_array(kind)(context, builder, array).data


def _emit_row_ends(
    _typing: Any,
    scores: Any,
    at: Any,
    n_classes: Any,
    shift: Any,
    own: Any,
    most: Any,
    lanes: Any,
) -> Any:  # pragma: no cover
    """Return the first of a row's largest scores, that score, the same of its lines, how many near.

    Lines are scores + ``shift``; near are those not below the largest by more than ``own`` times
    its size and ``most``, both of the scores' type. The row starts at item ``at`` of the scores,
    and there are at least as many items from there on as lanes; as many are in ``shift``. Rows to
    come are asked for.

    If one line is near, it is the largest, and the row has no negative NaN: that is not below
    anything. Of a row with a positive one the largest score is NaN, and where it is, unknown.
    """
    if scores.layout != "C":
        return None

    def emit(context: Any, b: Any, signature: Any, given: Any) -> Any:
        row = _Row(context, b, scores, len(lanes))
        data = [_data(context, b, signature.args[i], given[i]) for i in (0, 3)]
        row.ask_ahead(data[0], given[1])
        start = ir.Constant(given[1].type, 0)
        real = row.real(given[2])
        nothing = ir.Constant(row.of(row.number), [float("-inf")] * row.n_lanes)
        z = b.select(real, row.load(data[0], given[1]), nothing)
        line = b.fadd(z, row.load(data[1], start))
        peak, top = row.largest(z), row.largest(line)
        size = b.call(b.module.declare_intrinsic("llvm.fabs", [row.number]), [top])
        level = b.fsub(top, b.fmul(given[4], b.fadd(size, given[5])))
        near = b.and_(real, b.fcmp_unordered(">=", line, row.every(level)))
        first = row.first(b.fcmp_ordered("==", z, row.every(peak)))
        best = row.first(b.fcmp_ordered("==", line, row.every(top)))
        return context.make_tuple(b, signature.return_type, [first, peak, best, row.count(near)])

    index = _types.int64
    found = _types.Tuple((index, scores.dtype, index, index))
    return found(scores, at, n_classes, shift, own, most, lanes), emit


def _emit_near_lines(
    _typing: Any,
    scores: Any,
    at: Any,
    n_classes: Any,
    slope: Any,
    x: Any,
    least: Any,
    lanes: Any,
) -> Any:  # pragma: no cover
    """Return how many of a row's lines, scores + x · ``slope``, are not below ``least``.

    Of ``scores`` and ``slope`` as in ``row_ends``.
    """
    if scores.layout != "C":
        return None

    def emit(context: Any, b: Any, signature: Any, given: Any) -> Any:
        row = _Row(context, b, scores, len(lanes))
        data = [_data(context, b, signature.args[i], given[i]) for i in (0, 3)]
        rise = b.fmul(row.every(given[4]), row.load(data[1], ir.Constant(given[1].type, 0)))
        line = b.fadd(row.load(data[0], given[1]), rise)
        near = b.fcmp_unordered(">=", line, row.every(given[5]))
        return row.count(b.and_(row.real(given[2]), near))

    return _types.int64(scores, at, n_classes, slope, x, least, lanes), emit


row_ends: Any = intrinsic(_emit_row_ends)
near_lines: Any = intrinsic(_emit_near_lines)
