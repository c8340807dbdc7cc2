"""Metrics of probabilities: log-loss, Brier score, calibration errors, reliability.

The functions take any kind of scores of any array library and return Python floats (or, for the
curve, NumPy arrays). :class:`Reliability` holds the bins of the calibration errors, which add over
the parts of a data set. Sums are in float64.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from reprior.core import kernels
from reprior.core.checks import check_choice
from reprior.exceptions import OptionError, ProfileMismatchError
from reprior.metrics.score_blocks import ScoreBlocks

__all__ = [
    "Reliability",
    "ReliabilityCurve",
    "brier_score",
    "classwise_calibration_error",
    "expected_calibration_error",
    "log_loss",
    "reliability_curve",
]

Table = NDArray[np.float64]

BINNINGS = ("equal_width", "equal_mass")


def log_loss(
    scores: Any,
    labels: Any,
    *,
    kind: str = "probs",
    class_axis: int = -1,
    ignore_index: int | None = None,
    sample_weight: Any = None,
) -> float:
    r"""Return the mean negative log-probability of the true class (NLL), in nats.

    .. math:: -\frac{1}{\sum_i v_i} \sum_i v_i \log P(y_i|x_i)

    where P is the posterior, y_i the label and v_i the weight of sample i. It is infinite where
    a true class has probability 0: nothing is clipped.

    Parameters
    ----------
    scores : array of shape (..., K, ...)
        The model's outputs. One score per sample, shape (N,) or 1 on the class axis, is that of
        class 1 of two.
    labels : integer array of the scores' shape without the class axis
        Class indices 0 … K−1.
    kind : {"logits", "probs", "log_probs"}, default "probs"
        What the scores are. It is never guessed.
    class_axis : int, default -1
        The axis of the classes.
    ignore_index : int, optional
        A label that marks samples to leave out.
    sample_weight : array of the labels' shape, optional
        A weight per sample.

    References
    ----------
    .. [1] Good. "Rational Decisions", Journal of the Royal Statistical Society B 14, 1952.

    Examples
    --------
    >>> round(log_loss([[0.5, 0.5], [0.25, 0.75]], [0, 1]), 4)
    0.4904
    >>> log_loss([[1.0, 0.0]], [1])
    inf
    """
    samples = ScoreBlocks.read(
        scores,
        labels,
        kind=kind,
        class_axis=class_axis,
        ignore_index=ignore_index,
        sample_weight=sample_weight,
    )
    loss = total = 0.0
    for log_p, y, w in samples.posterior(log=True):
        true = np.take_along_axis(log_p, y[:, None], axis=1)[:, 0]
        loss -= float((w * true).sum())
        total += float(w.sum())
    return loss / total


def brier_score(
    scores: Any,
    labels: Any,
    *,
    kind: str = "probs",
    class_axis: int = -1,
    ignore_index: int | None = None,
    sample_weight: Any = None,
    scale_by_half: bool | Literal["auto"] = "auto",
) -> float:
    r"""Return the mean squared distance of the posterior from the truth.

    .. math:: \frac{1}{\sum_i v_i} \sum_i v_i \sum_k \bigl(P(k|x_i) - [y_i = k]\bigr)^2

    where P is the posterior, y_i the label and v_i the weight of sample i: 0 … 2. For two
    classes it is halved, as scikit-learn does: that is the familiar (p − y)².

    Parameters
    ----------
    scores, labels, kind, class_axis, ignore_index, sample_weight
        As for :func:`log_loss`.
    scale_by_half : bool or "auto", default "auto"
        Whether to halve the score; "auto" does for two classes.

    References
    ----------
    .. [1] Brier. "Verification of Forecasts Expressed in Terms of Probability", Monthly Weather
       Review 78, 1950.

    Examples
    --------
    >>> round(brier_score([[0.8, 0.1, 0.1]], [0]), 4)
    0.06
    >>> round(brier_score([0.8], [1]), 4)
    0.04
    """
    if not isinstance(scale_by_half, bool):
        check_choice("scale_by_half", scale_by_half, ["auto"], hint="Or pass True or False.")
    samples = ScoreBlocks.read(
        scores,
        labels,
        kind=kind,
        class_axis=class_axis,
        ignore_index=ignore_index,
        sample_weight=sample_weight,
    )
    loss = total = 0.0
    for p, y, w in samples.posterior():
        gap = p.astype(np.float64)
        gap[np.arange(y.size), y] -= 1.0
        loss += float(w @ np.square(gap, out=gap).sum(axis=1))
        total += float(w.sum())
    halve = samples.n_classes == 2 if scale_by_half == "auto" else scale_by_half
    return loss / total / (2 if halve else 1)


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """The accuracy of the predicted class by the confidence of the model.

    Parameters
    ----------
    edges : array of shape (B+1,)
        Bin b holds the confidences in (edges[b], edges[b+1]].
    confidence, accuracy : arrays of shape (B,)
        Mean confidence, and share of right predictions, in every bin; NaN in an empty one.
    count : array of shape (B,)
        Summed weight of the samples in every bin.
    """

    edges: NDArray[np.float64]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    count: NDArray[np.float64]

    @property
    def expected_calibration_error(self) -> float:
        """The mean distance of accuracy and confidence over the samples."""
        gap = np.abs(self.accuracy - self.confidence)
        return float(np.average(np.nan_to_num(gap), weights=self.count))


def reliability_curve(
    scores: Any,
    labels: Any,
    *,
    kind: str = "probs",
    class_axis: int = -1,
    ignore_index: int | None = None,
    sample_weight: Any = None,
    n_bins: int = 15,
    binning: str = "equal_width",
) -> ReliabilityCurve:
    r"""Return confidence and accuracy of the predicted class, bin by bin.

    .. math:: \mathrm{conf}(b) = \frac{\sum_{i \in b} v_i c_i}{\sum_{i \in b} v_i}, \qquad
        \mathrm{acc}(b) = \frac{\sum_{i \in b} v_i [\hat y_i = y_i]}{\sum_{i \in b} v_i}

    where c_i = max_k P(k|x_i) is the confidence in the predicted class ŷ_i, y_i the label, v_i
    the weight, and b the samples whose confidence is in one bin.

    Parameters
    ----------
    scores, labels, kind, class_axis, ignore_index, sample_weight
        As for :func:`log_loss`.
    n_bins : int, default 15
        Number of bins B.
    binning : {"equal_width", "equal_mass"}, default "equal_width"
        Bins of width 1/B, or bins of the same summed weight, as nearly as confidences allow:
        equal ones share a bin.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger. "On Calibration of Modern Neural Networks", ICML 2017,
       section 2.

    Examples
    --------
    >>> curve = reliability_curve([[0.9, 0.1], [0.6, 0.4]], [0, 1], n_bins=2)
    >>> curve.confidence, curve.accuracy, curve.count
    (array([ nan, 0.75]), array([nan, 0.5]), array([0., 2.]))
    """
    check_bins(n_bins, binning)
    samples = ScoreBlocks.read(
        scores,
        labels,
        kind=kind,
        class_axis=class_axis,
        ignore_index=ignore_index,
        sample_weight=sample_weight,
    )
    return _curve(samples, n_bins, binning)


def expected_calibration_error(
    scores: Any,
    labels: Any,
    *,
    kind: str = "probs",
    class_axis: int = -1,
    ignore_index: int | None = None,
    sample_weight: Any = None,
    n_bins: int = 15,
    binning: str = "equal_width",
) -> float:
    r"""Return the expected calibration error (ECE) of the predicted class.

    .. math:: \sum_b \frac{n_b}{n}\,\bigl|\mathrm{acc}(b) - \mathrm{conf}(b)\bigr|

    where acc and conf are accuracy and mean confidence of the n_b samples (their summed weight)
    in bin b, see :func:`reliability_curve`, and n is the sum of the n_b. For one score per
    sample, too, the confidence is that of the predicted class.

    Parameters
    ----------
    scores, labels, kind, class_axis, ignore_index, sample_weight
        As for :func:`log_loss`.
    n_bins, binning
        As for :func:`reliability_curve`.

    References
    ----------
    .. [1] Naeini, Cooper, Hauskrecht. "Obtaining Well Calibrated Probabilities Using Bayesian
       Binning", AAAI 2015.
    .. [2] Guo, Pleiss, Sun, Weinberger. "On Calibration of Modern Neural Networks", ICML 2017,
       Eq. 3.

    Examples
    --------
    >>> round(expected_calibration_error([[0.9, 0.1], [0.9, 0.1]], [0, 1]), 4)
    0.4
    """
    check_bins(n_bins, binning)
    samples = ScoreBlocks.read(
        scores,
        labels,
        kind=kind,
        class_axis=class_axis,
        ignore_index=ignore_index,
        sample_weight=sample_weight,
    )
    return _curve(samples, n_bins, binning).expected_calibration_error


def classwise_calibration_error(
    scores: Any,
    labels: Any,
    *,
    kind: str = "probs",
    class_axis: int = -1,
    ignore_index: int | None = None,
    sample_weight: Any = None,
    n_bins: int = 15,
) -> float:
    r"""Return the class-wise expected calibration error: every class counts the same.

    .. math:: \frac{1}{K} \sum_k \sum_b \frac{n_{kb}}{n}\,
        \bigl|\mathrm{freq}_k(b) - \overline{P}_k(b)\bigr|

    where bin b of class k holds the n_kb samples (their summed weight) with P(k|x) in
    (b/B, (b+1)/B], freq_k is how many of them are of class k, P̄_k their mean P(k|x), n the
    number of samples and K that of the classes. A class without labels counts like the others:
    whatever probability it gets is an error.

    Parameters
    ----------
    scores, labels, kind, class_axis, ignore_index, sample_weight
        As for :func:`log_loss`.
    n_bins : int, default 15
        Number of bins B, all of width 1/B.

    References
    ----------
    .. [1] Kull, Perello-Nieto, Kängsepp, Silva Filho, Song, Flach. "Beyond temperature scaling:
       Obtaining well-calibrated multiclass probabilities with Dirichlet calibration", NeurIPS
       2019, section 2.

    Examples
    --------
    >>> round(classwise_calibration_error([[0.9, 0.1], [0.9, 0.1]], [0, 1]), 4)
    0.4
    """
    check_bins(n_bins)
    samples = ScoreBlocks.read(
        scores,
        labels,
        kind=kind,
        class_axis=class_axis,
        ignore_index=ignore_index,
        sample_weight=sample_weight,
    )
    size, total = samples.n_classes * n_bins, 0.0
    # n_kb·(freq − mean) is a sum over the bin's samples: one number per class and bin is enough.
    gap = np.zeros(size)
    first = np.arange(samples.n_classes) * n_bins
    edges = equal_width(n_bins)
    for p, y, w in samples.posterior():
        cell = bin_of(p, edges) + first
        true = np.take_along_axis(cell, y[:, None], axis=1)[:, 0]
        gap += np.bincount(true, w, minlength=size)
        gap -= np.bincount(cell.ravel(), (p * w[:, None]).ravel(), minlength=size)
        total += float(w.sum())
    return float(np.abs(gap).sum()) / total / samples.n_classes


def _curve(samples: ScoreBlocks, n_bins: int, binning: str) -> ReliabilityCurve:
    parts = [
        (p.max(axis=1).astype(np.float64), p.argmax(axis=1) == y, w)
        for p, y, w in samples.posterior()
    ]
    largest, is_right, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    edges = equal_width(n_bins)
    if binning == "equal_mass":
        edges = _equal_mass(largest, weight, n_bins)
    bin_index = bin_of(largest, edges)
    count = np.bincount(bin_index, weight, minlength=n_bins).astype(np.float64, copy=False)
    with np.errstate(invalid="ignore"):
        confidence = np.bincount(bin_index, weight * largest, minlength=n_bins) / count
        accuracy = np.bincount(bin_index, weight * is_right, minlength=n_bins) / count
    return ReliabilityCurve(edges, confidence, accuracy, count)


def equal_width(n_bins: int) -> NDArray[np.float64]:
    """Return the edges of bins of width 1/B."""
    return np.linspace(0.0, 1.0, n_bins + 1)


def _equal_mass(
    confidences: NDArray[np.float64], weight: NDArray[np.float64], n_bins: int
) -> NDArray[np.float64]:
    """Return the edges of bins of equal weight: quantiles that are confidences themselves."""
    order = np.argsort(confidences, kind="stable")
    below = np.cumsum(weight[order])
    # Both sides times n_bins: exact for whole weights, so that 2 is the same as twice 1.
    inner = np.searchsorted(below * n_bins, np.arange(1, n_bins) * below[-1], side="left")
    return np.concatenate([[0.0], confidences[order][inner], [1.0]])


def bin_of(values: NDArray[Any], edges: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return b with edges[b] < value ≤ edges[b+1]; the ends belong to the outer bins."""
    return np.searchsorted(edges[1:-1], values, side="left")


def check_bins(n_bins: Any, binning: str = BINNINGS[0], *, name: str = "n_bins") -> None:
    """Refuse a number of bins below 1, or an unknown binning."""
    if isinstance(n_bins, bool) or not isinstance(n_bins, int | np.integer) or n_bins < 1:
        raise OptionError(
            argument=name,
            rule="must be an integer of at least 1",
            got=repr(n_bins),
            remedy="Pass for example 15.",
        )
    check_choice("binning", binning, BINNINGS)


@dataclass(frozen=True, eq=False)
class Reliability:
    """Sums of confidences and of right predictions in bins of confidence.

    Reliabilities of the parts of a data set add to that of the data set, so the calibration errors
    of any number of samples come from one pass. Bins are of equal width and hold the confidences
    in (b/B, (b+1)/B].

    Parameters
    ----------
    confidence, hits, count : arrays of shape (B,)
        Over the samples whose predicted class has a confidence in the bin: the sums of the weighted
        confidences, of the weights of right predictions, and of all weights.
    class_confidence, class_hits, class_count : arrays of shape (K, B)
        The same for every class k: over the samples whose P(k|x) is in the bin, the weighted sum of
        P(k|x), the weight of the samples of class k, and the weight of all.

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
        """Return the reliability of no samples, to which others are added."""
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
        samples = ScoreBlocks.read(
            posterior,
            labels,
            kind="probs",
            class_axis=class_axis,
            ignore_index=ignore_index,
            sample_weight=weight,
        )
        total = cls.empty(samples.n_classes, bins)
        for p, y, w in samples.posterior():
            total._add_block(p, y, w)
        return total

    @classmethod
    def of_rows(cls, p: NDArray[Any], y: NDArray[Any], w: Table, bins: int = 15) -> Reliability:
        """Sum rows (n, K) that are known to be posteriors, with labels and weights above 0.

        Those of 16 bits, which miss 1 by more than rounding does, are normalised first.
        """
        if p.dtype.itemsize < 4:
            return cls.from_posterior(p, y, w, bins)
        total = cls.empty(p.shape[1], bins)
        total._add_block(p, y.astype(np.intp, copy=False), w)
        return total

    def __add__(self, other: Reliability) -> Reliability:
        """Return the sums of both."""
        if not isinstance(other, Reliability):
            return NotImplemented
        if self.class_count.shape != other.class_count.shape:
            k, b = self.class_count.shape
            j, c = other.class_count.shape
            raise ProfileMismatchError(
                "reliabilities must have the same classes and bins to be added.",
                got=f"{k} and {j} classes, {b} and {c} bins",
                remedy="Make both with the same options.",
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

    def _add_block(self, p: NDArray[Any], y: NDArray[np.intp], w: Table) -> None:
        """Add a block in place: only while the object is constructed."""
        edges, bins, n_classes = equal_width(self.bins), self.bins, self.n_classes
        if kernels.serves(p):
            top, every = np.zeros((3, bins)), np.zeros((3, n_classes, bins))
            rows, weights = kernels.contiguous(p), kernels.contiguous(w)
            labels = kernels.contiguous(y, np.int64)
            kernels.native.add_reliability(rows, labels, weights, edges, top, every)
            tables = (
                self.confidence,
                self.hits,
                self.count,
                self.class_confidence,
                self.class_hits,
                self.class_count,
            )
            for table, amounts in zip(tables, (*top, *every), strict=True):
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
