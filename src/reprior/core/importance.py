"""Importance weights: what every sample counts, so that the labels' mix is the target's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior.exceptions import LabelsError, PriorError

__all__ = ["importance_weights"]


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
        Class indices. What a sample of weight 0 has for a label is not looked at.
    weights : array of the labels' shape
        v.
    target_prior : array of shape (K,)
        P_t.
    label_prior : array of shape (K,), optional
        P_l, positive for every class with labels. Their own (weighted) frequencies where it is
        not given: then every class with labels gets the weight of its target prior.

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
    counted = weights > 0
    index = np.where(counted, labels, 0).astype(np.int64)
    support = np.bincount(index[counted], weights[counted], minlength=target_prior.size)
    present = support > 0
    if label_prior is None:
        label_prior = support / support.sum()
    elif (present & (target_prior > 0) & (label_prior <= 0)).any():
        where = int(np.argmax(present & (target_prior > 0) & (label_prior <= 0)))
        raise PriorError(
            f"`label_prior` must be positive for every class that has labels. Got "
            f"label_prior[{where}]=0 and labels of class {where}. Pass the mix that the tuning "
            f"labels follow, or leave it out to take their frequencies."
        )
    if not (present & (target_prior > 0)).any():
        raise LabelsError(
            "`labels` must hold a class of positive `target_prior`, or there is nothing to fit. "
            "Got none. Pass labels of the classes that the target has."
        )
    ratio = np.divide(target_prior, label_prior, out=np.zeros_like(target_prior), where=present)
    return weights * ratio[index]
