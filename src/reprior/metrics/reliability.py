"""Reliability in bins that add: of the predicted class, and of every class for itself."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior.core import kernels
from reprior.exceptions import OptionError, ProfileMismatchError
from reprior.metrics.blocks import Samples
from reprior.metrics.calibration import ReliabilityCurve, bin_of, check_bins, equal_width

__all__ = ["Reliability"]

Table = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reliability:
    """How sure a model was and how often it was right, summed in bins of confidence.

    Reliabilities of the parts of a data set add to that of the whole, so the calibration errors
    of any number of samples come from one pass. Bins are of equal width and hold the confidences
    in (b/B, (b+1)/B].

    Parameters
    ----------
    confidence, hits, count : arrays of shape (B,)
        Of the samples whose predicted class has a confidence in the bin: the sums of their
        weighted confidences, of the weights of those predicted right, and of all weights.
    class_confidence, class_hits, class_count : arrays of shape (K, B)
        The same of every class k by itself: of the samples whose P(k|x) is in the bin, the sum of
        P(k|x), the weight of those of class k, and the weight of all.

    Examples
    --------
    >>> part = Reliability.from_posterior([[0.9, 0.1], [0.9, 0.1]], [0, 1])
    >>> round(part.ece, 4), round((part + part).ece, 4), round(part.classwise_ece, 4)
    (0.4, 0.4, 0.4)
    """

    confidence: Table
    hits: Table
    count: Table
    class_confidence: Table
    class_hits: Table
    class_count: Table

    @classmethod
    def empty(cls, n_classes: int, bins: int = 15) -> Reliability:
        """No samples yet: what others are added to."""
        check_bins(bins, name="bins")
        return cls(
            *(np.zeros(bins) for _ in range(3)),
            *(np.zeros((n_classes, bins)) for _ in range(3)),
        )

    @classmethod
    def from_posterior(
        cls,
        posterior: Any,
        labels: Any,
        weight: Any = None,
        bins: int = 15,
        class_axis: int = -1,
        *,
        ignore_index: int | None = None,
    ) -> Reliability:
        """Sum labelled posteriors in bins.

        Parameters
        ----------
        posterior : array of shape (..., K, ...)
            Probabilities, the classes on ``class_axis``. One per sample, shape (N,) or 1 on the
            class axis, is that of class 1 of two.
        labels : integer array of the posterior's shape without the class axis
            Class indices 0 … K−1.
        weight : array of the labels' shape, optional
            A weight per sample.
        bins : int, default 15
            Number of bins B.
        class_axis : int, default -1
            The axis of the classes.
        ignore_index : int, optional
            A label that marks samples to leave out.
        """
        check_bins(bins, name="bins")
        samples = Samples.read(
            posterior, labels, kind="probs", class_axis=class_axis, ignore_index=ignore_index,
            sample_weight=weight,
        )  # fmt: skip
        total = cls.empty(samples.n_classes, bins)
        for p, y, w in samples.posterior():
            total._note(p, y, w)
        return total

    @classmethod
    def of_rows(cls, p: NDArray[Any], y: NDArray[Any], w: Table, bins: int = 15) -> Reliability:
        """Sum rows (n, K) that are known to be posteriors, with labels and weights above 0.

        Those of 16 bits, which miss 1 by more than rounding does, are normalised first.
        """
        if p.dtype.itemsize < 4:
            return cls.from_posterior(p, y, w, bins)
        total = cls.empty(p.shape[1], bins)
        total._note(p, y.astype(np.intp, copy=False), w)
        return total

    def __add__(self, other: Reliability) -> Reliability:
        """Return the sums of both."""
        if not isinstance(other, Reliability):
            return NotImplemented
        if self.class_count.shape != other.class_count.shape:
            k, b = self.class_count.shape
            j, c = other.class_count.shape
            raise ProfileMismatchError(
                f"reliabilities must have the same classes and bins to be added. Got {k} and {j} "
                f"classes, {b} and {c} bins. Make both with the same options."
            )
        return Reliability(
            *(getattr(self, field.name) + getattr(other, field.name) for field in fields(self))
        )

    @property
    def bins(self) -> int:
        """B."""
        return int(self.count.size)

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.class_count.shape[0])

    @property
    def ece(self) -> float:
        """The expected calibration error of the predicted class; NaN of no samples."""
        return _share(np.abs(self.hits - self.confidence).sum(), self.count.sum())

    @property
    def classwise_ece(self) -> float:
        """The class-wise expected calibration error; NaN of no samples."""
        gap = np.abs(self.class_hits - self.class_confidence).sum()
        return _share(gap, self.count.sum()) / self.n_classes

    def curve(self, of_class: int | None = None) -> ReliabilityCurve:
        """Return confidence and accuracy per bin: of the predicted class, or of one class.

        Of one class, the confidence is P(k|x) and the accuracy how many of the samples are of
        that class.
        """
        if of_class is None:
            confidence, hits, count = self.confidence, self.hits, self.count
        else:
            if not 0 <= of_class < self.n_classes:
                raise OptionError(
                    argument="of_class",
                    rule=f"must be a class index from 0 to {self.n_classes - 1}",
                    got=f"{of_class}",
                    remedy="Leave it out for the predicted class.",
                )
            confidence, hits, count = (
                table[of_class]
                for table in (self.class_confidence, self.class_hits, self.class_count)
            )
        with np.errstate(invalid="ignore"):
            return ReliabilityCurve(
                equal_width(self.bins), confidence / count, hits / count, count.copy()
            )

    def _note(self, p: NDArray[Any], y: NDArray[np.intp], w: Table) -> None:
        """Add a block in place; only while the object is being made."""
        edges, bins, n_classes = equal_width(self.bins), self.bins, self.n_classes
        if kernels.serves(p):
            top, every = np.zeros((3, bins)), np.zeros((3, n_classes, bins))
            rows, weights = kernels.contiguous(p), kernels.contiguous(w)
            labels = kernels.contiguous(y, np.int64)
            kernels.native.add_reliability(rows, labels, weights, edges, top, every)
            tables = (self.confidence, self.hits, self.count)
            own = (self.class_confidence, self.class_hits, self.class_count)
            for table, amounts in zip((*tables, *own), (*top, *every), strict=True):
                table += amounts
            return
        best = p.argmax(axis=1)
        sure, right = p[np.arange(y.size), best].astype(np.float64), best == y
        where = bin_of(sure, edges)
        for table, amount in ((self.confidence, w * sure), (self.hits, w * right), (self.count, w)):
            table += np.bincount(where, amount, minlength=bins)
        cell = _equal_width_bin(p, edges) + np.arange(n_classes) * bins
        true = np.take_along_axis(cell, y[:, None], axis=1)[:, 0]
        spread = np.broadcast_to(w[:, None], p.shape).ravel()
        for table, index, amount in (
            (self.class_confidence, cell.ravel(), (p * w[:, None]).ravel()),
            (self.class_hits, true, w),
            (self.class_count, cell.ravel(), spread),
        ):
            table += np.bincount(index, amount, minlength=table.size).reshape(table.shape)


def _equal_width_bin(values: NDArray[Any], edges: Table) -> NDArray[np.intp]:
    """What ``bin_of`` returns for edges of equal width, found by rounding instead of searching."""
    bins = edges.size - 1
    index = np.clip((values * bins).astype(np.intp), 0, bins - 1)
    # Off by one at most: an edge belongs to the bin below it, and the product may have rounded.
    index -= (values <= edges[index]) & (index > 0)
    index += (values > edges[index + 1]) & (index < bins - 1)
    return index


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else float("nan")
