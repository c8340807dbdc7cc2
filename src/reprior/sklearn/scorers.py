"""scikit-learn's scorers of hard labels, as functions of the confusion matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer, get_scorer_names

from reprior.exceptions import LabelsError, OptionError
from reprior.metrics import COUNT_METRICS, find_metric
from reprior.metrics.pair_metrics import ConfusionMetric

__all__ = ["metric_of"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Outcomes that a scorer is called for, one after the other: a call takes about a millisecond.
MOST_CALLS = 1000

#: scikit-learn's scorers of the positive class. Without brackets they are none of ours.
OF_POSITIVE_CLASS = ("f1", "precision", "recall")


def metric_of(metric: Any, classes: Vector) -> Any:
    """Return a metric as it is given; a scorer, or the name of one, as a metric of the matrix.

    Parameters
    ----------
    metric : str, CountMetric or callable
        A scorer is called as ``scorer(estimator, X, y)``, which is what
        :func:`sklearn.metrics.make_scorer` makes. Names that this library knows are its own.
    classes : ndarray of shape (K,)
        The class labels that the scorer is given.
    """
    if isinstance(metric, str):
        if metric not in get_scorer_names() or _is_own(metric, classes.size):
            return metric
        scorer, name = get_scorer(metric), metric
    elif not callable(metric) or hasattr(metric, "needs"):
        return metric
    else:
        scorer = metric
        function = getattr(scorer, "_score_func", scorer)
        name = getattr(function, "__name__", type(scorer).__name__)
    return ConfusionMetric(
        name, function=_Scored.tried(scorer, name, classes), most_steps=MOST_CALLS
    )


def _is_own(name: str, n_classes: int) -> bool:
    """Tell whether this library has a metric of that name, or refuses it with its reason."""
    if name in OF_POSITIVE_CLASS:
        return False
    try:
        find_metric(name, n_classes=n_classes)
    except OptionError as error:
        return error.rule == "must be decided by hard labels"
    return True


class _Decided(ClassifierMixin, BaseEstimator):
    """A classifier whose features are the indices of the classes that it predicts."""

    def __init__(self, classes: Vector) -> None:
        self.classes = classes
        self.classes_ = classes

    def predict(self, X: Vector) -> Vector:
        """Return the class of every index."""
        return np.asarray(self.classes_[X])


@dataclass(frozen=True, eq=False)
class _Scored:
    """Maps matrices (S, K, K) to the scorer's values: a sample for each pair that occurs."""

    scorer: Any
    name: str
    classes: Vector
    weighs: bool
    """Whether the scorer takes sample weights. Samples are repeated for one that does not."""

    @classmethod
    def tried(cls, scorer: Any, name: str, classes: Vector) -> _Scored:
        """Return the function of a scorer that was called once, where all predictions are right."""
        right = np.eye(classes.size)
        for weighs in (True, False):
            scored = cls(scorer, name, classes, weighs)
            try:
                scored._value(right)
            except AttributeError as error:  # the classifier has no probabilities to give
                _refuse_probabilities(name, error)
            except TypeError as error:
                if weighs:
                    continue
                _refuse(name, error)
            except ValueError as error:
                _refuse(name, error)
            return scored
        raise AssertionError  # pragma: no cover

    def __call__(self, matrices: Vector) -> Vector:
        """Return the scorer's value of every matrix."""
        return np.array([self._value(matrix) for matrix in matrices], np.float64)

    def _value(self, matrix: Vector) -> float:
        label, predicted = np.nonzero(matrix)
        amount = matrix[label, predicted]
        options = {"sample_weight": amount} if self.weighs else {}
        if not self.weighs:
            times = amount.astype(np.int64)
            if (times != amount).any():
                raise LabelsError(
                    argument="sample_weight",
                    rule=f"must be integers for {self.name!r}, a scorer that takes no weights",
                    got=f"a pair of label and prediction with a total of {amount.max():g}",
                    remedy="Leave the weights out, or score by a function that takes them.",
                )
            label, predicted = np.repeat(label, times), np.repeat(predicted, times)
        decided = _Decided(self.classes)
        return float(self.scorer(decided, predicted, self.classes[label], **options))


def _refuse_probabilities(name: str, error: AttributeError) -> NoReturn:
    raise OptionError(
        argument="metric",
        rule="must be decided by hard labels",
        got=f"{name!r}, a scorer of probabilities or ranks, which has no prediction to count",
        remedy=f"Pass one of {', '.join(map(repr, COUNT_METRICS))}.",
    ) from error


def _refuse(name: str, error: Exception) -> NoReturn:
    raise OptionError(
        argument="metric",
        rule="must be a scorer of hard labels that can be called as scorer(estimator, X, y)",
        got=f"{name!r}, which raises {type(error).__name__}: {str(error).rstrip('.')}",
        remedy="Pass for example make_scorer(fbeta_score, beta=2, average='macro').",
    ) from error
