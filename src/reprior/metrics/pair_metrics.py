"""Metrics that need to know which label was predicted as which class, or in which image.

====================  =============================================================================
cost                  Σ C[label, predicted] / N: smaller is better
cohen_kappa(linear)   1 − Σ v·n / Σ v·e with v = |label − predicted|: classes are ordered
cohen_kappa(quadratic)  the same with v = (label − predicted)²
of a confusion matrix any function of it
…_per_image           a ratio per image and class, mean over images, then over classes
====================  =============================================================================

with the number n of samples of each label and prediction, and the number e that chance would give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from reprior.core.checks import check_choice
from reprior.core.decision import cost_matrix
from reprior.exceptions import Element, OptionError
from reprior.metrics.cells import Cells, pairs_for
from reprior.metrics.counts import ClassCounts
from reprior.metrics.ratios import LEAST_DISAGREEMENT, Average, CountMetric, Needs

__all__ = [
    "ConfusionMetric",
    "Cost",
    "ImageMetric",
    "PairForm",
    "WeightedKappa",
    "from_confusion",
]

Vector: TypeAlias = np.ndarray[Any, Any]
Disagreement: TypeAlias = Literal["linear", "quadratic"]

#: Values that differ by less than 2⁻⁴⁸ are equal, so costs must be neither tiny nor huge.
SMALLEST_COST, LARGEST_COST = 1e-6, 1e12


@dataclass(frozen=True)
class PairForm(CountMetric):
    """A metric of sums over the samples, whose addends depend on label and prediction.

    Parameters
    ----------
    name : str
        What it is called in summaries and files.
    """

    support: float = 1.0
    average: Average = "labelled"

    needs: ClassVar[Needs] = "pairs"

    @property
    def by_hits(self) -> bool:
        """Never."""
        return False

    def forms(self, label: Vector, predicted: Vector, counts: ClassCounts) -> Vector:
        """Return the addends (R, n) of samples of these labels and predictions, up to 1 in size."""
        raise NotImplementedError

    def of_means(self, *means: Any) -> Vector:
        """Return the metric of the mean of every addend over all samples."""
        raise NotImplementedError

    def __call__(self, counts: ClassCounts) -> float:
        """Return the metric's value; NaN where there are no labels."""
        if not counts.labelled.any():
            return float("nan")
        pairs = pairs_for(self, counts)
        share = pairs.amount / counts.support.sum()
        forms = self.forms(pairs.label, pairs.predicted, counts)
        return float(self.of_means(*((share * form).sum() for form in forms)))


@dataclass(frozen=True, init=False)
class Cost(PairForm):
    r"""The mean cost of decisions, which is minimised.

    .. math:: \frac{1}{\sum_i v_i} \sum_i v_i\,C_{y_i \hat y_i}

    with the label y_i, the prediction ŷ_i and the weight v_i of sample i.

    Parameters
    ----------
    matrix : array-like of shape (K, K)
        ``matrix[true, decided]``, as in :func:`reprior.decide`. What is gained may be negative.
    name : str, default "cost"
        What it is called in summaries, files and constraints.

    References
    ----------
    .. [1] Elkan. "The Foundations of Cost-Sensitive Learning", IJCAI 2001.

    Examples
    --------
    To miss class 1 costs five times a false alarm:

    >>> import numpy as np
    >>> import reprior as rp
    >>> cost = rp.Cost([[0, 1], [5, 0]])
    >>> logits = np.array([[2.0, 0.0], [1.0, 0.0], [0.4, 0.0], [0.0, 1.0]])
    >>> profile = rp.StrengthProfile.from_scores(logits, [0, 0, 1, 1], source_prior=[0.8, 0.2])
    >>> profile.evaluate(cost, [0.0, 0.5, 2.0])
    array([1.25, 0.  , 0.5 ])
    >>> round(profile.best(cost).strength, 3)
    0.505
    """

    fraction: ClassVar[bool] = False

    matrix: Vector = field(default_factory=lambda: np.zeros((2, 2)), compare=False)
    key: tuple[int, bytes] = (0, b"")

    def __init__(self, matrix: Any, *, name: str = "cost") -> None:
        given = cost_matrix(matrix, name="matrix")
        if given.shape[0] != given.shape[1]:
            raise OptionError(
                argument="matrix",
                rule="must have a row and a column for each class, to tune predictions of classes",
                got=f"shape {given.shape}",
                remedy="For other decisions, such as to ask a human, fit probabilities and call "
                "reprior.decide.",
            )
        size = float(np.abs(given).max())
        if not (size == 0.0 or SMALLEST_COST <= size <= LARGEST_COST):
            raise OptionError(
                argument="matrix",
                rule=f"must have a largest entry from {SMALLEST_COST:g} to {LARGEST_COST:g}",
                got=f"{size:g}",
                remedy="Express them in another unit.",
            )
        given.flags.writeable = False
        values = {"matrix": given, "key": (len(given), given.tobytes()), "name": name}
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)

    def __repr__(self) -> str:
        k = len(self.matrix)
        return f"Cost(<{k} × {k} matrix>, name={self.name!r})"

    @property
    def greater_is_better(self) -> bool:
        """No: costs are minimised."""
        return False

    @property
    def best_possible(self) -> float:
        """The smallest cost."""
        return float(self.matrix.min())

    @property
    def largest(self) -> float:
        """The largest cost."""
        return float(self.matrix.max())

    @property
    def worst(self) -> float:
        """The largest cost."""
        return self.largest

    @property
    def scale(self) -> float:
        """A power of two that no cost exceeds."""
        return float(2.0 ** np.frexp(np.abs(self.matrix).max())[1])

    def rank(self, values: Any) -> Any:
        """Return by how much costs are below the largest."""
        return np.maximum(self.worst - values, 0.0)

    def of_rank(self, rank: float) -> float:
        """Return the cost of a rank."""
        return self.worst - rank

    def check_classes(self, n_classes: int, argument: str) -> None:
        """Refuse costs of other classes."""
        if len(self.matrix) != n_classes:
            raise OptionError(
                argument=argument,
                rule=f"must have costs of shape ({n_classes}, {n_classes}), of the classes' number",
                got=f"shape {self.matrix.shape}",
                remedy="Pass Cost(costs[true][decided]).",
            )

    def forms(
        self,
        label: Vector,
        predicted: Vector,
        counts: ClassCounts,  # noqa: ARG002 - kappas need the mix of the labels
    ) -> Vector:
        """Return the costs, over their scale."""
        return self.matrix[label, predicted][None] / self.scale

    def of_means(self, *means: Any) -> Vector:
        """Return the mean cost."""
        return np.asarray(means[0] * self.scale)


@dataclass(frozen=True)
class WeightedKappa(PairForm):
    """Cohen's weighted kappa, for classes that are ordered, such as grades.

    Parameters
    ----------
    name : str
        What it is called in summaries and files.
    disagreement : {"linear", "quadratic"}
        How much it counts when label and prediction are d classes apart: d, or d².

    References
    ----------
    .. [1] Cohen. "Weighted kappa", Psychological Bulletin 70, 1968.

    Examples
    --------
    >>> counts = ClassCounts.from_predictions([0, 1, 2, 2], [0, 1, 1, 2], n_classes=3, pairs=True)
    >>> WeightedKappa("cohen_kappa(quadratic)")(counts)
    0.8
    """

    disagreement: Disagreement = "quadratic"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("disagreement", self.disagreement, get_args(Disagreement))

    @property
    def worst(self) -> float:
        """−1: as far from the labels as chance is, and on the other side."""
        return -1.0

    def rank(self, values: Any) -> Any:
        """Return the distance from the worst."""
        return values - self.worst

    def of_rank(self, rank: float) -> float:
        """Return the value of a rank."""
        return rank + self.worst

    def forms(self, label: Vector, predicted: Vector, counts: ClassCounts) -> Vector:
        """Return 1 less the disagreement, and 1 less what chance would give for the prediction."""
        power = 1 if self.disagreement == "linear" else 2
        classes = np.arange(counts.n_classes)
        apart = (np.abs(classes[:, None] - classes) / max(counts.n_classes - 1, 1)) ** power
        by_chance = (counts.support / counts.support.sum()) @ apart
        return 1.0 - np.stack([apart[label, predicted], by_chance[predicted]])

    def of_means(self, *means: Any) -> Vector:
        """Return (agreement − chance) / (1 − chance), 0 where no label or prediction differs."""
        agreement, chance = (np.asarray(mean, np.float64) for mean in means)
        below = np.where(1.0 - chance < LEAST_DISAGREEMENT, 0.0, 1.0 - chance)
        return np.divide(agreement - chance, below, out=np.zeros(below.shape), where=below > 0)


Confusion: TypeAlias = Callable[[Vector], Any]


@dataclass(frozen=True)
class ConfusionMetric(CountMetric):
    """A function of the confusion matrix; :func:`from_confusion` makes one."""

    support: float = 1.0
    average: Average = "labelled"
    function: Confusion = field(default=lambda matrices: matrices[:, 0, 0])
    better: bool = True
    most_steps: int | None = None
    """Outcomes beyond which a grid of strengths is evaluated, for functions that take long."""

    needs: ClassVar[Needs] = "pairs"
    fraction: ClassVar[bool] = False

    @property
    def greater_is_better(self) -> bool:
        """As it was said."""
        return self.better

    @property
    def by_hits(self) -> bool:
        """Never."""
        return False

    @property
    def largest(self) -> float:
        """Infinite: nothing is known of the function."""
        return float("inf")

    @property
    def best_possible(self) -> float:
        """Infinite, too."""
        return float(self.utility(np.inf))

    @property
    def worst(self) -> float:
        """Infinite, too."""
        return -self.best_possible

    def rank(self, values: Any) -> Any:
        """Return numbers from 0 to 2."""
        utility = self.utility(values)
        return 1.0 + utility / (1.0 + np.abs(utility))

    def of_rank(self, rank: float) -> float:
        """Return the value of a rank."""
        return float(self.utility((rank - 1.0) / (1.0 - abs(rank - 1.0))))

    def values(self, matrices: Vector) -> Vector:
        """Return the function of matrices (S, K, K), one finite number for each."""
        view = matrices.view()
        view.flags.writeable = False
        values = np.asarray(self.function(view))
        if values.dtype.kind not in "iufb" or values.shape != matrices.shape[:1]:
            raise OptionError(
                argument="function",
                rule="must map matrices (S, K, K) to S numbers",
                got=f"{values.dtype} of shape {values.shape} for {len(matrices)} matrices, by "
                f"{self.name!r}",
                remedy="Reduce the last two axes, [true, predicted].",
            )
        values = values.astype(np.float64)
        bad = ~np.isfinite(values)
        if bad.any():
            raise OptionError(
                argument="function",
                rule="must be finite for every matrix",
                got=Element(self.name, (), float(values[bad][0])),
                remedy="Say what it is where a denominator is 0, as in np.divide(…, where=…).",
            )
        return values

    def __call__(self, counts: ClassCounts) -> float:
        """Return the function's value; NaN where there are no labels."""
        if not counts.labelled.any():
            return float("nan")
        return float(self.values(pairs_for(self, counts).matrix(counts.n_classes)[None])[0])


def from_confusion(
    function: Confusion, name: str | None = None, *, greater_is_better: bool = True
) -> ConfusionMetric:
    """Return a metric that is any function of the confusion matrix.

    It is exact: the function is called with the matrix of every distinct outcome, many at once.
    That takes as many numbers as there are outcomes times K². Beyond 2³¹ of them the metric is only
    evaluated on a grid of strengths, with a warning.

    Parameters
    ----------
    function : callable
        Maps matrices of shape (S, K, K), ``[true, predicted]``, to S finite numbers. The matrices
        are valid during the call: their memory is used again for the next ones.
    name : str, optional
        What it is called in summaries and files. The function's name by default.
    greater_is_better : bool, default True
        Whether it is maximised, or minimised.

    Examples
    --------
    >>> import numpy as np
    >>> from reprior.metrics import evaluate, from_confusion
    >>> def least_diagonal(matrices):
    ...     return matrices.diagonal(axis1=1, axis2=2).min(axis=1)
    >>> metric = from_confusion(least_diagonal)
    >>> metric.name, evaluate(metric, [0, 0, 1, 1, 1], [0, 1, 1, 1, 1])
    ('least_diagonal', 1.0)
    """
    if not callable(function):
        raise OptionError(
            argument="function",
            rule="must be a function of matrices (S, K, K)",
            got=repr(function),
            remedy="Pass for example lambda m: m.diagonal(axis1=1, axis2=2).sum(axis=1).",
        )
    own = getattr(function, "__name__", "confusion").strip("<>")
    return ConfusionMetric(name or own, function=function, better=bool(greater_is_better))


@dataclass(frozen=True)
class ImageMetric(CountMetric):
    """A ratio per image and class, its mean over images, and the mean of that over classes.

    The mean over images is over those in which the class is present or predicted.

    Examples
    --------
    >>> counts = ClassCounts.from_predictions(
    ...     [[0, 0], [0, 1]], [[0, 0], [0, 0]], n_classes=2, pairs=True
    ... )
    >>> ImageMetric("mean_dice_per_image", gain=2, support=1, predicted=1)(counts)
    0.41666666666666663
    """

    needs: ClassVar[Needs] = "images"

    def __call__(self, counts: ClassCounts) -> float:
        """Return the metric's value; NaN where there is no class to average."""
        cells = Cells.of(self, counts)
        inside = cells.counts
        ratio = self.ratio(inside.true_positive, inside.predicted, inside.support)
        seen = inside.seen & self.eligible(counts.n_classes)[cells.klass]
        n = counts.n_classes
        images = np.bincount(cells.klass[seen], minlength=n)
        total = np.bincount(cells.klass[seen], ratio[seen], minlength=n)
        there = images > 0
        return float((total[there] / images[there]).mean()) if there.any() else float("nan")
