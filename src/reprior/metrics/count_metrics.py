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

``cohen_kappa(linear)``, ``cohen_kappa(quadratic)``, ``mean_dice_per_image`` and
``mean_iou_per_image`` need pairs of label and prediction: see :mod:`reprior.metrics.pair_metrics`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, TypeAlias

import numpy as np

from reprior.core.arrays import to_numpy
from reprior.core.checks import check_labels, nearest_name, sentences
from reprior.exceptions import Argument, LabelsError, OptionError, Setting, Text, Words
from reprior.metrics.counts import ClassCounts
from reprior.metrics.pair_metrics import ImageMetric, WeightedKappa
from reprior.metrics.ratios import Agreement, CountMetric

__all__ = [
    "COUNT_METRICS",
    "METRIC_NAMES",
    "PAIR_METRIC_NAMES",
    "Agreement",
    "CountMetric",
    "evaluate",
    "find_metric",
    "group_indices",
]

Vector: TypeAlias = np.ndarray[Any, Any]

#: The F-score of a larger beta is the recall, and its coefficients times a weight may overflow.
LARGEST_BETA = 1e6

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

#: What `cohen_kappa` may have in parentheses.
_DISAGREEMENTS = ("linear", "quadratic")

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
    "mean_dice_per_image": ImageMetric("mean_dice_per_image", gain=2, support=1, predicted=1),
    "mean_iou_per_image": ImageMetric(
        "mean_iou_per_image", support=1, predicted=1, true_positive=-1
    ),
    **_SCORERS,
}
_ALIASES = {
    "mean_accuracy": "balanced_accuracy",
    "cohen_kappa_score": "cohen_kappa",
    "geometric_mean_score": "gmean",
    "bookmaker_informedness": "informedness",
}

#: Every metric of class counts whose name takes neither an argument nor a class.
METRIC_NAMES: tuple[str, ...] = tuple(
    name for name, metric in _METRICS.items() if metric.needs == "classes"
)

#: Metrics that need to know which label was predicted as which class, or in which image.
PAIR_METRIC_NAMES: tuple[str, ...] = (
    *(f"cohen_kappa({disagreement})" for disagreement in _DISAGREEMENTS),
    *(name for name, metric in _METRICS.items() if metric.needs != "classes"),
)

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
    image_ids: Any = None,
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
    image_ids : integer array, optional
        The image of every sample, for metrics per image: of the labels' shape, or of their first
        axis. Without it every entry of the first axis of maps is an image.

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
    found = find_metric(metric, n_classes=n_classes)
    counts = ClassCounts.from_predictions(
        labels,
        predictions,
        n_classes=n_classes,
        sample_weight=sample_weight,
        ignore_index=ignore_index,
        pairs=found.needs != "classes",
        image_ids=image_ids,
    )
    return found(counts)


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
        metric.check_classes(n_classes, argument)
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
    if isinstance(found, ImageMetric):
        chosen = (chosen,) if isinstance(chosen, int) else chosen
    if isinstance(chosen, int):
        if name not in _NEEDS_CLASS:
            raise OptionError(
                argument=argument,
                rule="must be a ratio of one class, or a mean over a group of classes",
                got=f"{metric!r}, a mean of one class",
                remedy=f"Pass {name!r}, or a ratio of that class such as 'recall[{label}]'.",
            )
        return replace(found, name=metric, average="one", of_class=chosen)
    if found.average == "pooled" or found.chance or isinstance(found, Agreement | WeightedKappa):
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
    if name == "cohen_kappa" and text is not None:
        if text not in _DISAGREEMENTS:
            near = nearest_name(text, list(_DISAGREEMENTS))
            raise OptionError(
                argument=argument,
                rule="must have one of 'linear', 'quadratic' in parentheses, or none",
                got=f"'{name}({text})'",
                remedy=f"Did you mean '{name}({near})'?" if near else f"Pass '{name}(quadratic)'.",
            )
        return WeightedKappa(f"{name}({text})", disagreement=text)  # type: ignore[arg-type]
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
        if "kappa" in name.lower():
            weighting = next((each for each in _DISAGREEMENTS if each in name.lower()), None)
            near = near if weighting is None else f"cohen_kappa({weighting})"
        if argument == "metric":
            hint = [one_class, " A calibrator also takes ", Setting("metric", "log_loss"), "."]
    names = [name for name in _METRICS if name not in _SCORERS]
    return OptionError(
        argument=argument,
        rule=f"must be one of {', '.join(map(repr, names))}, 'macro_fbeta(2)'",
        got=repr(name),
        remedy=sentences(f"Did you mean {near!r}?" if near else "", hint),
    )


def group_indices(
    class_groups: Mapping[str, Any] | None, n_classes: int, classes: Sequence[Any] | None = None
) -> dict[str, list[int]]:
    """Return the classes of every group as indices; refuse names and groups that cannot be meant.

    Examples
    --------
    >>> group_indices({"rare": ["dog", "emu"]}, 3, ["cat", "dog", "emu"])
    {'rare': [1, 2]}
    """
    groups: dict[str, list[int]] = {}
    for name, members in (class_groups or {}).items():
        given: Any = name  # a caller without a type checker
        key = given.strip() if isinstance(given, str) else ""
        if not key or key in groups or set(key) & set("[]()"):
            raise OptionError(
                argument="class_groups",
                rule="must have names of letters that differ, without brackets",
                got=f"{name!r}" + (" twice, but for spaces" if key in groups else ""),
                remedy="Name the group as it stands in 'recall[few]'.",
            )
        groups[key] = list(_members(key, members, n_classes, classes))
    return groups


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
    return _members(label, (class_groups or {})[label], n_classes, classes)


def _members(
    label: str, given: Any, n_classes: int, classes: Sequence[Any] | None
) -> tuple[int, ...]:
    """The indices of the classes of a group, given as a mask, indices or names."""
    members = to_numpy(given)
    if members.dtype.kind == "b" and members.shape == (n_classes,):
        indices = np.flatnonzero(members).tolist()
    elif members.dtype.kind in "iu" and not {*map(str, members)} & {*map(str, classes or ())}:
        indices = [_class_index(str(member), n_classes, None, "class_groups") for member in members]
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
    if np.ndim(np.asarray(metric, dtype=object)) == 2:
        remedy = "To minimise costs, pass rp.Cost(matrix)."
    elif isinstance(metric, list | tuple) and len(metric) > 1:
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
            ""
            if class_groups
            else Words(
                " For a mean over a group of classes, make the metric by "
                "find_metric(…, class_groups=…).",
                "",
            ),
        ],
    )
