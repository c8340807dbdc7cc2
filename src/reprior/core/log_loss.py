"""Temperature and strength together by log-loss: convex in (1/T, λ), solved by Newton's method."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from reprior._warnings import warn
from reprior.core.checks import check_bounds, check_finite_number, check_kind, column_names
from reprior.core.importance import classes_with_labels
from reprior.core.minimise import ROUNDING, Box, Quadratic, minimise_in_box
from reprior.core.prior import as_prior, as_target_prior, slopes
from reprior.core.temperature import BOUNDS, best_temperature, temperature_at_bound
from reprior.core.weighted_rows import LossRows, WeightedRows
from reprior.exceptions import Argument, Element, PriorError, RepriorWarning

__all__ = [
    "JointLoss",
    "LogLossFit",
    "best_at_strength",
    "best_jointly",
    "checked_priors",
    "fit_log_loss",
    "minimise_jointly",
    "no_strength",
    "not_converged",
    "refuse_lone_class",
    "refuse_negative",
    "strength_at_bound",
    "with_labels",
]

Rows = TypeVar("Rows", bound=LossRows)

STRENGTHS = (0.0, 8.0)
"""The default range of λ: a calibrator widens its bounds as far."""


@dataclass(frozen=True)
class LogLossFit:
    """The result of :func:`fit_log_loss`.

    Attributes
    ----------
    temperature : float
        T.
    strength : float
        λ of ``rebalance(…, strength=λ, temperature=T)``, which is softmax(z/T + λ·w).
    log_loss : float
        The weighted mean log-loss in nats on the labels it was fitted on.
    converged : bool
        Whether it is the minimum within the bounds.
    n_iterations : int
        Passes over all the scores.
    at_bound : bool
        Whether T or λ is an end of its bounds because the log-loss still falls there.
    """

    temperature: float
    strength: float
    log_loss: float
    converged: bool
    n_iterations: int
    at_bound: bool

    @property
    def decision_strength(self) -> float:
        """λ·T, the strength as calibrators count it: they apply softmax((z + strength·w) / T).

        Decisions depend on this one number alone.
        """
        return self.strength * self.temperature


def fit_log_loss(
    scores: Any,
    labels: Any,
    *,
    source_prior: Any,
    target_prior: Any = "uniform",
    label_prior: Any = None,
    decision_strength: float | None = None,
    sample_weight: Any = None,
    kind: str = "logits",
    class_axis: int = -1,
    ignore_index: int | None = None,
    bounds: tuple[float, float] = STRENGTHS,
    temperature_bounds: tuple[float, float] = BOUNDS,
) -> LogLossFit:
    r"""Return the temperature and the strength that give the best calibrated probabilities.

    .. math:: \min_{T, λ} \; \sum_i v_i \frac{P_t(y_i)}{P_l(y_i)}
        \Bigl( \log \sum_k e^{z_{ik}/T + λ w_k} - z_{i y_i}/T - λ w_{y_i} \Bigr), \qquad
        w_k = \log P_t(k) - \log P_s(k)

    where z_ik is the log-score of class k for sample i, y_i the sample's label and v_i its weight,
    T the temperature, λ the strength, P_s the source prior (what the model was trained on), P_t
    the target prior (what it is used on) and P_l the prior that the labels follow. The weights
    make the labels stand for the target, so that this is the log-loss to expect there. While T and
    λ are fitted, the sum over k leaves out classes without labels: the labels say nothing about
    them, and they get the same temperature and correction as the others.

    In (1/T, λ) it is convex: slopes and curvatures are means and (co)variances of z and w under
    the posterior, all from one pass, and Newton's method within the bounds ends at the one
    minimum. Fitted one after the other, each would make up for errors of the other.

    Parameters
    ----------
    scores : array of shape (..., K, ...)
        The model's outputs on validation samples. For two classes also one score per sample,
        that of class 1: shape (N,), or 1 on the class axis.
    labels : integer array of the scores' shape without the class axis
        Class indices.
    source_prior : array-like of shape (K,)
        P_s, positive, sums to 1.
    target_prior : "uniform" or array-like of shape (K,), default "uniform"
        P_t. A class of target prior 0 does not exist in the fit, nor do its samples.
    label_prior : array-like of shape (K,), optional
        P_l. By default the labels' (weighted) frequencies.
    decision_strength : float, optional
        A fixed strength, as calibrators count it: the posterior is
        softmax((z + decision_strength·w) / T), and only T is fitted, which changes no decision.
    sample_weight : array of the labels' shape, optional
        Weights v.
    kind : {"logits", "probs", "log_probs"}, default "logits"
        What the scores are.
    class_axis : int, default -1
        The axis of the classes.
    ignore_index : int, optional
        A label that marks samples to leave out. Their scores, and those of samples of weight 0,
        may hold anything.
    bounds : (float, float), default (0, 8)
        The range of λ.
    temperature_bounds : (float, float), default (0.01, 100)
        The range of T. Where every sample is classified right the best T is 0: the fit then ends
        at the bound.

    Returns
    -------
    LogLossFit
        Temperature, strength, log-loss, and how the fit went.

    Warns
    -----
    RepriorWarning
        Where T or λ ends at a bound; where the fit does not converge; and where P_t is P_s, so
        that λ has no effect: ``decision_strength`` is then 1.

    References
    ----------
    .. [1] Tian, Liu, Glaser, Hsu, Kira. "Posterior Re-calibration for Imbalanced Datasets",
       NeurIPS 2020: Eq. 7 with the flattening of Sec. 3.3.
    .. [2] Guo, Pleiss, Sun, Weinberger. "On Calibration of Modern Neural Networks", ICML 2017.

    Examples
    --------
    A model that was trained on nine of class 0 to one of class 1, and is three times too sure:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(2, size=4000)
    >>> evidence = rng.normal(size=4000) + 2 * labels - 1
    >>> scores = 3 * (2 * evidence + np.log(0.1 / 0.9))
    >>> fit = fit_log_loss(scores, labels, source_prior=[0.9, 0.1])
    >>> round(fit.temperature, 2), round(fit.strength, 2), round(fit.decision_strength, 1)
    (2.94, 1.01, 3.0)
    """
    check_kind(kind)
    bounds = check_bounds(bounds)
    temperature_bounds = check_bounds(temperature_bounds, name="temperature_bounds", positive=True)
    source, target, label_prior = checked_priors(
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
    w, possible = slopes(source, target), target > 0
    data, w = data.of_classes(possible), w[possible]
    if decision_strength is not None:
        settled = check_finite_number("decision_strength", decision_strength)
        fit = best_at_strength(data, w, settled, temperature_bounds)
    else:
        fit = best_jointly(data, w, bounds, temperature_bounds)
        _warn_of_strength(fit, w, bounds, temperature_bounds)
    if fit.temperature in temperature_bounds and fit.at_bound:
        warn(
            temperature_at_bound(
                fit.temperature, temperature_bounds, of=Argument("temperature_bounds")
            )
        )
    if not fit.converged:
        warn(not_converged(fit.n_iterations))
    return fit


class JointLoss:
    """The weighted log-loss of softmax(δ·z + λ·w) over rows, as a function of (δ, λ).

    Losses of parts add, number by number, if their weights sum to 1 together.
    """

    def __init__(self, data: LossRows, slopes: NDArray[np.float64]) -> None:
        self.data, self.slopes = data, slopes

    @property
    def noise(self) -> float:
        """The relative error of its values; absolute for values below 1."""
        return self.data.noise

    def __call__(self, inverse: float, strength: float) -> Quadratic:
        """Return the loss with its first and second derivatives at δ = 1/T and λ."""
        moments = self.data.moments(inverse, strength * self.slopes, self.slopes)
        return Quadratic(*moments.tolist())


def best_jointly(
    data: LossRows,
    slopes: NDArray[np.float64],
    bounds: tuple[float, float] = STRENGTHS,
    temperature_bounds: tuple[float, float] = BOUNDS,
) -> LogLossFit:
    """Return the best (T, λ) of rows. The fit of many rows starts at the optimum of a sample.

    Where all slopes are equal, the best T and a ``decision_strength`` of 1. Classes without labels
    are left out of the fit; ``log_loss`` is that of all classes.
    """
    labelled, labelled_slopes = with_labels(data, slopes)
    if np.unique(labelled_slopes).size == 1:
        fit = best_at_strength(labelled, labelled_slopes, 1.0, temperature_bounds)
    else:
        fit = _by_newton(labelled, labelled_slopes, bounds, temperature_bounds)
    if labelled is data:
        return fit
    value = JointLoss(data, slopes)(1.0 / fit.temperature, fit.strength).value
    return replace(fit, log_loss=value)


def with_labels(data: Rows, slopes: NDArray[np.float64]) -> tuple[Rows, NDArray[np.float64]]:
    r"""Return data and slopes without the classes that have no labels.

    The labels say nothing about :math:`P(x|k)` of these classes. The fit is to the posterior of
    the others, :math:`P(y|x, y \text{ has labels})`, which has the same T, λ and biases.
    """
    labelled = classes_with_labels(data.has_labels)
    return data.of_classes(labelled), slopes[labelled]


def _by_newton(
    data: LossRows,
    slopes: NDArray[np.float64],
    bounds: tuple[float, float],
    temperature_bounds: tuple[float, float],
) -> LogLossFit:
    start = (1.0, 1.0)
    sample = data.sample()
    if sample is not None:
        loss = JointLoss(sample, slopes)
        near = minimise_jointly(loss, bounds, temperature_bounds, noise=loss.noise)
        start = start if near.at_bound else (1.0 / near.temperature, near.strength)
    loss = JointLoss(data, slopes)
    return minimise_jointly(loss, bounds, temperature_bounds, start=start, noise=loss.noise)


def minimise_jointly(
    loss: Callable[[float, float], Quadratic],
    bounds: tuple[float, float] = STRENGTHS,
    temperature_bounds: tuple[float, float] = BOUNDS,
    *,
    start: tuple[float, float] = (1.0, 1.0),
    noise: float = ROUNDING,
) -> LogLossFit:
    """Return the (T, λ) at which a log-loss, given of (1/T, λ), is smallest.

    ``start`` is the first (1/T, λ), ``noise`` the relative error of the loss.
    """
    cold, hot = temperature_bounds
    box = Box(np.array([1.0 / hot, bounds[0]]), np.array([1.0 / cold, bounds[1]]))
    minimum = minimise_in_box(loss, box, start, noise=noise)
    temperature = 1.0 / minimum.point[0]
    if minimum.at_bound[0]:
        temperature = cold if temperature < math.sqrt(cold * hot) else hot
    return LogLossFit(
        temperature=temperature,
        strength=minimum.point[1],
        log_loss=minimum.value,
        converged=minimum.converged,
        n_iterations=minimum.n_iterations,
        at_bound=any(minimum.at_bound),
    )


def best_at_strength(
    data: LossRows,
    slopes: NDArray[np.float64],
    decision_strength: float,
    temperature_bounds: tuple[float, float] = BOUNDS,
) -> LogLossFit:
    """Return the best T of softmax((z + decision_strength·w) / T)."""
    fit = best_temperature(data.shifted(decision_strength * slopes), temperature_bounds)
    return LogLossFit(
        temperature=fit.temperature,
        strength=decision_strength / fit.temperature,
        log_loss=fit.log_loss,
        converged=fit.converged,
        n_iterations=fit.n_iterations,
        at_bound=fit.at_bound,
    )


def checked_priors(
    source_prior: Any,
    target_prior: Any,
    label_prior: Any,
    bounds: tuple[float, float],
    classes: list[Any] | None,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64] | None]:
    """Return P_s, P_t and P_l, or None for one that is not given; ``bounds`` are those of λ.

    ``classes`` are the names of the scores' columns, where they have names.
    """
    source = as_prior(source_prior, name="source_prior", classes=classes)
    target = as_target_prior(target_prior, n_classes=source.size, classes=classes)
    refuse_lone_class(target)
    refuse_negative(target, bounds)
    if label_prior is None:
        return source, target, None
    given = as_prior(
        label_prior, name="label_prior", n_classes=source.size, allow_zero=True, classes=classes
    )
    return source, target, given


def refuse_lone_class(target: NDArray[np.float64]) -> None:
    """Refuse a target prior that leaves fewer than two classes."""
    if np.count_nonzero(target) < 2:
        raise PriorError(
            argument="target_prior",
            rule="must be positive for at least two classes, or there is nothing to fit",
            got=str(np.count_nonzero(target)),
            remedy="Pass the mix that the model is used on.",
        )


def not_converged(n_passes: int) -> RepriorWarning:
    """Return the warning of a fit by log-loss that ended before the minimum."""
    return RepriorWarning(
        f"the fit by log-loss did not converge in {n_passes} passes over the scores: the result is "
        f"the last iterate, not the minimum.",
        remedy="Pass more validation data, and scores of float64 that are not in the thousands.",
    )


def no_strength() -> RepriorWarning:
    """Return the warning where the strength has no effect."""
    return RepriorWarning(
        "The target prior is the source prior for every class that is fitted: the strength has no "
        "effect, and only the temperature is fitted."
    )


def strength_at_bound(strength: float) -> RepriorWarning:
    """Return the warning of a strength at one of its bounds."""
    return RepriorWarning(
        [
            f"the log-loss still falls at the bound strength={strength:g} of softmax(z/T + "
            f"strength·w). The model does not lean towards the classes that ",
            Argument("source_prior"),
            " names frequent as it says: pass the mix that the model saw, class weights and "
            "sampling included, or wider ",
            Argument("bounds"),
            ".",
        ]
    )


def refuse_negative(target: NDArray[np.float64], bounds: tuple[float, float]) -> None:
    """Refuse strengths that would divide by the target prior of a class that has none."""
    if bounds[0] < 0.0 and (target == 0).any():
        where = int(np.argmax(target == 0))
        raise PriorError(
            argument="target_prior",
            rule="must be positive for every class where the strength may be negative",
            got=[
                Element("target_prior", (where,), 0),
                f" and bounds from {bounds[0]:g}, which would divide by 0",
            ],
            remedy="Give the class a small prior, or pass bounds from 0 on.",
        )


def _warn_of_strength(
    fit: LogLossFit,
    slopes: NDArray[np.float64],
    bounds: tuple[float, float],
    temperature_bounds: tuple[float, float],
) -> None:
    """Warn of a strength that has no effect or is at a bound.

    A temperature at its bound has another warning, and determines where the strength ends.
    """
    if np.unique(slopes).size == 1:
        warn(no_strength())
    elif fit.at_bound and fit.strength in bounds and fit.temperature not in temperature_bounds:
        warn(strength_at_bound(fit.strength))
