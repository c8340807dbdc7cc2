"""Labelled log-scores laid out for the sums of a log-loss: rows, labels and weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from reprior.core import kernels
from reprior.core.arrays import (
    Array,
    Namespace,
    accumulation_dtype,
    constant,
    device_of,
    dtype_name,
    is_floating,
    is_numpy_namespace,
    namespace,
    to_numpy,
)
from reprior.core.binary import log_columns, resolve_class_axis
from reprior.core.checks import check_class_axis, check_labels, check_sample_weight
from reprior.core.importance import importance_weights
from reprior.core.log_loss_sums import log_loss_moments
from reprior.core.logspace import as_scores
from reprior.exceptions import Argument, LabelsError, ScoresError

__all__ = ["LossRows", "WeightedRows"]

SHORT_ROW = 24
"""Rows of fewer classes than this are laid out class by class for array code on NumPy, whose
reductions cost more per row than the transposition."""

SAMPLE_FROM = 1 << 20
"""From so many scores on a fit starts at the optimum of a sample of the rows. With fewer, fitting
the sample would take as long as it saves."""

SAMPLE_ITEMS, SAMPLE_ROWS = 1 << 17, 1000
"""The smallest such sample: the start is then a few per cent off."""

GOLDEN = (5**0.5 - 1) / 2

LARGEST_GAP = 1e30
"""How far the score of a sample's own class may lie below its largest. The log-loss is about as
large: times the largest scale of a fit it stays below the largest float32, and its square, which
curvatures need, below the largest float64."""

ROUNDINGS = 8.0
"""That may add up in the log-loss of a row; those of a mean over rows even out."""

SAMPLE_SHARE = 12
"""The sample is one row in so many at most, so that a dozen passes over it cost as one."""


class LossRows(Protocol):
    """Labelled log-scores whose log-loss can be summed: what a fit by log-loss needs.

    :class:`WeightedRows` holds them in memory. Those of a file or a cluster are summed in passes.
    """

    @property
    def n_classes(self) -> int:
        """K."""

    @property
    def noise(self) -> float:
        """The relative error of a log-loss of the rows; absolute for one below 1."""

    @property
    def has_labels(self) -> NDArray[np.bool_]:
        """Which classes have labels, (K,)."""

    def sample(self) -> Self | None:
        """Return some of the rows where there are many, for a start near the optimum."""

    def of_classes(self, kept: NDArray[np.bool_]) -> Self:
        """Return the same without the other classes, none of which may have labels."""

    def shifted(self, shift: NDArray[np.float64]) -> Self:
        """Return the same with a number added to each class's log-scores."""

    def moments(
        self, scale: float, shift: NDArray[np.float64], slopes: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return what :func:`~reprior.core.log_loss_sums.log_loss_moments` returns, (6,)."""


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Log-scores (n, K), the class of every row, and weights.

    On NumPy, rows of few classes lie class by class in memory, so that sums over the classes run
    along the samples.
    """

    rows: Array
    labels: NDArray[np.int64]
    weights: NDArray[np.float64]
    """They sum to 1; over all parts, where the rows are one of several."""
    samples: NDArray[np.int64]
    """The index of every row among the flattened labels, for errors."""
    xp: Namespace

    @classmethod
    def read(
        cls,
        scores: Any,
        labels: Any,
        *,
        sample_weight: Any,
        kind: str,
        class_axis: int,
        ignore_index: int | None,
        target_prior: NDArray[np.float64] | None = None,
        label_prior: NDArray[np.float64] | None = None,
    ) -> WeightedRows:
        """Check the arguments and keep the samples that count.

        With a ``target_prior`` the weights are those of importance, and the number of classes is
        known; without one it is taken from the scores.
        """
        xp = namespace(scores, labels, sample_weight)
        # Kernels read host arrays: sums have no gradients. Probabilities in bfloat16, which become
        # float32, would lose the tolerance that rounding to their own dtype needs.
        rounded = kind != "logits" and dtype_name(getattr(scores, "dtype", "")) == "bfloat16"
        if not is_numpy_namespace(xp) and not rounded and kernels.host_view(scores) is not None:
            scores = to_numpy(scores)
            xp = namespace(scores)
        z = as_scores(scores, xp)
        if target_prior is None:
            axis = check_class_axis(z.shape, class_axis)
        else:
            axis = resolve_class_axis(z.shape, target_prior.size, class_axis)
        if z.ndim == 1 and (target_prior is None or target_prior.size == 2):
            z, axis = z[:, None], 1
        shape = tuple(length for i, length in enumerate(z.shape) if i != axis)
        n_classes = max(int(z.shape[axis]), 2)
        y = to_numpy(labels)
        check_labels(y, n_classes=n_classes, shape=shape, ignore_index=ignore_index)
        v = _weights(y, sample_weight, ignore_index)
        if target_prior is not None:
            v = importance_weights(y, v, target_prior=target_prior, label_prior=label_prior)
            v /= v.sum()
        log_z = log_columns(_masked(z, v > 0, kind, axis=axis, xp=xp), kind, axis=axis, xp=xp)
        kept = np.flatnonzero(v)
        rows = _laid_out(log_z, axis, kept if kept.size < v.size else None, xp)
        y, v = y.reshape(-1)[kept].astype(np.int64), v.reshape(-1)[kept]
        data = cls(rows, y, v, kept, xp)
        data._refuse_impossible()
        return data

    @classmethod
    def of_rows(
        cls,
        rows: Array,
        labels: NDArray[np.int64],
        weights: NDArray[np.float64],
        samples: NDArray[np.int64] | None = None,
    ) -> WeightedRows:
        """Take log-scores (n, K), with weights that sum to 1 or to a part of it.

        ``samples`` are their indices among the flattened labels, if not 0, 1, 2, ….
        """
        xp = namespace(rows)
        if is_numpy_namespace(xp) and rows.shape[1] < SHORT_ROW:
            rows = np.asfortranarray(rows)
        if samples is None:
            samples = np.arange(labels.size)
        data = cls(rows, labels, weights, samples, xp)
        data._refuse_impossible()
        return data

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.rows.shape[1])

    @property
    def on_numpy(self) -> bool:
        """Whether the rows are a NumPy array."""
        return is_numpy_namespace(self.xp)

    @cached_property
    def wide(self) -> Any:
        """The dtype to sum in."""
        return accumulation_dtype(self.xp, device_of(self.rows))

    @property
    def noise(self) -> float:
        """The relative error of a log-loss of the rows; absolute for one below 1."""
        return ROUNDINGS * float(np.finfo(dtype_name(self.rows.dtype)).eps)

    @cached_property
    def label_scores(self) -> NDArray[np.float64]:
        """The log-score of every sample's label."""
        if self.on_numpy:
            scores = self.rows[np.arange(self.labels.size), self.labels]
        else:
            place = constant(
                np.arange(self.labels.size) * self.n_classes + self.labels, self.xp, like=self.rows
            )
            scores = to_numpy(self.xp.take(self.xp.reshape(self.rows, (-1,)), place, axis=0))
        return np.asarray(scores, dtype=np.float64)

    @cached_property
    def has_impossible(self) -> bool:
        """Whether some class is impossible for some sample: a log-score of −inf."""
        return self.labels.size > 0 and bool(self.xp.min(self.rows) == -self.xp.inf)

    @property
    def has_labels(self) -> NDArray[np.bool_]:
        """Which classes have labels, (K,)."""
        return np.bincount(self.labels, minlength=self.n_classes) > 0

    def moments(
        self, scale: float, shift: NDArray[np.float64], slopes: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return what :func:`~reprior.core.log_loss_sums.log_loss_moments` returns, (6,)."""
        return log_loss_moments(self, scale, shift, slopes)

    def sample(self) -> WeightedRows | None:
        """Return some of the rows where there are many, for a start near the optimum."""
        n, n_scores = self.labels.size, self.labels.size * self.n_classes
        share = min(SAMPLE_SHARE, n_scores // SAMPLE_ITEMS, n // SAMPLE_ROWS)
        return None if n_scores < SAMPLE_FROM or share < 2 else self.every(share)

    def every(self, share: int) -> WeightedRows:
        """Return one row of every ``share``, with weights that sum to 1.

        Its place among them varies, by the golden ratio: with labels 0, 1, 2, 0, 1, 2, … every
        third row would be of one class.
        """
        if share == 1:
            return self
        turn = np.arange(self.labels.size // share)
        place = share * turn + (share * (GOLDEN * turn % 1.0)).astype(np.int64)
        v = self.weights[place]
        if self.on_numpy:
            rows = np.asarray(self.rows[place], order="F" if self.rows.flags.f_contiguous else "C")
        else:
            rows = self.xp.take(self.rows, constant(place, self.xp, like=self.rows), axis=0)
        return WeightedRows(rows, self.labels[place], v / v.sum(), self.samples[place], self.xp)

    def of_classes(self, kept: NDArray[np.bool_]) -> WeightedRows:
        """Return the same without the other classes, none of which may have labels."""
        if kept.all():
            return self
        index = constant(np.flatnonzero(kept), self.xp, like=self.rows)
        rows = self.xp.take(self.rows, index, axis=1)
        return replace(self, rows=rows, labels=(np.cumsum(kept) - 1)[self.labels])

    def shifted(self, shift: NDArray[np.float64]) -> WeightedRows:
        """Return the same with a number added to each class's log-scores."""
        added = constant(shift, self.xp, like=self.rows, dtype=self.rows.dtype)
        return replace(self, rows=self.rows + added)

    def _refuse_impossible(self) -> None:
        """Refuse samples whose own class has probability 0, or whose log-loss overflows."""
        impossible = np.isneginf(self.label_scores)
        if not impossible.any():
            self._refuse_huge()
            return
        where = int(np.argmax(impossible))
        raise ScoresError(
            argument="scores",
            rule="must leave every sample's own class possible, or the log-loss is infinite at any "
            "temperature",
            got=f"probability 0 for class {self.labels[where]} of sample {self.samples[where]} "
            f"(counting along the flattened labels)",
            remedy="Drop the sample, pass logits, or mix the probabilities p of such a model with "
            "a little of the uniform ones before: 0.999 * p + 0.001 / K. A forest has zeros where "
            "no leaf holds the class: train it with min_samples_leaf=5 or more.",
        )

    def _refuse_huge(self) -> None:
        """Refuse samples whose own class lies so far below another that the log-loss overflows."""
        if not self.labels.size:
            return
        peak = float(to_numpy(self.xp.max(self.rows)))  # one number, sooner than one per row
        if peak - float(self.label_scores.min()) <= LARGEST_GAP:
            return
        peaks = to_numpy(self.xp.max(self.rows, axis=1)).astype(np.float64)
        with np.errstate(over="ignore"):
            gaps = peaks - self.label_scores
        if not (gaps > LARGEST_GAP).any():
            return
        where = int(np.argmax(gaps > LARGEST_GAP))
        raise ScoresError(
            argument="scores",
            rule=f"must have every sample's own class within {LARGEST_GAP:g} of its largest score, "
            "or the log-loss overflows",
            got=f"{gaps[where]:g} less for class {self.labels[where]} of sample "
            f"{self.samples[where]} (counting along the flattened labels)",
            remedy="Check how the scores were computed, or drop the sample.",
        )


def _laid_out(log_z: Array, axis: int, kept: NDArray[np.int64] | None, xp: Namespace) -> Array:
    """Return the rows to keep, or all, as (n, K); see :class:`WeightedRows` for their order."""
    n_classes = int(log_z.shape[axis])
    first = is_numpy_namespace(xp) and n_classes < SHORT_ROW
    rows = xp.moveaxis(log_z, axis, 0 if first else -1)
    rows = xp.reshape(rows, (n_classes, -1) if first else (-1, n_classes))
    if kept is not None:
        rows = xp.take(rows, constant(kept, xp, like=rows), axis=1 if first else 0)
    return np.ascontiguousarray(rows).T if first else rows


def _weights(y: NDArray[Any], sample_weight: Any, ignore_index: int | None) -> NDArray[np.float64]:
    """Return weights that sum to 1, 0 for ignored samples."""
    v: NDArray[np.float64] = np.ones(y.shape)
    if sample_weight is not None:
        check_sample_weight(sample_weight, y.shape)
        v = np.array(to_numpy(sample_weight), dtype=np.float64)
    if ignore_index is not None:
        v = np.where(y == ignore_index, 0.0, v)
    if not v.any():
        raise LabelsError(
            argument="labels",
            rule="must hold at least one sample of positive weight that is not ignored",
            got="none",
            remedy=["Check ", Argument("ignore_index"), " and ", Argument("sample_weight"), "."],
        )
    v /= v.max()  # first: the sum of huge weights is infinite
    v /= v.sum()
    return v


def _masked(z: Array, keep: NDArray[np.bool_], kind: str, *, axis: int, xp: Namespace) -> Array:
    """Return the scores with the rows to leave out, whatever they hold, made certain of class 0.

    Such rows pass every check, and the others keep their place in the sentences of errors.
    """
    if keep.all():
        return z
    if not is_floating(z.dtype):
        z = xp.astype(z, accumulation_dtype(xp, device_of(z)))
    certain = np.zeros(int(z.shape[axis]))
    certain[0] = 1.0
    if kind == "log_probs":
        certain = np.where(certain > 0, 0.0, -np.inf)
    shape = tuple(-1 if i == axis else 1 for i in range(z.ndim))
    row = xp.reshape(constant(certain, xp, like=z, dtype=z.dtype), shape)
    return xp.where(constant(np.expand_dims(keep, axis), xp, like=z), z, row)
