"""Metrics that class counts determine, and the names they go by.

Every one of them is, per class, a ratio of linear forms in true positives (TP), predicted (P)
and support (S), averaged over classes::

    gain·TP / (a·S + b·P + c·TP)

    recall     TP / S                accuracy           Σ TP / Σ S, all classes as one
    precision  TP / P                balanced_accuracy  mean recall over the classes with labels
    iou        TP / (S + P − TP)     mean_iou           mean IoU over the classes seen
    f1         2·TP / (S + P)        macro_…            mean over the classes seen

A class is *seen* if it has labels or is predicted; one that is predicted but absent counts 0,
one that is neither is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from reprior.core.arrays import to_numpy
from reprior.core.checks import check_choice, check_labels
from reprior.exceptions import Argument, LabelsError, OptionError, Setting, Text
from reprior.metrics.counts import ClassCounts

__all__ = ["COUNT_METRICS", "CountMetric", "evaluate", "find_metric"]

Vector: TypeAlias = np.ndarray[Any, Any]
Average: TypeAlias = Literal["pooled", "labelled", "seen", "one"]


@dataclass(frozen=True)
class CountMetric:
    """A metric that is a ratio of counts per class, averaged.

    ``gain·TP / (support·S + predicted·P + true_positive·TP)`` per class, then ``average``:

    * ``"pooled"``: counts are summed over the classes first;
    * ``"labelled"``: mean over the classes that have labels;
    * ``"seen"``: mean over the classes that have labels or are predicted;
    * ``"one"``: the class ``of_class`` alone.

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

    def __post_init__(self) -> None:
        check_choice("average", self.average, get_args(Average))
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

    @property
    def _total(self) -> float:
        return self.support + self.predicted + self.true_positive

    @property
    def largest(self) -> float:
        """The largest value possible, that of a class with every prediction right."""
        return self.gain / self._total

    @property
    def by_hits(self) -> bool:
        """Whether true positives alone move the metric, for given labels."""
        return not self.predicted and self.average != "seen"

    @property
    def form(self) -> tuple[float, float, float, float]:
        """The coefficients: gain, support, predicted, true positives."""
        return self.gain, self.support, self.predicted, self.true_positive

    def ratio(self, true_positive: Any, predicted: Any, support: Any) -> Vector:
        """Return the ratio of every entry; 0 where the denominator is 0."""
        below = self.support * support + self.predicted * predicted
        below = below + self.true_positive * true_positive
        above = self.gain * np.asarray(true_positive, dtype=np.float64)
        ratio: Vector = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
        return ratio

    def per_class(self, counts: ClassCounts) -> Vector:
        """Return the ratio per class, (K,); NaN for a class the average leaves out."""
        ratio = self.ratio(counts.true_positive, counts.predicted, counts.support)
        return np.where(self.counted(counts), ratio, np.nan)

    def counted(self, counts: ClassCounts) -> Vector:
        """Which classes the average is over, (K,) bool."""
        if self.average == "one":
            one: Vector = np.arange(counts.n_classes) == self.of_class
            return one
        return counts.labelled if self.average in ("labelled", "pooled") else counts.seen

    def __call__(self, counts: ClassCounts) -> float:
        """Return the metric's value; NaN where there is no class to average."""
        if not self.counted(counts).any():
            return float("nan")
        if self.average == "pooled":
            sums = (counts.true_positive.sum(), counts.predicted.sum(), counts.support.sum())
            return float(self.ratio(*sums))
        return float(np.mean(self.per_class(counts)[self.counted(counts)]))


_RECALL = CountMetric("recall", support=1, average="labelled")
_PRECISION = CountMetric("precision", predicted=1)
_IOU = CountMetric("iou", support=1, predicted=1, true_positive=-1)
_F1 = CountMetric("f1", gain=2, support=1, predicted=1)

#: The metrics that go by a name, without aliases.
COUNT_METRICS: dict[str, CountMetric] = {
    "accuracy": replace(_RECALL, name="accuracy", average="pooled"),
    "balanced_accuracy": replace(_RECALL, name="balanced_accuracy"),
    "mean_iou": replace(_IOU, name="mean_iou"),
    "macro_precision": replace(_PRECISION, name="macro_precision"),
    "macro_recall": replace(_RECALL, name="macro_recall"),
    "macro_f1": replace(_F1, name="macro_f1"),
}
_ALIASES = {"mean_accuracy": "balanced_accuracy"}
_PER_CLASS = {m.name: m for m in (_RECALL, _PRECISION, _IOU, _F1)}
_ONE_CLASS = re.compile(r"(?P<ratio>\w+)\s*\[\s*(?P<label>.+?)\s*\]")
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
    """The metric of hard predictions.

    Parameters
    ----------
    metric : str or CountMetric
        A name such as ``"balanced_accuracy"``, ``"mean_iou"`` or ``"recall[3]"``.
    labels, predictions : integer arrays of the same shape
        Class indices 0 … K−1.
    n_classes : int, optional
        K. The largest index that occurs plus one, where it is not given.
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
    argument: str = "metric",
) -> CountMetric:
    """Return the metric of that name, or raise a sentence about what can be tuned.

    ``argument`` is where the sentence says that the name was: constraints have metrics too.

    ``"recall[2]"``, ``"precision[2]"``, ``"iou[2]"`` and ``"f1[2]"`` are those of one class, by
    index or, where ``classes`` are known, by name.

    Examples
    --------
    >>> find_metric("mean_accuracy", n_classes=3).name
    'balanced_accuracy'
    >>> find_metric("recall[cat]", n_classes=2, classes=["cat", "dog"]).of_class
    0
    """
    if isinstance(metric, CountMetric):
        if metric.of_class is not None:
            _class_index(str(metric.of_class), n_classes, None, argument)
        return metric
    name: Any = metric  # whatever a caller without a type checker passed
    one = _ONE_CLASS.fullmatch(name) if isinstance(name, str) else None
    if one:
        check_choice(argument, one["ratio"], _PER_CLASS)
        index = _class_index(one["label"], n_classes, classes, argument)
        return replace(_PER_CLASS[one["ratio"]], name=name, average="one", of_class=index)
    if isinstance(name, str) and _RANKING.search(name):
        raise OptionError(
            argument=argument,
            rule="must be decided by hard labels",
            got=f"{name!r}, which ranks samples within a class and has no prediction to count",
            remedy=f"Pass one of {', '.join(map(repr, COUNT_METRICS))}.",
        )
    if isinstance(name, str) and _PROBABILITIES.fullmatch(name):
        raise OptionError(
            argument=argument,
            rule="must be decided by hard labels",
            got=f"{name!r}, a metric of probabilities",
            remedy=_remedy_of_probabilities(argument),
        )
    hint = f"Or that of one class, such as 'recall[{n_classes - 1}]'."
    if name in _PER_CLASS:
        hint = f"Name the class, as in '{name}[{n_classes - 1}]'."
    elif argument == "metric":
        hint += " A PosteriorCalibrator also takes 'log_loss', for probabilities."
    check_choice(argument, name, [*COUNT_METRICS, *_ALIASES], hint=hint)
    return COUNT_METRICS[_ALIASES.get(name, name)]


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


def _class_index(label: str, n_classes: int, classes: Sequence[Any] | None, argument: str) -> int:
    names = [str(name) for name in classes] if classes is not None else []
    if label in names:
        return names.index(label)
    if label.isdecimal() and int(label) < n_classes and not names:
        return int(label)
    known = f"one of {', '.join(map(repr, names[:8]))}" if names else f"0 to {n_classes - 1}"
    raise LabelsError(
        argument=argument,
        rule=f"must name a class that exists, {known}",
        got=repr(label),
        remedy=[
            "Write the class as it is in ",
            Argument("classes"),
            ", or its index where there are no names.",
        ],
    )
