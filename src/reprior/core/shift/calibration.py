"""The calibration that EM needs first: a bias-corrected temperature, fitted to validation labels.

EM believes every probability. One scale and a bias per class make them right on the validation
samples, whatever their class mix, and are then moved to the source prior, by which EM divides.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior.core.scaling import fit_scaling
from reprior.core.shift.rows import Affine, Validation, about_validation
from reprior.exceptions import ScoresError

__all__ = ["every_second", "fitted_calibration"]


def fitted_calibration(validation: Validation[NDArray[Any]], source: NDArray[np.float64]) -> Affine:
    r"""Return the map to log-posteriors under the source prior that fits the labels best.

    .. math:: a z_k + b_k + \log P_s(k) - \log P_v(k)

    where softmax(a z + b) has the smallest log-loss on the labels as they are, and P_v is their
    class mix: a posterior under P_v, divided by it and times the source prior P_s, is one under
    P_s.

    References
    ----------
    .. [1] Alexandari, Kundaje, Shrikumar. "Maximum Likelihood with Bias-Corrected Calibration is
       Hard-To-Beat at Label Shift Adaptation", ICML 2020.

    Examples
    --------
    Scores of two classes that are twice too large, on labels of another mix than the source's:

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(2, size=20_000)
    >>> right = rng.normal(size=20_000) + 2 * labels - 1
    >>> rows = np.stack([-4 * right, np.zeros(20_000)], axis=1)
    >>> found = fitted_calibration(Validation(rows, labels), np.array([0.8, 0.2]))
    >>> found.scale.round(1), np.diff(found.bias).round(1)  # log(0.2 / 0.8) = -1.4
    (array([0.5, 0.5]), array([-1.4]))
    """
    mix = np.bincount(validation.labels, minlength=source.size) / validation.labels.size
    with about_validation():
        fit = fit_scaling(validation.rows, validation.labels, source_prior=source, target_prior=mix)
    if not fit.scale[0] > 0.0:
        raise ScoresError(
            f"`validation[0]` must rise with the labels' classes, or no temperature makes it "
            f"honest. Got a best scale of {fit.scale[0]:.2g}. Check that the labels belong to the "
            f"scores, or pass calibration=(1, 0) to take the scores as they are."
        )
    return Affine(fit.scale, fit.bias + np.log(source) - np.log(mix))


def every_second(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of every second label of each class, in their order, from the second on.

    A calibration that is fitted to these can be judged by the others. Judged by its own labels, it
    would be wrong most where these say that it is right.

    Examples
    --------
    >>> every_second(np.array([0, 1, 0, 0, 1])).tolist()
    [False, False, True, False, True]
    """
    order = np.argsort(labels, kind="stable")
    ranked = labels[order]
    found = np.empty(labels.size, np.bool_)
    found[order] = (np.arange(labels.size) - np.searchsorted(ranked, ranked)) % 2 == 1
    return found
