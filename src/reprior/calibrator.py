"""PosteriorCalibrator: tune the strength on labelled scores, then re-calibrate any others."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from reprior.core.arrays import namespace, to_numpy
from reprior.core.binary import is_single_score
from reprior.core.prior import as_target_prior, slopes
from reprior.core.rebalance import log_rebalance, rebalance
from reprior.encoding import (
    as_mapping,
    check_options,
    encode,
    is_range,
    score_array,
    state_problem,
)
from reprior.exceptions import NotFittedError
from reprior.files.calibrators import write_calibrator
from reprior.metrics.count_metrics import CountMetric
from reprior.summary import metric_name, summary_text
from reprior.tuning.objective import Best
from reprior.tuning.problem import Problem
from reprior.tuning.profile import StrengthProfile

__all__ = ["PosteriorCalibrator"]

Vector: TypeAlias = np.ndarray[Any, Any]
Self = TypeVar("Self", bound="PosteriorCalibrator")


class PosteriorCalibrator:
    r"""Re-sets the prior of a trained classifier, with the strength tuned on labelled scores.

    .. math:: P_f(k|x) ∝ \exp\bigl((z_k(x) + λ\,w_k) / T\bigr), \qquad
        w_k = \log P_t(k) - \log P_s(k)

    with the model's log-scores z, the source prior P_s it was trained on, the target prior P_t it
    is to be used on, the strength λ and the temperature T. λ maximises a metric over the
    continuum of strengths: the exact optimum, from one pass over the scores.

    Parameters
    ----------
    source_prior : array-like of shape (K,), {class: probability}, or a pandas series by class
        P_s, the class distribution *as the model saw it in training*: counts times class or
        sampling weights. See :func:`reprior.prior_from_counts`.
    target_prior : "uniform", array-like of shape (K,), or {class: probability}
        P_t, the class distribution to decide for.
    metric : str or CountMetric, default "balanced_accuracy"
        What λ maximises: ``accuracy``, ``balanced_accuracy``, ``mean_iou``,
        ``macro_precision``, ``macro_recall``, ``macro_f1``, or one class's, such as
        ``"recall[3]"``.
    subject_to : str or sequence of str, optional
        Constraints on other metrics, such as ``"accuracy >= baseline - 0.01"``; the baseline is
        the uncorrected model. They are judged on the tuning labels as they are: where those are
        balanced and the accuracy under the training mix is meant, weight them by the prior,
        ``sample_weight=source_prior[labels]``.
    tune : {"strength"}
        What is tuned: one strength for all classes.
    selection : {"max"}
        How λ is chosen from the profile: the middle of the interval of the largest value.
    temperature : float, "fit" or None, default None
        T: a number; or fitted by log-loss at the chosen strength, with the labels weighted from
        ``label_prior`` to the target prior, so judge it on that mix; or 1. It divides the
        correction too: the same posterior is
        ``rebalance(…, strength=strength_ / temperature_, temperature=temperature_)``.
    label_prior : array-like of shape (K,), optional
        What the tuning labels follow, for the fit of the temperature. Their own frequencies
        where it is not given.
    bounds : (float, float), default (0, 2)
        Strengths to search. Where the best lies at the upper bound, that is doubled, up to 8.
    kind : {"logits", "probs", "log_probs"}, default "logits"
        What the scores are. It is never guessed.
    class_axis : int, default -1
        The axis of the classes in the scores.
    classes : sequence, optional
        The class names in the order of the scores, where labels are not 0 … K−1. Without them
        names are taken from a frame's columns, or sorted as scikit-learn sorts its classes.
    ignore_index : optional
        A label that marks samples to leave out.
    cv : None
        Reserved: the strength is tuned on all labels given.
    random_state : int or None
        Reserved for selections that draw at random; none does yet.

    Attributes
    ----------
    strength_ : float
        The chosen λ.
    strength_interval_ : (float, float)
        Strengths that do equally well on the tuning labels.
    temperature_ : float
        T.
    best_score_ : float
        The metric at ``strength_`` *on the tuning labels*: judge the calibrator on others.
    profile_ : StrengthProfile
        All counts for all strengths. None after :func:`reprior.load` and :meth:`retarget`.
    provenance_ : dict or None
        What it was tuned on, ``{"digest": …, "n_samples": …}``, where
        :func:`reprior.engines.fit` tuned it; None after :meth:`fit`.
    source_prior_, target_prior_ : ndarray of shape (K,)
        The priors as used.
    classes_ : ndarray of shape (K,)
        The classes in the order of the scores.

    References
    ----------
    .. [1] Tian, Liu, Glaser, Hsu, Kira. "Posterior Re-calibration for Imbalanced Datasets",
       NeurIPS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> import reprior as rp
    >>> logits = np.array([[2.0, 0.0], [1.0, 0.0], [0.4, 0.0], [0.0, 1.0]])
    >>> calibrator = rp.PosteriorCalibrator(rp.prior_from_counts([80, 20]))
    >>> round(calibrator.fit(logits, [0, 0, 1, 1]).strength_, 3)
    0.505
    >>> calibrator.predict(logits)
    array([0, 0, 1, 1])
    >>> calibrator.predict_proba(logits[2:3]).round(3)
    array([[0.426, 0.574]])
    """

    strength_: float
    strength_interval_: tuple[float, float]
    temperature_: float
    best_score_: float
    profile_: StrengthProfile | None
    provenance_: dict[str, Any] | None = None
    source_prior_: Vector
    target_prior_: Vector
    classes_: Vector

    def __init__(
        self,
        source_prior: Any,
        *,
        target_prior: Any = "uniform",
        metric: str | CountMetric = "balanced_accuracy",
        subject_to: str | Sequence[str] | None = None,
        tune: str = "strength",
        selection: str = "max",
        temperature: float | Literal["fit"] | None = None,
        label_prior: Any = None,
        bounds: tuple[float, float] = (0.0, 2.0),
        kind: str = "logits",
        class_axis: int = -1,
        classes: Any = None,
        ignore_index: Any = None,
        cv: None = None,
        random_state: int | None = None,
    ) -> None:
        self.source_prior = source_prior
        self.target_prior = target_prior
        self.metric = metric
        self.subject_to = subject_to
        self.tune = tune
        self.selection = selection
        self.temperature = temperature
        self.label_prior = label_prior
        self.bounds = bounds
        self.kind = kind
        self.class_axis = class_axis
        self.classes = classes
        self.ignore_index = ignore_index
        self.cv = cv
        self.random_state = random_state

    def fit(self: Self, scores: Any, labels: Any, sample_weight: Any = None) -> Self:
        """Tune the strength on labelled scores that the model was not trained on.

        Parameters
        ----------
        scores : array of shape (N, K), (N, K, H, W), … or (N,); or a frame with a column per class
            The model's outputs.
        labels : array, series or list
            Class indices, or names from ``classes``; the scores' shape without the class axis.
        sample_weight : array of the labels' shape, optional
            A weight per sample.
        """
        check_options(self)
        data, terms = encode(self, scores, labels, sample_weight)
        problem = state_problem(self, terms)
        best, profile = problem.search(data.profile)
        temperature = problem.temperature
        if temperature == "fit":
            temperature = data.temperature(best.strength, problem.label_prior)
        problem.warn_of_absent(profile)
        self._adopt(problem, best, profile, temperature)
        return self

    def predict_log_proba(self, scores: Any) -> Any:
        """Return the log-posterior of every class, of the scores' shape, library and dtype."""
        return log_rebalance(self._scores(scores), self.source_prior_, **self._map)

    def predict_proba(self, scores: Any) -> Any:
        """Return the posterior of every class, of the scores' shape, library and dtype.

        For two classes and one score per sample, the probability of the second class. A strength
        tuned for decisions need not give honest probabilities: with ``temperature="fit"`` the
        decisions stay and the probabilities are fitted to the labels.
        """
        return rebalance(self._scores(scores), self.source_prior_, **self._map)

    def predict(self, scores: Any) -> Any:
        """Return the class of the largest posterior: indices, or names where there are names.

        Indices come as an array of the scores' library, names as NumPy.
        """
        posterior = self.predict_proba(scores)
        xp = namespace(posterior)
        if is_single_score(posterior.shape, self.source_prior_.size, self.class_axis):
            index = xp.astype(posterior > 1 - posterior, xp.int64)
            index = index if index.ndim == 1 else xp.squeeze(index, axis=self.class_axis)
        else:
            index = xp.argmax(posterior, axis=self.class_axis)
        return index if is_range(self.classes_) else self.classes_[to_numpy(index)]

    def retarget(self: Self, target_prior: Any) -> Self:
        """Return a calibrator for another deployment mix: the same strength, no refit.

        Parameters
        ----------
        target_prior : "uniform", array-like of shape (K,), or {class: probability}
            The new P_t.
        """
        self._check_fitted()
        other = copy.copy(self)
        other.target_prior = target_prior
        other.target_prior_ = as_target_prior(
            as_mapping(target_prior),
            n_classes=self.source_prior_.size,
            classes=self.classes_.tolist(),
        )
        other.profile_, other.best_score_ = None, math.nan
        return other

    def uncorrected(self: Self) -> Self:
        """Return a calibrator that leaves the model as it is: strength 0 and temperature 1.

        It stands for "before" where this one is judged.
        """
        self._check_fitted()
        other = copy.copy(self)
        other.strength_, other.strength_interval_, other.temperature_ = 0.0, (0.0, 0.0), 1.0
        other.profile_, other.best_score_, other.provenance_ = None, math.nan, None
        return other

    def as_affine(self) -> tuple[float, Vector]:
        """Return (scale, bias) so that ``softmax(scale·z + bias)`` is the posterior of scores z.

        For probabilities, z is their logarithm. The bias is (K,), −inf for a class of target
        prior 0.
        """
        self._check_fitted()
        with np.errstate(invalid="ignore"):
            bias = (
                self.strength_ / self.temperature_ * slopes(self.source_prior_, self.target_prior_)
            )
        return 1.0 / self.temperature_, np.nan_to_num(bias, nan=0.0, neginf=-np.inf)

    def summary(self) -> str:
        """Return what was tuned, and every count metric before and after, as text."""
        self._check_fitted()
        return summary_text(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibrator to a JSON file, atomically. :func:`reprior.load` reads it."""
        self._check_fitted()
        write_calibrator(
            path,
            {
                "strength": self.strength_,
                "temperature": self.temperature_,
                "source_prior": self.source_prior_.tolist(),
                "target_prior": self.target_prior_.tolist(),
                "kind": self.kind,
                "metric": metric_name(self.metric),
                "classes": None if is_range(self.classes_) else self.classes_.tolist(),
                "class_axis": self.class_axis,
                "strength_interval": list(self.strength_interval_),
                "best_score": None if math.isnan(self.best_score_) else self.best_score_,
                "provenance": self.provenance_,
            },
        )

    def __repr__(self) -> str:
        state = f"strength_={self.strength_:.4g}" if hasattr(self, "strength_") else "not fitted"
        return (
            f"PosteriorCalibrator(metric={metric_name(self.metric)!r}, kind={self.kind!r}, {state})"
        )

    def _scores(self, scores: Any) -> Any:
        self._check_fitted()
        return score_array(scores, None if is_range(self.classes_) else self.classes_)

    @property
    def _map(self) -> dict[str, Any]:
        """Options of ``rebalance``. Decisions are those of ``strength_`` at any temperature."""
        return {
            "target_prior": self.target_prior_,
            "strength": self.strength_ / self.temperature_,
            "temperature": self.temperature_,
            "kind": self.kind,
            "class_axis": self.class_axis,
        }

    def _check_fitted(self) -> None:
        if not hasattr(self, "strength_"):
            raise NotFittedError(
                "This PosteriorCalibrator is not fitted. Call fit(scores, labels), or "
                "reprior.load(path), first."
            )

    def _adopt(
        self,
        problem: Problem,
        best: Best,
        profile: StrengthProfile,
        temperature: float,
        provenance: dict[str, Any] | None = None,
    ) -> None:
        """Become fitted: all at once, so that a fit that fails changes nothing."""
        self.classes_, self.profile_ = problem.classes, profile
        self.source_prior_, self.target_prior_ = problem.source_prior, problem.target_prior
        self.strength_, self.strength_interval_ = best.strength, best.interval
        self.best_score_, self.temperature_ = best.value, float(temperature)
        self.provenance_ = provenance
