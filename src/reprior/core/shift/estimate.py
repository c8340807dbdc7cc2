r"""The target prior of unlabelled scores: how much of each class there is where a model is used.

The only assumption is that classes look the same there as in training: P(x|y) is unchanged, and
P(y) alone has shifted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reprior._warnings import warn
from reprior.core.checks import (
    check_choice,
    check_finite_number,
    check_kind,
    column_names,
    refuse_reordered,
)
from reprior.core.prior import as_prior
from reprior.core.shift import bootstrap, em
from reprior.core.shift.bootstrap import Progress
from reprior.core.shift.em import Likelihood
from reprior.core.shift.moments import (
    Conditioning,
    Moments,
    bbse,
    clipped_prior,
    conditioning,
    rlls,
)
from reprior.core.shift.newton import maximum_likelihood
from reprior.core.shift.predictions import (
    Calibration,
    Predictions,
    Validation,
    each_warning_once,
    predict,
    read_log_scores,
    read_predictions,
    read_validation,
    validation_columns,
)
from reprior.core.shift.recalibration import (
    AffineCalibration,
    as_calibration,
    fit_calibration,
    refit_calibration,
)
from reprior.core.shift.report import (
    PenaltyEffect,
    TargetPriorReport,
    conditioning_warning,
    convergence_warning,
    few_samples_warning,
    penalty_effect,
    penalty_warning,
)
from reprior.exceptions import Argument, OptionError, Setting, Text

__all__ = [
    "METHODS",
    "Estimate",
    "PriorEstimator",
    "estimate_target_prior",
    "estimate_target_prior_report",
    "prepare_estimator",
]

Vector: TypeAlias = np.ndarray[Any, Any]

METHODS = ("em", "bbse", "bbse_soft", "rlls", "rlls_soft")
"""How a target prior can be estimated."""


def estimate_target_prior(
    scores: Any,
    *,
    source_prior: Any,
    method: str = "em",
    kind: str = "logits",
    validation: Any = None,
    calibration: Any = None,
    class_axis: int = -1,
    ignore_index: int | None = None,
) -> NDArray[np.float64]:
    r"""Return the class prior under which unlabelled scores are most likely, or best explained.

    **EM.** The prior of the largest likelihood,

    .. math:: P_t ← \frac1N \sum_i \frac{P_d(k|x_i)\, P_t(k) / P_s(k)}
        {\sum_j P_d(j|x_i)\, P_t(j) / P_s(j)}

    where P_d(k|x_i) is the model's posterior of class k for sample i, P_s the source prior and
    P_t the target prior, from P_t = P_s on until convergence [1]_, in accelerated
    steps [2]_. This is the EM algorithm for the likelihood of the N samples,
    :math:`\sum_i \log \sum_k P_d(k|x_i)\, P_t(k) / P_s(k)`, which is concave in P_t, so that EM
    converges to its maximum; where EM is slow, Newton's method takes over [6]_. It needs no labels
    and is the most precise of all methods where the model's probabilities are right. With
    ``validation`` they are calibrated first, by a bias-corrected temperature [5]_.

    **BBSE.** The solution of :math:`M P_t = μ`, where :math:`M_{ij}` is how often class i is
    predicted for validation samples of class j, and μ_i how often it is predicted on the target;
    negative entries are set to 0, and the sum to 1 [3]_. The model need not be calibrated, as M is
    measured. ``"bbse_soft"`` takes mean probabilities in place of the frequencies of predictions.
    Where M is singular, such as where a class is never predicted, it is the solution nearest to
    P_s.

    **RLLS.** The same with a penalty on the weights :math:`1 + θ = P_t / P_s`,

    .. math:: \min_{θ ≥ -1} ‖C θ - b‖_2 + ρ ‖θ‖_2, \qquad C = M \operatorname{diag}(P_s), \quad
        b = μ - M P_s

    with :math:`ρ = 0.03\,(2 l / (3n) + \sqrt{2 l / n})`, :math:`l = \log(2K / 0.05)` and n
    validation labels [4]_; for few labels, and classes that are hard to tell apart. Where the
    classes are easy to tell apart it equals BBSE: neither norm is squared, so a small ρ changes
    nothing.

    Parameters
    ----------
    scores : array of shape (..., K, ...)
        The model's outputs on unlabelled data of the deployment. For two classes also one score
        per sample, that of class 1: shape (N,), or 1 on the class axis.
    source_prior : array-like of shape (K,)
        P_s, positive, sums to 1: what the model was trained on. Where the scores are a frame, also
        {column: probability}, or a Series with the columns' names.
    method : {"em", "bbse", "bbse_soft", "rlls", "rlls_soft"}, default "em"
        How P_t is estimated.
    kind : {"logits", "probs", "log_probs"}, default "logits"
        The kind of the scores.
    validation : (scores, labels), optional
        Labelled scores that the model was not trained on, of the same kind and axes; every class
        has labels, in any mix. Labels are class indices, or names of the columns of a frame of
        scores. "em" fits a calibration to them, unless one is given; all other methods need them.
    calibration : (scale, bias), or a function, optional
        Applied to the log-scores of target and validation alike: ``scale * z + bias``, each a
        number or one per class; or a function from rows (n, K) of log-scores to such. It must
        give log-posteriors under ``source_prior``. (1, 0) leaves them as they are.
    class_axis : int, default -1
        The axis of the classes.
    ignore_index : int, optional
        A validation label that marks samples to leave out.

    Returns
    -------
    ndarray of shape (K,), float64
        P_t, sums to 1. A class that the scores speak against gets 0, or nearly.

    Warns
    -----
    RepriorWarning
        Where EM, and up to 256 classes Newton's method after it, has not converged; where M may be
        singular, by the number of labels; where there are fewer than four samples per class.

    See Also
    --------
    estimate_target_prior_report : the same with intervals, convergence and conditioning.

    References
    ----------
    .. [1] Saerens, Latinne, Decaestecker. "Adjusting the Outputs of a Classifier to New a Priori
       Probabilities: A Simple Procedure", Neural Computation 14(1), 2002: Eqs. 2.9.
    .. [2] Varadhan, Roland. "Simple and Globally Convergent Methods for Accelerating the
       Convergence of Any EM Algorithm", Scandinavian Journal of Statistics 35, 2008: the
       extrapolated steps.
    .. [3] Lipton, Wang, Smola. "Detecting and Correcting for Label Shift with Black Box
       Predictors", ICML 2018.
    .. [4] Azizzadenesheli, Liu, Yang, Anandkumar. "Regularized Learning for Domain Adaptation
       under Label Shifts", ICLR 2019.
    .. [5] Alexandari, Kundaje, Shrikumar. "Maximum Likelihood with Bias-Corrected Calibration is
       Hard-To-Beat at Label Shift Adaptation", ICML 2020.
    .. [6] Kim, Carbonetto, Stephens, Anitescu. "A Fast Algorithm for Maximum Likelihood Estimation
       of Mixture Proportions Using Sequential Quadratic Programming", Journal of Computational and
       Graphical Statistics 29, 2020.

    Examples
    --------
    A model of two classes seen equally often, and data in which it finds mostly the second:

    >>> import numpy as np
    >>> posterior = np.array([[0.9, 0.1]] * 2 + [[0.1, 0.9]] * 8)
    >>> estimate_target_prior(posterior, source_prior=[0.5, 0.5], kind="probs")
    array([0.125, 0.875])

    On ten labelled samples of each class the model predicts the first class ten times, and the
    second 8 times:

    >>> labels = np.repeat([0, 1], 10)
    >>> seen = np.array([[0.9, 0.1]] * 12 + [[0.1, 0.9]] * 8)
    >>> estimate_target_prior(
    ...     posterior,
    ...     source_prior=[0.5, 0.5],
    ...     method="bbse",
    ...     kind="probs",
    ...     validation=(seen, labels),
    ... )
    array([0., 1.])
    """
    estimator = prepare_estimator(
        source_prior,
        method=method,
        kind=kind,
        validation=validation,
        calibration=calibration,
        class_axis=class_axis,
        ignore_index=ignore_index,
        columns=column_names(scores),
    )
    estimate, _ = _estimated(estimator, scores)
    return estimate.prior


def estimate_target_prior_report(
    scores: Any,
    *,
    source_prior: Any,
    method: str = "em",
    kind: str = "logits",
    validation: Any = None,
    calibration: Any = None,
    class_axis: int = -1,
    ignore_index: int | None = None,
    confidence: float = 0.9,
    n_replicates: int = 200,
    random_state: int | np.random.Generator = 0,
    progress: Progress | None = None,
) -> TargetPriorReport:
    """Return the prior of :func:`estimate_target_prior`, with intervals and diagnostics.

    Intervals are percentiles of bootstrap replicates: target samples are drawn again with
    replacement, validation samples within each class. They are for the population that the target
    samples were drawn from, one class at a time, and assume that samples are drawn independently:
    the pixels of an image are not, and intervals from them are too narrow. A calibration that EM
    fits is fitted again in every replicate, up to 256 classes; one that is given stays fixed.
    Intervals of RLLS are those of its penalised estimate, which is drawn to the source prior.

    Parameters
    ----------
    scores, source_prior, method, kind, validation, calibration, class_axis, ignore_index
        As in :func:`estimate_target_prior`.
    confidence : float, default 0.9
        The confidence of the intervals, between 0 and 1.
    n_replicates : int, default 200
        Bootstrap replicates.
    random_state : int or numpy Generator, default 0
        The generator, or its seed. The same seed gives the same intervals.
    progress : callable, optional
        Called with the number of replicates that are done.

    Returns
    -------
    TargetPriorReport
        ``prior``, ``intervals``, how EM went, how the confusion matrix is conditioned, and
        ``summary()``.

    Warns
    -----
    RepriorWarning
        As :func:`estimate_target_prior`.

    Examples
    --------
    >>> import numpy as np
    >>> posterior = np.array([[0.9, 0.1]] * 20 + [[0.1, 0.9]] * 80)
    >>> report = estimate_target_prior_report(posterior, source_prior=[0.5, 0.5], kind="probs")
    >>> print(report.summary(["cat", "dog"]))
    method       em  (100 samples)
    convergence  converged after 14 passes (last change ...)
    <BLANKLINE>
    class   source   target   90 % interval
    cat     0.5000   0.1250   0.0500 to 0.2000
    dog     0.5000   0.8750   0.8000 to 0.9500
    """
    level = check_finite_number("confidence", confidence, positive=True, hint="Pass 0.9.")
    if level >= 1:
        raise OptionError(
            argument="confidence",
            rule="must be below 1",
            got=f"{level:g}",
            remedy="Pass 0.9 for intervals of 90 %.",
        )
    if isinstance(n_replicates, bool) or int(n_replicates) != n_replicates or n_replicates < 2:
        raise OptionError(
            argument="n_replicates",
            rule="must be an integer of at least 2",
            got=repr(n_replicates),
            remedy="Pass 200.",
        )
    estimator = prepare_estimator(
        source_prior,
        method=method,
        kind=kind,
        validation=validation,
        calibration=calibration,
        class_axis=class_axis,
        ignore_index=ignore_index,
        columns=column_names(scores),
    )
    estimate, target = _estimated(estimator, scores)
    rng = np.random.default_rng(random_state)
    replicates = _replicates(
        estimator, estimate, target, int(n_replicates), rng, progress or bootstrap.no_progress
    )
    return _report(estimator, estimate, len(target), replicates, level)


def _estimated(estimator: PriorEstimator, scores: Any) -> tuple[Estimate, Likelihood | Predictions]:
    """Return the estimate from scores in memory, and what it was made from; warn of its limits."""
    target: Likelihood | Predictions
    if estimator.method == "em":
        target = Likelihood(estimator.log_scores(scores), estimator.source_prior)
        estimate = estimator.by_likelihood(target)
    else:
        target = estimator.predictions(scores)
        estimate = estimator.by_moments(target.sum())
    for text in estimate.reliability_warnings():
        warn(text)
    return estimate, target


def _replicates(
    estimator: PriorEstimator,
    estimate: Estimate,
    target: Likelihood | Predictions,
    n: int,
    rng: np.random.Generator,
    progress: Progress,
) -> NDArray[np.float64]:
    """Return the estimates of samples drawn again."""
    source = estimator.source_prior
    validation = estimator.validation
    if isinstance(target, Likelihood):
        refits = None
        few_classes = source.size <= bootstrap.MAX_CLASSES
        if few_classes and estimator.fitted is not None and validation is not None:
            refits = refit_calibration(validation, source, n, rng)
        return bootstrap.em_replicates(
            target, estimate.prior, source, n, rng, refits=refits, progress=progress
        )
    assert validation is not None  # noqa: S101 - all methods but EM have labels
    return bootstrap.moment_replicates(
        target, *validation, estimator.solve, source, n, rng, progress=progress
    )


def _report(
    estimator: PriorEstimator,
    estimate: Estimate,
    n_samples: int,
    replicates: NDArray[np.float64],
    confidence: float,
) -> TargetPriorReport:
    validation = estimator.validation
    fitted = estimator.fitted
    return TargetPriorReport(
        prior=estimate.prior,
        intervals=bootstrap.percentile_intervals(replicates, confidence),
        confidence=confidence,
        replicates=replicates,
        source_prior=estimator.source_prior,
        method=estimator.method,
        n_samples=n_samples,
        n_labels=None if validation is None else validation.labels.size,
        iterations=estimate.iterations,
        last_change=estimate.last_change,
        converged=estimate.converged,
        negative_mass=estimate.negative_mass,
        conditioning=estimate.conditioning,
        calibration=None if fitted is None else (fitted.scale, fitted.bias),
        held_back=None if estimate.penalty is None else estimate.penalty.share,
    )


# ------------------------------------------------------------------- for scores in memory or chunks


@dataclass(frozen=True, eq=False)
class Estimate:
    """An estimated target prior, by any method, and what tells how reliable it is."""

    prior: NDArray[np.float64]
    conditioning: Conditioning | None
    negative_mass: float = 0.0
    iterations: int = 1
    last_change: float = 0.0
    remaining_change: float = 0.0
    penalty: PenaltyEffect | None = None
    n_samples: int | None = None

    @property
    def converged(self) -> bool:
        """Whether EM, or Newton's method after it, converged."""
        return self.remaining_change <= em.CHANGE_TOLERANCE

    def reliability_warnings(self) -> list[Text]:
        """Return what the user should be warned of."""
        n_classes = self.prior.size
        texts = [few_samples_warning(n_classes, self.n_samples)]
        if not self.converged:
            texts.append(convergence_warning(n_classes, self.iterations, self.remaining_change))
        # Beside a singular matrix there is nothing to compare a penalised solution with.
        texts.append(conditioning_warning(self.conditioning) or penalty_warning(self.penalty))
        return [text for text in texts if text]


@dataclass(frozen=True, eq=False)
class PriorEstimator:
    """Estimates target priors by one method; its arguments are checked, its calibration is fitted.

    The target's scores may be in memory or come in chunks: an estimate by moments needs the sum of
    the predictions on them, and one by EM a likelihood that can be evaluated again and again.

    Attributes
    ----------
    source_prior : ndarray of shape (K,)
        P_s.
    method, kind, class_axis
        As in :func:`estimate_target_prior`.
    calibration : callable or None
        The calibration of the target's log-scores.
    validation : Validation or None
        The validation samples: calibrated log-scores for EM, predictions for all other methods.
    fitted : AffineCalibration or None
        ``calibration``, where it was fitted to the validation labels.
    """

    source_prior: NDArray[np.float64]
    method: str
    kind: str
    class_axis: int
    calibration: Calibration | None
    validation: Validation[Any] | None = None
    fitted: AffineCalibration | None = None

    def log_scores(self, scores: Any) -> NDArray[Any]:
        """Return calibrated log-scores (N, K), which EM needs."""
        return read_log_scores(
            scores,
            self.source_prior.size,
            kind=self.kind,
            class_axis=self.class_axis,
            calibration=self.calibration,
        )

    def predictions(self, scores: Any, *, summed: bool = True) -> Predictions:
        """Return predictions on scores, which all other methods need."""
        return read_predictions(
            scores,
            self.source_prior.size,
            kind=self.kind,
            class_axis=self.class_axis,
            calibration=self.calibration,
            soft=self.method.endswith("soft"),
            summed=summed,
        )

    def by_likelihood(self, likelihood: Likelihood) -> Estimate:
        """Return the prior of the largest likelihood of the target's samples."""
        result = maximum_likelihood(likelihood, self.source_prior)
        matrix_conditioning = None
        if self.validation is not None:
            labels = self.validation.labels
            predicted = predict(self.validation.rows, soft=True)
            matrix_conditioning = conditioning(predicted, labels, predicted.class_means(labels))
        return Estimate(
            prior=result.priors[0],
            conditioning=matrix_conditioning,
            iterations=int(result.iterations[0]),
            last_change=float(result.last_change[0]),
            remaining_change=float(result.remaining_change[0]),
            n_samples=len(likelihood),
        )

    def by_moments(self, total: Vector) -> Estimate:
        """Return the prior that explains the sum (K,) of the predictions on the target."""
        assert self.validation is not None  # noqa: S101 - checked where the arguments are
        predicted, labels = self.validation
        moments = Moments(total / total.sum(), predicted.class_means(labels), labels.size)
        solution = self.solve(moments, self.source_prior)
        prior = clipped_prior(solution, self.source_prior)
        is_penalised = self.solve is rlls
        return Estimate(
            prior=prior,
            conditioning=conditioning(predicted, labels, moments.confusion),
            negative_mass=float(-np.minimum(solution, 0.0).sum()),
            penalty=penalty_effect(prior, moments, self.source_prior) if is_penalised else None,
            n_samples=round(float(total.sum())),
        )

    @property
    def solve(self) -> Any:
        """The function that solves moments for a prior."""
        return rlls if self.method.startswith("rlls") else bbse


def prepare_estimator(
    source_prior: Any,
    *,
    method: str,
    kind: str,
    validation: Any,
    calibration: Any,
    class_axis: int,
    ignore_index: int | None,
    columns: list[Any] | None = None,
) -> PriorEstimator:
    """Check the arguments, read the validation samples, and fit the calibration that EM needs.

    ``columns`` are the names of the target's columns, if they have names.
    """
    check_choice("method", method, METHODS)
    check_kind(kind)
    if validation is None and method != "em":
        raise OptionError(
            argument="validation",
            rule=[
                "must be (scores, labels) for ",
                Setting("method", method),
                ", which learns from them how the model sees each class",
            ],
            got="None",
            remedy=["Pass labelled scores, or ", Setting("method", "em"), "."],
        )
    source = as_prior(source_prior, name="source_prior", classes=columns)
    refuse_reordered(
        columns,
        validation_columns(validation),
        name="scores",
        of=Argument("validation", (0,)),
    )
    given = as_calibration(calibration, source.size)
    estimator = PriorEstimator(source, method, kind, class_axis, given)
    if validation is None:
        return estimator
    read = estimator.log_scores if method == "em" else partial(estimator.predictions, summed=False)
    with each_warning_once():
        samples = read_validation(
            validation, source.size, read, class_axis=class_axis, ignore_index=ignore_index
        )
        if method != "em" or given is not None:
            return replace(estimator, validation=samples)
        fitted = fit_calibration(samples, source)
    calibrated = samples._replace(rows=fitted(samples.rows))
    return replace(estimator, calibration=fitted, validation=calibrated, fitted=fitted)
