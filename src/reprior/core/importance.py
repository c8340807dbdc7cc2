"""Importance weights: sample weights under which the labels' class mix is the target's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior.exceptions import Argument, Element, LabelsError, PriorError

__all__ = [
    "class_importance",
    "class_support",
    "classes_with_labels",
    "importance_ratio",
    "importance_weights",
]


def importance_weights(
    labels: NDArray[Any],
    weights: NDArray[np.float64],
    *,
    target_prior: NDArray[np.float64],
    label_prior: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    r"""Return weights under which labelled samples stand for the target prior.

    .. math:: v_i \, \frac{P_t(y_i)}{P_l(y_i)}

    where v_i is the weight of sample i and y_i its label, P_t the target prior and P_l the prior
    that the labels follow.

    Parameters
    ----------
    labels : integer array of any shape
        Class indices. Labels of samples of weight 0 are not read.
    weights : array of the labels' shape
        v.
    target_prior : array of shape (K,)
        P_t.
    label_prior : array of shape (K,), optional
        P_l, positive for every class with labels that the target has. By default the labels'
        (weighted) frequencies: then every class with labels gets the weight of its target prior.

    References
    ----------
    .. [1] Shimodaira. "Improving Predictive Inference under Covariate Shift by Weighting the
       Log-Likelihood Function", Journal of Statistical Planning and Inference 90, 2000.

    Examples
    --------
    >>> import numpy as np
    >>> labels, target = np.array([0, 0, 0, 1]), np.array([0.5, 0.5])
    >>> importance_weights(labels, np.ones(4), target_prior=target).round(3)
    array([0.667, 0.667, 0.667, 2.   ])
    """
    support = class_support(labels, weights, target_prior.size)
    ratio = class_importance(support, target_prior=target_prior, label_prior=label_prior)
    return weights * ratio[np.where(weights > 0, labels, 0).astype(np.int64)]


def class_support(
    labels: NDArray[Any], weights: NDArray[np.float64], n_classes: int
) -> NDArray[np.float64]:
    """Return the weight of every class. Labels of weight 0 are not read."""
    counted = weights > 0
    index = labels[counted].astype(np.int64)
    return np.asarray(np.bincount(index, weights[counted], minlength=n_classes), np.float64)


def classes_with_labels(support: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which classes have labels, by their weight or number; refuse fewer than two."""
    labelled: NDArray[np.bool_] = support > 0
    if np.count_nonzero(labelled) < 2:
        raise LabelsError(
            argument="labels",
            rule="must be of at least two of the classes that the target has: probabilities are "
            "fitted to what tells classes apart",
            got=str(np.count_nonzero(labelled)),
            remedy="Pass labels of more classes.",
        )
    return labelled


def class_importance(
    support: NDArray[np.float64],
    *,
    target_prior: NDArray[np.float64],
    label_prior: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return P_t / P_l of every class; ``support`` is the weight of each class's labels.

    Refuses labels that leave nothing to fit, and a label prior of 0 for a class with labels.
    """
    wanted = (support > 0) & (target_prior > 0)
    if not wanted.any():
        raise LabelsError(
            argument="labels",
            rule=[
                "must hold a class of positive ",
                Argument("target_prior"),
                ", or there is nothing to fit",
            ],
            got="none",
            remedy="Pass labels of the classes that the target has.",
        )
    if label_prior is None:
        return importance_ratio(target_prior, support / support.sum())
    ratio = importance_ratio(target_prior, label_prior)
    wrong = wanted & ((label_prior <= 0) | ~np.isfinite(ratio))
    if wrong.any():
        where = int(np.argmax(wrong))
        raise PriorError(
            argument="label_prior",
            rule="must be positive for every class that has labels",
            got=[
                Element("label_prior", (where,), float(label_prior[where])),
                f" and labels of class {where}",
            ],
            remedy="Pass the mix that the tuning labels follow, or leave it out to take their "
            "frequencies.",
        )
    return np.where(wanted, ratio, 0.0)


def importance_ratio(
    target_prior: NDArray[np.float64], label_prior: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return P_t / P_l of every class; 0 for one that either lacks. P_l need not sum to 1."""
    both = (target_prior > 0) & (label_prior > 0)
    with np.errstate(over="ignore"):  # class_importance refuses what is infinite
        return np.divide(target_prior, label_prior, out=np.zeros_like(target_prior), where=both)
