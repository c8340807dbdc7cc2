"""A bias for every class beside the temperature, or a scale and a bias for every class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reprior._warnings import warn
from reprior.core.checks import (
    check_bounds,
    check_choice,
    check_finite_number,
    check_kind,
    column_names,
)
from reprior.core.log_loss import (
    STRENGTHS,
    LogLossFit,
    best_jointly,
    checked_priors,
    with_labels,
)
from reprior.core.log_loss_sums import (
    log_loss_moments,
    posterior_curvature,
    posterior_sums,
    posterior_variances,
)
from reprior.core.minimise import Minimum, minimise_smooth
from reprior.core.prior import slopes
from reprior.core.temperature import BOUNDS
from reprior.core.weighted_rows import WeightedRows
from reprior.exceptions import Argument, OptionError, PriorError, RepriorWarning, Setting

__all__ = ["SCALINGS", "ScalingFit", "ScalingLoss", "Solve", "best_scaling", "fit_scaling"]

Centre: TypeAlias = tuple[float, NDArray[np.float64]]
"""A scale for all classes, and a bias for each."""

SCALINGS = ("bcts", "vector")
"""Bias-corrected temperature scaling: one scale, K biases. Vector scaling: K scales, K biases."""

TOLERANCE = 1e-14
"""The fit ends where the log-loss can fall by half of this, in nats."""

STAGES = (1e-3, 1e-6)
"""Before, the curvature is recomputed where the log-loss can still fall by half of these."""

SAMPLE_SCORES, ROWS_PER_NUMBER = 1 << 21, 16
"""A sample of at least so many scores, and of so many rows for every number to fit, stands for
all rows until the last stage."""

CURVATURE_ROWS = 32
"""Rows for every number to fit: they give the curvature within a third, which costs a few more
steps. A pass over all rows for it would cost as much as K other passes."""

FAR = 20.0
"""A bias this far from its centre diverges: it is a factor of 5e8 in the odds."""


Vector: TypeAlias = NDArray[np.float64]

Solve: TypeAlias = Callable[[Vector], Vector]

MOST_INVERTED = 512
"""Up to this many numbers the full matrix of second derivatives is inverted. Beyond, computing
and inverting it takes longer than the passes that it saves."""

RIDGE = 1e-9
"""Added to the curvature of the preconditioner, relative to its mean, so that it can be solved
where a class has none."""


@dataclass(frozen=True, eq=False)
class ScalingFit:
    """The result of :func:`fit_scaling`.

    Attributes
    ----------
    scale, bias : ndarray of shape (K,)
        a and b of softmax(a·z + b); see :func:`reprior.affine_posterior`. The scales are equal
        under "bcts". The bias of a class of target prior 0 is −inf; its scale has no effect.
    log_loss : float
        The weighted mean log-loss in nats on the labels it was fitted on, without the penalty.
        It is that of all classes, also of those without labels.
    converged : bool
        Whether it is the minimum.
    n_iterations : int
        Passes over all the scores, those of the joint fit included.
    joint : LogLossFit
        The temperature and strength that the fit starts from, and that the penalty is centred at.
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
    r"""Return a scale and a bias per class that give calibrated probabilities softmax(a·z + b).

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
        If the fit did not converge, for instance on separable data with a penalty of 0.

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
    data = WeightedRows.read(
        scores,
        labels,
        sample_weight=sample_weight,
        kind=kind,
        class_axis=class_axis,
        ignore_index=ignore_index,
        target_prior=target,
        label_prior=label_prior,
    )
    possible = np.ones(data.n_classes, np.bool_)
    w = np.zeros(data.n_classes)
    if source is not None and target is not None:
        possible = target > 0
        w = slopes(source, target)
    return best_scaling(data, w, possible, scaling=scaling, penalty=alpha, bounds=bounds)


def best_scaling(
    data: WeightedRows,
    slopes: Vector,
    possible: NDArray[np.bool_],
    *,
    scaling: str,
    penalty: float = 1.0,
    bounds: tuple[float, float] = STRENGTHS,
) -> ScalingFit:
    """Return what :func:`fit_scaling` returns, for rows of all classes.

    ``possible`` are the classes of positive target prior.
    """
    alpha = penalty
    data, w = data.of_classes(possible), slopes[possible]
    _refuse_absent(data, possible, alpha)
    joint = best_jointly(data, w, bounds)
    centre = _centre(joint, w)
    minimum, loss = _fit(data, centre, alpha, per_class=scaling == "vector")
    _warn_unless_converged(minimum, joint, scaling, alpha)
    a, b = _of_all_classes(loss, minimum, centre, data)
    value = minimum.value - loss.penalised(minimum.point)
    if loss.data is not data:
        value = posterior_sums(data, a, b)[0]
    scale = np.full(possible.size, centre[0])
    bias = np.full(possible.size, -np.inf)
    scale[possible], bias[possible] = a, b
    if scaling == "bcts":
        scale[:] = a[0]
    return ScalingFit(
        scale, bias, value, minimum.converged, joint.n_iterations + minimum.n_iterations, joint
    )


def _centre(joint: LogLossFit, slopes: NDArray[np.float64]) -> Centre:
    """Return the scale, and the bias of every class, that the penalty is centred at.

    They are those of the joint fit, or of Bayes' rule where that fit ended at a bound.
    """
    return (1.0, slopes) if joint.at_bound else (1.0 / joint.temperature, joint.strength * slopes)


def _of_all_classes(
    loss: ScalingLoss, minimum: Minimum, centre: Centre, data: WeightedRows
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return scales and biases with those of the classes that have no labels."""
    a, b = loss.unpacked(minimum.point)
    labelled = np.bincount(data.labels, minlength=data.n_classes) > 0
    scale = np.full(labelled.size, centre[0] if loss.per_class else a[0])
    bias = centre[1].copy()
    scale[labelled], bias[labelled] = a, b
    return scale, bias


def _fit(
    data: WeightedRows, joint_centre: Centre, alpha: float, *, per_class: bool
) -> tuple[Minimum, ScalingLoss]:
    """Return the deviations from the centre with the smallest loss, and the loss as a function.

    Both are of the classes that have labels.
    """
    data, biases = with_labels(data, joint_centre[1])
    centre = joint_centre[0], biases
    penalty = alpha * float(np.sum(data.weights**2))
    loss = ScalingLoss(data, centre, penalty=penalty, per_class=per_class)
    n, n_scores = data.labels.size, data.labels.size * data.n_classes
    share = max(1, min(n_scores // SAMPLE_SCORES, n // (ROWS_PER_NUMBER * loss.size)))
    sample = data.every(share)
    curvature_rows = sample.every(max(1, sample.labels.size // (CURVATURE_ROWS * loss.size)))
    sample_loss = ScalingLoss(sample, centre, penalty=penalty, per_class=per_class)
    point, passes = np.zeros(loss.size), 0
    for tolerance in STAGES:
        solve = sample_loss.preconditioner(point, curvature_rows)
        near = minimise_smooth(sample_loss, point, solve, tolerance=tolerance, noise=loss.noise)
        point, passes = near.point, passes + (near.n_iterations if share == 1 else 0)
    solve = loss.preconditioner(point, curvature_rows)
    minimum = minimise_smooth(loss, point, solve, tolerance=TOLERANCE, noise=loss.noise)
    point = loss.centred(minimum.point)
    value = minimum.value - loss.penalised(minimum.point) + loss.penalised(point)
    return Minimum(point, value, minimum.converged, passes + minimum.n_iterations), loss


def _warn_unless_converged(minimum: Minimum, joint: LogLossFit, scaling: str, alpha: float) -> None:
    """Warn of a fit that runs to infinity."""
    separable = joint.at_bound and joint.temperature == BOUNDS[0]
    held = alpha > 0.0 or not separable
    if minimum.converged and joint.converged and held and np.abs(minimum.point).max() <= FAR:
        return
    warn(
        RepriorWarning(
            f"the {scaling!r} scaling did not converge, for instance because some classes are "
            f"perfectly separable.",
            remedy=[
                "Pass more validation data, or a larger ",
                Argument("penalty"),
                f" (it was {alpha:g}).",
            ],
        )
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
            argument="source_prior",
            rule=[
                "must be given where ",
                Argument("target_prior"),
                " or ",
                Argument("label_prior"),
                " is",
            ],
            got="None",
            remedy="Pass what the model was trained on, or leave all three out.",
        )
    return None, None, None


def _refuse_absent(data: WeightedRows, possible: NDArray[np.bool_], alpha: float) -> None:
    """Refuse a class without labels where nothing holds its bias."""
    support = np.bincount(data.labels, minlength=data.n_classes)
    if alpha > 0.0 or support.all():
        return
    where = int(np.flatnonzero(possible)[np.argmin(support > 0)])
    raise OptionError(
        argument="penalty",
        rule="must be above 0 where a class has no labels, whose bias is held by it alone",
        got=[Setting("penalty", 0), f" and no label of class {where}"],
        remedy=["Pass ", Setting("penalty", 1), "."],
    )


class ScalingLoss:
    """The penalised log-loss of softmax(a·z + b) as a function of the deviations from a centre.

    The first numbers of a point are the scales' relative deviations, a = a₀·(1 + s), one for every
    class or one for all; the others are the biases', b = b₀ + r. Half their sum of squares, times
    ``penalty``, is added to the weighted mean of the log-loss.
    """

    def __init__(
        self,
        data: WeightedRows,
        centre: tuple[float, Vector],
        *,
        penalty: float,
        per_class: bool,
    ) -> None:
        self.data, self.centre = data, centre
        self.penalty, self.per_class = penalty, per_class
        self.n_scales = data.n_classes if per_class else 1

    @property
    def size(self) -> int:
        """How many numbers a point has."""
        return self.n_scales + self.data.n_classes

    @property
    def noise(self) -> float:
        """How exactly its values are known, relative to their size or 1."""
        return self.data.noise

    def unpacked(self, point: Vector) -> tuple[Vector, Vector]:
        """Return the scale and the bias of every class."""
        scale = self.centre[0] * (1.0 + point[: self.n_scales])
        bias = self.centre[1] + point[self.n_scales :]
        return np.broadcast_to(scale, bias.shape), bias

    def __call__(self, point: Vector) -> tuple[float, Vector]:
        """Return the penalised loss and its gradient."""
        value, by_scale, by_bias = posterior_sums(self.data, *self.unpacked(point))
        scales = by_scale if self.per_class else by_scale.sum(keepdims=True)
        gradient = np.concatenate([self.centre[0] * scales, by_bias])
        return value + self.penalised(point), gradient + self.penalty * point

    def penalised(self, point: Vector) -> float:
        """What the penalty adds to the loss."""
        return 0.5 * self.penalty * float(point @ point)

    def centred(self, point: Vector) -> Vector:
        """Return the point with the least penalty of all that have the same log-loss.

        A number added to all biases changes no posterior.
        """
        biases = point[self.n_scales :]
        return np.concatenate([point[: self.n_scales], biases - biases.mean()])

    def preconditioner(self, point: Vector, sample: WeightedRows) -> Solve:
        """Return the product with the inverse of the second derivatives at a point, or nearly.

        They are those of a ``sample`` of the data, and where they are too many to invert, only
        those by a class's own scale and bias.
        """
        scale, bias = self.unpacked(point)
        if self.size > MOST_INVERTED:
            return self._by_class(scale, bias, sample)
        curvature = posterior_curvature(sample, scale, bias, per_class=self.per_class)
        curvature[: self.n_scales] *= self.centre[0]
        curvature[:, : self.n_scales] *= self.centre[0]
        diagonal = np.einsum("ii->i", curvature)
        mean = float(diagonal.mean())
        diagonal += self.penalty + RIDGE * mean
        # A number added to all biases changes nothing: some curvature in that direction lets the
        # equations be solved, and as no gradient goes there, no step does.
        curvature[self.n_scales :, self.n_scales :] += mean / self.data.n_classes
        inverse = np.linalg.inv(curvature)
        return lambda gradient: inverse @ gradient

    def _by_class(self, scale: Vector, bias: Vector, sample: WeightedRows) -> Solve:
        zz, z, one = posterior_variances(sample, scale, bias)
        ridge = self.penalty + RIDGE * float(one.mean())
        biases = one + ridge
        if not self.per_class:
            common = log_loss_moments(sample, float(scale[0]), bias, np.zeros_like(bias))[3]
            diagonal = np.concatenate([[self.centre[0] ** 2 * common + ridge], biases])
            return lambda gradient: gradient / diagonal
        scales, mixed = self.centre[0] ** 2 * zz + ridge, self.centre[0] * z
        determinant = scales * biases - mixed**2

        def solve(gradient: Vector) -> Vector:
            a, b = np.split(gradient, 2)
            both = [biases * a - mixed * b, scales * b - mixed * a]
            return np.concatenate([x / determinant for x in both])

        return solve
