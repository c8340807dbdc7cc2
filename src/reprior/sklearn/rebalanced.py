"""RebalancedClassifierCV: any scikit-learn classifier, with its prior re-set."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import assert_all_finite, estimator_html_repr, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

import reprior as rp
from reprior._warnings import collect_warnings, warn
from reprior.calibrator.encoding import as_mapping, cost_array, is_range, refuse_missing
from reprior.calibrator.options import check_options, is_log_loss
from reprior.core.checks import check_bounds, check_choice
from reprior.core.prior import as_target_prior
from reprior.exceptions import Argument, Element, Setting, Text
from reprior.metrics import find_metric
from reprior.sklearn.candidates import (
    Candidate,
    best_of,
    cv_results,
    metric_list,
    metric_scores,
    refuse_zeros,
)
from reprior.sklearn.cross_validation import (
    KIND_OF,
    OutOfFold,
    Trained,
    class_columns,
    explain_refusals,
    out_of_fold,
    response_name,
    split,
    train_on,
)
from reprior.sklearn.floor import check_floor, floored, resolved_floor
from reprior.sklearn.routing import check_weight, route_fit, training_weight
from reprior.sklearn.source_prior import (
    check_source_prior,
    class_index,
    label_prior,
    resolve_source_prior,
)
from reprior.sklearn.training import AveragedClassifier, Training, trainings_of, weighted_bounds
from reprior.tuning.problem import DEFAULT_SELECTION

__all__ = [
    "RebalancedClassifierCV",
    "find_classes",
    "for_batch",
    "make_calibrator",
    "plain",
    "rehearse",
]


Vector: TypeAlias = np.ndarray[Any, Any]


def _has_scores(meta: RebalancedClassifierCV) -> bool:
    try:
        return bool(response_name(meta.estimator, meta.response_method))
    except rp.OptionError:
        return False


class RebalancedClassifierCV(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    r"""Classifier whose prior is re-set, with the strength tuned by cross-validation.

    .. math:: P_f(k|x) ∝ P(k|x)\,\bigl(P_t(k) / P_s(k)\bigr)^λ

    with the posterior P of the wrapped classifier, the source prior P_s it was trained on, the
    target prior P_t to decide for, and the strength λ. The wrapped classifier is trained on the
    training part of every fold and scores its test part. The scores of all folds, pooled, give
    one exact profile of the metric over all λ, and its best λ. Then the classifier is trained
    on all data. For several classes or two, at no cost at prediction.

    Parameters
    ----------
    estimator : estimator instance
        The classifier. A fitted one in a :class:`~sklearn.frozen.FrozenEstimator` is used as it
        is, and the data given to ``fit`` are all tuning data: give others than it was trained on.

    source_prior : "labels", "effective", array-like of shape (K,) or dict, default="labels"
        P_s, the class distribution as the classifier saw it in training.

        - "labels": the class frequencies of ``y``, weighted if the classifier is trained with
          sample weights. A classifier that re-weights or re-samples brings a warning, and so
          does a frozen one, for it was trained on other labels.
        - "effective": these frequencies, changed as the classifier or its pipeline changes them:
          ``class_weight``, ``scale_pos_weight``, given priors, imbalanced-learn's samplers and
          ensembles. An error where that is unknown.
        - an array in the order of ``classes_``, or {class: probability}: used as given.

        One source prior serves all folds: that of all data, which stratified folds share up to
        rounding.

    target_prior : "uniform", "labels", array-like of shape (K,) or dict, default="uniform"
        P_t, the class distribution to decide for. "labels": the class frequencies of ``y``, with
        its sample weights. Arrays are in the order of ``classes_``; a dict is {class: probability}.

    metric : str, CountMetric, scorer or list of these, default="balanced_accuracy"
        What λ maximises, see :class:`reprior.PosteriorCalibrator`; or "log_loss". Of a list the
        first is tuned, and all are in ``scores_`` and ``cv_results_``. Scorers of hard labels, by
        name or made by :func:`sklearn.metrics.make_scorer`, are called once for every distinct
        outcome; where there are more than 1,000, on a grid of strengths, with a warning.

    subject_to : str or sequence of str, default=None
        Constraints on other metrics, such as ``"accuracy >= baseline - 0.01"``. The baseline is
        the metric without a correction, of the model as given; with ``training="weighted"`` of the
        weighted one. "before" in the calibrator's summary is the model of ``training_``.

    class_groups : mapping of str to bool mask (K,) or classes, default=None
        Groups of classes that ``metric`` and ``subject_to`` may name, as in ``"recall[few]"``.

    certify : float, default=None
        The probability that each constraint is promised with on new data, as in
        :class:`reprior.PosteriorCalibrator`. Only of an estimator in a ``FrozenEstimator``, which
        was trained on other data: a promise is of the model whose scores are tested.

    tune : {"strength", "per_class"}, default="strength"
        What is tuned: one strength, or, starting from it, a bias for every class.

    selection : str
        How λ is chosen from the profile, see :class:`reprior.PosteriorCalibrator`.

    training : {"as_given", "weighted", "auto"}, default="as_given"
        How the estimator is trained.

        - "as_given": as it is.
        - "weighted": every class with the weight P_t / P_s, the balanced class weights for the
          uniform target prior, by its ``class_weight`` if it has this parameter, else by
          ``sample_weight``. λ is then searched within ``bounds`` minus 1: 0 leaves the weighted
          model as it is, and negative strengths take back what its weights do too much.
        - "auto": both, on the same folds, each with its own λ. The larger out-of-fold value of the
          metric wins; equal values go to "as_given". An estimator that is frozen, re-weights by
          itself or takes no weights is trained as given.

        With F folds, "as_given" and "weighted" cost F + 1 fits, "auto" 2·F + 1.

    ensemble : bool, default=False
        Whether to keep the F classifiers that the folds were scored by, and to predict by the mean
        of their scores, instead of training on all data: F fits, or 2·F with "auto".

    temperature : float, "fit", "bcts", "vector" or None, default=None
        Divides the log-posterior: a number; fitted by log-loss; or 1. "bcts" and "vector" as in
        :class:`reprior.PosteriorCalibrator`.

    label_prior : array-like of shape (K,) or dict, default=None
        The class mix of ``y``, for fits by log-loss. Its own frequencies by default.

    separate : bool, default=False
        Hold a map for decisions, which ``predict`` uses, and one for probabilities.

    bounds : (float, float), default=(0.0, 2.0)
        Strengths to search. Where the best lies at or near the upper bound, that is
        doubled, up to 8. They are those of the training as given; a weighted one has both less 1.

    floor : "auto", float or None, default="auto"
        The smallest probability that counts; smaller ones are raised to it. "auto": half a vote of
        a forest or of nearest neighbours, half a sample of a tree's largest leaf, and only where
        probabilities are fitted by log-loss, which zeros make infinite. None: zeros stay.

    response_method : str, default="auto"
        The method that gives the scores: "predict_log_proba", "predict_proba" or
        "decision_function". "auto" takes the first of these that exists, but never the last.
        Decision functions are taken as log-posteriors up to a constant per sample. That holds for
        logistic models; the margins of a support vector machine are no log-posteriors, so with them
        λ is tuned on an arbitrary scale and ``predict_proba`` means little.

    cv : int, float, cross-validation generator or iterable, default=None
        How to split. None: 5 stratified folds; an integer: that many; a float: one stratified
        split with that share for tuning; else as in scikit-learn. Not used with a
        ``FrozenEstimator``.

    refit : bool, default=True
        Whether to train on all data in the end. False needs a single split: the classifier is then
        the one trained on its training part.

    n_bootstrap : int, default=0
        Replicates for intervals of λ and of its gain, on the pooled folds.

    n_jobs : int, default=None
        Folds to train in parallel.

    keep_profile : bool, default=False
        Whether pickles hold ``profile_``. It has a row for every switch, and may be larger than
        the classifier. Without it, ``profile_`` is None in an estimator that was loaded.

    random_state : int, RandomState instance or None, default=None
        For the split of a float ``cv``, the shrinkage of biases and the bootstrap.

    Attributes
    ----------
    estimator_ : estimator instance
        The fitted classifier; with ``ensemble`` the mean of those of the folds.

    training_ : {"as_given", "weighted"}
        How it was trained.

    scores_ : dict of {str: {"before": float, "after": float}}
        Every metric that was asked for, on the pooled folds: without the correction and with it.

    cv_results_ : dict of {str: array}
        One element per training and fold: "training", "split", "n_samples"; "strength", the λ that
        the fold alone would choose, and "value", the first metric there; and for every metric its
        value without correction, "before_<metric>", and with the classifier's own,
        "after_<metric>". ``pandas.DataFrame(cv_results_)`` is a table.

    floor_ : float or None
        The smallest probability that counts.

    calibrator_ : PosteriorCalibrator
        The calibrator of its scores. ``calibrator_.save`` writes it, ``calibrator_.summary()``
        describes it.

    strength_ : float
        The chosen λ.

    strength_interval_ : (float, float)
        Strengths that do equally well on the pooled folds.

    temperature_ : float
        The temperature applied.

    biases_, scales_, probability_map_, shrinkage_, log_loss_, counts_, uncertainty_
        As in :class:`reprior.PosteriorCalibrator`; None if not requested.

    certified_ : bool
        Whether the constraints are promised with the probability ``certify``.

    cross_validation_ : None
        Folds give the scores here; for a λ evaluated without its fold, fit the calibrator with cv.

    best_score_ : float
        The metric at ``strength_`` on the pooled folds. λ was chosen on them: evaluate on others.

    profile_ : StrengthProfile
        All class counts of the pooled folds, for all strengths.

    source_prior_, target_prior_ : ndarray of shape (K,)
        The priors as used. Of a weighted training, ``source_prior_`` is the class distribution
        before the weights, which λ points away from.

    classes_ : ndarray of shape (K,)
        The class labels.

    response_method_ : str
        The method of the classifier that scores come from.

    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Number and names of features, if the classifier has them.

    See Also
    --------
    reprior.PosteriorCalibrator : The same for scores, of any framework.
    sklearn.model_selection.TunedThresholdClassifierCV : One threshold, for two classes.
    sklearn.calibration.CalibratedClassifierCV : Calibrates probabilities, keeps the prior.

    References
    ----------
    .. [1] Tian, Liu, Glaser, Hsu, Kira. "Posterior Re-calibration for Imbalanced Datasets",
       NeurIPS 2020: Eqs. 5-7.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.metrics import balanced_accuracy_score
    >>> from sklearn.model_selection import train_test_split
    >>> from reprior.sklearn import RebalancedClassifierCV
    >>> X, y = make_classification(
    ...     n_samples=3000, n_classes=3, n_informative=4, weights=[0.9, 0.07], random_state=0
    ... )
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    >>> plain = LogisticRegression().fit(X_train, y_train)
    >>> print(f"{balanced_accuracy_score(y_test, plain.predict(X_test)):.2f}")
    0.38
    >>> rebalanced = RebalancedClassifierCV(LogisticRegression()).fit(X_train, y_train)
    >>> print(f"{balanced_accuracy_score(y_test, rebalanced.predict(X_test)):.2f}")
    0.56
    >>> rebalanced.source_prior_.round(2)
    array([0.89, 0.07, 0.04])
    """

    def __init__(
        self,
        estimator: Any,
        *,
        source_prior: Any = "labels",
        target_prior: Any = "uniform",
        metric: str | rp.CountMetric | Callable[..., float] | Sequence[Any] = "balanced_accuracy",
        subject_to: str | Sequence[str] | None = None,
        class_groups: Any = None,
        certify: float | None = None,
        tune: str = "strength",
        selection: str = DEFAULT_SELECTION,
        training: str = "as_given",
        ensemble: bool = False,
        temperature: float | Literal["fit", "bcts", "vector"] | None = None,
        label_prior: Any = None,
        separate: bool = False,
        bounds: tuple[float, float] = (0.0, 2.0),
        floor: float | Literal["auto"] | None = "auto",
        response_method: str = "auto",
        cv: Any = None,
        refit: bool = True,
        n_bootstrap: int = 0,
        n_jobs: int | None = None,
        keep_profile: bool = False,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.source_prior = source_prior
        self.target_prior = target_prior
        self.metric = metric
        self.subject_to = subject_to
        self.class_groups = class_groups
        self.certify = certify
        self.tune = tune
        self.selection = selection
        self.training = training
        self.ensemble = ensemble
        self.temperature = temperature
        self.label_prior = label_prior
        self.separate = separate
        self.bounds = bounds
        self.floor = floor
        self.response_method = response_method
        self.cv = cv
        self.refit = refit
        self.n_bootstrap = n_bootstrap
        self.n_jobs = n_jobs
        self.keep_profile = keep_profile
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any
    ) -> RebalancedClassifierCV:
        """Tune the strength on out-of-fold scores, then train on all data.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
            Training data, handed to the estimator as they are.

        y : array-like of shape (n_samples,)
            Class labels.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples, in tuning, and in training if the estimator takes them.

        **fit_params : dict
            Passed on by scikit-learn's metadata routing if it is enabled; otherwise ``groups`` to
            the splitter and all others to the ``fit`` of the estimator.

        Returns
        -------
        self : object
        """
        X, y = indexable(X, y)
        y = column_or_1d(y, warn=True)
        refuse_missing(y, "y")
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        method = response_name(self.estimator, self.response_method)
        classes = find_classes(self.estimator, y)
        weight = None if sample_weight is None else check_weight(sample_weight, X)
        metrics = metric_list(self.metric, classes)
        check_source_prior(self.source_prior, classes)
        check_floor(self.floor, classes.size)
        target_prior = find_target_prior(self.target_prior, y, classes, weight)
        rehearse(self, classes, target_prior)
        routed = route_fit(self, sample_weight, fit_params)
        trainings = trainings_of(
            self.training,
            self.estimator,
            y,
            classes=classes,
            target_prior=resolved_target_prior(target_prior, classes),
            fit_params=routed.estimator.fit,
        )
        data = _Data(self, X, y, weight, classes, method, routed)
        tunings = data.out_of_fold(trainings)
        single = len(trainings) == 1
        trained = data.final(trainings[0], tunings[0]) if single else None
        candidates = []
        for training, tuning in zip(trainings, tunings, strict=True):
            prior = data.source_prior(training, trained or data.trained(tuning.models[0]))
            calibrator = make_calibrator(self, prior, target_prior, classes, KIND_OF[method])
            candidates.append(data.candidate(training, tuning, calibrator))
        best = best_of(candidates, method)
        trained = trained or data.final(best.training, best.tuning)
        self.scores_ = metric_scores(best, metrics)
        self.cv_results_ = cv_results(candidates, metrics)
        return self._keep(trained.model, best, method)

    # scikit-learn's decorator has no types.
    @available_if(_has_scores)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, *, target_prior: Any = None) -> Vector:
        """Return the re-calibrated posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples, as the estimator takes them.

        target_prior : "estimate", "uniform", array-like of shape (K,) or dict, default=None
            The class mix of these samples, if it is not the one that was tuned for. "estimate"
            estimates it from the samples by :func:`reprior.estimate_target_prior`; for that, fit
            the probabilities with ``separate=True`` or ``metric="log_loss"``.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``.
        """
        return self._apply("predict_proba", X, target_prior)

    # scikit-learn's decorator has no types.
    @available_if(_has_scores)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any, *, target_prior: Any = None) -> Vector:
        """Return the logarithm of the re-calibrated posterior.

        Parameters and shape are those of :meth:`predict_proba`.
        """
        return self._apply("predict_log_proba", X, target_prior)

    def predict(self, X: Any, *, target_prior: Any = None, costs: Any = None) -> Vector:
        """Return the class of the largest re-calibrated posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples, as the estimator takes them.

        target_prior : "estimate", "uniform", array-like of shape (K,) or dict, default=None
            As for :meth:`predict_proba`.

        costs : array-like of shape (K, D), default=None
            ``costs[true, decided]``: return the decision of least expected cost under the
            probabilities, see :func:`reprior.decide`; its index if there are more or fewer
            decisions than classes.

        Returns
        -------
        ndarray of shape (n_samples,)
            Class labels.
        """
        if costs is not None:
            posterior = self._apply("predict_proba", X, target_prior)
            costs = cost_array(costs, self.classes_)
            index = np.asarray(rp.decide(posterior, costs))
            return index if np.shape(costs)[1] != self.classes_.size else self.classes_[index]
        posterior = self._apply("predict_proba", X, target_prior, map="decision")
        return np.asarray(self.classes_[np.argmax(posterior, axis=1)])

    # scikit-learn's decorator has no types.
    @available_if(_has_scores)  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Vector:
        """Return the corrected scores that :meth:`predict` decides by.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples, as the estimator takes them.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes the log-odds of the second, else the log-posteriors. The largest number
            of single precision stands for infinity, where a class is impossible.
        """
        log = self._apply("predict_log_proba", X, None, map="decision").astype(np.float64)
        if self.classes_.size == 2:
            log = log[:, 1] - log[:, 0]
        largest = float(np.finfo(np.float32).max)
        return np.asarray(np.clip(log, -largest, largest))

    def retarget(self, target_prior: Any) -> RebalancedClassifierCV:
        """Return a copy for another deployment mix: the same strength and estimator, no refit.

        Parameters
        ----------
        target_prior : "uniform", array-like of shape (K,) or {class: probability}
            The new P_t, in the order of ``classes_``.

        Returns
        -------
        RebalancedClassifierCV
            Fitted, as by :meth:`reprior.PosteriorCalibrator.retarget`. A model of a weighted
            training has learnt P_t, and follows the new one by the rule of Bayes as well.
        """
        check_is_fitted(self, "calibrator_")
        other = copy.copy(self)
        other.target_prior = target_prior
        if isinstance(target_prior, str):
            check_choice("target_prior", target_prior, ["uniform"])
        other.calibrator_ = for_batch(
            self.calibrator_, np.empty((0, 0)), target_prior, learnt=self._learnt
        )
        for name in FOUND:
            setattr(other, name, getattr(other.calibrator_, name))
        return other

    def _html_repr(self) -> str:
        """Return scikit-learn's diagram with the fitted correction in it."""
        diagram: str = estimator_html_repr(self)
        calibrator = getattr(self, "calibrator_", None)
        if calibrator is None:
            return diagram
        inside, closing, end = diagram.rpartition("</div></div><script>")
        return f"{inside}{calibrator._repr_html_()}{closing}{end}"

    def get_metadata_routing(self) -> MetadataRouter:
        """Return scikit-learn's record of which metadata is requested where."""
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(
                estimator=self.estimator,
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
            .add(
                splitter=self.cv,
                method_mapping=MethodMapping().add(caller="fit", callee="split"),
            )
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            inner = copy.deepcopy(get_tags(self.estimator))
            tags.input_tags = inner.input_tags
            tags.non_deterministic = inner.non_deterministic
            if inner.classifier_tags is not None:
                tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
                tags.classifier_tags.poor_score = inner.classifier_tags.poor_score
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Leave the profile out, unless it is to be kept."""
        state: dict[str, Any] = super().__getstate__()
        if self.keep_profile or "calibrator_" not in state:
            return state
        calibrator = copy.copy(self.calibrator_)
        calibrator.profile_ = None
        return {**state, "calibrator_": calibrator, "profile_": None}

    def __copy__(self) -> RebalancedClassifierCV:
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> RebalancedClassifierCV:
        other = type(self).__new__(type(self))
        memo[id(self)] = other
        other.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return other

    @property
    def _learnt(self) -> Vector | None:
        """The target prior that a weighted training has taught; None for one as given."""
        return None if self.training_ == "as_given" else self.target_prior_

    def _keep(self, model: Any, best: Candidate, method: str) -> RebalancedClassifierCV:
        calibrator = best.calibrator
        calibrator._model = _MODELS.get((self.training, best.training.name), "")
        self.estimator_ = model
        self.calibrator_ = calibrator
        self.training_ = best.training.name
        self.floor_ = best.floor
        self.classes_ = best.training.classes
        self.response_method_ = method
        for name in FOUND:
            setattr(self, name, getattr(calibrator, name))
        first = best.tuning.models[0] if isinstance(model, AveragedClassifier) else model
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(first, name):
                setattr(self, name, getattr(first, name))
            elif hasattr(self, name):  # from an earlier fit
                delattr(self, name)
        return self

    def _apply(self, name: str, X: Any, target_prior: Any, map: str | None = None) -> Vector:
        check_is_fitted(self, "calibrator_")
        method = self.response_method_
        classes = self.classes_
        scores = class_columns(self.estimator_, X, method=method, classes=classes)
        scores = floored(scores, self.floor_, KIND_OF[method])
        with explain_refusals(self.estimator_, method, scores):
            calibrator = for_batch(self.calibrator_, scores, target_prior, learnt=self._learnt)
            return np.asarray(getattr(calibrator, name)(scores, map=map))


@dataclass(frozen=True, eq=False)
class _Data:
    """The checked arguments of one fit, and the trainings on them."""

    options: RebalancedClassifierCV
    X: Any
    y: Vector
    weight: Vector | None
    classes: Vector
    method: str
    routed: Any

    def out_of_fold(self, trainings: Sequence[Training]) -> list[OutOfFold]:
        """Train on every fold, by each training; score all samples where nothing is trained."""
        options = self.options
        if isinstance(options.estimator, FrozenEstimator):
            model = options.estimator
            scores = class_columns(model, self.X, method=self.method, classes=self.classes)
            n = len(self.y)
            return [OutOfFold(scores, np.arange(n), [n], [model])]
        splits = self._splits
        if not options.refit and not options.ensemble and len(splits) != 1:
            raise rp.OptionError(
                argument="refit",
                rule="must be True where there are several folds",
                got=[Setting("refit", options.refit), f" and {len(splits)} folds"],
                remedy=[
                    "Pass for example ",
                    Setting("cv", 0.2),
                    " for a single split, or ",
                    Setting("ensemble", True),
                    " to predict by the classifiers of all folds.",
                ],
            )
        return out_of_fold(
            trainings,
            self.X,
            self.y,
            splits=splits,
            classes=self.classes,
            method=self.method,
            fit_params=self.routed.estimator.fit,
            keep_models=bool(options.ensemble),
            n_jobs=options.n_jobs,
        )

    def final(self, training: Training, tuning: OutOfFold) -> Trained:
        """Return the model that predicts: trained on all data, or the mean of the folds'."""
        options = self.options
        if isinstance(options.estimator, FrozenEstimator):
            return self.trained(options.estimator)
        if options.ensemble:
            return self.trained(AveragedClassifier(tuning.models, self.classes))
        index = None if options.refit else self._splits[0][0]
        return train_on(training, self.X, self.y, index=index, fit_params=self.routed.estimator.fit)

    def trained(self, model: Any) -> Trained:
        """Return a model with all data."""
        weight = self.weight
        if not isinstance(self.options.estimator, FrozenEstimator):
            weight = training_weight(model, self.routed.estimator.fit)
        return Trained(model, self.X, self.y, as_weight(weight))

    def source_prior(self, training: Training, trained: Trained) -> Any:
        """Return the class distribution that λ points away from."""
        option = self.options.source_prior
        if training.name == "weighted" and isinstance(option, str):
            weight = training_weight(self.options.estimator, self.routed.estimator.fit)
            return label_prior(self.y, self.classes, as_weight(weight))
        if isinstance(trained.model, AveragedClassifier):
            trained = replace(trained, model=trained.model.estimators[0])
        overcorrected = self.options.bounds[0] < 0
        return resolve_source_prior(option, trained, self.classes, expected=overcorrected)

    def candidate(
        self, training: Training, tuning: OutOfFold, calibrator: rp.PosteriorCalibrator
    ) -> Candidate:
        """Return a training with its labelled scores and a calibrator that is to be fitted."""
        if training.name == "weighted":
            calibrator.bounds = weighted_bounds(check_bounds(self.options.bounds))
        kind = KIND_OF[self.method]
        labels = class_index(self.y, self.classes)[tuning.index]
        by_log_loss = fits_probabilities(calibrator)
        floor = resolved_floor(self.options.floor, tuning.models, by_log_loss=by_log_loss)
        floor = None if kind == "logits" else floor
        scores = floored(tuning.scores, floor, kind)
        if by_log_loss:
            refuse_zeros(scores, labels, self.options.estimator, kind)
        weight = None if self.weight is None else self.weight[tuning.index]
        return Candidate(
            training, tuning, scores, labels, weight, calibrator, plain(self.classes), floor
        )

    @cached_property
    def _splits(self) -> list[tuple[Vector, Vector]]:
        options = self.options
        params = self.routed.splitter.split
        return split(options.cv, self.X, self.y, random_state=options.random_state, params=params)


#: (training, the one that won) → the model that "before" is in the calibrator's summary.
_MODELS = {
    ("weighted", "weighted"): "the model trained with class weights",
    ("auto", "weighted"): "the model trained with class weights, the better of two trainings; the "
    "baseline of constraints is the model trained as given",
    ("auto", "as_given"): "the model trained as given, the better of two trainings",
}

#: Fitted attributes of the calibrator that the meta-estimator has as well.
FOUND = (
    "strength_",
    "strength_interval_",
    "temperature_",
    "biases_",
    "scales_",
    "probability_map_",
    "shrinkage_",
    "best_score_",
    "log_loss_",
    "counts_",
    "profile_",
    "cross_validation_",
    "uncertainty_",
    "certified_",
    "source_prior_",
    "target_prior_",
)


def make_calibrator(
    options: Any, source_prior: Any, target_prior: Any, classes: Vector, kind: str
) -> rp.PosteriorCalibrator:
    """Return the calibrator that the options of a meta-estimator describe, not fitted."""
    return rp.PosteriorCalibrator(
        source_prior,
        target_prior=target_prior,
        metric=metric_list(options.metric, classes)[0],
        subject_to=options.subject_to,
        class_groups=options.class_groups,
        certify=options.certify,
        tune=options.tune,
        selection=options.selection,
        temperature=options.temperature,
        label_prior=options.label_prior,
        separate=options.separate,
        bounds=options.bounds,
        kind=kind,
        classes=plain(classes),
        n_bootstrap=options.n_bootstrap,
        random_state=options.random_state,
    )


def rehearse(options: Any, classes: Vector, target_prior: Any) -> None:
    """Tune on one artificial sample per class, to refuse wrong options before training."""
    n = classes.size
    unknown = isinstance(options.source_prior, str)
    prior = rp.prior_from_counts(np.arange(1, n + 1)) if unknown else options.source_prior
    calibrator = make_calibrator(options, prior, target_prior, classes, "logits")
    check_options(calibrator)
    if options.certify is not None and not isinstance(options.estimator, FrozenEstimator):
        raise rp.OptionError(
            argument="estimator",
            rule=[
                "must be frozen with ",
                Argument("certify"),
                ": else strengths are tested on scores of other classifiers, trained on folds, and "
                "nothing is promised for the one that predicts",
            ],
            got=type(options.estimator).__name__,
            remedy=[
                "Train it on other data and pass FrozenEstimator(estimator), or leave ",
                Argument("certify"),
                " out.",
            ],
        )
    names = plain(classes)
    for metric in metric_list(options.metric, classes)[1:]:
        find_metric(
            metric,
            n_classes=n,
            classes=None if is_range(names) else names.tolist(),
            class_groups=options.class_groups,
        )
    if is_log_loss(calibrator.metric):
        calibrator.metric = "balanced_accuracy"
    # Fits by log-loss, and steps that need many samples, have nothing to work on here.
    calibrator.temperature = None
    calibrator.separate = False
    calibrator.n_bootstrap = 0
    calibrator.label_prior = None
    calibrator.tune = "strength"
    calibrator.selection = DEFAULT_SELECTION
    # Only the real scores show whether the constraints can be met.
    with warnings.catch_warnings(), contextlib.suppress(rp.InfeasibleError):
        warnings.simplefilter("ignore", rp.RepriorWarning)
        calibrator.fit(np.broadcast_to(np.float32(0), (n, n)), names)


def fits_probabilities(calibrator: rp.PosteriorCalibrator) -> bool:
    """Tell whether a calibrator fits anything by log-loss, which zeros make infinite."""
    tempered = isinstance(calibrator.temperature, str)
    return is_log_loss(calibrator.metric) or calibrator.separate or tempered


def find_target_prior(option: Any, y: Vector, classes: Vector, weight: Vector | None) -> Any:
    """Return the target prior: the frequencies of the labels for "labels", else as given."""
    if isinstance(option, str):
        hint = "Or pass one probability per class."
        if option == "estimate":
            hint += " predict(X, target_prior='estimate') estimates the mix of a batch."
        check_choice("target_prior", option, ["uniform", "labels"], hint=hint)
        if option == "labels":
            return label_prior(y, classes, weight)
    return option


def resolved_target_prior(target_prior: Any, classes: Vector) -> Vector:
    """Return a target prior, "uniform" or given, as an array in the order of the classes."""
    return as_target_prior(
        as_mapping(target_prior), n_classes=classes.size, classes=plain(classes).tolist()
    )


UNFITTED_PROBABILITIES: Text = [
    "The class mix is estimated from the model's probabilities as they are: where these are too "
    "sure, it is too extreme. Pass ",
    Setting("separate", True),
    ", ",
    Setting("metric", "log_loss"),
    " or ",
    Setting("temperature", "fit"),
    ", which fit them to the labels, or state the mix as ",
    Argument("target_prior"),
    ".",
]


def for_batch(
    calibrator: rp.PosteriorCalibrator,
    scores: Vector,
    target_prior: Any,
    *,
    learnt: Vector | None = None,
) -> rp.PosteriorCalibrator:
    """Return the calibrator re-targeted to a batch; as it is where ``target_prior`` is None.

    "estimate" takes the prior under which the batch's scores are most likely, by
    :func:`reprior.estimate_target_prior`, from the best calibrated probabilities there are: the
    calibrator's, where it has fitted them by log-loss; the model's at the fitted temperature; or
    the model's as they are, with a warning. ``learnt`` is the target prior that the model was
    trained with, by weights; it then follows another one by the rule of Bayes on top.
    """
    if target_prior is None:
        return calibrator
    if isinstance(target_prior, str):
        check_choice(
            "target_prior",
            target_prior,
            ["estimate", "uniform"],
            hint="Or pass one probability per class.",
        )
    if isinstance(target_prior, str) and target_prior == "estimate":
        collected: list[rp.RepriorWarning] = []
        with collect_warnings(collected):
            target_prior = _estimated(calibrator, scores, learnt)
        for each in collected:
            warn(each)
    elif isinstance(target_prior, dict):
        names = plain(np.array(list(target_prior)))
        target_prior = dict(zip(names.tolist(), target_prior.values(), strict=True))
    if learnt is None or is_log_loss(calibrator.metric):
        return calibrator.retarget(target_prior)
    return _by_bayes(calibrator, target_prior, learnt)


def _by_bayes(
    calibrator: rp.PosteriorCalibrator, target_prior: Any, learnt: Vector
) -> rp.PosteriorCalibrator:
    """Re-target, and multiply the model's probabilities by P_t' / P_t as well.

    The map for probabilities is fitted to P_t, so that it follows by itself.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`retarget` changes nothing", rp.RepriorWarning)
        other = calibrator.retarget(target_prior)
    new = other.target_prior_
    known = (learnt > 0) & (new > 0)
    ratio = np.divide(new, learnt, out=np.ones_like(new), where=known)
    decision = other._decision
    shifts = decision.shifts(other.source_prior_, new) + np.log(ratio)
    other._hold(replace(decision, biases=np.where(new > 0, shifts, -np.inf)))
    return other


def _estimated(calibrator: rp.PosteriorCalibrator, scores: Vector, learnt: Vector | None) -> Vector:
    """Return the class mix of a batch, estimated by EM."""
    if is_log_loss(calibrator.metric) or calibrator.probability_map_ is not None:
        if not (calibrator.target_prior_ > 0).all():  # EM divides by its first prior
            calibrator = calibrator.retarget("uniform")
        return rp.estimate_target_prior(
            np.asarray(calibrator.predict_log_proba(scores)),
            source_prior=calibrator.target_prior_,
            kind="log_probs",
        )
    if calibrator.temperature is None:
        warn(UNFITTED_PROBABILITIES)
    # Not the posterior: a strength tuned for decisions need not give the prior P_t.
    calibration = (1.0 / calibrator.temperature_, 0.0)
    return rp.estimate_target_prior(
        scores,
        source_prior=calibrator.source_prior_ if learnt is None else learnt,
        kind=calibrator.kind,
        calibration=calibration,
    )


def find_classes(estimator: Any, y: Vector) -> Vector:
    """Return the classes of the labels; for a frozen estimator, those it knows."""
    if isinstance(estimator, FrozenEstimator):
        check_is_fitted(estimator)
        classes = np.asarray(estimator.classes_)
        unknown = np.flatnonzero(~np.isin(y, classes))
        if unknown.size:
            where = unknown[0]
            raise rp.LabelsError(
                argument="y",
                rule="must be of classes that the frozen estimator knows",
                got=Element("y", (where,), repr(y.tolist()[where])),
                remedy="Drop these samples, or train it again with them.",
            )
    else:
        classes = np.unique(y)
    if classes.size < 2:
        got = f"1 class, {classes.tolist()[0]!r}" if classes.size else "no samples"
        raise rp.LabelsError(
            argument="y",
            rule="must have at least two classes",
            got=got,
            remedy="Add samples of another class.",
        )
    return classes


def as_weight(weight: Any) -> Vector | None:
    """Return sample weights as an array of doubles."""
    return None if weight is None else np.asarray(weight, np.float64)


def plain(classes: Vector) -> Vector:
    """Return objects that are all strings, or all integers, as an array of that type."""
    return np.asarray(classes.tolist())
