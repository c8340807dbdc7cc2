r"""How far a metric can rise or fall inside each bin of a binned profile.

A binned profile knows the counts at every grid point. Inside a bin they depend on the order of
its switches. But each switch does one of four things to a class: it brings a true positive or
takes one away, it brings a false positive or takes one away. Every count metric rises with the
first and the last, and falls with the others (for :math:`g\,TP / (a S + b P + c\,TP)` because
P ≥ TP). So it is nowhere in the bin above its value at the beginning with all good moves made and
no bad one, and nowhere below its value with all bad ones made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from reprior.metrics.count_metrics import CountMetric
from reprior.metrics.counts import ClassCounts
from reprior.profile.bin_grid import grid_index
from reprior.profile.binning import BinnedSwitches
from reprior.profile.passes import Table
from reprior.profile.switches import Switches

if TYPE_CHECKING:
    from reprior.profile.profile import StrengthProfile

__all__ = ["GrossTable", "Reach"]

Vector: TypeAlias = np.ndarray[Any, Any]


class Reach(NamedTuple):
    """The least and the largest value that a metric may take in each bin."""

    least: Vector
    largest: Vector


class _Moves(NamedTuple):
    """Of one class in every bin: its counts at the beginning, and what comes and goes."""

    hits: Vector
    predicted: Vector
    hits_gained: Vector
    hits_lost: Vector
    false_gained: Vector
    false_lost: Vector


class GrossTable:
    """How many predictions, and right ones, every class gains in every bin, losses not set off.

    Bin i ends at grid point i and begins after the one before; 16 bytes per bin and class. Weights
    are whole numbers: fractions leave rounding behind where nobody is left, and ratios of that.
    """

    def __init__(
        self, bounds: tuple[float, float], resolution: float, n_classes: int, weighted: bool
    ) -> None:
        first, last = grid_index(np.array(bounds), resolution)
        self.n_bins, self.n_classes = int(last - first) + 1, n_classes
        self._first, self._resolution = int(first), resolution
        dtype = np.float64 if weighted else np.int64
        self.gained = np.zeros((2, n_classes, self.n_bins), dtype)

    def bins_of(self, position: Vector) -> Vector:
        """The bin of each strength."""
        return grid_index(position, self._resolution).astype(np.intp) - self._first

    def add(self, switches: Switches) -> None:
        """Count switches within the bounds."""
        cell = switches.winner.astype(np.intp) * self.n_bins + self.bins_of(switches.position)
        right = switches.label == switches.winner
        amount = switches.weight
        for table, which in ((self.gained[0], slice(None)), (self.gained[1], right)):
            weight = None if amount is None else amount[which]
            found = np.bincount(cell[which], weight, minlength=table.size)
            table += found.reshape(table.shape).astype(table.dtype, copy=False)

    def reach(self, profile: StrengthProfile, metric: CountMetric) -> Reach:
        """How far ``metric`` can go in each bin of the profile of the same switches."""
        switches = profile._switches
        assert isinstance(switches, BinnedSwitches)  # noqa: S101 - bins are what this is about
        start = profile._class_counts(Table.TRUE_POSITIVE, Table.PREDICTED)
        moves = [self._moves(switches, start, k) for k in range(self.n_classes)]
        if metric.average == "pooled":
            return _pooled(moves, start, metric)
        labelled, seen = start.labelled, metric.average == "seen"
        counted = metric.counted(start) if not seen else labelled
        least, largest = np.zeros(self.n_bins), np.zeros(self.n_bins)
        most = np.full(self.n_bins, counted.sum(), np.float64)
        fewest = most.copy()
        for k, move in enumerate(moves):
            if counted[k]:
                low, high = _ratios(move, start.support[k], metric)
                least, largest = least + low, largest + high
            elif seen:  # counts, as 0, where it is predicted
                fewest += move.predicted > move.false_lost
                most += (move.predicted > 0) | (move.false_gained > 0)
        return Reach(least / np.maximum(most, 1), largest / np.maximum(fewest, 1))

    def _moves(self, switches: BinnedSwitches, start: ClassCounts, k: int) -> _Moves:
        events = switches.events
        mine = events.klass == k
        bins = self.bins_of(events.position[mine])
        net = np.zeros((2, self.n_bins), self.gained.dtype)
        np.add.at(net[0], bins, events.weighted_predicted[mine])
        np.add.at(net[1], bins, events.weighted_true_positive[mine])
        before = np.cumsum(net, axis=1) - net
        gained, hits = self.gained[:, k]
        lost, hits_lost = gained - net[0], hits - net[1]
        return _Moves(
            start.true_positive[k] + before[1], start.predicted[k] + before[0], hits, hits_lost,
            gained - hits, lost - hits_lost,
        )  # fmt: skip


def _ratios(move: _Moves, support: Any, metric: CountMetric) -> tuple[Vector, Vector]:
    high_hits = move.hits + move.hits_gained
    high_predicted = move.predicted + move.hits_gained - move.false_lost
    low_hits = move.hits - move.hits_lost
    low_predicted = move.predicted - move.hits_lost + move.false_gained
    return (
        metric.ratio(low_hits, low_predicted, support),
        metric.ratio(high_hits, high_predicted, support),
    )


def _pooled(moves: list[_Moves], start: ClassCounts, metric: CountMetric) -> Reach:
    hits = np.sum([move.hits for move in moves], axis=0)
    predicted, support = start.predicted.sum(), start.support.sum()
    gained = np.sum([move.hits_gained for move in moves], axis=0)
    lost = np.sum([move.hits_lost for move in moves], axis=0)
    return Reach(
        metric.ratio(hits - lost, predicted, support),
        metric.ratio(hits + gained, predicted, support),
    )
