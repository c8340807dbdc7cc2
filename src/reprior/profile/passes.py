"""One pass over the scores: class counts at the lower bound and at 0, and every switch.

Threads share the rows in blocks. Host arrays go through the kernel
:func:`reprior._native.profile`, everything else through the array code of ``envelope``.

Results have the same bits for any number of threads: groups of blocks do not depend on it. Weights
are summed per group, and the sums of the groups are added in order. Switches come in the order of
the groups too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from reprior.core import kernels
from reprior.core.arrays import is_numpy_namespace
from reprior.core.threads import (
    cut,
    in_threads,
    n_cores,
    n_shares,
    shares_out,
    stop_if_ended,
)
from reprior.metrics.counts import PairCounts
from reprior.profile.envelope import Envelope, Screen, envelope, screen, walk
from reprior.profile.samples import Block, Samples
from reprior.profile.switches import Switches

__all__ = ["PART_SCORES", "Counted", "Table", "refuse_row", "run_parts", "run_pass"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Scores of one block in the host's memory. A kernel call then takes about a millisecond, so that
#: Ctrl-C works at once, and array code stays in the cache.
HOST_BLOCK = 1 << 19

#: On a GPU, where starting an operation is slow and memory bandwidth high.
DEVICE_BLOCK = 1 << 24

#: Groups of blocks whose switches are binned before the next ones are read: enough to be shared
#: among cores, and few enough to be summed from a cache.
GROUPS_PER_PART = 16
PART_SCORES = GROUPS_PER_PART * HOST_BLOCK

#: Rows of a group, about: with weights, its (5, K) sums are then small beside its scores, and array
#: code works on many samples at once. Where neither matters, each block is a group.
GROUP_ROWS = 512

#: Initial capacity of the switch buffer: at least, and per row.
FIRST_CAPACITY = 1 << 14
SWITCHES_PER_ROW = 0.5

#: Below this share of its capacity a buffer is copied and freed.
SPACIOUS = 0.8

NO_WEIGHTS = np.empty(0)


class Table:
    """Names for the rows of a (5, K) table of counts: at the lower bound, and at λ = 0."""

    SUPPORT, TRUE_POSITIVE, PREDICTED, TRUE_POSITIVE_AT_0, PREDICTED_AT_0 = range(5)


class Pairs(NamedTuple):
    """Labels and predictions of all samples, at the lower bound and at λ = 0."""

    start: PairCounts
    origin: PairCounts
    numbered: bool = False
    """Whether images have numbers from 0 on that nobody gave: another profile's are others."""

    @classmethod
    def of(cls, found: Any, block: Block, n_classes: int) -> Pairs:
        """Count the winners ``found.start`` and ``found.origin`` of some samples."""

        def count(predicted: Vector) -> PairCounts:
            return PairCounts.of(block.labels, predicted, n_classes, block.weights, block.images)

        start = count(found.start)
        return cls(start, start if found.origin is found.start else count(found.origin))

    @classmethod
    def concatenate(cls, parts: Sequence[Pairs]) -> Pairs | None:
        """Sum the pairs of parts, in their order; None where there are none."""
        if len(parts) < 2:  # the pairs of one part are sorted, and each is there once
            return parts[0] if parts else None
        start = PairCounts.concatenate([part.start for part in parts]).summed()
        if all(part.origin is part.start for part in parts):
            return cls(start, start)
        return cls(start, PairCounts.concatenate([part.origin for part in parts]).summed())


class _Ends(NamedTuple):
    """The winners at the lower bound and at λ = 0, (N,)."""

    start: Vector
    origin: Vector


class _Group(NamedTuple):
    """Neighbouring blocks, and the table (5, K) of their weights; one of zeros without weights."""

    blocks: Sequence[Any]
    sums: Vector


@dataclass(eq=False)
class _ThreadTally:
    """Counts and switches of one thread."""

    counts: Vector
    weighted: bool
    switches: list[Switches] = field(default_factory=list)
    pairs: list[Pairs] | None = None
    """Labels and predictions, block by block, if they are counted."""
    buffer: _SwitchBuffer | None = None
    """Where the kernel writes switches, if the memory is reused."""

    @classmethod
    def empty(cls, n_classes: int, weighted: bool, paired: bool) -> _ThreadTally:
        """Return an empty tally."""
        pairs: list[Pairs] | None = [] if paired else None
        return cls(np.zeros((5, n_classes), np.int64), weighted, pairs=pairs)

    def add(self, found: Envelope, block: Block, sums: Vector) -> None:
        """Count the winners and keep the switches of some samples."""
        _tabulate(self.counts, block.labels, found, None)
        if block.weights is not None:
            _tabulate(sums, block.labels, found, block.weights)
        self.pair(found, block)
        self.note(found.position, found.row, (found.loser, found.winner), block)

    def pair(self, found: Any, block: Block) -> None:
        """Count labels and predictions of some samples."""
        if self.pairs is not None:
            self.pairs.append(Pairs.of(found, block, self.counts.shape[1]))

    def note(self, position: Vector, row: Vector, parties: Any, block: Block) -> None:
        """Keep copies of the switches of a block: the caller reuses its buffers."""
        if position.size:
            loser, winner = (np.array(party, np.int32) for party in parties)
            weight = None if block.weights is None else block.weights[row]
            label = block.labels[row].astype(np.int32)
            image = None if block.images is None else block.images[row]
            self.switches.append(
                Switches(position.copy(), label, loser, winner, weight=weight, image=image)
            )

    def closed(self) -> Switches:
        """Return all switches."""
        if self.switches:
            return Switches.concatenate(self.switches)
        return Switches.none(self.weighted)


class _SwitchBuffer:
    """Columns of switches that the kernel fills; doubled when they are full."""

    def __init__(self, capacity: int, weighted: bool) -> None:
        self.position = np.empty(capacity)
        self.parties = np.empty((4, capacity), np.int32)
        self.weight = np.empty(capacity if weighted else 0)
        self.images: list[Vector] = []

    def double(self) -> None:
        self.position, self.parties, self.weight = (
            np.concatenate([column, np.empty_like(column)], axis=-1)
            for column in (self.position, self.parties, self.weight)
        )

    def closed(self, used: int) -> Switches:
        """Return the switches; copies if the buffer is much larger."""
        return self.seen(used, copied=used < SPACIOUS * self.position.size)

    def seen(self, used: int, *, copied: bool = False) -> Switches:
        """Return views of the switches, or copies."""
        columns = (self.position, *self.parties[:3], self.weight)
        position, label, loser, winner, weight = (
            column[:used].copy() if copied else column[:used] for column in columns
        )
        weights = weight if self.weight.size else None
        image = np.concatenate(self.images) if self.images else None
        return Switches(position, label, loser, winner, weight=weights, image=image)


class Counted(NamedTuple):
    """What a pass counts."""

    counts: Vector
    """(5, K)."""
    sums: Vector | None
    """The same weighted, or None."""
    switches: Switches
    pairs: Pairs | None = None
    """Labels and predictions, if they were asked for and no class is excluded."""


def run_pass(
    samples: Samples,
    slopes: Vector | None,
    bounds: tuple[float, float],
    *,
    pairs: bool = True,
) -> Counted:
    """Count all rows, and find their switches, for slopes (K,); None: the samples have their own.

    Of samples of a class that is ruled out only the support is counted.

    Bounds on both sides of 0 take two passes that meet at 0, so that the counts there are those of
    the model's own arg max whatever rounding does.

    Without ``pairs`` only counts per class are known, not how many samples of every label have
    every prediction.
    """
    native, groups = _plan(samples)
    counts, sums, switches, known = _run(samples, slopes, bounds, native, groups, pairs=pairs)
    if samples.excluded:
        number, weight = samples.excluded_support()
        counts[Table.SUPPORT] += number
        if sums is not None:
            sums[Table.SUPPORT] += weight
    return Counted(counts, sums, switches, known)


def run_parts(
    samples: Samples, slopes: Vector | None, bounds: tuple[float, float]
) -> Iterator[Counted]:
    """Yield the results of :func:`run_pass` part by part; all at once if any class is excluded.

    Sum up each before the next, which reuses its memory: all switches together can be as large as
    the scores, and memory that is new to a process is slow.
    """
    if samples.excluded:
        yield run_pass(samples, slopes, bounds, pairs=False)
        return
    native, groups = _plan(samples)
    reuses = native and not bounds[0] < 0.0 < bounds[1]
    weighted = samples.weights is not None
    capacity = FIRST_CAPACITY + samples.n_classes
    buffers = [_SwitchBuffer(capacity, weighted) for _ in range(n_cores() if reuses else 0)]
    for start in range(0, len(groups), GROUPS_PER_PART):
        some = groups[start : start + GROUPS_PER_PART]
        if not reuses or weighted:
            yield _run(samples, slopes, bounds, native, some, buffers)
            continue
        tallies, _ = _count_in_threads(samples, slopes, bounds, native, some, buffers)
        for tally in tallies:
            yield Counted(tally.counts, None, tally.closed())


def _plan(samples: Samples) -> tuple[bool, Sequence[Sequence[Any]]]:
    """Return whether the kernel takes the rows, and the blocks to read them in, in groups."""
    on_host = is_numpy_namespace(samples.xp) or samples.view is not None
    native = on_host and kernels.native is not None
    blocks = samples.blocks(HOST_BLOCK if on_host else DEVICE_BLOCK)
    size = 1
    if samples.weights is not None or not native:
        size = math.ceil(GROUP_ROWS * samples.n_classes / HOST_BLOCK)
    return native, [blocks[start : start + size] for start in range(0, len(blocks), size)]


def _run(
    samples: Samples,
    slopes: Vector | None,
    bounds: tuple[float, float],
    native: bool,
    groups: Sequence[Sequence[Any]],
    buffers: Sequence[_SwitchBuffer] = (),
    *,
    pairs: bool = False,
) -> Counted:
    low, high = bounds
    if low < 0.0 < high:
        before = _run(samples, slopes, (low, 0.0), native, groups, pairs=pairs)
        after = _run(samples, slopes, (0.0, high), native, groups)
        return before._replace(switches=before.switches.plus(after.switches))
    tallies, sums = _count_in_threads(samples, slopes, bounds, native, groups, buffers, pairs=pairs)
    counts = np.sum([tally.counts for tally in tallies], axis=0)
    known = Pairs.concatenate([each for tally in tallies for each in tally.pairs or ()])
    return Counted(counts, sums, Switches.concatenate([tally.closed() for tally in tallies]), known)


def _count_in_threads(
    samples: Samples,
    slopes: Vector | None,
    bounds: tuple[float, float],
    native: bool,
    groups: Sequence[Sequence[Any]],
    buffers: Sequence[_SwitchBuffer] = (),
    *,
    pairs: bool = False,
) -> tuple[list[_ThreadTally], Vector | None]:
    """Return the tally of each thread, and the sums of weights; ``buffers`` are reused if given."""
    work = partial(_count_native if native else _count_arrays, samples, slopes, bounds)
    n_threads = 1
    if (native or is_numpy_namespace(samples.xp)) and shares_out():
        n_threads = n_shares(len(groups), samples.n_scores)
    # Allocated before other threads start: NumPy releases the interpreter lock to clear memory,
    # and would wait to get it back.
    weighted = samples.weights is not None
    tallies = [_ThreadTally.empty(samples.n_classes, weighted, pairs) for _ in range(n_threads)]
    sums = np.zeros((len(groups) if weighted else 1, 5, samples.n_classes))
    for tally, buffer in zip(tallies, buffers, strict=False):
        tally.buffer = buffer
    jobs = [_Group(blocks, sums[g if weighted else 0]) for g, blocks in enumerate(groups)]
    shares = [jobs[part] for part in cut(len(jobs), n_threads)]
    in_threads(lambda share: work(*share), list(zip(tallies, shares, strict=True)))
    return tallies, sums.sum(axis=0) if weighted else None


def _count_native(
    samples: Samples,
    slopes: Vector | None,
    bounds: tuple[float, float],
    tally: _ThreadTally,
    groups: Sequence[_Group],
) -> None:
    """Count each block by one call of the kernel."""
    assert kernels.native is not None  # noqa: S101 - the plan says so
    profile = kernels.native.profile
    from_zero = bounds[0] == 0.0
    table, used = tally.buffer, 0
    if table is None:
        share = sum(len(group.blocks) for group in groups) * HOST_BLOCK / samples.n_classes
        capacity = max(FIRST_CAPACITY, int(SWITCHES_PER_ROW * share))
        table = _SwitchBuffer(capacity + samples.n_classes, tally.weighted)
    for index, sums in ((index, group.sums) for group in groups for index in group.blocks):
        stop_if_ended()
        block = samples.read_strided(index)
        ends = np.empty((2, block.labels.size), np.int32)
        row, first = 0, used
        while row < block.labels.size:
            row, used = profile(
                block.scores,
                block.labels,
                block.weights,
                slopes,
                block.slopes,
                block.to_scores,
                *bounds,
                row,
                tally.counts,
                sums,
                table.position,
                table.parties,
                table.weight,
                used,
                ends,
            )
            if row < 0:
                refuse_row(samples, slopes, bounds)
            if row < block.labels.size:
                table.double()
        if block.images is not None:
            table.images.append(block.images[table.parties[3, first:used]])
        if tally.pairs is not None:
            counted = slice(None) if block.labels.min(initial=0) >= 0 else block.labels >= 0
            start, origin = ends[:, counted]
            columns: Any = (
                None if each is None else each[counted]
                for each in (block.labels, block.weights, block.images)
            )
            labels, weights, images = columns
            kept = Block(None, labels, weights, images=images)
            tally.pair(_Ends(start, start if from_zero else origin), kept)
    tally.switches.append(table.closed(used) if tally.buffer is None else table.seen(used))


def _count_arrays(
    samples: Samples,
    slopes: Vector | None,
    bounds: tuple[float, float],
    tally: _ThreadTally,
    groups: Sequence[_Group],
) -> None:
    """Screen each block by array code; walk all switching samples of a group at once."""
    for group in groups:
        screens: list[Screen] = []
        seen: list[Block] = []
        for index in group.blocks:
            stop_if_ended()
            block = samples.read(index)
            if not block.labels.size:
                continue
            steepness = block.slopes if slopes is None else slopes
            xp = np if slopes is not None else samples.xp
            if bool(xp.all(xp.isfinite(steepness))):
                screens.append(screen(block.scores, steepness, bounds, samples.xp))
                seen.append(block._replace(scores=None, slopes=None))
                if screens[-1].hopeless:
                    refuse_row(samples, slopes, bounds)
                continue
            found = envelope(block.scores, steepness, bounds, samples.xp)
            found = refuse_row(samples, slopes, bounds) if found is None else found
            tally.add(found, block, group.sums)
        if screens:
            labels, weights, images = (
                _joined([getattr(block, name) for block in seen])
                for name in ("labels", "weights", "images")
            )
            walked = walk(Screen.joined(screens), bounds)
            tally.add(walked, Block(None, labels, weights, images=images), group.sums)


def refuse_row(samples: Samples, slopes: Vector | None, bounds: tuple[float, float]) -> NoReturn:
    """Raise the error that names the sample that a pass could not count."""
    samples.refuse(True if slopes is None else np.isfinite(slopes), low=bounds[0])


def _joined(columns: list[Any]) -> Any:
    """Concatenate columns; None where there are none."""
    return None if columns[0] is None else np.concatenate(columns)


def _tabulate(table: Vector, labels: Vector, found: Envelope, weights: Vector | None) -> None:
    def total(classes: Vector, where: Vector | slice = slice(None)) -> Vector:
        weight = None if weights is None else weights[where]
        return np.bincount(classes[where], weight, minlength=table.shape[1])

    table[Table.SUPPORT] += total(labels)
    table[Table.TRUE_POSITIVE] += total(labels, labels == found.start)
    table[Table.PREDICTED] += total(found.start)
    if found.origin is found.start:
        table[Table.TRUE_POSITIVE_AT_0 :] = table[Table.TRUE_POSITIVE : Table.PREDICTED + 1]
        return
    table[Table.TRUE_POSITIVE_AT_0] += total(labels, labels == found.origin)
    table[Table.PREDICTED_AT_0] += total(found.origin)
