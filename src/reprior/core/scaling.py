"""A bias for every class beside the temperature, or a scale and a bias for every class."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reprior.core.checks import (
    check_bounds,
    check_choice,
    check_finite_number,
    check_kind,
    column_names,
)
from reprior.core.lbfgs import Minimum, minimise_smooth
from reprior.core.log_loss import (
    STRENGTHS,
    LogLossFit,
    best_jointly,
    checked_priors,
    with_labels,
)
from reprior.core.log_loss_sums import posterior_sums
from reprior.core.prior import slopes
from reprior.core.scaling_loss import ScalingLoss
from reprior.core.temperature import BOUNDS
from reprior.core.weighted_rows import Labelled
from reprior.exceptions import OptionError, PriorError, RepriorWarning

__all__ = ["SCALINGS", "ScalingFit", "fit_scaling"]

Centre: TypeAlias = tuple[float, NDArray[np.float64]]
"""A scale for all classes, and a bias for each."""

SCALINGS = ("bcts", "vector")
"""Bias-corrected temperature scaling: one scale, K biases. Vector scaling: K scales, K biases."""

TOLERANCE = 1e-14
"""The fit ends where the log-loss can fall by half of this, in nats."""

STAGES = (1e-3, 1e-6)
"""On the way there the curvature is taken anew where this much is left to gain."""

SAMPLE_SCORES, ROWS_PER_NUMBER = 1 << 21, 16
"""A sample of at least so many scores, and of so many rows for every number to fit, stands for
all rows until the last stage."""

CURVATURE_ROWS = 32
"""So many rows for every number to fit tell the curvature well enough: within a third, which a
few more steps make up for. A pass for it costs as K of the others."""

FAR = 20.0
"""A bias this far from its centre is on its way to infinity: a factor of 5e8 in the odds."""


@dataclass(frozen=True, eq=False)
class ScalingFit:
    """What :func:`fit_scaling` found.

    Attributes
    ----------
    scale, bias : ndarray of shape (K,)
        a and b of softmax(a·z + b); see :func:`reprior.core.affine.affine_posterior`. The scales
        are equal under "bcts". The bias of a class of target prior 0 is −inf; its scale says
        nothing.
    log_loss : float
        The weighted mean log-loss in nats on the labels it was fitted on, without the penalty.
        It is that of all classes, also of those without labels.
    converged : bool
        Whether it is the minimum.
    n_iterations : int
        Passes over all the scores, those of the joint fit included.
    joint : LogLossFit
        The temperature and strength that it started from and is held near.
    """

    scale: NDArray[np.float64]
    bias: NDArray[np.float64]
    log_loss: float
    converged: bool
    n_iterations: int
    joint: LogLossFit


def fit_scaling(
    scores: Any,
    labels: Any,
    *,
    scaling: str = "bcts",
    source_prior: Any = None,
    target_prior: Any = "uniform",
    label_prior: Any = None,
    penalty: float = 1.0,
    bounds: tuple[float, float] = STRENGTHS,
    sample_weight: Any = None,
    kind: str = "logits",
    class_axis: int = -1,
    ignore_index: int | None = None,
) -> ScalingFit:
    r"""Return a scale and a bias per class that give honest probabilities softmax(a·z + b).

    .. math:: \min_{a, b} \; \sum_i v_i \Bigl( \log \sum_k e^{a_k z_{ik} + b_k}
        - a_{y_i} z_{i y_i} - b_{y_i} \Bigr)
        + \frac{α}{2n} \sum_k \Bigl( \frac{a_k}{δ} - 1 \Bigr)^2
        + \frac{α}{2n} \sum_k (b_k - λ w_k)^2

    where z_ik is the log-score of class k for sample i and y_i the sample's label; the weights v_i
    sum to 1 and make the labels stand for the target prior, as in
    :func:`reprior.fit_log_loss`; δ = 1/T and λ are what that fits, w the slopes; α is
    the penalty and n the effective number of samples, :math:`1 / \sum_i v_i^2`. Under "bcts" all
    a_k are one number, which is penalised once.

    The penalty is that of a normal prior about the joint fit, of width :math:`1/\sqrt{α}`, beside
    n samples: with many labels it does nothing, and separable data have a finite optimum. Of a
    class without labels nothing is learnt: it is left out of the sum over k, its bias is λ·w, the
    correction by the priors, and its scale that of all, or under "vector" δ.

    Parameters
    ----------
    scores, labels, sample_weight, kind, class_axis, ignore_index
        As for :func:`reprior.fit_log_loss`. With "vector" a number added to all scores
        of a sample matters: log-probabilities and logits then give different fits. With "bcts" it
        does not.
    scaling : {"bcts", "vector"}, default "bcts"
        One scale for all classes and a bias for each, or both for each.
    source_prior, target_prior, label_prior
        As for :func:`reprior.fit_log_loss`. Without a source prior the labels count as
        they come, nothing is corrected, and the biases are held near 0.
    penalty : float, default 1
        α, at least 0. With 0 this is the plain maximum of the likelihood, which every class must
        have labels for.
    bounds : (float, float), default (0, 8)
        The range of λ in the joint fit.

    Returns
    -------
    ScalingFit
        Scales, biases, log-loss, and how the fit went.

    Warns
    -----
    RepriorWarning
        Where the fit did not come to rest, as where the data are separable and the penalty is 0.

    References
    ----------
    .. [1] Alexandari, Kundaje, Shrikumar. "Maximum Likelihood with Bias-Corrected Calibration is
       Hard-To-Beat at Label Shift Adaptation", ICML 2020.
    .. [2] Guo, Pleiss, Sun, Weinberger. "On Calibration of Modern Neural Networks", ICML 2017.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(3, size=6000)
    >>> scores = rng.normal(size=(6000, 3)) + 2 * np.eye(3)[labels]
    >>> wrong = 2 * scores + [0.0, 0.0, 3.0]  # the third class is over-stated
    >>> fit = fit_scaling(wrong, labels)
    >>> fit.scale.round(1), (fit.bias - fit.bias[0]).round(1)
    (array([1., 1., 1.]), array([ 0. ,  0. , -2.9]))
    """
    check_kind(kind)
    check_choice("scaling", scaling, SCALINGS)
    alpha = check_finite_number("penalty", penalty, minimum=0.0)
    bounds = check_bounds(bounds)
    source, target, label_prior = _priors(
        source_prior, target_prior, label_prior, bounds, column_names(scores)
    )
    data = Labelled.read(
        scores, labels, sample_weight=sample_weight, kind=kind, class_axis=class_axis,
        ignore_index=ignore_index, target_prior=target, label_prior=label_prior,
    )  # fmt: skip
    possible, w = np.ones(data.n_classes, np.bool_), np.zeros(data.n_classes)
    if source is not None and target is not None:
        possible, w = target > 0, slopes(source, target)
    data, w = data.of_classes(possible), w[possible]
    _refuse_absent(data, possible, alpha)
    joint = best_jointly(data, w, bounds)
    centre = _centre(joint, w)
    found, loss = _fit(data, centre, alpha, per_class=scaling == "vector")
    _say_of_rest(found, joint, scaling, alpha)
    a, b = _of_all_classes(loss, found, centre, data)
    value = found.value - loss.penalised(found.point)
    if loss.data is not data:
        value = posterior_sums(data, a, b)[0]
    scale, bias = np.full(possible.size, centre[0]), np.full(possible.size, -np.inf)
    scale[possible], bias[possible] = a, b
    if scaling == "bcts":
        scale[:] = a[0]
    return ScalingFit(
        scale, bias, value, found.converged, joint.n_iterations + found.n_iterations, joint
    )


def _centre(joint: LogLossFit, slopes: NDArray[np.float64]) -> Centre:
    """Return the scale, and the bias of every class, that the fit is held near.

    Where the joint fit ran into a bound, what Bayes' rule says instead.
    """
    return (1.0, slopes) if joint.at_bound else (1.0 / joint.temperature, joint.strength * slopes)


def _of_all_classes(
    loss: ScalingLoss, found: Minimum, centre: Centre, data: Labelled
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return scales and biases with those of the classes that have no labels."""
    a, b = loss.unpacked(found.point)
    seen = np.bincount(data.labels, minlength=data.n_classes) > 0
    scale = np.full(seen.size, centre[0] if loss.per_class else a[0])
    bias = centre[1].copy()
    scale[seen], bias[seen] = a, b
    return scale, bias


def _fit(
    data: Labelled, middle: Centre, alpha: float, *, per_class: bool
) -> tuple[Minimum, ScalingLoss]:
    """Return the deviations from the centre that are best, and the loss that they are best by.

    Both are of the classes that have labels.
    """
    data, biases = with_labels(data, middle[1])
    centre = middle[0], biases
    penalty = alpha * float(np.sum(data.weights**2))
    whole = ScalingLoss(data, centre, penalty=penalty, per_class=per_class)
    n, n_scores = data.labels.size, data.labels.size * data.n_classes
    share = max(1, min(n_scores // SAMPLE_SCORES, n // (ROWS_PER_NUMBER * whole.size)))
    sample = data.every(share)
    few = sample.every(max(1, sample.labels.size // (CURVATURE_ROWS * whole.size)))
    partly = ScalingLoss(sample, centre, penalty=penalty, per_class=per_class)
    point, passes = np.zeros(whole.size), 0
    for tolerance in STAGES:
        solve = partly.preconditioner(point, few)
        near = minimise_smooth(partly, point, solve, tolerance=tolerance, noise=whole.noise)
        point, passes = near.point, passes + (near.n_iterations if share == 1 else 0)
    solve = whole.preconditioner(point, few)
    found = minimise_smooth(whole, point, solve, tolerance=TOLERANCE, noise=whole.noise)
    point = whole.centred(found.point)
    value = found.value - whole.penalised(found.point) + whole.penalised(point)
    return Minimum(point, value, found.converged, passes + found.n_iterations), whole


def _say_of_rest(found: Minimum, joint: LogLossFit, scaling: str, alpha: float) -> None:
    """Warn, on the line of the user's call, of a fit that runs to infinity."""
    separable = joint.at_bound and joint.temperature == BOUNDS[0]
    held = alpha > 0.0 or not separable
    if found.converged and joint.converged and held and np.abs(found.point).max() <= FAR:
        return
    warnings.warn(
        f"the {scaling!r} scaling did not come to rest, as where some classes are told apart "
        f"without a mistake. Pass more validation data, or a larger `penalty` (it was {alpha:g}).",
        RepriorWarning,
        stacklevel=3,
    )


def _priors(
    source_prior: Any,
    target_prior: Any,
    label_prior: Any,
    bounds: tuple[float, float],
    classes: list[Any] | None,
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return the priors, or none of them where there is no source prior."""
    if source_prior is not None:
        return checked_priors(source_prior, target_prior, label_prior, bounds, classes)
    if label_prior is not None or not isinstance(target_prior, str):
        raise PriorError(
            "`source_prior` must be given where `target_prior` or `label_prior` is. Got None. "
            "Pass what the model was trained on, or leave all three out."
        )
    return None, None, None


def _refuse_absent(data: Labelled, possible: NDArray[np.bool_], alpha: float) -> None:
    """Refuse a class without labels where nothing holds its bias."""
    support = np.bincount(data.labels, minlength=data.n_classes)
    if alpha > 0.0 or support.all():
        return
    where = int(np.flatnonzero(possible)[np.argmin(support > 0)])
    raise OptionError(
        f"`penalty` must be above 0 where a class has no labels, whose bias is held by it alone. "
        f"Got penalty=0 and no label of class {where}. Pass penalty=1."
    )
