"""Temperature and strength together by log-loss: convex in (1/T, λ), solved by Newton's method."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior._warnings import warn
from reprior.core.checks import check_bounds, check_finite_number, check_kind, column_names
from reprior.core.importance import classes_with_labels
from reprior.core.log_loss_sums import log_loss_moments
from reprior.core.minimise import ROUNDING, Box, Quadratic, minimise_in_box
from reprior.core.prior import as_prior, as_target_prior, slopes
from reprior.core.temperature import BOUNDS, best_temperature, temperature_at_bound
from reprior.core.weighted_rows import WeightedRows
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

STRENGTHS = (0.0, 8.0)
"""The range of λ where none is given: up to where a calibrator widens its own."""


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
    make the labels stand for the target, so that this is the log-loss to expect there. A class
    without labels is left out of the sum over k while T and λ are fitted: nothing is learnt of it,
    and it gets the same temperature and correction as the others.

    In (1/T, λ) it is convex: slopes and curvatures are means and (co)variances of z and w under
    the posterior, all from one pass, and Newton's method within the bounds ends at the one
    minimum. Fitted one after the other, each of the two would take over what is the other's work.

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
        P_l. The labels' own (weighted) frequencies where it is not given.
    decision_strength : float, optional
        A strength that is settled, as calibrators count it: the posterior is
        softmax((z + decision_strength·w) / T), and T alone is fitted. Decisions stay as they are.
    sample_weight : array of the labels' shape, optional
        Weights v.
    kind : {"logits", "probs", "log_probs"}, default "logits"
        What the scores are.
    class_axis : int, default -1
        The axis of the classes.
    ignore_index : int, optional
        A label that marks samples to leave out. Their scores, and those of samples of weight 0,
        are not looked at.
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
        Where T or λ ends at a bound; where the fit did not come to rest; and where P_t is P_s, so
        that λ says nothing: ``decision_strength`` is then 1.

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

    def __init__(self, data: WeightedRows, slopes: NDArray[np.float64]) -> None:
        self.data, self.slopes = data, slopes

    @property
    def noise(self) -> float:
        """How exactly its values are known, relative to their size or 1."""
        return self.data.noise

    def __call__(self, inverse: float, strength: float) -> Quadratic:
        """Return the loss with its first and second derivatives at δ = 1/T and λ."""
        moments = log_loss_moments(self.data, inverse, strength * self.slopes, self.slopes)
        return Quadratic(*moments.tolist())


def best_jointly(
    data: WeightedRows,
    slopes: NDArray[np.float64],
    bounds: tuple[float, float] = STRENGTHS,
    temperature_bounds: tuple[float, float] = BOUNDS,
) -> LogLossFit:
    """Return the best (T, λ) of rows, from where a sample of them leads if they are many.

    Where all slopes are equal, the best T and a ``decision_strength`` of 1. Classes without labels
    teach nothing, and are not there while it is fitted; ``log_loss`` is that of all classes.
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


def with_labels(
    data: WeightedRows, slopes: NDArray[np.float64]
) -> tuple[WeightedRows, NDArray[np.float64]]:
    r"""Return data and slopes without the classes that have no labels.

    Nothing is known of :math:`P(x|k)` of these, and where they stand in the posterior is for
    samples of them to say. What is left is fitted to the posterior of the others, given that it is
    one of the others: :math:`P(y|x, y \text{ has labels})`, of the same T, λ and biases.
    """
    seen = classes_with_labels(np.bincount(data.labels, minlength=data.n_classes))
    return data.of_classes(seen), slopes[seen]


def _by_newton(
    data: WeightedRows,
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

    ``start`` is the (1/T, λ) to begin with, ``noise`` how exactly the loss is known.
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
    data: WeightedRows,
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
        f"the fit by log-loss did not come to rest in {n_passes} passes over the scores: what it "
        f"found is where it was then, not the minimum.",
        remedy="Pass more validation data, and scores of float64 that are not thousands large.",
    )


def no_strength() -> RepriorWarning:
    """Return the warning where no strength changes anything."""
    return RepriorWarning(
        "The target prior is the source prior, as far as the classes in play go: the strength "
        "says nothing, and the temperature alone is fitted."
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
    """Warn of a strength that says nothing or is at a bound.

    A temperature at its bound has a warning of its own, and decides where the strength ends.
    """
    if np.unique(slopes).size == 1:
        warn(no_strength())
    elif fit.at_bound and fit.strength in bounds and fit.temperature not in temperature_bounds:
        warn(strength_at_bound(fit.strength))
