"""Metrics that are ratios of class counts, averaged, and coefficients of agreement.

The formulas are in :mod:`reprior.metrics.count_metrics`, which knows them by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from reprior.core.checks import check_choice
from reprior.exceptions import OptionError, Setting
from reprior.metrics.counts import ClassCounts

__all__ = ["LARGEST_ZERO", "LEAST_DISAGREEMENT", "Agreement", "Coefficient", "CountMetric", "Mean"]

Vector: TypeAlias = np.ndarray[Any, Any]
Average: TypeAlias = Literal["pooled", "labelled", "seen", "one", "weighted"]
Mean: TypeAlias = Literal["arithmetic", "geometric", "harmonic", "least"]
Coefficient: TypeAlias = Literal["mcc", "kappa"]
Needs: TypeAlias = Literal["classes", "pairs", "images"]

#: 1 − Σ P² / N² below this is 0 but for rounding: with N samples it is at least about 2/N.
LEAST_DISAGREEMENT = 2.0**-40

#: Up to this a ratio is 0 to all but the arithmetic mean: weights that cancel leave rounding.
LARGEST_ZERO = 2.0**-40


@dataclass(frozen=True)
class CountMetric:
    """A metric that is a ratio of counts per class, averaged.

    ``gain·TP / (support·S + predicted·P + true_positive·TP)`` per class, then ``average``:

    * ``"pooled"``: counts are summed over the classes first;
    * ``"labelled"``: mean over the classes that have labels;
    * ``"seen"``: mean over the classes that have labels or are predicted;
    * ``"weighted"``: mean over the classes that have labels, weighted by support;
    * ``"one"``: the class ``of_class`` alone.

    Parameters
    ----------
    name : str
        What it is called in summaries and files.
    gain, support, predicted, true_positive : float
        The coefficients of the ratio.
    average : {"pooled", "labelled", "seen", "weighted", "one"}
        See above.
    of_class : int, optional
        The class, with ``average="one"``.
    mean : {"arithmetic", "geometric", "harmonic", "least"}
        The mean over the classes; ``"least"`` is the smallest value. A class of 0 makes all but
        the arithmetic mean 0.
    classes : tuple of int, optional
        The mean is over these classes only.
    complement : bool
        Whether the ratio is that of all samples but the class's: the recall of the complement is
        the specificity.
    chance : float
        The value that is rescaled to 0, so that 1 stays 1: (mean − chance) / (1 − chance).

    Examples
    --------
    Any such ratio can be tuned. The F-score that values recall twice as much:

    >>> f2 = CountMetric("macro_f2", gain=5, support=4, predicted=1, average="seen")
    >>> counts = ClassCounts(np.array([3, 1]), np.array([4, 2]), np.array([3, 3]))
    >>> round(f2(counts), 4)
    0.6473
    """

    name: str
    gain: float = 1.0
    support: float = 0.0
    predicted: float = 0.0
    true_positive: float = 0.0
    average: Average = "seen"
    of_class: int | None = None
    mean: Mean = "arithmetic"
    classes: tuple[int, ...] | None = None
    complement: bool = False
    chance: float = 0.0

    needs: ClassVar[Needs] = "classes"
    """What the metric is counted in: classes, pairs of label and prediction, or images."""

    fraction: ClassVar[bool] = True
    """Whether values are shown in per cent."""

    def __post_init__(self) -> None:
        check_choice("average", self.average, get_args(Average))
        check_choice("mean", self.mean, get_args(Mean))
        if (self.average == "one") != (self.of_class is not None):
            raise OptionError(
                argument="of_class",
                rule=["must be given with ", Setting("average", "one"), ", and only then"],
                got=[
                    Setting("average", self.average),
                    " and ",
                    Setting("of_class", self.of_class),
                ],
                remedy="Pass both or neither.",
            )
        if not (self.gain > 0 and self.support >= 0 and self.predicted >= 0 and self._total > 0):
            raise OptionError(
                "A count metric must have gain > 0, support and predicted of at least 0, and a "
                "positive sum of support, predicted and true_positive.",
                got=str(self.form),
                remedy="Recall is CountMetric('recall', support=1).",
            )
        if self.average in ("pooled", "weighted") and self.mean != "arithmetic":
            raise OptionError(
                argument="mean",
                rule=["must be 'arithmetic' with ", Setting("average", self.average)],
                got=repr(self.mean),
                remedy=["Pass ", Setting("average", "labelled"), "."],
            )
        if self.classes is not None and self.average in ("pooled", "one"):
            raise OptionError(
                argument="classes",
                rule=["must not be given with ", Setting("average", self.average)],
                got=repr(self.classes),
                remedy=["Pass ", Setting("average", "labelled"), "."],
            )

    @property
    def _total(self) -> float:
        return self.support + self.predicted + self.true_positive

    @property
    def largest(self) -> float:
        """The largest value possible, that of a class with every prediction right."""
        return self.gain / self._total

    @property
    def greater_is_better(self) -> bool:
        """Whether the metric is maximised. A cost is minimised."""
        return True

    @property
    def worst(self) -> float:
        """A value that no counts are worse than."""
        return -self.chance / (1.0 - self.chance) if self.chance else 0.0

    @property
    def best_possible(self) -> float:
        """A value that no counts are better than."""
        return self.largest

    def utility(self, values: Any) -> Any:
        """Return values, or their negatives where smaller ones are better: always to maximise."""
        return values if self.greater_is_better else -values

    def rank(self, values: Any) -> Any:
        """Return values so that larger ones are better, and none is below 0 if it can be helped."""
        return values

    def of_rank(self, rank: float) -> float:
        """Return the value of a rank."""
        return rank

    def check_classes(self, n_classes: int, argument: str) -> None:
        """Refuse another number of classes than the metric is for."""

    @property
    def by_hits(self) -> bool:
        """Whether only true positives change the metric, for given labels."""
        return not self.predicted and self.average != "seen" and not self.complement

    @property
    def form(self) -> tuple[float, float, float, float]:
        """The coefficients: gain, support, predicted, true positives."""
        return self.gain, self.support, self.predicted, self.true_positive

    def ratio(self, true_positive: Any, predicted: Any, support: Any, total: Any = None) -> Vector:
        """Return the ratio of every entry; 0 where the denominator is 0.

        ``total`` is the weight of all samples, which the ratio of a complement needs.
        """
        if self.complement:
            true_positive = total - support - predicted + true_positive
            predicted, support = total - predicted, total - support
        below = self.support * support + self.predicted * predicted
        below = below + self.true_positive * true_positive
        above = self.gain * np.asarray(true_positive, dtype=np.float64)
        ratio: Vector = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
        return ratio

    def per_class(self, counts: ClassCounts) -> Vector:
        """Return the ratio per class, (K,); NaN for a class the average leaves out."""
        total = counts.support.sum()
        ratio = self.ratio(counts.true_positive, counts.predicted, counts.support, total)
        return np.where(self.counted(counts), ratio, np.nan)

    def counted(self, counts: ClassCounts) -> Vector:
        """Return which classes the average is over, (K,) bool."""
        if self.average == "one":
            one: Vector = np.arange(counts.n_classes) == self.of_class
            return one
        within: Vector = counts.seen if self.average == "seen" else counts.labelled
        return within & self.eligible(counts.n_classes)

    def eligible(self, n_classes: int) -> Vector:
        """The classes that the average may be over, (K,) bool."""
        some = np.zeros(n_classes, bool)
        if self.of_class is not None:
            some[self.of_class] = True
        else:
            some[slice(None) if self.classes is None else list(self.classes)] = True
        return some

    def has_labels(self, labelled: Vector) -> bool:
        """Whether any class that the metric is about has labels; ``labelled`` is (K,) bool."""
        return bool(labelled[self.eligible(labelled.size)].any())

    def __call__(self, counts: ClassCounts) -> float:
        """Return the metric's value; NaN where there is no class to average."""
        counted = self.counted(counts)
        if not counted.any():
            return float("nan")
        if self.average == "pooled":
            sums = (counts.true_positive.sum(), counts.predicted.sum(), counts.support.sum())
            return float(self.ratio(*sums, sums[-1]))
        return float(self.mean_of(self.per_class(counts), counted, counts.support))

    def of_tables(
        self, base: ClassCounts, hits: Vector, predicted: Vector, plain: Vector
    ) -> Vector:
        """The metric of many counts of shape (..., K) for the labels of ``base``.

        ``plain`` is the number of samples predicted beside their weight.
        """
        total = base.support.sum()
        if self.average == "pooled":
            return self.ratio(hits.sum(-1), predicted.sum(-1), total, total)
        counted = np.broadcast_to(self.counted(base), plain.shape)
        if self.average == "seen":
            counted = (base.labelled | (plain > 0)) & self.eligible(base.n_classes)
        hits, predicted = (np.where(plain > 0, column, 0) for column in (hits, predicted))
        ratio = self.ratio(hits, predicted, base.support, total)
        return self.mean_of(ratio, counted, base.support)

    def mean_of(self, ratio: Vector, counted: Vector, support: Vector, zeros: Any = 0) -> Vector:
        """The mean over the last axis where ``counted``, and over so many ``zeros`` besides."""
        n = np.maximum(counted.sum(-1) + zeros, 1)
        if self.mean == "arithmetic":
            if self.average == "weighted":
                weight = np.where(counted, support, 0)
                ratio, n = ratio * weight, np.maximum(weight.sum(-1), np.finfo(float).tiny)
            mean = np.where(counted, ratio, 0.0).sum(-1) / n
            return np.asarray((mean - self.chance) / (1.0 - self.chance) if self.chance else mean)
        ratio = np.where(ratio > LARGEST_ZERO, ratio, 0.0)
        if self.mean == "least":
            mean = np.where(counted, ratio, np.inf).min(-1)
        elif self.mean == "geometric":
            with np.errstate(divide="ignore"):
                mean = np.exp2(np.log2(np.where(counted, ratio, 1.0)).sum(-1) / n)
        else:
            with np.errstate(divide="ignore"):
                inverse = np.where(counted, 1.0 / np.where(counted, ratio, 1.0), 0.0).sum(-1)
            mean = np.divide(n, inverse, out=np.zeros(np.shape(inverse)), where=inverse > 0)
        return np.where((zeros > 0) | np.isinf(mean), 0.0, mean)


@dataclass(frozen=True)
class Agreement(CountMetric):
    """A coefficient of the agreement between labels and predictions beyond chance.

    Parameters
    ----------
    name : str
        What it is called in summaries and files.
    coefficient : {"mcc", "kappa"}
        Matthews' correlation coefficient [1]_ of several classes, or Cohen's kappa [2]_.

    References
    ----------
    .. [1] Gorodkin. "Comparing two K-category assignments by a K-category correlation
       coefficient", Computational Biology and Chemistry 28, 2004.
    .. [2] Cohen. "A coefficient of agreement for nominal scales", Educational and Psychological
       Measurement 20, 1960.

    Examples
    --------
    >>> counts = ClassCounts.from_predictions([0, 0, 0, 1], [0, 0, 1, 1], n_classes=2)
    >>> round(Agreement("mcc")(counts), 4)
    0.5774
    """

    support: float = 1.0
    average: Average = "labelled"
    coefficient: Coefficient = "mcc"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("coefficient", self.coefficient, get_args(Coefficient))

    @property
    def worst(self) -> float:
        """−1: labels and predictions that never agree."""
        return -1.0

    @property
    def by_hits(self) -> bool:
        """Never: predictions of any class change what chance would give."""
        return False

    def __call__(self, counts: ClassCounts) -> float:
        """Return the coefficient; NaN where there are no labels."""
        if not counts.labelled.any():
            return float("nan")
        plain = counts.predicted if counts.n_predicted is None else counts.n_predicted
        return float(self.of_tables(counts, counts.true_positive, counts.predicted, plain))

    def of_tables(
        self, base: ClassCounts, hits: Vector, predicted: Vector, plain: Vector
    ) -> Vector:
        """The coefficient of many counts of shape (..., K) for the labels of ``base``."""
        total = base.support.sum()
        hits, predicted = (np.where(plain > 0, column, 0) for column in (hits, predicted))
        labels, share = base.support / total, predicted / total
        right = (hits / total).sum(-1)
        return self.of_sums(right, (share * labels).sum(-1), (share**2).sum(-1), (labels**2).sum())

    def of_sums(self, hits: Any, by_chance: Any, predicted: Any, labelled: Any) -> Vector:
        """The coefficient of c, e, Σ P² / N² and Σ S² / N²."""
        labels, predictions = 1.0 - labelled, 1.0 - predicted
        if self.coefficient == "kappa":
            below = np.where(1.0 - by_chance < LEAST_DISAGREEMENT, 0.0, 1.0 - by_chance)
        else:
            none = (labels < LEAST_DISAGREEMENT) | (predictions < LEAST_DISAGREEMENT)
            below = np.where(none, 0.0, np.sqrt(np.abs(labels)) * np.sqrt(np.abs(predictions)))
        above = np.asarray(hits - by_chance, np.float64)
        return np.divide(above, below, out=np.zeros(np.shape(above)), where=below > 0)
