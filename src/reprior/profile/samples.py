"""Scores and labels of any layout, read as blocks of rows that a pass can count on.

A row that comes out of :meth:`Rows.read` is one sample with a positive weight and log-scores
without NaN or +inf. Labels were checked before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from reprior.core import kernels
from reprior.core.arrays import Array, Namespace, constant, is_numpy_namespace, to_numpy
from reprior.core.checks import first_index
from reprior.core.kernels import strided_rows
from reprior.core.logspace import ROW_SUM_TOLERANCE, log_scores, refuse_scores, row_name
from reprior.exceptions import ScoresError

__all__ = ["Block", "Rows"]

Vector: TypeAlias = np.ndarray[Any, Any]
Index: TypeAlias = tuple[Any, ...]


class Block(NamedTuple):
    """Log-scores (n, K) with labels (n,) and weights (n,) or None."""

    scores: Array
    labels: Vector
    weights: Vector | None


@dataclass(frozen=True, eq=False)
class Rows:
    """Scores with the class axis last, and NumPy labels and weights of the samples' shape."""

    scores: Array
    labels: Vector
    weights: Vector | None
    kind: str
    ignore_index: int | None
    n_classes: int
    xp: Namespace
    possible: Vector | bool = True
    """Which classes have a positive target prior."""
    tolerance: float = ROW_SUM_TOLERANCE
    """How far a row of probabilities may be from 1."""
    class_axis: int = -1
    """Where the class axis was: errors name indices as the user has them."""
    one_sample: bool = False
    """Whether the scores were given without an axis of samples."""
    ruled_out: tuple[int, ...] = ()
    """Classes whose samples are left out."""

    @property
    def n_scores(self) -> int:
        """How many scores there are, of all samples and classes."""
        return self.labels.size * self.n_classes

    @cached_property
    def view(self) -> Vector | None:
        """The logits as the kernels read them in place, or None."""
        return kernels.host_view(self.scores) if self.kind == "logits" else None

    def blocks(self, n_scores: int) -> list[Index]:
        """Indices of blocks of whole rows, of about ``n_scores`` scores each."""
        return list(_blocks(self.labels.shape, max(1, n_scores // self.n_classes)))

    def read_strided(self, index: Index) -> Block:
        """The samples of one block as the profile kernel takes them.

        Scores are (outer, inner, K), logits without a copy; labels are int64, −1 for samples that
        do not count. The kernel finds NaN and +inf among logits by itself.
        """
        view = self.view
        if view is None:
            block = self.read(index, look=False)
            labels, weights = block.labels.astype(np.int64, copy=False), block.weights
            scores = strided_rows(block.scores)
        else:
            labels = self.labels[index].reshape(-1).astype(np.int64)
            weights = None if self.weights is None else self.weights[index].reshape(-1)
            scores = strided_rows(view[(*index, ...)])
            left_out = self._left_out(labels, weights)
            if left_out is not None:
                labels[left_out] = -1
        if weights is not None:
            weights = np.ascontiguousarray(weights, np.float64)
        return Block(scores, np.ascontiguousarray(labels), weights)

    def read(self, index: Index, *, look: bool = True) -> Block:
        """The samples of one block; those that do not count are left out.

        Without ``look`` the caller finds NaN and +inf among logits itself.
        """
        labels = self.labels[index].reshape(-1)
        weights = None if self.weights is None else self.weights[index].reshape(-1)
        scores = self.xp.reshape(self.scores[(*index, ...)], (-1, self.n_classes))
        left_out = self._left_out(labels, weights)
        if left_out is not None and left_out.any():
            kept = np.flatnonzero(~left_out)
            labels, weights = labels[kept], None if weights is None else weights[kept]
            where = kept if is_numpy_namespace(self.xp) else constant(kept, self.xp, like=scores)
            scores = self.xp.take(scores, where, axis=0)
        if not labels.size:
            return Block(scores, labels, weights)
        return Block(self._log_scores(scores, look), labels, weights)

    def refuse(self) -> NoReturn:
        """Find the first score that is wrong, and raise it."""
        host, axis = to_numpy(self.scores), self.class_axis
        left_out = self.left_out()
        if left_out is not None:
            even = 1 / self.n_classes
            fill = {"logits": 0.0, "probs": even, "log_probs": np.log(even)}
            host = np.where(left_out[..., None], fill[self.kind], host)
        gone = host == (0.0 if self.kind == "probs" else -np.inf)
        gone = (gone | ~self.possible).all(axis=-1)
        host = host[0] if self.one_sample else np.moveaxis(host, -1, axis)
        refuse_scores(host, self.kind, axis=axis, tolerance=self.tolerance)
        where = () if self.one_sample else first_index(gone)
        raise ScoresError(
            f"`scores` must leave some class of positive `target_prior` possible in every row. "
            f"Got {row_name(where, host.ndim, axis)}, whose every possible class has target "
            f"prior 0. Give one of them a positive target prior, or drop the sample."
        )

    def left_out(self) -> Vector | None:
        """Which samples are ignored, of weight 0 or of no class in play; None where none can be."""
        return self._left_out(self.labels, self.weights)

    def of_ruled_out(self) -> tuple[Vector, Vector]:
        """How many samples of each class are left out as ruled out, (K,), and their weight."""
        kept = replace(self, ruled_out=())._left_out(self.labels, self.weights)
        there = np.isin(self.labels, self.ruled_out)
        there = there if kept is None else there & ~kept
        labels, weights = self.labels[there], self.weights
        amounts = None if weights is None else weights[there]
        number = np.bincount(labels, minlength=self.n_classes)
        return number, np.bincount(labels, amounts, minlength=self.n_classes)

    def _left_out(self, labels: Vector, weights: Vector | None) -> Vector | None:
        out = None if self.ignore_index is None else labels == self.ignore_index
        if weights is not None:
            out = weights == 0 if out is None else out | (weights == 0)
        if self.ruled_out:
            gone = np.isin(labels, self.ruled_out)
            out = gone if out is None else out | gone
        return out

    def _log_scores(self, scores: Array, look: bool) -> Array:
        """Logits in their own precision; logarithms of probabilities in float64."""
        xp = self.xp
        if self.kind != "logits":
            try:
                scores = xp.astype(scores, xp.float64)
                return log_scores(scores, self.kind, axis=-1, xp=xp, tolerance=self.tolerance)
            except ScoresError:
                self.refuse()
        if scores.dtype not in (xp.float32, xp.float64):
            small = str(scores.dtype).endswith("float16")
            scores = xp.astype(scores, xp.float32 if small else xp.float64)
        if look and not float(xp.max(scores)) < np.inf:
            self.refuse()
        return scores


def _blocks(shape: tuple[int, ...], n_rows: int) -> Iterator[Index]:
    """Cut ``shape`` along its first axis; where one entry is too large, cut that one too."""
    inner = prod(shape[1:])
    if inner <= n_rows or len(shape) == 1:
        step = max(1, n_rows // inner)
        for start in range(0, shape[0], step):
            yield (slice(start, min(start + step, shape[0])),)
        return
    for i in range(shape[0]):
        for rest in _blocks(shape[1:], n_rows):
            yield (i, *rest)
