"""The switches of each sample kept apart, so that samples can be reweighted.

A profile does not keep which sample a switch belongs to. For a bootstrap each sample, or each group
of samples, needs a weight that all of its switches share: here every switch knows its unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from reprior.core.arrays import to_numpy
from reprior.exceptions import LabelsError
from reprior.metrics.counts import PairCounts
from reprior.profile.envelope import Envelope, envelope
from reprior.profile.passes import HOST_BLOCK, Counted, Pairs, Table, refuse_row
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Block, Line, Priors, Samples
from reprior.profile.switches import Switches, grouped

__all__ = ["SamplePaths", "sample_paths"]

Vector: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class SamplePaths:
    """Labelled samples as units that are weighted as a whole.

    A unit is a sample, a group of samples, or, where there are no groups, all ``size`` samples of
    one label, weight and prediction that no strength changes.

    Parameters
    ----------
    size : integer array of shape (U,)
        Number of copies of each unit.
    unit, label, start, origin, heads, amount : arrays of shape (E,)
        Samples before any switch: the unit, the label, the prediction at the lower bound and at
        λ = 0, how many samples of a unit these are, and their summed weight.
    image : integer array of shape (E,), or None
        Their image, where groups are given and samples are pixels of images.
    switches : Switches
        By strength; count and weight are those of one unit.
    switch_unit : integer array of shape (S,)
        The unit of each switch.
    samples, priors
        The samples, and the priors and bounds.
    """

    size: Vector
    unit: Vector
    label: Vector
    start: Vector
    origin: Vector
    heads: Vector
    amount: Vector | None
    image: Vector | None
    switches: Switches
    switch_unit: Vector
    samples: Samples
    priors: Priors | Line

    @property
    def n_units(self) -> int:
        """U."""
        return int(self.size.size)

    @property
    def n_switches(self) -> int:
        """S."""
        return len(self.switches)

    def profile(self, times: Vector) -> StrengthProfile:
        """Return the profile of the samples with unit u repeated ``times[u]`` times (integers)."""
        there = times[self.switch_unit]
        kept = np.flatnonzero(there)
        there, all_of = there[kept], self.switches
        count, weight = all_of.count, all_of.weight
        switches = Switches(
            all_of.position[kept],
            all_of.label[kept],
            all_of.loser[kept],
            all_of.winner[kept],
            count=there if count is None else there * count[kept],
            weight=None if weight is None else there * weight[kept],
            image=None if all_of.image is None else all_of.image[kept],
        )
        each = times[self.unit]
        counts = self._table(each * self.heads).astype(np.int64)
        sums = None if self.amount is None else self._table(each * self.amount)
        return StrengthProfile.counted(
            self.priors, Counted(counts, sums, switches, self._pairs(each))
        )

    def _pairs(self, each: Vector) -> Pairs:
        """Return labels and predictions, with the copies of each entry."""
        count = each * self.heads
        amount = None if self.amount is None else each * self.amount
        start, origin = (
            PairCounts(self.label, predicted, count, amount, self.image)
            for predicted in (self.start, self.origin)
        )
        same = self.priors.bounds[0] == 0.0
        return Pairs(start, start if same else origin)

    def _table(self, amount: Vector) -> Vector:
        """Return the counts of a profile, (5, K)."""
        n_classes = self.priors.n_classes
        table = np.zeros((5, n_classes))
        amount = amount.astype(np.float64)
        for row, klass in (
            (Table.SUPPORT, self.label),
            (Table.PREDICTED, self.start),
            (Table.PREDICTED_AT_0, self.origin),
        ):
            table[row] = np.bincount(klass, amount, minlength=n_classes)
        for row, klass in (
            (Table.TRUE_POSITIVE, self.start),
            (Table.TRUE_POSITIVE_AT_0, self.origin),
        ):
            right = np.where(klass == self.label, amount, 0.0)
            table[row] = np.bincount(klass, right, minlength=n_classes)
        return table


def sample_paths(samples: Samples, priors: Priors | Line, groups: Any = None) -> SamplePaths:
    """Follow every sample along the strength.

    Parameters
    ----------
    samples : Samples
        Scores, labels and weights.
    priors : Priors
        Slopes and bounds.
    groups : array of the labels' shape, optional
        Samples of one group are one unit: the pixels of an image, the scores that several models
        gave to one sample.
    """
    joined, block = _joined(samples, priors)
    if groups is None:
        return _of_samples(samples, priors, joined, block)
    named = _group_numbers(groups, samples)
    return _of_groups(samples, priors, joined, block, named)


def _joined(samples: Samples, priors: Priors | Line) -> tuple[Envelope, Block]:
    """Return the envelope of all samples that count, with their labels and weights."""
    envelopes, blocks = zip(*_blocks(samples, priors), strict=True)
    offset = np.cumsum([0, *(block.labels.size for block in blocks[:-1])])

    def column(name: str) -> Vector:
        return np.concatenate([getattr(part, name) for part in envelopes])

    rows = [part.row + first for part, first in zip(envelopes, offset, strict=True)]
    joined = Envelope(
        column("origin"),
        column("start"),
        column("position"),
        np.concatenate(rows),
        column("loser"),
        column("winner"),
    )
    weights = None
    if samples.weights is not None:
        weights = np.concatenate([block.weights for block in blocks])
    images = None
    if samples.images is not None:
        images = np.concatenate([block.images for block in blocks])
    labels = np.concatenate([block.labels for block in blocks])
    return joined, Block(None, labels, weights, images=images)


def _blocks(samples: Samples, priors: Priors | Line) -> Iterator[tuple[Envelope, Block]]:
    for index in samples.blocks(HOST_BLOCK):
        block = samples.read(index)
        if block.labels.size:
            slopes = block.slopes if priors.slopes is None else priors.slopes
            part = envelope(block.scores, slopes, priors.bounds, samples.xp)
            if part is None:
                refuse_row(samples, priors.slopes, priors.bounds)
            yield part, block._replace(scores=None, slopes=None)


def _group_numbers(groups: Any, samples: Samples) -> Vector:
    """Return the group of each sample that counts, 0 … G−1."""
    given = to_numpy(groups)
    if given.shape != samples.labels.shape:
        raise LabelsError(
            argument="groups",
            rule="must have one entry per sample",
            got=f"shape {given.shape} for labels of shape {samples.labels.shape}",
            remedy="Repeat an image's number for each of its pixels.",
        )
    left_out = samples.left_out()
    kept = given.reshape(-1) if left_out is None else given[~left_out]
    return np.asarray(np.unique(kept, return_inverse=True)[1].reshape(-1))


def _of_samples(
    samples: Samples, priors: Priors | Line, envelope: Envelope, block: Block
) -> SamplePaths:
    """Make a unit of each sample that switches, and of all others that are alike."""
    labels, weights = block.labels, block.weights
    moves = np.zeros(labels.shape, bool)
    moves[envelope.row] = True
    unit = np.cumsum(moves) - 1
    keys = [labels, envelope.start, envelope.origin, *([] if weights is None else [weights])]
    still, (size,) = grouped([key[~moves] for key in keys], [np.ones(int((~moves).sum()), int)])
    n_moving = int(moves.sum())
    entries = [np.concatenate([key[moves], same]) for key, same in zip(keys, still, strict=True)]
    label, start, origin = entries[:3]
    sizes = np.concatenate([np.ones(n_moving, np.int64), np.asarray(size, np.int64)])
    return _assembled(
        samples,
        priors,
        envelope,
        block,
        unit,
        sizes,
        (np.arange(sizes.size), label, start, origin, np.ones(sizes.size, np.int64)),
        None if weights is None else entries[3],
    )


def _of_groups(
    samples: Samples, priors: Priors | Line, envelope: Envelope, block: Block, unit: Vector
) -> SamplePaths:
    """Make a unit of each group, whatever its samples do."""
    keys = [unit, block.labels, envelope.start, envelope.origin]
    keys += [] if block.images is None else [block.images]
    entries, (heads, amount) = grouped(keys, [np.ones(unit.size, np.int64), block.weights])
    sizes = np.ones(int(unit.max()) + 1, np.int64)
    own, label, start, origin, *image = entries
    return _assembled(
        samples,
        priors,
        envelope,
        block,
        unit,
        sizes,
        (own, label, start, origin, np.asarray(heads)),
        amount,
        *image,
    )


def _assembled(
    samples: Samples,
    priors: Priors | Line,
    envelope: Envelope,
    block: Block,
    unit: Vector,
    size: Vector,
    entries: Sequence[Vector],
    amount: Vector | None,
    image: Vector | None = None,
) -> SamplePaths:
    order = np.argsort(envelope.position, kind="stable")
    row = envelope.row[order]
    weight = None if block.weights is None else block.weights[row]
    label, loser, winner = (
        np.asarray(column, np.int32)
        for column in (block.labels[row], envelope.loser[order], envelope.winner[order])
    )
    images = None if image is None or block.images is None else block.images[row]
    position = envelope.position[order]
    switches = Switches(position, label, loser, winner, weight=weight, image=images)
    own, known, start, origin, heads = entries
    return SamplePaths(
        size, own, known, start, origin, heads, amount, image, switches, unit[row], samples, priors
    )
