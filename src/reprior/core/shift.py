r"""The target prior of unlabelled scores: how much of each class there is where a model is used.

The only thing that is assumed is that classes look the same there as in training: P(x|y) is
unchanged, and P(y) alone has shifted.
"""

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reprior.core import shift_bootstrap, shift_em
from reprior.core.checks import check_choice, check_finite_number, check_kind
from reprior.core.prior import as_prior
from reprior.core.shift_bootstrap import Progress
from reprior.core.shift_calibration import fitted_calibration
from reprior.core.shift_doubts import Held, held_back, of_conditioning, of_penalty, of_rest
from reprior.core.shift_moments import (
    Conditioning,
    Predicted,
    bbse,
    conditioning,
    moments,
    predictions,
    truncated,
)
from reprior.core.shift_newton import most_likely
from reprior.core.shift_recalibration import recalibrated
from reprior.core.shift_report import TargetPriorReport
from reprior.core.shift_rlls import rlls
from reprior.core.shift_rows import Validation, as_calibration, labelled_rows, log_rows
from reprior.exceptions import OptionError, RepriorWarning

__all__ = ["METHODS", "estimate_target_prior", "estimate_target_prior_report"]

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
    P_t the target prior, from P_t = P_s on until it stands still. This is the EM algorithm for
    the likelihood of the N samples,
    :math:`\sum_i \log \sum_k P_d(k|x_i)\, P_t(k) / P_s(k)`, which is concave in P_t: where it
    ends is the maximum; where it crawls, Newton's method goes the rest of the way [6]_. It needs
    no labels and is the most precise of all where the model's probabilities are right. With
    ``validation`` they are made so first, by a bias-corrected temperature [5]_.

    **BBSE.** The solution of :math:`M P_t = μ`, where :math:`M_{ij}` is how often class i is
    predicted for validation samples of class j, and μ_i how often it is predicted on the target;
    negative entries are made 0, and the sum 1. The model may be as miscalibrated as it likes:
    M knows. ``"bbse_soft"`` takes mean probabilities in place of the frequencies of predictions.
    Where M is singular, such as where a class is never predicted, the solution nearest to P_s.

    **RLLS.** The same with a penalty on the weights :math:`1 + θ = P_t / P_s`,

    .. math:: \min_{θ ≥ -1} ‖C θ - b‖_2 + ρ ‖θ‖_2, \qquad C = M \operatorname{diag}(P_s), \quad
        b = μ - M P_s

    with :math:`ρ = 0.03\,(2 l / (3n) + \sqrt{2 l / n})`, :math:`l = \log(2K / 0.05)` and n
    validation labels; for few labels, and classes that are hard to tell apart. Where these are
    told apart well it is BBSE: neither norm is squared, so a small ρ changes nothing.

    Parameters
    ----------
    scores : array of shape (..., K, ...)
        The model's outputs on unlabelled data of the deployment. For two classes also one score
        per sample, that of class 1: shape (N,), or 1 on the class axis.
    source_prior : array-like of shape (K,)
        P_s, positive, sums to 1: what the model was trained on.
    method : {"em", "bbse", "bbse_soft", "rlls", "rlls_soft"}, default "em"
        How P_t is estimated.
    kind : {"logits", "probs", "log_probs"}, default "logits"
        What the scores are.
    validation : (scores, labels), optional
        Labelled scores that the model was not trained on, of the same kind and axes; every class
        has labels, in any mix. "em" fits a calibration to them, unless there is one; all other
        methods need them.
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
        Where EM, and up to 256 classes Newton's method after it, has not come to rest; where M is
        singular for all that the labels say.

    See Also
    --------
    estimate_target_prior_report : the same with intervals, convergence and conditioning.

    References
    ----------
    .. [1] Saerens, Latinne, Decaestecker. "Adjusting the Outputs of a Classifier to New a Priori
       Probabilities: A Simple Procedure", Neural Computation 14(1), 2002: Eqs. 2.9.
    .. [2] Varadhan, Roland. "Simple and Globally Convergent Methods for Accelerating the
       Convergence of Any EM Algorithm", Scandinavian Journal of Statistics 35, 2008: the steps
       that skip ahead.
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

    On ten labelled samples each it finds the first class every time, and the second 8 times:

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
    problem = _problem(
        scores, source_prior, method, kind, validation, calibration, class_axis, ignore_index
    )
    estimate = _solved(problem)
    for sentence in estimate.doubts():
        warnings.warn(sentence, RepriorWarning, stacklevel=2)
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
    """Return the prior of :func:`estimate_target_prior`, and how far it can be trusted.

    Intervals are percentiles of bootstrap replicates: target samples are drawn again with
    replacement, validation samples within each class. They are for the population that the target
    samples were drawn from, one class at a time, and assume that samples are drawn independently:
    the pixels of an image are not, and intervals from them are too narrow. A calibration that EM
    fits is fitted again in every replicate, up to 256 classes; one that is given is taken as it
    is. RLLS's intervals are those of an estimate that is held near the source prior.

    Parameters
    ----------
    scores, source_prior, method, kind, validation, calibration, class_axis, ignore_index
        As in :func:`estimate_target_prior`.
    confidence : float, default 0.9
        Of the intervals, between 0 and 1.
    n_replicates : int, default 200
        Bootstrap replicates.
    random_state : int or numpy Generator, default 0
        What draws them. The same seed gives the same intervals.
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
    convergence  at rest after 14 passes (last change ...)
    <BLANKLINE>
    class   source   target   90 % interval
    cat     0.5000   0.1250   0.0500 to 0.2000
    dog     0.5000   0.8750   0.8000 to 0.9500
    """
    level = check_finite_number("confidence", confidence, positive=True, hint="Pass 0.9.")
    if level >= 1:
        raise OptionError(
            f"`confidence` must be below 1. Got {level:g}. Pass 0.9 for intervals of 90 %."
        )
    if isinstance(n_replicates, bool) or int(n_replicates) != n_replicates or n_replicates < 2:
        raise OptionError(
            f"`n_replicates` must be an integer of at least 2. Got {n_replicates!r}. Pass 200."
        )
    problem = _problem(
        scores, source_prior, method, kind, validation, calibration, class_axis, ignore_index
    )
    estimate = _solved(problem)
    for sentence in estimate.doubts():
        warnings.warn(sentence, RepriorWarning, stacklevel=2)
    rng = np.random.default_rng(random_state)
    found = estimate.replicates(
        problem, int(n_replicates), rng, progress or shift_bootstrap.ignored
    )
    return estimate.report(problem, level, found)


class _Problem(NamedTuple):
    """Checked arguments: log-scores of the target, and of validation samples with their labels."""

    rows: NDArray[Any]
    source: NDArray[np.float64]
    method: str
    labelled: Validation | None
    calibration: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None


def _problem(
    scores: Any,
    source_prior: Any,
    method: str,
    kind: str,
    validation: Any,
    calibration: Any,
    class_axis: int,
    ignore_index: int | None,
) -> _Problem:
    """Check the arguments and read the scores."""
    check_choice("method", method, METHODS)
    check_kind(kind)
    if validation is None and method != "em":
        raise OptionError(
            f"`validation` must be (scores, labels) for method={method!r}, which learns from them "
            f"how the model sees each class. Got None. Pass labelled scores, or method='em'."
        )
    source = as_prior(source_prior, name="source_prior")
    how = as_calibration(calibration, source.size)
    rows = log_rows(scores, source.size, kind=kind, class_axis=class_axis, calibration=how)
    if validation is None:
        return _Problem(rows, source, method, None)
    labelled = labelled_rows(
        validation, source.size, kind=kind, class_axis=class_axis, calibration=how,
        ignore_index=ignore_index,
    )  # fmt: skip
    if method != "em" or how is not None:
        return _Problem(rows, source, method, labelled)
    fitted = fitted_calibration(labelled, source)
    labelled = labelled._replace(rows=fitted(labelled.rows))
    return _Problem(fitted(rows), source, method, labelled, (fitted.scale, fitted.bias))


@dataclass(frozen=True, eq=False)
class _Estimate:
    """What was found, by any method."""

    prior: NDArray[np.float64]
    conditioning: Conditioning | None
    negative_mass: float = 0.0
    iterations: int = 1
    last_change: float = 0.0
    left: float = 0.0
    likelihood: shift_em.Likelihood | None = None
    predicted: tuple[Predicted, ...] = ()
    held: Held | None = None

    @property
    def converged(self) -> bool:
        return self.left <= shift_em.CHANGE_TOLERANCE

    def doubts(self) -> list[str]:
        """Return what the user should know."""
        rest = "" if self.converged else of_rest(self.prior.size, self.iterations, self.left)
        # Beside a singular matrix there is nothing to compare a penalised solution with.
        of_moments = of_conditioning(self.conditioning) or of_penalty(self.held)
        return [sentence for sentence in (rest, of_moments) if sentence]

    def replicates(
        self, problem: _Problem, n: int, rng: np.random.Generator, progress: Progress
    ) -> NDArray[np.float64]:
        if self.likelihood is not None:
            seen, few = None, problem.source.size <= shift_bootstrap.MOST_CLASSES
            if few and problem.calibration is not None and problem.labelled is not None:
                seen = recalibrated(problem.labelled, problem.source, n, rng)
            return shift_bootstrap.em_replicates(
                self.likelihood, self.prior, problem.source, n, rng, seen=seen, progress=progress
            )
        assert problem.labelled is not None  # noqa: S101 - all methods but EM have labels
        solve = rlls if problem.method.startswith("rlls") else bbse
        target, source = self.predicted
        labels = problem.labelled.labels
        return shift_bootstrap.moment_replicates(
            target, source, labels, solve, problem.source, n, rng, progress=progress
        )

    def report(
        self, problem: _Problem, confidence: float, replicates: NDArray[np.float64]
    ) -> TargetPriorReport:
        return TargetPriorReport(
            prior=self.prior,
            intervals=shift_bootstrap.intervals(replicates, confidence),
            confidence=confidence,
            replicates=replicates,
            source_prior=problem.source,
            method=problem.method,
            n_samples=len(problem.rows),
            n_labels=None if problem.labelled is None else problem.labelled.labels.size,
            iterations=self.iterations,
            last_change=self.last_change,
            converged=self.converged,
            negative_mass=self.negative_mass,
            conditioning=self.conditioning,
            calibration=problem.calibration,
            held_back=None if self.held is None else self.held.share,
        )


def _solved(problem: _Problem) -> _Estimate:
    return _by_em(problem) if problem.method == "em" else _by_moments(problem)


def _by_em(problem: _Problem) -> _Estimate:
    likelihood = shift_em.Likelihood(problem.rows, problem.source)
    found = most_likely(likelihood, problem.source)
    known = None
    if problem.labelled is not None:
        seen = predictions(problem.labelled.rows, soft=True)
        labels = problem.labelled.labels
        known = conditioning(seen, labels, seen.class_means(labels))
    return _Estimate(
        prior=found.priors[0],
        conditioning=known,
        iterations=int(found.iterations[0]),
        last_change=float(found.change[0]),
        left=float(found.left[0]),
        likelihood=likelihood,
    )


def _by_moments(problem: _Problem) -> _Estimate:
    labelled = problem.labelled
    assert labelled is not None  # noqa: S101 - checked where the arguments are
    soft = problem.method.endswith("soft")
    target, seen = (predictions(rows, soft=soft) for rows in (problem.rows, labelled.rows))
    found = moments(target, seen, labelled.labels)
    solve = rlls if problem.method.startswith("rlls") else bbse
    solution = solve(found, problem.source)
    prior = truncated(solution, problem.source)
    return _Estimate(
        prior=prior,
        conditioning=conditioning(seen, labelled.labels, found.confusion),
        negative_mass=float(-np.minimum(solution, 0.0).sum()),
        predicted=(target, seen),
        held=held_back(prior, found, problem.source) if solve is rlls else None,
    )
