"""RebalancedClassifierCV: any scikit-learn classifier, with its prior re-set."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import assert_all_finite, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

import reprior as rp
from reprior._warnings import collect_warnings, warn
from reprior.calibrator.encoding import cost_array, refuse_missing
from reprior.calibrator.options import check_options, is_log_loss
from reprior.core.checks import check_choice
from reprior.exceptions import Argument, Element, Setting, Text
from reprior.sklearn.cross_validation import (
    KIND_OF,
    OutOfFold,
    Trained,
    class_columns,
    cross_validated,
    explain_refusals,
    response_name,
)
from reprior.sklearn.routing import check_weight, route_fit
from reprior.sklearn.source_prior import check_source_prior, class_index, resolve_source_prior
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

    target_prior : "uniform", array-like of shape (K,) or {class: probability}, default="uniform"
        P_t, the class distribution to decide for. Arrays are in the order of ``classes_``.

    metric : str or CountMetric, default="balanced_accuracy"
        What λ maximises, see :class:`reprior.PosteriorCalibrator`; or "log_loss".

    subject_to : str or sequence of str, default=None
        Constraints on other metrics, such as ``"accuracy >= baseline - 0.01"``.

    tune : {"strength", "per_class"}, default="strength"
        What is tuned: one strength, or, starting from it, a bias for every class.

    selection : str
        How λ is chosen from the profile, see :class:`reprior.PosteriorCalibrator`.

    temperature : float, "fit", "bcts", "vector" or None, default=None
        Divides the log-posterior: a number; fitted by log-loss; or 1. "bcts" and "vector" as in
        :class:`reprior.PosteriorCalibrator`.

    label_prior : array-like of shape (K,) or dict, default=None
        The class mix of ``y``, for fits by log-loss. Its own frequencies by default.

    separate : bool, default=False
        Hold a map for decisions, which ``predict`` uses, and one for probabilities.

    bounds : (float, float), default=(0.0, 2.0)
        Strengths to search. Where the best lies at or near the upper bound, that is
        doubled, up to 8.

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

    random_state : int, RandomState instance or None, default=None
        For the split of a float ``cv``, the shrinkage of biases and the bootstrap.

    Attributes
    ----------
    estimator_ : estimator instance
        The fitted classifier.

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

    cross_validation_ : None
        Folds give the scores here; for a λ evaluated without its fold, fit the calibrator with cv.

    best_score_ : float
        The metric at ``strength_`` on the pooled folds. λ was chosen on them: evaluate on others.

    profile_ : StrengthProfile
        All class counts of the pooled folds, for all strengths.

    source_prior_, target_prior_ : ndarray of shape (K,)
        The priors as used.

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
        metric: str | rp.CountMetric = "balanced_accuracy",
        subject_to: str | Sequence[str] | None = None,
        tune: str = "strength",
        selection: str = DEFAULT_SELECTION,
        temperature: float | Literal["fit", "bcts", "vector"] | None = None,
        label_prior: Any = None,
        separate: bool = False,
        bounds: tuple[float, float] = (0.0, 2.0),
        response_method: str = "auto",
        cv: Any = None,
        refit: bool = True,
        n_bootstrap: int = 0,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.source_prior = source_prior
        self.target_prior = target_prior
        self.metric = metric
        self.subject_to = subject_to
        self.tune = tune
        self.selection = selection
        self.temperature = temperature
        self.label_prior = label_prior
        self.separate = separate
        self.bounds = bounds
        self.response_method = response_method
        self.cv = cv
        self.refit = refit
        self.n_bootstrap = n_bootstrap
        self.n_jobs = n_jobs
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
        check_source_prior(self.source_prior, classes)
        rehearse(self, classes)
        routed = route_fit(self, sample_weight, fit_params)
        if isinstance(self.estimator, FrozenEstimator):
            trained = Trained(self.estimator, X, y, weight)
            scores = class_columns(self.estimator, X, method=method, classes=classes)
            tuning = OutOfFold(scores, np.arange(len(y)))
        else:
            trained, tuning = cross_validated(
                self, X, y, routed=routed, classes=classes, method=method
            )
        prior = resolve_source_prior(self.source_prior, trained, classes)
        calibrator = make_calibrator(self, prior, classes, KIND_OF[method])
        labels = plain(classes)[class_index(y, classes)][tuning.index]
        with explain_refusals(self.estimator, method, tuning.scores):
            tuned = None if weight is None else weight[tuning.index]
            calibrator.fit(tuning.scores, labels, sample_weight=tuned)
        return self._keep(trained.model, calibrator, classes, method)

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

    def _keep(
        self, model: Any, calibrator: rp.PosteriorCalibrator, classes: Vector, method: str
    ) -> RebalancedClassifierCV:
        self.estimator_ = model
        self.calibrator_ = calibrator
        self.classes_ = classes
        self.response_method_ = method
        for name in FOUND:
            setattr(self, name, getattr(calibrator, name))
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))
            elif hasattr(self, name):  # from an earlier fit
                delattr(self, name)
        return self

    def _apply(self, name: str, X: Any, target_prior: Any, map: str | None = None) -> Vector:
        check_is_fitted(self, "calibrator_")
        method = self.response_method_
        classes = self.classes_
        scores = class_columns(self.estimator_, X, method=method, classes=classes)
        with explain_refusals(self.estimator_, method, scores):
            calibrator = for_batch(self.calibrator_, scores, target_prior)
            return np.asarray(getattr(calibrator, name)(scores, map=map))


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
    "source_prior_",
    "target_prior_",
)


def make_calibrator(
    options: Any, source_prior: Any, classes: Vector, kind: str
) -> rp.PosteriorCalibrator:
    """Return the calibrator that the options of a meta-estimator describe, not fitted."""
    return rp.PosteriorCalibrator(
        source_prior,
        target_prior=options.target_prior,
        metric=options.metric,
        subject_to=options.subject_to,
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


def rehearse(options: Any, classes: Vector) -> None:
    """Tune on one artificial sample per class, to refuse wrong options before training."""
    n = classes.size
    unknown = isinstance(options.source_prior, str)
    prior = rp.prior_from_counts(np.arange(1, n + 1)) if unknown else options.source_prior
    calibrator = make_calibrator(options, prior, classes, "logits")
    check_options(calibrator)
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
        calibrator.fit(np.broadcast_to(np.float32(0), (n, n)), plain(classes))


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
    calibrator: rp.PosteriorCalibrator, scores: Vector, target_prior: Any
) -> rp.PosteriorCalibrator:
    """Return the calibrator re-targeted to a batch; as it is where ``target_prior`` is None.

    "estimate" takes the prior under which the batch's scores are most likely, by
    :func:`reprior.estimate_target_prior`, from the best calibrated probabilities there are: the
    calibrator's, where it has fitted them by log-loss; the model's at the fitted temperature; or
    the model's as they are, with a warning.
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
            target_prior = _estimated(calibrator, scores)
        for each in collected:
            warn(each)
    elif isinstance(target_prior, dict):
        names = plain(np.array(list(target_prior)))
        target_prior = dict(zip(names.tolist(), target_prior.values(), strict=True))
    return calibrator.retarget(target_prior)


def _estimated(calibrator: rp.PosteriorCalibrator, scores: Vector) -> Vector:
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
        source_prior=calibrator.source_prior_,
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


def plain(classes: Vector) -> Vector:
    """Return objects that are all strings, or all integers, as an array of that type."""
    return np.asarray(classes.tolist())
