"""PosteriorCalibrator: tune the strength on labelled scores, then re-calibrate any others."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from reprior._warnings import warn
from reprior.calibrator.encoding import as_mapping, cost_array, encode, is_range, score_array
from reprior.calibrator.fitting import Tuned, tuned
from reprior.calibrator.forecast import Confusions, Forecast, forecast_scores
from reprior.calibrator.options import (
    check_map,
    check_options,
    full_problem,
    is_log_loss,
    seed_of,
)
from reprior.calibrator.summary import metric_name, summary_html, summary_text
from reprior.core.arrays import is_traced, to_numpy
from reprior.core.checks import check_choice
from reprior.core.decision import decide
from reprior.core.prior import as_target_prior
from reprior.core.rebalance import strength_text
from reprior.core.score_map import ScoreMap
from reprior.exceptions import NotFittedError, OptionError, Setting, escaped_lines
from reprior.metrics.count_metrics import CountMetric
from reprior.metrics.counts import ClassCounts
from reprior.profile.profile import StrengthProfile
from reprior.profile.source import AUTO_BINS, EXACT, InMemory
from reprior.tuning.crossval import CrossValidation
from reprior.tuning.problem import DEFAULT_SELECTION, Problem
from reprior.tuning.uncertainty import Uncertainty

__all__ = [
    "Fitted",
    "PosteriorCalibrator",
]

Vector: TypeAlias = np.ndarray[Any, Any]

Self = TypeVar("Self", bound="PosteriorCalibrator")
FittedSelf = TypeVar("FittedSelf", bound="Fitted")


class Fitted:
    """The state of a calibrator after a fit: one map, or two, and the results of the fit."""

    kind: str
    class_axis: int

    strength_: float
    strength_interval_: tuple[float, float]
    temperature_: float
    biases_: Vector | None = None
    scales_: Vector | None = None
    probability_map_: ScoreMap | None = None
    shrinkage_: float | None = None
    best_score_: float
    log_loss_: tuple[float, float] | None = None
    counts_: ClassCounts | None = None
    profile_: StrengthProfile | None
    cross_validation_: CrossValidation | None = None
    uncertainty_: Uncertainty | None = None
    certified_: bool = False
    provenance_: dict[str, Any] | None = None
    _lost_function: bool = False
    _model: str = ""
    """What the scores are those of, where an estimator trained the model itself."""
    """Whether the metric was a function, which the file that this was loaded from cannot hold."""
    source_prior_: Vector
    target_prior_: Vector
    classes_: Vector
    _confusions: Confusions | None = None
    """Tuning samples by class and decision, before and after, for :meth:`forecast`."""
    _whole: tuple[Vector, ScoreMap, ScoreMap | None] | None = None
    """Target prior and maps before a target prior of 0 removed a class and its bias."""

    def __new__(cls: type[FittedSelf], *_: Any, **options: Any) -> FittedSelf:
        """Refuse ``strength``, which users may expect as an option: a fit chooses it."""
        if "strength" in options:
            raise OptionError(
                argument="strength",
                rule="must be left out: fit(scores, labels) tunes it, as strength_",
                got=Setting("strength", options["strength"]),
                remedy="To apply a strength that is known, call reprior.rebalance(scores, "
                "source_prior, strength=…).",
            )
        return super().__new__(cls)

    @property
    def _fitted(self: FittedSelf) -> FittedSelf:
        """The calibrator; an error if it is not fitted."""
        if not hasattr(self, "strength_"):
            raise NotFittedError(
                "This PosteriorCalibrator is not fitted. Call fit(scores, labels), or "
                "reprior.load(path), first."
            )
        return self

    @property
    def _decision(self) -> ScoreMap:
        """The map for decisions, the only one without ``separate``."""
        return ScoreMap(self.strength_, self.temperature_, self.biases_, self.scales_)

    def _posterior(self, scores: Any, name: str | None, *, log: bool) -> Any:
        separate = self._fitted.probability_map_ is not None
        chosen = check_map(name, separate=separate, needed=False)
        score_map = self._decision
        if chosen == "probability" and self.probability_map_ is not None:
            score_map = self.probability_map_
        return score_map.posterior(
            score_array(scores, None if is_range(self.classes_) else self.classes_),
            self.source_prior_,
            self.target_prior_,
            kind=self.kind,
            class_axis=self.class_axis,
            log=log,
        )

    def _decided(self, scores: Any) -> Any:
        """Return the class index of the largest posterior, by the map for decisions."""
        return self._decision.decide(
            score_array(scores, None if is_range(self.classes_) else self.classes_),
            self.source_prior_,
            self.target_prior_,
            kind=self.kind,
            class_axis=self.class_axis,
        )

    def _named(self, index: Any) -> Any:
        if is_range(self.classes_):
            return index
        if is_traced(index):  # a Dask array: names are looked up when it is computed
            return index.map_blocks(self.classes_.__getitem__, dtype=self.classes_.dtype)
        return self.classes_[to_numpy(index)]

    def _hold(self, score_map: ScoreMap) -> None:
        """Set the map for decisions."""
        self.strength_, self.temperature_ = score_map.strength, float(score_map.temperature)
        self.biases_, self.scales_ = score_map.biases, score_map.scales
        self._whole = None

    def _forget(self) -> None:
        """Drop the results on the tuning data, which do not belong to the map any more."""
        self.profile_, self.best_score_, self.counts_ = None, math.nan, None
        self.log_loss_ = self.cross_validation_ = self.uncertainty_ = None
        self.certified_, self._confusions = False, None

    def _adopt(
        self, problem: Problem, result: Tuned, provenance: dict[str, Any] | None = None
    ) -> None:
        """Set all fitted attributes at once, so that a fit that fails changes nothing."""
        self.classes_, self.profile_ = problem.classes, result.profile
        self.source_prior_, self.target_prior_ = problem.source_prior, problem.target_prior
        self._hold(result.decision)
        self.probability_map_, self.shrinkage_ = result.probability, result.shrinkage
        self.strength_interval_, self.best_score_ = result.interval, result.value
        self.log_loss_, self.counts_ = result.log_loss, result.counts
        self._lost_function = False
        self.cross_validation_, self.uncertainty_ = result.cross_validation, result.uncertainty
        self.certified_, self.provenance_ = result.certified, provenance
        self._confusions = result.confusions


class PosteriorCalibrator(Fitted):
    r"""Re-sets the prior of a trained classifier, with the strength tuned on labelled scores.

    .. math:: P_f(k|x) ∝ \exp\bigl((z_k(x) + λ\,w_k) / T\bigr), \qquad
        w_k = \log P_t(k) - \log P_s(k)

    with the model's log-scores z, the source prior P_s it was trained on, the target prior P_t to
    decide for, the strength λ and the temperature T. λ maximises a metric over the
    continuum of strengths: the exact optimum, from one pass over the scores.

    Parameters
    ----------
    source_prior : array-like of shape (K,), {class: probability}, or a pandas series by class
        P_s, the class distribution *as the model saw it in training*: counts times class or
        sampling weights. See :func:`reprior.prior_from_counts`.
    target_prior : "uniform", array-like of shape (K,), or {class: probability}
        P_t, the class distribution to decide for. 0 rules a class out: it is never predicted, and
        tuning samples of it are left out.
    metric : str or CountMetric, default "balanced_accuracy"
        What λ maximises: ``accuracy``, ``balanced_accuracy``, ``mean_iou``,
        ``macro_precision``, ``macro_recall``, ``macro_f1``, ``mcc``, ``mean_dice_per_image`` and
        others, or one class's, such as ``"recall[3]"``; a :class:`reprior.Cost`, which is
        minimised; or :func:`reprior.metrics.from_confusion`. ``"log_loss"`` fits T and λ together
        for calibrated probabilities.
    subject_to : str or sequence of str, optional
        Constraints on other metrics, such as ``"accuracy >= baseline - 0.01"``; the baseline is
        the uncorrected model. They are evaluated on the tuning labels as they are. Where these are
        balanced, and you mean the accuracy under the training mix, weight them by the prior:
        ``sample_weight=source_prior[labels]``.
    certify : float, optional
        Promise the constraints: each holds on new data of the tuning labels' mix with this
        probability, such as 0.95, over the draw of the tuning labels. For constraints and samples
        as :meth:`reprior.StrengthProfile.best` says; the bounds are not widened.
    tune : {"strength", "per_class"}, default "strength"
        What is tuned: one strength for all classes; or, starting from the best strength, a bias for
        every class, see :func:`reprior.tune_per_class`.
    selection : str
        How λ is chosen from the profile. "max": 0 where no λ is better than the model as it is,
        else the middle of the interval of the largest value; "smooth", "bagged", "one_se", "shrunk"
        and "balanced_log_loss" give up a little of it for a λ that depends less on which samples
        the tuning labels are.
    temperature : float, "fit", "bcts", "vector" or None, default None
        T: a number; or fitted by log-loss at the chosen strength, with the labels weighted from
        ``label_prior`` to the target prior, so evaluate it on that mix; or 1. It divides the
        correction too: the same posterior is
        ``rebalance(…, strength=strength_ / temperature_, temperature=temperature_)``.
        "bcts" and "vector" fit a bias, or a scale and a bias, for every class by log-loss: for
        ``metric="log_loss"``, or with ``separate=True``.
    label_prior : array-like of shape (K,), optional
        The class mix of the tuning labels, for fits by log-loss only. Their own frequencies by
        default.
    separate : bool, default False
        Hold two maps: one for decisions, tuned for ``metric``, which :meth:`predict` uses; one for
        probabilities, fitted by log-loss, which :meth:`predict_proba` uses.
    bounds : (float, float), default (0, 2)
        Strengths to search. Where the best lies at or near the upper bound, that bound is doubled,
        up to 8, with a warning. For a fit by log-loss these are the strengths λ of
        softmax(z/T + λ·w), and ``strength_`` is T·λ, which may lie outside.
    kind : {"logits", "probs", "log_probs"}, default "logits"
        What the scores are. It is never guessed.
    class_axis : int, default -1
        The axis of the classes in the scores.
    classes : sequence, optional
        The class names in the order of the scores, where labels are not 0 … K−1. Without them
        names are taken from a frame's columns, or sorted, as scikit-learn sorts its classes, with a
        warning.
    class_groups : mapping of str to bool mask (K,) or classes, optional
        Groups of classes that ``metric`` and ``subject_to`` may name, as in ``"recall[few]"``, such
        as :func:`reprior.metrics.shot_groups` gives.
    ignore_index : optional
        A label that marks samples to leave out.
    cv : int, integer array of the labels' shape, splitter or pairs of indices, optional
        Also cross-validate: tune without a fold, evaluate on it. λ is still tuned on all labels.
    n_bootstrap : int, default 0
        Bootstrap replicates for intervals of λ, of the metric and of its gain; 1000 are enough.
    random_state : int, numpy Generator or None
        The seed of folds and replicates. None is 0: the same data give the same calibrator.

    Attributes
    ----------
    strength_ : float
        The chosen λ.
    strength_interval_ : (float, float)
        Strengths that do equally well on the tuning labels.
    temperature_ : float
        T.
    biases_ : ndarray of shape (K,) or None
        Added to the log-scores instead of λ·w, where biases are tuned or fitted per class.
    scales_ : ndarray of shape (K,) or None
        The factors of the log-scores, with ``temperature="vector"``.
    probability_map_ : ScoreMap or None
        The map for probabilities, with ``separate=True``; all of the above then belongs to the map
        for decisions.
    shrinkage_ : float or None
        How strongly the biases are shrunk towards the best strength, in labels; inf: completely.
    best_score_ : float
        The metric *on the tuning labels*: evaluate the calibrator on others. A log-loss is better
        when smaller.
    log_loss_ : (float, float) or None
        The log-loss before and after on the tuning labels, weighted to the target prior, where
        probabilities were fitted.
    counts_ : ClassCounts or None
        The counts of the decisions on the tuning labels.
    profile_ : StrengthProfile
        All counts for all strengths.
    cross_validation_ : CrossValidation or None
        The metric on samples that were not tuned on, where ``cv`` is given.
    uncertainty_ : Uncertainty or None
        Intervals that cover 90 %, where ``n_bootstrap`` is given.
    certified_ : bool
        Whether ``subject_to`` is promised with the probability ``certify``. A file keeps the
        promise; :meth:`retarget` ends it, as decisions change.
    provenance_ : dict or None
        The tuning data, ``{"digest": …, "n_samples": …}``, where :func:`reprior.engines.fit` tuned
        it, with ``"left_out"`` where files could not be read; None after :meth:`fit`.
    source_prior_, target_prior_ : ndarray of shape (K,)
        The priors as used.
    classes_ : ndarray of shape (K,)
        The classes in the order of the scores.

    Notes
    -----
    ``log_loss_``, ``counts_``, ``profile_``, ``cross_validation_`` and ``uncertainty_`` are None
    after :func:`reprior.load` and :meth:`retarget`.

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

    def __init__(
        self,
        source_prior: Any,
        *,
        target_prior: Any = "uniform",
        metric: str | CountMetric = "balanced_accuracy",
        subject_to: str | Sequence[str] | None = None,
        certify: float | None = None,
        tune: str = "strength",
        selection: str = DEFAULT_SELECTION,
        temperature: float | Literal["fit", "bcts", "vector"] | None = None,
        label_prior: Any = None,
        separate: bool = False,
        bounds: tuple[float, float] = (0.0, 2.0),
        kind: str = "logits",
        class_axis: int = -1,
        classes: Any = None,
        class_groups: Any = None,
        ignore_index: Any = None,
        cv: Any = None,
        n_bootstrap: int = 0,
        random_state: Any = None,
    ) -> None:
        self.source_prior = source_prior
        self.target_prior = target_prior
        self.metric = metric
        self.subject_to = subject_to
        self.certify = certify
        self.tune = tune
        self.selection = selection
        self.temperature = temperature
        self.label_prior = label_prior
        self.separate = separate
        self.bounds = bounds
        self.kind = kind
        self.class_axis = class_axis
        self.classes = classes
        self.class_groups = class_groups
        self.ignore_index = ignore_index
        self.cv = cv
        self.n_bootstrap = n_bootstrap
        self.random_state = random_state

    def fit(
        self: Self,
        scores: Any,
        labels: Any,
        sample_weight: Any = None,
        *,
        image_ids: Any = None,
    ) -> Self:
        """Tune the strength on labelled scores that the model was not trained on.

        Parameters
        ----------
        scores : array of shape (N, K), (N, K, H, W), … or (N,); or a frame with a column per class
            The model's outputs. Dask arrays and dataframes are processed where their chunks are, in
            one round of tasks per pass.
        labels : array, series or list
            Class indices, or names from ``classes``; the scores' shape without the class axis.
        sample_weight : array of the labels' shape, optional
            A weight per sample.
        image_ids : integer array, optional
            The image of every sample, for metrics per image: of the labels' shape, or of their
            first axis. Without it every entry of the first axis of maps is an image.
        """
        check_options(self)
        source, terms = encode(self, scores, labels, sample_weight, image_ids)
        problem = full_problem(self, terms)
        bins = EXACT if isinstance(source, InMemory) else AUTO_BINS
        result = tuned(problem, source, bins=bins)
        if result.profile.resolution is not None:
            result.warnings.append(
                f"There are more than {bins.exact_up_to} switches, too many to keep: they are "
                f"summed in bins of {bins.resolution:g}. To keep each, call "
                f"reprior.engines.dask_fit(calibrator, (scores, labels), resolution=None)."
            )
        result.warn()
        self._adopt(problem, result)
        return self

    def predict_log_proba(self, scores: Any, *, map: str | None = None) -> Any:
        """Return the log-posterior of every class, of the scores' shape, library and dtype.

        Parameters
        ----------
        scores : array, or a frame with a column per class
            The model's outputs.
        map : {"decision", "probability"}, optional
            With ``separate=True``, the map to use; the one for probabilities by default.
        """
        return self._posterior(scores, map, log=True)

    def predict_proba(self, scores: Any, *, map: str | None = None) -> Any:
        """Return the posterior of every class, of the scores' shape, library and dtype.

        For two classes and one score per sample, the probability of the second class. A strength
        tuned for decisions need not give calibrated probabilities: with ``temperature="fit"`` the
        decisions stay and the probabilities are fitted to the labels; with ``separate=True`` the
        probabilities have another map. Parameters are those of :meth:`predict_log_proba`.
        """
        return self._posterior(scores, map, log=False)

    def predict(self, scores: Any, *, costs: Any = None) -> Any:
        """Return the class of the largest posterior: indices, or names where there are names.

        Indices are an array of the scores' library, names a NumPy array. 16-bit scores are decided
        before the posterior is rounded to 16 bits, as fit counts them.

        Parameters
        ----------
        scores : array, or a frame with a column per class
            The model's outputs.
        costs : array-like of shape (K, D), optional
            ``costs[true, decided]``: return the decision of least expected cost under the
            probabilities instead, see :func:`reprior.decide`. Columns are the classes; where there
            are more or fewer columns than classes, the column's index is returned. Rows and columns
            of a frame that are named after the classes are put in their order.
        """
        n_classes = self._fitted.source_prior_.size
        if costs is not None:
            costs = cost_array(costs, self.classes_)
            index = decide(self.predict_proba(scores), costs, class_axis=self.class_axis)
            if np.shape(costs)[1] != n_classes:
                return index
            return self._named(index)
        return self._named(self._decided(scores))

    def retarget(self: Self, target_prior: Any) -> Self:
        """Return a calibrator for another deployment mix: the same strength, no refit.

        Biases per class move by strength_·(log P_t' − log P_t), as λ·w does.

        Probabilities that were fitted by log-loss, with ``metric="log_loss"`` or
        ``separate=True``, are calibrated under P_t at any strength. By the rule of Bayes they are
        multiplied by P_t'/P_t for P_t', which moves ``biases_`` by T·(log P_t' − log P_t). The map
        for decisions keeps its strength.

        At strength 0, where no strength was better than the model as it is, nothing changes, and a
        warning says so.

        A class whose target prior is 0 gets its bias back with a later positive one. If the
        calibrator was saved and loaded in between, it gets strength_·w.

        Parameters
        ----------
        target_prior : "uniform", array-like of shape (K,), or {class: probability}
            The new P_t.
        """
        other = copy.copy(self._fitted)
        other.target_prior = target_prior
        other.target_prior_ = as_target_prior(
            as_mapping(target_prior),
            n_classes=self.source_prior_.size,
            classes=self.classes_.tolist(),
        )
        new, whole = other.target_prior_, self._whole
        old, decision, probability = whole or (
            self.target_prior_,
            self._decision,
            self.probability_map_,
        )
        calibrated = is_log_loss(self.metric) and not decision.untouched  # `uncorrected` stays so
        other._hold(decision.retargeted(self.source_prior_, old, new, calibrated=calibrated))
        if decision.plain and decision.strength == 0.0 and not calibrated and probability is None:
            warn(
                "`retarget` changes nothing at strength 0, which leaves the model as it is. To "
                "follow another target prior by the rule of Bayes, use "
                "reprior.rebalance(…, target_prior=…), which has strength 1."
            )
        if probability is not None:
            other.probability_map_ = probability.retargeted(
                self.source_prior_, old, new, calibrated=True
            )
        if not new.all():  # keep the bias of a removed class for a later positive prior
            other._whole = (old, decision, probability)
        other._forget()
        return other

    def uncorrected(self: Self) -> Self:
        """Return a calibrator that leaves the model as it is: strength 0 and temperature 1.

        It is the "before" of an evaluation.
        """
        other = copy.copy(self._fitted)
        other._hold(ScoreMap(0.0))
        other.strength_interval_, other.probability_map_ = (0.0, 0.0), None
        other._forget()
        other.provenance_ = None
        return other

    def one_map(self: Self, map: str | None = None) -> Self:
        """Return a calibrator with one of the two maps alone; without ``separate``, itself.

        Parameters
        ----------
        map : {"decision", "probability"}, optional
            Which one. Required where there are two.
        """
        separate = self._fitted.probability_map_ is not None
        chosen = check_map(map, separate=separate, needed=True)
        if self.probability_map_ is None:
            return self
        other = copy.copy(self)
        other.separate, other.probability_map_ = False, None
        if chosen == "decision":
            other.temperature = other.log_loss_ = None  # they belong to the other map
            if other.selection != "balanced_log_loss":
                other.label_prior = None
        else:
            strength = self.probability_map_.strength
            other._hold(self.probability_map_)
            other._forget()
            other.metric, other.strength_interval_ = "log_loss", (strength, strength)
            other.tune, other.shrinkage_ = "strength", None
            other.selection, other.subject_to = DEFAULT_SELECTION, None
            other.certify = None
            other.cv, other.n_bootstrap = None, 0
        return other

    def as_affine(self, map: str | None = None) -> tuple[Any, Vector]:
        """Return (scale, bias) so that ``softmax(scale·z + bias)`` is the posterior of scores z.

        For probabilities, z is their logarithm. The scale is a number; under
        ``temperature="vector"`` it is (K,). The bias is (K,), −inf for a class of target prior 0.

        Parameters
        ----------
        map : {"decision", "probability"}, optional
            Which map. Required with ``separate=True``.
        """
        one = self.one_map(map)
        return one._decision.affine(one.source_prior_, one.target_prior_)

    def to_sql(
        self, columns: Any, *, dialect: str = "duckdb", output: str = "label"
    ) -> str | dict[Any, str]:
        """Return SQL that decides, or gives posteriors, from columns of scores.

        Parameters
        ----------
        columns : sequence of str, str, or {class: str}
            The columns of the scores, one per class in the order of the classes; for two classes
            also one, the score of the second. Names as the table has them: they are quoted.
        dialect : {"duckdb", "postgresql", "sqlite", "bigquery", "snowflake", "spark"}
            The database.
        output : {"label", "posterior"}, default "label"
            "label" is what :meth:`predict` returns, "posterior" what :meth:`predict_proba` does.

        Returns
        -------
        str or dict
            For "label" one expression, for "posterior" {class: expression}. They are NULL where a
            column is NULL, and where the scores have no posterior: NaN, +inf, probabilities that
            do not sum to 1. Ties go to the class that comes first.

        Notes
        -----
        Scores are cast to 64 bits. No exponential overflows or underflows. Posteriors of logits,
        or with a temperature, call EXP and LN, which SQLite has if it was built with its
        mathematical functions. Snowflake and PostgreSQL tell upper from lower case in quoted names.

        Examples
        --------
        >>> import sqlite3
        >>> import numpy as np
        >>> import reprior as rp
        >>> logits = np.array([[2.0, 0.0], [1.0, 0.0], [0.4, 0.0], [0.0, 1.0]])
        >>> calibrator = rp.PosteriorCalibrator([0.8, 0.2]).fit(logits, [0, 0, 1, 1])
        >>> sql = calibrator.to_sql(["cat", "dog"], dialect="sqlite")
        >>> database = sqlite3.connect(":memory:")
        >>> _ = database.execute("CREATE TABLE scores (cat REAL, dog REAL)")
        >>> _ = database.executemany("INSERT INTO scores VALUES (?, ?)", logits.tolist())
        >>> database.execute(f"SELECT {sql} FROM scores").fetchall()
        [(0,), (0,), (1,), (1,)]
        >>> database.close()
        """
        from reprior.calibrator.sql import OUTPUTS, sql_of

        check_choice("output", output, OUTPUTS)
        score_map = self._fitted._decision
        if output == "posterior" and self.probability_map_ is not None:
            score_map = self.probability_map_
        return sql_of(
            score_map,
            (self.source_prior_, self.target_prior_),
            self.classes_,
            kind=self.kind,
            columns=columns,
            dialect=dialect,
            output=output,
        )

    def forecast(
        self,
        scores: Any,
        metric: str | CountMetric = "accuracy",
        *,
        confidence: float = 0.9,
        validation: Any = None,
    ) -> Forecast:
        """Return the metric to expect on unlabelled scores, before and after the correction.

        The class mix there is estimated from the scores, and the labelled counts of the tuning data
        are re-weighted to it, as :mod:`reprior.calibrator.forecast` says. The only assumption is
        that classes look as they did in tuning and that only their mix has changed.

        Parameters
        ----------
        scores : array, or a frame with a column per class
            The model's outputs where it is used, at least four per class.
        metric : str or CountMetric, default "accuracy"
            What to forecast. Balanced accuracy and other functions of the recalls do not move under
            label shift.
        confidence : float, default 0.9
            The confidence of the intervals, which a joint bootstrap of the labelled samples and of
            these scores gives.
        validation : (scores, labels), optional
            Labelled scores of every class, in place of the tuning data. Required for calibrators
            that hold no confusion matrices: fitted with sample weights, on more than 256 classes or
            with binned switches, retargeted, or loaded from a file that has none.

        Returns
        -------
        Forecast
            ``before``, ``after``, their intervals, the mix there, and whether to retarget.

        Examples
        --------
        >>> import numpy as np
        >>> import reprior as rp
        >>> rng = np.random.default_rng(0)
        >>> labels = (rng.random(2000) < 0.2).astype(int)
        >>> scores = np.stack([0 * labels, 3 * labels - 2.4 + rng.normal(size=2000)], axis=1)
        >>> calibrator = rp.PosteriorCalibrator([0.8, 0.2]).fit(scores, labels)
        >>> there = scores[np.r_[np.flatnonzero(labels), np.flatnonzero(labels == 0)[:400]]]
        >>> forecast = calibrator.forecast(there)
        >>> forecast.target_prior.round(1), forecast.before < forecast.after
        (array([0.5, 0.5]), True)
        """
        return forecast_scores(
            self._fitted,
            scores,
            metric,
            confidence=confidence,
            validation=validation,
            seed=seed_of(self.random_state),
        )

    def summary(self) -> str:
        """Return the maps, every count metric before and after, and its price, as text."""
        return escaped_lines(summary_text(self._fitted))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibrator to a JSON file, atomically. :func:`reprior.load` reads it."""
        from reprior.calibrator.document import document_of
        from reprior.files.documents import write_calibrator

        write_calibrator(path, document_of(self._fitted))

    def _repr_html_(self) -> str:
        """Return the summary as HTML, for notebooks."""
        return summary_html(self)

    def __repr__(self) -> str:
        state = (
            f"strength_={strength_text(self.strength_)}"
            if hasattr(self, "strength_")
            else "not fitted"
        )
        return (
            f"PosteriorCalibrator(metric={metric_name(self.metric)!r}, kind={self.kind!r}, {state})"
        )
