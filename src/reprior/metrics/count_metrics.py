"""Metrics that class counts determine, and their names.

Most are, per class, a ratio of linear forms in true positives (TP), predicted (P) and support (S),
and a mean over classes::

    gain·TP / (a·S + b·P + c·TP)

    recall       TP / S                     accuracy           Σ TP / Σ S, all classes as one
    precision    TP / P                     balanced_accuracy  mean recall over classes with labels
    iou          TP / (S + P − TP)          mean_iou           mean IoU over the classes seen
    f1           2·TP / (S + P)             macro_…            mean over the classes seen
    fbeta(b)     (1+b²)·TP / (b²·S + P)     weighted_…         mean weighted by S
    specificity  recall of all but the class

A class is *seen* if it has labels or is predicted; one that is predicted but absent counts 0, one
that is neither is left out. ``gmean`` and ``hmean`` are the geometric and the harmonic mean of the
recalls, ``worst_recall`` is the smallest of them, all over the classes with labels. Informedness is
(K·balanced_accuracy − 1) / (K − 1).

Matthews' correlation and Cohen's kappa are no means over classes. With N = Σ S,
c = Σ TP / N and e = Σ P·S / N²::

    mcc           (c − e) / sqrt((1 − Σ P² / N²) · (1 − Σ S² / N²))
    cohen_kappa   (c − e) / (1 − e)

Both are 0 where the denominator is 0: where all predictions, or all labels, are of one class.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn, TypeAlias, get_args

import numpy as np

from reprior.core.arrays import to_numpy
from reprior.core.checks import check_choice, check_labels, nearest_name, sentences
from reprior.exceptions import Argument, LabelsError, OptionError, Setting, Text, Words
from reprior.metrics.counts import ClassCounts

__all__ = [
    "COUNT_METRICS",
    "METRIC_NAMES",
    "Agreement",
    "CountMetric",
    "evaluate",
    "find_metric",
]

Vector: TypeAlias = np.ndarray[Any, Any]
Average: TypeAlias = Literal["pooled", "labelled", "seen", "one", "weighted"]
Mean: TypeAlias = Literal["arithmetic", "geometric", "harmonic", "least"]
Coefficient: TypeAlias = Literal["mcc", "kappa"]

#: 1 − Σ P² / N² below this is 0 but for rounding: with N samples it is at least about 2/N.
LEAST_DISAGREEMENT = 2.0**-40

#: Up to this a ratio is 0 to all but the arithmetic mean: weights that cancel leave rounding.
LARGEST_ZERO = 2.0**-40

#: The F-score of a larger beta is the recall, and its coefficients times a weight may overflow.
LARGEST_BETA = 1e6


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


_RECALL = CountMetric("recall", support=1, average="labelled")
_PRECISION = CountMetric("precision", predicted=1)
_IOU = CountMetric("iou", support=1, predicted=1, true_positive=-1)
_F1 = CountMetric("f1", gain=2, support=1, predicted=1)

#: The metrics that summaries and reports show, without aliases.
COUNT_METRICS: dict[str, CountMetric] = {
    "accuracy": replace(_RECALL, name="accuracy", average="pooled"),
    "balanced_accuracy": replace(_RECALL, name="balanced_accuracy"),
    "mean_iou": replace(_IOU, name="mean_iou"),
    "macro_precision": replace(_PRECISION, name="macro_precision"),
    "macro_recall": replace(_RECALL, name="macro_recall"),
    "macro_f1": replace(_F1, name="macro_f1"),
}


def _fbeta(beta: float) -> CountMetric:
    return CountMetric(f"fbeta({beta:g})", gain=1 + beta**2, support=beta**2, predicted=1)


def _weighted(metric: CountMetric) -> CountMetric:
    return replace(metric, average="weighted")


#: Ratios of one class or, for a group of classes, their mean.
_RATIOS = {metric.name: metric for metric in (_RECALL, _PRECISION, _IOU, _F1)}
_RATIOS["specificity"] = replace(_RECALL, name="specificity", complement=True)

#: F-scores of a given beta.
_OF_BETA: dict[str, Callable[[float], CountMetric]] = {
    "fbeta": _fbeta,
    "macro_fbeta": _fbeta,
    "weighted_fbeta": lambda beta: _weighted(_fbeta(beta)),
}
_NEEDS_CLASS = (*_RATIOS, "fbeta")

#: scikit-learn's names of scorers. Its macro averages are over the classes seen, recall's too.
_SCORERS: dict[str, CountMetric] = {
    "f1_macro": _F1,
    "f1_weighted": _weighted(_F1),
    "f1_micro": COUNT_METRICS["accuracy"],
    "precision_macro": _PRECISION,
    "precision_weighted": _weighted(_PRECISION),
    "precision_micro": COUNT_METRICS["accuracy"],
    "recall_macro": replace(_RECALL, average="seen"),
    "recall_weighted": COUNT_METRICS["accuracy"],
    "recall_micro": COUNT_METRICS["accuracy"],
    "jaccard_macro": _IOU,
    "jaccard_weighted": _weighted(_IOU),
    "jaccard_micro": replace(_IOU, average="pooled"),
    "matthews_corrcoef": Agreement("mcc"),
}
_METRICS: dict[str, CountMetric] = {
    **COUNT_METRICS,
    "mcc": Agreement("mcc"),
    "cohen_kappa": Agreement("cohen_kappa", coefficient="kappa"),
    "informedness": _RECALL,  # what chance gives depends on the number of classes
    "gmean": replace(_RECALL, name="gmean", mean="geometric"),
    "hmean": replace(_RECALL, name="hmean", mean="harmonic"),
    "worst_recall": replace(_RECALL, name="worst_recall", mean="least"),
    "weighted_f1": _weighted(_F1),
    "weighted_precision": _weighted(_PRECISION),
    "weighted_iou": _weighted(_IOU),
    **_SCORERS,
}
_ALIASES = {
    "mean_accuracy": "balanced_accuracy",
    "cohen_kappa_score": "cohen_kappa",
    "geometric_mean_score": "gmean",
    "bookmaker_informedness": "informedness",
}

#: Every name that takes neither an argument nor a class.
METRIC_NAMES: tuple[str, ...] = tuple(_METRICS)

#: Spaces have one place each, so that matching takes linear time; those inside are stripped after.
_GRAMMAR = re.compile(r"(?P<name>\w+)\s*(?:\((?P<argument>[^()\[\]]*)\)\s*)?(?:\[(?P<label>.+)\])?")

#: An index that Python converts from text: it refuses thousands of digits.
_CLASS_INDEX = re.compile(r"[0-9]{1,18}")
_PROBABILITIES = re.compile(
    r"(neg_)?(log_?loss|nll|brier(_score)?|(classwise_)?ece|cross_?entropy)", re.IGNORECASE
)
_RANKING = re.compile(r"auc|auroc|auprc|average_precision", re.IGNORECASE)


def evaluate(
    metric: str | CountMetric,
    labels: Any,
    predictions: Any,
    *,
    n_classes: int | None = None,
    sample_weight: Any = None,
    ignore_index: int | None = None,
) -> float:
    """Return a metric of hard predictions.

    Parameters
    ----------
    metric : str or CountMetric
        A name such as ``"balanced_accuracy"``, ``"mean_iou"`` or ``"recall[3]"``.
    labels, predictions : integer arrays of the same shape
        Class indices 0 … K−1.
    n_classes : int, optional
        K. By default the largest index that occurs plus one.
    sample_weight : array of the labels' shape, optional
        A weight per sample.
    ignore_index : int, optional
        A label that marks samples to leave out.

    Examples
    --------
    >>> round(evaluate("balanced_accuracy", [0, 0, 0, 1], [0, 0, 1, 1]), 4)
    0.8333
    """
    if n_classes is None:
        y, p = to_numpy(labels), to_numpy(predictions)
        for name, values in (("labels", y), ("predictions", p)):
            if values.dtype.kind not in "iub":
                check_labels(values, n_classes=2, shape=values.shape, name=name)
        kept = y if ignore_index is None else y[y != ignore_index]
        n_classes = 1 + int(max(kept.max(initial=1), p.max(initial=1)))
    counts = ClassCounts.from_predictions(
        labels,
        predictions,
        n_classes=n_classes,
        sample_weight=sample_weight,
        ignore_index=ignore_index,
    )
    return find_metric(metric, n_classes=n_classes)(counts)


def find_metric(
    metric: str | CountMetric,
    *,
    n_classes: int,
    classes: Sequence[Any] | None = None,
    class_groups: Mapping[str, Any] | None = None,
    argument: str = "metric",
) -> CountMetric:
    """Return the metric of that name; an error names the metrics that can be tuned.

    Names read ``name``, ``name(argument)``, ``name[class or group]`` or both, such as
    ``"macro_f1"``, ``"macro_fbeta(2)"``, ``"recall[2]"``, ``"fbeta(2)[cat]"`` and
    ``"worst_recall[few]"``. A ratio of one class takes its index or, where ``classes`` are known,
    its name; of a group it is the mean over the group's classes.

    Parameters
    ----------
    metric : str or CountMetric
        The name, or the metric itself.
    n_classes : int
        K.
    classes : sequence, optional
        The classes by name. A class's name wins over a group's.
    class_groups : mapping of str to bool mask (K,) or classes, optional
        Groups of classes by name, such as :func:`~reprior.metrics.shot_groups` gives.
    argument : str
        The argument that the sentence names: constraints have metrics too.

    Examples
    --------
    >>> find_metric("mean_accuracy", n_classes=3).name
    'balanced_accuracy'
    >>> find_metric("recall[cat]", n_classes=2, classes=["cat", "dog"]).of_class
    0
    >>> find_metric("worst_recall[rare]", n_classes=3, class_groups={"rare": [1, 2]}).classes
    (1, 2)
    """
    if isinstance(metric, CountMetric):
        for index in (metric.of_class, *(metric.classes or ())):
            if index is not None:
                _class_index(str(index), n_classes, None, argument)
        return metric
    name: Any = metric
    if not isinstance(name, str):  # a caller without a type checker
        _refuse_other_type(name, argument)
    match = _GRAMMAR.fullmatch(name)
    if match:
        name = _ALIASES.get(match["name"], match["name"])
    if _RANKING.search(name):
        raise OptionError(
            argument=argument,
            rule="must be decided by hard labels",
            got=f"{name!r}, which ranks samples within a class and has no prediction to count",
            remedy=f"Pass one of {', '.join(map(repr, COUNT_METRICS))}.",
        )
    if _PROBABILITIES.fullmatch(name):
        raise OptionError(
            argument=argument,
            rule="must be decided by hard labels",
            got=f"{name!r}, a metric of probabilities",
            remedy=_remedy_of_probabilities(argument),
        )
    if match is None or (name in _NEEDS_CLASS and match["label"] is None):
        raise _unknown(name, n_classes, classes, argument)
    text, label = (part and part.strip() for part in match.group("argument", "label"))
    found = _named(name, text, n_classes, classes, argument)
    if label is None:
        return found
    chosen = _chosen(label, n_classes, classes, class_groups, argument)
    if isinstance(chosen, int):
        if name not in _NEEDS_CLASS:
            raise OptionError(
                argument=argument,
                rule="must be a ratio of one class, or a mean over a group of classes",
                got=f"{metric!r}, a mean of one class",
                remedy=f"Pass {name!r}, or a ratio of that class such as 'recall[{label}]'.",
            )
        return replace(found, name=metric, average="one", of_class=chosen)
    if found.average == "pooled" or found.chance or isinstance(found, Agreement):
        raise OptionError(
            argument=argument,
            rule="must be a ratio of one class, or a mean over a group of classes",
            got=f"{metric!r}, and {name!r} is no mean over classes",
            remedy=f"Pass {name!r}, or a mean over the group such as 'recall[{label}]'.",
        )
    return replace(found, name=metric, classes=chosen)


def _named(
    name: str, text: str | None, n_classes: int, classes: Sequence[Any] | None, argument: str
) -> CountMetric:
    """The metric of a name, without its class, and the text in parentheses."""
    if name in _OF_BETA:
        found = _OF_BETA[name](_beta(name, text, argument))
        return replace(found, name=f"{name}({text})")
    plain = _RATIOS.get(name) or _METRICS.get(name)
    if plain is None:
        raise _unknown(name, n_classes, classes, argument)
    if text is not None:
        raise OptionError(
            argument=argument,
            rule="must have no argument in parentheses",
            got=f"'{name}({text})'",
            remedy=f"Pass {name!r}.",
        )
    if name == "informedness":
        plain = replace(plain, chance=1.0 / n_classes)
    return plain if plain.name == name else replace(plain, name=name)


def _beta(name: str, text: str | None, argument: str) -> float:
    try:
        beta = float(text or "nan")
    except ValueError:
        beta = math.nan
    if not 0 < beta <= LARGEST_BETA:
        raise OptionError(
            argument=argument,
            rule=(
                "must say how many times as much recall counts as precision, a number above 0 and "
                f"at most {LARGEST_BETA:g}"
            ),
            got=repr(name if text is None else f"{name}({text})"),
            remedy=f"Write '{name}(2)' for recall that counts twice as much.",
        )
    return beta


def _unknown(
    name: Any, n_classes: int, classes: Sequence[Any] | None, argument: str
) -> OptionError:
    """The error for a name that no metric has, or for a ratio without its class."""
    near: str | None = None
    last = n_classes - 1 if classes is None else classes[-1]
    one_class = f"Or that of one class, such as 'recall[{last}]'."
    hint: Text = one_class
    if name in _NEEDS_CLASS:
        beta = "(2)" if name in _OF_BETA else ""
        hint = f"Name the class, as in '{name}{beta}[{last}]'."
    else:
        near = nearest_name(name, [*_METRICS, *_ALIASES, *_RATIOS, *_OF_BETA])
        if argument == "metric":
            hint = [one_class, " A calibrator also takes ", Setting("metric", "log_loss"), "."]
    names = [name for name in _METRICS if name not in _SCORERS]
    return OptionError(
        argument=argument,
        rule=f"must be one of {', '.join(map(repr, names))}, 'macro_fbeta(2)'",
        got=repr(name),
        remedy=sentences(f"Did you mean {near!r}?" if near else "", hint),
    )


def _chosen(
    label: str,
    n_classes: int,
    classes: Sequence[Any] | None,
    class_groups: Mapping[str, Any] | None,
    argument: str,
) -> int | tuple[int, ...]:
    """The class of that name, or the classes of the group of that name."""
    names = [str(name) for name in classes] if classes is not None else []
    if label in names or label not in (class_groups or {}):
        return _class_index(label, n_classes, classes, argument, class_groups)
    members = to_numpy((class_groups or {})[label])
    if members.dtype.kind == "b" and members.shape == (n_classes,):
        indices = np.flatnonzero(members).tolist()
    else:
        indices = [
            _class_index(str(member), n_classes, classes, "class_groups") for member in members
        ]
    if not indices:
        raise OptionError(
            argument="class_groups",
            rule="must be groups of at least one class",
            got=f"{label!r}, which is empty",
            remedy="Leave the group out, or choose another metric.",
        )
    return tuple(sorted(set(indices)))


def _refuse_other_type(metric: Any, argument: str) -> NoReturn:
    remedy: Text = f"Pass one of {', '.join(map(repr, COUNT_METRICS))}."
    if isinstance(metric, list | tuple) and len(metric) > 1:
        rule = f"{metric[1]} >= baseline - 0.01"
        remedy = ["Tune one, and limit the others: ", Setting("subject_to", rule), "."]
    raise OptionError(
        argument=argument,
        rule="must be one metric: a name or a CountMetric",
        got=repr(metric),
        remedy=remedy,
    )


def _remedy_of_probabilities(argument: str) -> Text:
    if argument != "metric":
        return "Limit a count metric."
    return [
        "Pass ",
        Setting("metric", "log_loss"),
        " to a PosteriorCalibrator to fit probabilities; or tune a count metric, and pass ",
        Setting("temperature", "fit"),
        " for the probabilities.",
    ]


def _class_index(
    label: str,
    n_classes: int,
    classes: Sequence[Any] | None,
    argument: str,
    class_groups: Mapping[str, Any] | None = None,
) -> int:
    names = [str(name) for name in classes] if classes is not None else []
    if label in names:
        return names.index(label)
    if _CLASS_INDEX.fullmatch(label) and int(label) < n_classes and not names:
        return int(label)
    known = f"0 to {n_classes - 1}"
    if names:
        known = f"one of {', '.join(map(repr, names[:8]))}" + (", …" if len(names) > 8 else "")
    if class_groups:
        known += f", or a group, one of {', '.join(map(repr, class_groups))}"
    raise LabelsError(
        argument=argument,
        rule=f"must name a class that exists, {known}",
        got=repr(label),
        remedy=[
            "Write the class as it is in ",
            Argument("classes"),
            ", or its index where there are no names.",
            Words(
                " For a mean over a group of classes, make the metric by "
                "find_metric(…, class_groups=…).",
                "",
            ),
        ],
    )
