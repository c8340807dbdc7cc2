"""Many-, medium- and few-shot classes: where in the long tail a model is good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior.core.arrays import to_numpy
from reprior.core.checks import check_bounds
from reprior.exceptions import Element, OptionError, PriorError
from reprior.metrics.count_metrics import CountMetric, find_metric
from reprior.metrics.counts import ClassCounts

__all__ = ["group_metric", "shot_groups"]


def shot_groups(
    train_counts: Any, *, thresholds: tuple[float, float] = (20, 100)
) -> dict[str, NDArray[np.bool_]]:
    """Return which classes have many, a medium number of, and few training samples.

    With n_k training samples of class k and thresholds (low, high)::

        many    n_k > high          medium    low ≤ n_k ≤ high          few    n_k < low

    Parameters
    ----------
    train_counts : array-like of shape (K,)
        Samples of every class in the *training* set, not in the one the metric is computed on.
    thresholds : (low, high), default (20, 100)
        Both belong to the medium group.

    Returns
    -------
    dict of str to bool array of shape (K,)
        Masks for ``"many"``, ``"medium"`` and ``"few"``; every class is in exactly one.

    References
    ----------
    .. [1] Liu, Miao, Zhan, Wang, Gong, Yu. "Large-Scale Long-Tailed Recognition in an Open
       World", CVPR 2019, section 4. Some public code counts a class of exactly 100 samples as
       many and one of exactly 20 as few; the article does not.

    Examples
    --------
    >>> groups = shot_groups([500, 100, 20, 3])
    >>> {name: mask.tolist() for name, mask in groups.items()}
    {'many': [True, False, False, False], 'medium': [False, True, True, False],
     'few': [False, False, False, True]}
    """
    low, high = check_bounds(thresholds, name="thresholds")
    counts = _counts(train_counts)
    many, few = counts > high, counts < low
    return {"many": many, "medium": ~(many | few), "few": few}


def group_metric(
    counts: ClassCounts,
    groups: Mapping[str, Any],
    metric: str | CountMetric = "balanced_accuracy",
) -> dict[str, float]:
    r"""Return a metric's mean over the classes of every group.

    .. math:: m(G) = \frac{1}{|G \cap C|} \sum_{k \in G \cap C} m_k

    where m_k is the metric's value for class k, G a group and C the classes that the metric
    counts: those with labels for recall, those with labels or predictions for the others.
    Under ``"accuracy"`` m_k is the recall, so that it equals ``"balanced_accuracy"`` here.

    Parameters
    ----------
    counts : ClassCounts
        Of the evaluated samples.
    groups : mapping of str to bool array of shape (K,)
        Masks of classes, such as :func:`shot_groups` gives; they may overlap.
    metric : str or CountMetric, default "balanced_accuracy"
        A count metric.

    Returns
    -------
    dict of str to float
        A value for every group, NaN where it has no class that counts.

    References
    ----------
    .. [1] Liu, Miao, Zhan, Wang, Gong, Yu. "Large-Scale Long-Tailed Recognition in an Open
       World", CVPR 2019, section 4.

    Examples
    --------
    >>> counts = ClassCounts.from_predictions([0, 0, 1, 2], [0, 1, 1, 1], n_classes=3)
    >>> group_metric(counts, shot_groups([500, 50, 30]))
    {'many': 0.5, 'medium': 0.5, 'few': nan}
    """
    count_metric = find_metric(metric, n_classes=counts.n_classes)
    values, counted = count_metric.per_class(counts), count_metric.counted(counts)
    means = {}
    for name, group in groups.items():
        group_values = values[_mask(name, group, counts.n_classes) & counted]
        means[name] = float(group_values.mean()) if group_values.size else float("nan")
    return means


def _counts(train_counts: Any) -> NDArray[Any]:
    host = to_numpy(train_counts)
    if host.ndim != 1 or host.dtype.kind not in "iuf":
        raise PriorError(
            argument="train_counts",
            rule="must be one number per class",
            got=f"dtype {host.dtype} and shape {host.shape}",
            remedy="Pass the training samples of every class, shape (K,).",
        )
    bad = ~np.isfinite(host) | (host < 0)
    if bad.any():
        where = int(np.argmax(bad))
        raise PriorError(
            argument="train_counts",
            rule="must be finite and not negative",
            got=Element("train_counts", (where,), float(host[where])),
            remedy="Count the training samples of every class again.",
        )
    return host


def _mask(name: str, group: Any, n_classes: int) -> NDArray[np.bool_]:
    mask = to_numpy(group)
    if mask.dtype.kind != "b" or mask.shape != (n_classes,):
        raise OptionError(
            argument="groups",
            rule=f"must be masks of the {n_classes} classes",
            got=[
                Element("groups", (repr(name),)),
                f" of dtype {mask.dtype} and shape {mask.shape}",
            ],
            remedy="Pass what shot_groups(train_counts) returns.",
        )
    return mask
