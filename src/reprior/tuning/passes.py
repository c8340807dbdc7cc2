"""One pass over the scores: class counts at the lower bound and at 0, and every switch.

Rows are taken in blocks that fit the processor's cache, shared among threads; with numba
installed a block is one compiled loop, without it, or on a device of its own, array code.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np

from reprior.core.arrays import is_numpy_namespace, to_numpy
from reprior.tuning.envelope import envelope
from reprior.tuning.rows import Block, Rows
from reprior.tuning.switches import Switches

__all__ = ["Table", "run_pass"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Scores of one block: they stay in the second-level cache between looking and counting.
BLOCK_SCORES = 1 << 17

#: On a device of its own, launching work is dear and memory wide.
DEVICE_BLOCK_SCORES = 1 << 24

#: Fewer scores than this are done before a second thread is awake.
SCORES_PER_THREAD = 1 << 18


class Table:
    """Names for the rows of a (5, K) table of counts: at the lower bound, and at λ = 0."""

    SUPPORT, TRUE_POSITIVE, PREDICTED, TRUE_POSITIVE_AT_0, PREDICTED_AT_0 = range(5)


@dataclass(eq=False)
class _Ledger:
    """What one thread has counted: plain and weighted tables, and switches."""

    counts: Vector
    sums: Vector
    weighted: bool
    switches: list[Switches] = field(default_factory=list)

    def note(self, position: Vector, row: Vector, parties: Any, block: Block) -> None:
        """Keep the switches of a block (copied: the caller's buffers are used again)."""
        if position.size:
            loser, winner = (np.array(party, np.int32) for party in parties)
            weight = None if block.weights is None else block.weights[row]
            label = block.labels[row].astype(np.int32)
            self.switches.append(Switches(position.copy(), label, loser, winner, weight=weight))

    def closed(self) -> Switches:
        """All switches."""
        if self.switches:
            return Switches.concatenate(self.switches)
        nobody = np.empty(0, np.int32)
        weight = np.empty(0) if self.weighted else None
        return Switches(np.empty(0), nobody, nobody, nobody, weight=weight)


def run_pass(
    rows: Rows, slopes: Vector, bounds: tuple[float, float]
) -> tuple[Vector, Vector | None, Switches]:
    """Count (5, K), the same weighted or None, and the switches of all rows."""
    on_host = is_numpy_namespace(rows.xp)
    blocks = rows.blocks(BLOCK_SCORES if on_host else DEVICE_BLOCK_SCORES)
    compiled = on_host and bool(np.isfinite(slopes).all()) and has_numba()
    work = partial(_work, rows, slopes, bounds, _count_compiled if compiled else _count_arrays)
    n_threads = min(n_cores(), rows.n_scores // SCORES_PER_THREAD, len(blocks)) if on_host else 1
    if n_threads > 1:
        edges = [len(blocks) * i // n_threads for i in range(n_threads + 1)]
        shares = [blocks[a:b] for a, b in zip(edges, edges[1:], strict=False)]
        ledgers = list(_pool().map(work, shares))
    else:
        ledgers = [work(blocks)]
    counts = np.sum([ledger.counts for ledger in ledgers], axis=0)
    sums = None if rows.weights is None else np.sum([ledger.sums for ledger in ledgers], axis=0)
    return counts, sums, Switches.concatenate([ledger.closed() for ledger in ledgers])


def _work(
    rows: Rows, slopes: Vector, bounds: tuple[float, float], count: Any, blocks: Sequence[Any]
) -> _Ledger:
    n_classes = slopes.size
    table = (5, n_classes)
    ledger = _Ledger(np.zeros(table, np.int64), np.zeros(table), rows.weights is not None)
    for index in blocks:
        block = rows.read(index)
        if block.labels.size and not count(block, slopes, bounds, ledger, rows):
            rows.refuse()
    return ledger


def _count_compiled(
    block: Block, slopes: Vector, bounds: tuple[float, float], ledger: _Ledger, _: Rows
) -> bool:
    from reprior.tuning.compiled import tally_rows

    scores = np.ascontiguousarray(block.scores)
    weights = np.empty(0) if block.weights is None else block.weights
    n_rows, n_classes = scores.shape
    capacity = n_rows + n_classes
    position, parties = np.empty(capacity), np.empty((3, capacity), np.int32)
    row = 0
    while row < n_rows:
        row, used, well = tally_rows(
            scores, block.labels, weights, slopes, bounds, row,
            ledger.counts, ledger.sums, position, parties,
        )  # fmt: skip
        if not well:
            return False
        ledger.note(position[:used], parties[0, :used], parties[1:, :used], block)
    return True


def _count_arrays(
    block: Block, slopes: Vector, bounds: tuple[float, float], ledger: _Ledger, rows: Rows
) -> bool:
    active = np.isfinite(slopes)
    scores = block.scores
    if not active.all():
        scores = to_numpy(scores)[:, active]
    if float(rows.xp.min(rows.xp.max(scores, axis=1))) == -np.inf:
        return False
    found = envelope(block.scores, slopes, bounds, rows.xp)
    for table, weights in ((ledger.counts, None), (ledger.sums, block.weights)):
        if table is ledger.sums and weights is None:
            continue
        _tabulate(table, block.labels, found.start, found.origin, weights)
    ledger.note(found.position, found.row, (found.loser, found.winner), block)
    return True


def _tabulate(
    table: Vector, labels: Vector, start: Vector, origin: Vector, weights: Vector | None
) -> None:
    def total(classes: Vector, where: Vector | slice = slice(None)) -> Vector:
        weight = None if weights is None else weights[where]
        return np.bincount(classes[where], weight, minlength=table.shape[1])

    table[Table.SUPPORT] += total(labels)
    table[Table.TRUE_POSITIVE] += total(labels, labels == start)
    table[Table.PREDICTED] += total(start)
    table[Table.TRUE_POSITIVE_AT_0] += total(labels, labels == origin)
    table[Table.PREDICTED_AT_0] += total(origin)


@cache
def has_numba() -> bool:
    """Whether numba is installed (it is imported only when a pass needs it)."""
    return importlib.util.find_spec("numba") is not None


def n_cores() -> int:
    """Cores this process may use, or what the environment variable REPRIOR_NUM_THREADS says."""
    told = os.environ.get("REPRIOR_NUM_THREADS", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_cores(), thread_name_prefix="reprior")


# Threads do not survive a fork: a child that inherited the pool would wait for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
