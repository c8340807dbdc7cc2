"""Make a balanced training set long-tailed or step-imbalanced, as in the literature."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from reprior.core import check_choice, check_finite_number
from reprior.exceptions import Argument, LabelsError, OptionError

__all__ = ["IMBALANCES", "imbalance_counts", "imbalanced_indices"]

Vector: TypeAlias = np.ndarray[Any, Any]

IMBALANCES = ("none", "exp", "step")


def imbalance_counts(n_max: int, n_classes: int, kind: str = "exp", ratio: float = 100.0) -> Vector:
    r"""Return the number of samples that each class keeps; the first class keeps all.

    .. math:: n_i = ⌊n_{\max}\, μ^{i/(K-1)}⌋ \text{ (exp)}, \qquad
        n_i = n_{\max} \text{ for } i < K/2, \text{ else } ⌊n_{\max}\, μ⌋ \text{ (step)}

    where K is the number of classes and μ = 1 / ratio. "none" keeps n_max of every class.

    References
    ----------
    .. [1] Cao, Wei, Gaidon, Arechiga, Ma. "Learning Imbalanced Datasets with
       Label-Distribution-Aware Margin Loss", NeurIPS 2019: Section 4.

    Examples
    --------
    >>> imbalance_counts(5000, 10, "exp", 100)
    array([5000, 2997, 1796, 1077,  645,  387,  232,  139,   83,   50])
    >>> int(imbalance_counts(5000, 10, "step", 100).sum())
    25250
    """
    check_choice("imbalance", kind, IMBALANCES)
    ratio = check_finite_number("ratio", ratio, minimum=1.0)
    if n_classes < 2 or n_max < 1:
        raise OptionError(
            argument="n_classes",
            rule=["must be at least 2 and ", Argument("n_max"), " at least 1"],
            got=f"{n_classes} and {n_max}",
            remedy="Pass the sizes of the balanced training set.",
        )
    if kind == "none":
        return np.full(n_classes, n_max)
    # Keep the order of operations of the reference: another order rounds differently.
    share = 1.0 / ratio
    if kind == "exp":
        counts = [int(n_max * share ** (i / (n_classes - 1.0))) for i in range(n_classes)]
    else:
        half = n_classes // 2
        counts = [n_max] * half + [int(n_max * share)] * (n_classes - half)
    if min(counts) < 1:
        raise OptionError(
            argument="ratio",
            rule="must leave every class a sample",
            got=f"{ratio:g}, of which a class of {n_max} keeps none",
            remedy=f"Pass a ratio of at most {n_max}.",
        )
    return np.array(counts)


def imbalanced_indices(labels: Any, kind: str = "exp", ratio: float = 100.0) -> Vector:
    """Return the indices of the samples to keep: the first of each class, in their original order.

    n_max is the size of the largest class; a class with fewer samples than it should keep is an
    error. The choice depends on the labels alone, so every seed trains on the same images.

    Examples
    --------
    >>> labels = [1, 0, 1, 0, 0, 1, 0, 1]
    >>> imbalanced_indices(labels, "step", ratio=2)
    array([0, 1, 2, 3, 4, 6])
    """
    labels = np.asarray(labels)
    counts = np.bincount(labels)
    check_choice("imbalance", kind, IMBALANCES)
    if kind == "none":
        return np.arange(labels.size)
    keep = imbalance_counts(int(counts.max()), counts.size, kind, ratio)
    short = np.flatnonzero(counts < keep)
    if short.size:
        k = int(short[0])
        raise LabelsError(
            argument="labels",
            rule=f"must have {keep[k]} samples of class {k} for this imbalance",
            got=str(counts[k]),
            remedy="Use the whole training set, or another imbalance or ratio.",
        )
    chosen = [np.flatnonzero(labels == k)[:n] for k, n in enumerate(keep)]
    return np.sort(np.concatenate(chosen))
