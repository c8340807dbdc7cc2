"""Labelled scores in blocks: checked once, then read one block of posteriors at a time.

Metrics of scores need a few numbers per sample. Only one block of posteriors is in memory at a
time, so that (24,426 × 8,142) scores cost no second array of their size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from reprior.core.arrays import Array, compute_dtype, namespace, to_numpy
from reprior.core.binary import expand, expanded_axis, is_single_score
from reprior.core.checks import (
    check_class_axis,
    check_kind,
    check_labels,
    check_sample_weight,
)
from reprior.core.logspace import (
    as_scores,
    normalise,
    refuse_scores,
    sum_tolerance,
    warn_if_probs,
)
from reprior.exceptions import Argument, LabelsError, ScoresError

__all__ = ["Block", "ScoreBlocks"]

BLOCK_SIZE = 1 << 20
"""Scores in a block: large enough to hide Python's overhead, small beside any score file."""

ROUNDINGS = 8
"""A row that misses 1 by this many roundings of its dtype does sum to 1, and is left as it is:
dividing would move a probability such as 0.7 off the edge of its bin."""


class Block(NamedTuple):
    """Some of the samples, on the host, without those to leave out."""

    scores: NDArray[Any]
    """(n, K): scores, posterior or log-posterior."""
    labels: NDArray[np.intp]
    """(n,)."""
    weight: NDArray[np.float64]
    """(n,), positive; ones where no weights were given."""


@dataclass(frozen=True, eq=False)
class ScoreBlocks:
    """Checked scores with their labels and weights; see :meth:`read`."""

    given: Array
    axis: int
    kind: str | None
    labels: NDArray[Any]
    weight: NDArray[np.float64]

    @classmethod
    def read(
        cls,
        scores: Any,
        labels: Any,
        *,
        kind: str | None,
        class_axis: int,
        ignore_index: int | None,
        sample_weight: Any,
    ) -> ScoreBlocks:
        """Check everything but the scores' values, which are checked block by block.

        ``kind=None`` is for metrics that use only the order of the scores.

        Examples
        --------
        >>> samples = ScoreBlocks.read(
        ...     [[0.9, 0.1], [0.5, 0.5]],
        ...     [0, -1],
        ...     kind="probs",
        ...     class_axis=-1,
        ...     ignore_index=-1,
        ...     sample_weight=None,
        ... )
        >>> [block.scores for block in samples.posterior()]
        [array([[0.9, 0.1]])]
        """
        if kind is not None:
            check_kind(kind)
        xp = namespace(scores, labels, sample_weight)
        given = as_scores(scores, xp)
        if array_api_compat.is_torch_array(given):
            given = given.detach()  # a float has no gradient
        axis = check_class_axis(given.shape, class_axis)
        if is_single_score(given.shape, 2, axis):
            one, where = _two_sided(kind, given.shape), expanded_axis(given.ndim, axis)
            given, axis = expand(given, one, xp=xp, class_axis=axis), where
        elif kind == "logits":
            warn_if_probs(given, axis=axis, xp=xp)
        shape = [n for i, n in enumerate(given.shape) if i != axis]
        n_classes = int(given.shape[axis])
        y = to_numpy(labels)
        check_labels(y, n_classes=n_classes, shape=shape, ignore_index=ignore_index)
        weight = _weights(y, sample_weight, ignore_index)
        return cls(given, axis, kind, y, weight)

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.given.shape[self.axis])

    def ranks(self) -> Iterator[Block]:
        """Yield the scores as they are."""
        for rows, y, w in self._blocks():
            self._refuse_unless(bool(np.isfinite(rows.max(axis=1)).all()))
            yield Block(rows, y, w)

    def posterior(self, *, log: bool = False) -> Iterator[Block]:
        """Yield the posteriors, or their logarithms, in the compute dtype of the scores."""
        kind, tolerance = self.kind or "logits", self._tolerance
        for rows, y, w in self._blocks():
            wide = rows.astype(compute_dtype(namespace(), rows.dtype), copy=False)
            values, good = _posterior(wide, kind, tolerance, log=log)
            self._refuse_unless(good)
            yield Block(values, y, w)

    @property
    def _tolerance(self) -> float:
        return sum_tolerance(self.given.dtype, self.kind or "logits", self.n_classes)

    def _blocks(self) -> Iterator[Block]:
        """Cut the first axis so that at least one entry, and about a block, is in each part."""
        z = namespace(self.given).moveaxis(self.given, self.axis, -1)
        step = max(1, BLOCK_SIZE // math.prod(z.shape[1:]))
        for start in range(0, z.shape[0], step):
            part = slice(start, min(start + step, z.shape[0]))
            rows = to_numpy(z[part, ...]).reshape(-1, self.n_classes)
            y, w = self.labels[part].reshape(-1), self.weight[part].reshape(-1)
            keep = w > 0
            if not keep.all():
                rows, y, w = rows[keep], y[keep], w[keep]
            if y.size:
                yield Block(rows, y.astype(np.intp), w)

    def _refuse_unless(self, good: bool) -> None:
        """Raise the error of the scores, with the caller's indices."""
        if good:
            return
        kind, share = self.kind or "logits", 1.0 / self.n_classes
        # Rows to leave out are not checked: replace them by a valid row.
        fine = share if kind == "probs" else math.log(share)
        left_out = np.expand_dims(self.weight == 0, self.axis)
        host = np.where(left_out, fine, to_numpy(self.given))
        refuse_scores(host, kind, axis=self.axis, tolerance=self._tolerance)


def _posterior(
    rows: NDArray[Any], kind: str, tolerance: float, *, log: bool
) -> tuple[NDArray[Any], bool]:
    """Return the (log-)posterior of rows (n, K), and whether every row has one."""
    with np.errstate(all="ignore"):
        if kind == "logits":
            peak = rows.max(axis=1, keepdims=True)
            values = normalise(rows, peak, axis=1, xp=namespace(), log=log)
            return values, bool(np.isfinite(peak).all())
        mass = rows if kind == "probs" else np.exp(rows)
        total = mass.sum(axis=1, keepdims=True, dtype=np.float64)
        good = bool((np.abs(total - 1.0) <= tolerance).all()) and float(mass.min()) >= 0.0
        rounding = ROUNDINGS * np.finfo(rows.dtype).eps
        total = np.where(np.abs(total - 1.0) <= rounding, 1.0, total).astype(rows.dtype)
        if not log:
            return mass / total, good
        return (np.log(rows) if kind == "probs" else rows) - np.log(total), good


def _two_sided(kind: str | None, shape: tuple[int, ...]) -> str:
    if kind is None:
        raise ScoresError(
            argument="scores",
            rule="must have one score per class",
            got=f"shape {tuple(shape)}, one score per sample",
            remedy="Pass both classes' scores, shape (N, 2).",
        )
    return kind


def _weights(
    labels: NDArray[Any], sample_weight: Any, ignore_index: int | None
) -> NDArray[np.float64]:
    """Return a weight per sample, 0 for those to leave out."""
    weight = np.ones(labels.shape)
    if sample_weight is not None:
        check_sample_weight(sample_weight, labels.shape)
        weight = to_numpy(sample_weight).astype(np.float64)
    if ignore_index is not None:
        weight = np.where(labels == ignore_index, 0.0, weight)
    if not weight.any():
        raise LabelsError(
            argument="labels",
            rule="must contain at least one sample that is not ignored",
            got=f"{labels.size} samples, none of them kept",
            remedy=["Check ", Argument("ignore_index"), " and ", Argument("sample_weight"), "."],
        )
    return weight
