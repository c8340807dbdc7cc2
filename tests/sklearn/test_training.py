"""The two trainings: class weights by whichever way an estimator takes them, and which one wins."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from imblearn.ensemble import BalancedRandomForestClassifier
from imblearn.over_sampling import RandomOverSampler
from imblearn.pipeline import make_pipeline as make_sampling_pipeline
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from tests.sklearn.shared import NAMES, ROUNDING, three_classes, two_classes

import reprior as rp
from reprior.sklearn import RebalancedClassifierCV, fold_into

X, y = three_classes()
names = NAMES[y]
PRIOR = rp.prior_from_labels(y)
CV = StratifiedKFold(4, shuffle=True, random_state=1)
MODEL = LogisticRegression(max_iter=500)
BALANCED = LogisticRegression(
    max_iter=500, class_weight=dict(enumerate((1 / (3 * PRIOR)).tolist()))
)
"""The weights of class_weight="balanced", with the class sizes of all data in all folds."""


def by_hand(model, bounds, metric="balanced_accuracy", **options):
    scores = cross_val_predict(model, X, y, cv=CV, method="predict_log_proba")
    calibrator = rp.PosteriorCalibrator(
        PRIOR, kind="log_probs", bounds=bounds, metric=metric, **options
    )
    return calibrator.fit(scores, y)


# ----------------------------------------------------------------------- what is trained


def test_weighted_is_balanced_weights_and_negative_strengths():
    expected = by_hand(BALANCED, (-1.0, 1.0))
    found = RebalancedClassifierCV(MODEL, cv=CV, training="weighted").fit(X, y)
    assert found.training_ == "weighted"
    assert found.profile_.bounds == (-1.0, 1.0)
    np.testing.assert_allclose(found.source_prior_, PRIOR)
    assert found.strength_ == pytest.approx(expected.strength_, rel=ROUNDING)
    assert found.best_score_ == expected.best_score_
    scores = LogisticRegression(max_iter=500, class_weight="balanced").fit(X, y)
    scores = scores.predict_log_proba(X)
    np.testing.assert_allclose(found.estimator_.predict_log_proba(X), scores, atol=1e-6)
    np.testing.assert_array_equal(found.predict(X), expected.predict(scores))


class Watched(ClassifierMixin, BaseEstimator):
    """Notes the weights of its training; takes sample weights only."""

    notes: list = []  # noqa: RUF012 - clones share it

    def fit(self, X, y, sample_weight=None):
        self.notes.append(None if sample_weight is None else (np.asarray(y), sample_weight))
        self.model_ = GaussianNB().fit(X, y, sample_weight)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


@pytest.fixture
def notes():
    Watched.notes = []
    return Watched.notes


TARGETS = ["uniform", [0.5, 0.3, 0.2], {"ant": 0.2, "bee": 0.2, "cow": 0.6}]


@pytest.mark.parametrize("target_prior", TARGETS, ids=str)
@pytest.mark.parametrize("own", [None, np.linspace(0.5, 2.0, len(y))], ids=["plain", "weights"])
def test_the_classes_weigh_what_the_target_prior_says(notes, own, target_prior):
    meta = RebalancedClassifierCV(Watched(), training="weighted", target_prior=target_prior, cv=3)
    meta.fit(X, names, sample_weight=own)
    labels, weight = notes[-1]  # of the training on all data
    mass = np.array([weight[labels == name].sum() for name in NAMES])
    np.testing.assert_allclose(mass / mass.sum(), meta.target_prior_)
    assert mass.sum() == pytest.approx(len(y) if own is None else own.sum())
    np.testing.assert_allclose(
        meta.source_prior_, rp.prior_from_labels(y, sample_weight=own)
    )  # the direction
    assert meta.score(X, names) > 0.3


@pytest.mark.parametrize(
    "model, place",
    [
        (LogisticRegression(), "class_weight"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "logisticregression__class_weight"),
        (GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2), "estimator__class_weight"),
        (
            GridSearchCV(make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=2)),
                         {"decisiontreeclassifier__max_depth": [2]}, cv=2),
            "estimator__decisiontreeclassifier__class_weight",
        ),
        (RandomForestClassifier(5, random_state=0), "class_weight"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)  # fmt: skip
def test_class_weights_by_the_parameter(model, place):
    meta = RebalancedClassifierCV(model, training="weighted", cv=2).fit(X, names)
    weights = meta.estimator_.get_params()[place]
    assert weights == pytest.approx(dict(zip(NAMES.tolist(), 1 / (3 * PRIOR), strict=True)))


@pytest.mark.parametrize(
    "model",
    [
        GaussianNB(),
        HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=4),
        make_pipeline(StandardScaler(), GaussianNB()),
        GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9]}, cv=2),
        VotingClassifier([("a", GaussianNB()), ("b", LogisticRegression())], voting="soft"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_sample_weights_where_there_is_no_parameter(model):
    meta = RebalancedClassifierCV(model, training="weighted", cv=2).fit(X, names)
    assert meta.training_ == "weighted"
    inside = meta.estimator_
    inside = getattr(inside, "best_estimator_", inside)
    inside = inside[-1] if hasattr(inside, "steps") else inside
    if isinstance(inside, GaussianNB):
        np.testing.assert_allclose(inside.class_prior_, np.full(3, 1 / 3))


def test_boosters_of_every_library():
    lightgbm = pytest.importorskip("lightgbm")
    xgboost = pytest.importorskip("xgboost")
    catboost = pytest.importorskip("catboost")
    models = [
        lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1),
        xgboost.XGBClassifier(n_estimators=5, n_jobs=1),
        catboost.CatBoostClassifier(
            iterations=5, verbose=False, thread_count=1, allow_writing_files=False
        ),
    ]
    for model in models:
        labels = y if isinstance(model, xgboost.XGBClassifier) else names
        meta = RebalancedClassifierCV(model, training="weighted", cv=2).fit(X, labels)
        plain = RebalancedClassifierCV(model, cv=2).fit(X, labels)
        share = [np.bincount(each.estimator_.predict_proba(X).argmax(1), minlength=3)
                 for each in (plain, meta)]  # fmt: skip
        assert share[1][2] > share[0][2]  # the rare class is predicted more often


# -------------------------------------------------------------------------- which one wins


def test_auto_keeps_constraints_on_metrics_without_a_name():
    cost = rp.Cost([[0, 1, 1], [2, 0, 1], [5, 2, 0]])
    rule = (cost, "<= baseline + 0.05")
    auto = RebalancedClassifierCV(MODEL, cv=CV, training="auto", subject_to=[rule]).fit(X, y)
    alone = RebalancedClassifierCV(MODEL, cv=CV, subject_to=[rule]).fit(X, y)
    assert auto.best_score_ >= alone.best_score_
    limit = alone.profile_.evaluate(cost, [0.0])[0] + 0.05
    assert auto.profile_.evaluate(cost, [auto.strength_])[0] <= limit + ROUNDING


def test_the_summary_says_which_training_won():
    for training, words in {"weighted": "class weights", "auto": "better of two"}.items():
        meta = RebalancedClassifierCV(MODEL, cv=CV, training=training).fit(X, y)
        assert words in meta.calibrator_.summary()
        assert words in meta._repr_html_()
    plain = RebalancedClassifierCV(MODEL, cv=CV).fit(X, y)
    assert "trained" not in plain.calibrator_.summary()


@pytest.mark.parametrize("metric", ["balanced_accuracy", "macro_f1", "accuracy", "mcc"])
def test_auto_takes_the_larger_out_of_fold_value(metric):
    options = {"cv": CV, "metric": metric}
    as_given = RebalancedClassifierCV(MODEL, **options).fit(X, y)
    weighted = RebalancedClassifierCV(MODEL, training="weighted", **options).fit(X, y)
    auto = RebalancedClassifierCV(MODEL, training="auto", **options).fit(X, y)
    better = weighted if weighted.best_score_ - as_given.best_score_ > 2**-48 else as_given
    assert auto.training_ == better.training_
    assert auto.strength_ == better.strength_
    np.testing.assert_array_equal(auto.predict_proba(X), better.predict_proba(X))
    folds = auto.cv_results_
    assert folds["training"].tolist() == ["as_given"] * 4 + ["weighted"] * 4
    assert folds["split"].tolist() == [*range(4), *range(4)]


class Indifferent(Watched):
    """Learns the same with weights and without."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y)


@pytest.mark.filterwarnings("ignore:The best strength l")
def test_equal_values_go_to_the_training_as_given(notes):
    meta = RebalancedClassifierCV(Indifferent(), training="auto", cv=3, bounds=(-1, 2))
    assert meta.fit(X, names).training_ == "as_given"


def test_the_folds_are_shared_and_the_cost_is_as_stated(notes):
    for training, fits in {"as_given": 4, "weighted": 4, "auto": 7}.items():
        notes.clear()
        RebalancedClassifierCV(Watched(), training=training, cv=3).fit(X, names)
        assert len(notes) == fits
    notes.clear()
    random = StratifiedKFold(3, shuffle=True)  # other folds at every call
    RebalancedClassifierCV(Watched(), training="auto", cv=random).fit(X, names)
    for training, ensemble, fits in (("as_given", True, 3), ("auto", True, 6)):
        notes.clear()
        RebalancedClassifierCV(Watched(), training=training, ensemble=ensemble, cv=3).fit(X, names)
        assert len(notes) == fits


def test_the_smaller_log_loss_wins():
    options = {"cv": CV, "metric": "log_loss"}
    each = {
        name: RebalancedClassifierCV(MODEL, training=name, **options).fit(X, y)
        for name in ("as_given", "weighted", "auto")
    }
    better = min(("as_given", "weighted"), key=lambda name: each[name].best_score_)
    assert each["auto"].training_ == better
    assert each["auto"].best_score_ == each[better].best_score_


def test_constraints_refer_to_the_model_as_given():
    rule = "accuracy >= baseline - 0.02"
    scores = cross_val_predict(MODEL, X, y, cv=CV, method="predict_log_proba")
    baseline = float((scores.argmax(1) == y).mean())
    meta = RebalancedClassifierCV(MODEL, training="auto", cv=CV, subject_to=rule).fit(X, y)
    assert meta.profile_.evaluate("accuracy", meta.strength_) >= baseline - 0.02 - 1e-12
    expected = {
        "as_given": by_hand(MODEL, (0.0, 2.0), subject_to=rule).best_score_,
        "weighted": by_hand(
            BALANCED, (-1.0, 1.0), subject_to=f"accuracy >= {baseline - 0.02!r}"
        ).best_score_,
    }
    assert meta.best_score_ == pytest.approx(max(expected.values()), abs=2e-3)


def test_a_promise_is_of_a_frozen_estimator(notes):
    options = {"subject_to": "recall[cow] >= 0.2", "certify": 0.9}
    for training in ("as_given", "weighted", "auto"):
        with pytest.raises(rp.OptionError, match="`estimator` must be frozen with `certify`"):
            RebalancedClassifierCV(Watched(), training=training, cv=3, **options).fit(X, names)
    assert not notes  # it costs no training
    prior = rp.prior_from_labels(names)
    frozen = FrozenEstimator(Watched().fit(X, names))
    meta = RebalancedClassifierCV(frozen, source_prior=prior, **options)
    meta.fit(X, names)
    assert meta.certified_
    assert meta.profile_.evaluate("recall[2]", meta.strength_) > 0.2


class Forgetful(Watched):
    """Knows the frequent class only, unless it is trained with weights."""

    def predict_proba(self, X):
        found = self.model_.predict_proba(X)
        if np.allclose(self.model_.class_prior_, 1 / 3, atol=0.02):
            return found
        return np.tile([0.9, 0.05, 0.05], (len(X), 1))


def test_a_training_that_cannot_meet_the_constraints_loses(notes):
    rules = ["recall[cow] >= 0.3", "recall[ant] >= 0.3"]
    options = {"cv": 3, "subject_to": rules}
    with pytest.raises(rp.InfeasibleError):
        RebalancedClassifierCV(Forgetful(), **options).fit(X, names)
    meta = RebalancedClassifierCV(Forgetful(), training="auto", **options).fit(X, names)
    assert meta.training_ == "weighted"
    given = meta.cv_results_["training"] == "as_given"
    assert np.isnan(meta.cv_results_["after_balanced_accuracy"][given]).all()
    impossible = {"cv": 3, "subject_to": "recall[cow] >= 1.5", "training": "auto"}
    with pytest.raises(rp.InfeasibleError):
        RebalancedClassifierCV(Forgetful(), **impossible).fit(X, names)


# ------------------------------------------------------------------- where it does not apply

NOT_WEIGHTED = {
    "frozen": (lambda: FrozenEstimator(GaussianNB().fit(X, names)), "which is not trained"),
    "balanced": (lambda: LogisticRegression(class_weight="balanced"), "class_weight='balanced'"),
    "forest": (lambda: BalancedRandomForestClassifier(3, random_state=0), "sampling_strategy"),
    "pipeline": (
        lambda: make_sampling_pipeline(RandomOverSampler(random_state=0), GaussianNB()),
        "RandomOverSampler in a pipeline, which re-samples",
    ),
    "search": (
        lambda: GridSearchCV(LogisticRegression(), {"class_weight": [None, "balanced"]}, cv=2),
        "which tries values of class_weight",
    ),
    "neighbours": (lambda: KNeighborsClassifier(15), "neither class nor sample weights"),
    "nested": (
        lambda: VotingClassifier([("a", BALANCED), ("b", GaussianNB())], voting="soft"),
        "inside VotingClassifier",
    ),
}


@pytest.mark.filterwarnings("ignore::reprior.RepriorWarning")
@pytest.mark.parametrize("name", NOT_WEIGHTED)
def test_weighted_is_refused_and_auto_trains_as_given(name):
    make, words = NOT_WEIGHTED[name]
    with pytest.raises(rp.OptionError, match="`training` must be 'as_given' or 'auto'") as caught:
        RebalancedClassifierCV(make(), training="weighted", cv=2).fit(X, names)
    assert words in str(caught.value)
    meta = RebalancedClassifierCV(make(), training="auto", cv=2).fit(X, names)
    assert meta.training_ == "as_given"


def test_nothing_to_weight_where_the_target_is_the_source(notes):
    with pytest.warns(rp.RepriorWarning, match="The target prior is the source prior"):
        meta = RebalancedClassifierCV(Watched(), training="auto", target_prior="labels", cv=3).fit(
            X, names
        )
    assert len(notes) == 4
    assert meta.training_ == "as_given"
    np.testing.assert_allclose(meta.target_prior_, PRIOR)


def test_a_fold_without_a_class_is_weighted_too():
    cow = np.flatnonzero(y == 2)
    rest = np.flatnonzero(y != 2)
    splits = [(rest[:200], np.r_[rest[200:], cow]), (np.r_[rest[100:], cow], rest[:100])]
    with pytest.warns(rp.RepriorWarning, match="Fold 0 of 2 trains without class 'cow'") as caught:
        RebalancedClassifierCV(MODEL, cv=splits, training="auto").fit(X, names)
    assert sum("trains without" in str(each.message) for each in caught) == 1


def test_with_metadata_routing_a_class_weight_needs_no_request():
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    with sklearn.config_context(enable_metadata_routing=True):
        meta = RebalancedClassifierCV(pipeline, training="weighted", cv=2).fit(X, names)
        assert meta.training_ == "weighted"
        with pytest.raises(rp.OptionError, match="neither class nor sample weights"):
            RebalancedClassifierCV(
                make_pipeline(StandardScaler(), GaussianNB()), training="weighted", cv=2
            ).fit(X, names)


# ----------------------------------------------------------------------- other deployment mixes


def logistic_data(n=40_000):
    rng = np.random.default_rng(0)
    y = rng.choice(3, n, p=[0.8, 0.14, 0.06])
    return rng.normal(size=(n, 2)) + np.array([[0, 0], [1.5, 0], [0, 1.5]])[y], y


def test_retargeting_a_weighted_model_follows_bayes():
    """Both trainings are consistent: their posteriors for a third mix agree at λ = 1 and λ = 0."""
    X, y = logistic_data()
    new = [0.3, 0.3, 0.4]
    plain = LogisticRegression().fit(X, y)
    exact = rp.rebalance(plain.predict_proba(X), rp.prior_from_labels(y), target_prior=new,
                         kind="probs")  # fmt: skip
    meta = RebalancedClassifierCV(MODEL, training="weighted", cv=0.2, random_state=0).fit(X, y)
    assert abs(meta.strength_) < 0.25  # what λ = 1 is for the model as given
    other = meta.retarget(new)
    found = other.predict_proba(X)
    np.testing.assert_array_equal(found, meta.predict_proba(X, target_prior=new))
    np.testing.assert_allclose(other.target_prior_, new)
    extra = rp.rebalance(found, meta.target_prior_, target_prior=meta.source_prior_, kind="probs",
                         strength=meta.strength_)  # fmt: skip
    again = RebalancedClassifierCV(MODEL, cv=0.2, random_state=0).fit(X, y).retarget(new)
    assert (other.predict(X) == again.predict(X)).mean() > 0.97
    assert extra.shape == exact.shape
    at_0 = meta.estimator_.predict_log_proba(X) + np.log(np.array(new) * 3)
    shift = (1 + meta.strength_) * np.log(np.array(new) * 3) + meta.strength_ * (
        -np.log(3) - np.log(meta.source_prior_)
    )
    expected = meta.estimator_.predict_log_proba(X) + shift
    np.testing.assert_array_equal(other.predict(X), expected.argmax(axis=1))
    assert np.abs(np.exp(at_0) / np.exp(at_0).sum(1, keepdims=True) - exact).max() < 0.03


def test_the_mix_of_a_batch_is_estimated_from_what_a_weighted_model_has_learnt():
    X, y = logistic_data()
    rng = np.random.default_rng(1)
    batch = np.concatenate([rng.choice(np.flatnonzero(y == k), n)
                            for k, n in enumerate((800, 700, 1500))])  # fmt: skip
    meta = RebalancedClassifierCV(MODEL, training="weighted", cv=0.2, random_state=0).fit(X, y)
    with pytest.warns(rp.RepriorWarning, match="estimated from the model's probabilities"):
        found = meta.predict_proba(X[batch], target_prior="estimate")
    mean = found.mean(axis=0)
    np.testing.assert_allclose(mean, np.array([800, 700, 1500]) / 3000, atol=0.08)


# ------------------------------------------------------------------------------- ensembles


@pytest.mark.parametrize("method", ["predict_log_proba", "predict_proba", "decision_function"])
@pytest.mark.parametrize("data", [three_classes, two_classes])
def test_an_ensemble_is_the_mean_of_the_models_of_the_folds(method, data):
    X, y = data()
    options = {"cv": 3, "response_method": method}
    one = RebalancedClassifierCV(LogisticRegression(), **options).fit(X, y)
    many = RebalancedClassifierCV(LogisticRegression(), ensemble=True, **options).fit(X, y)
    assert many.strength_ == one.strength_  # the same out-of-fold scores
    models = [
        LogisticRegression().fit(X[train], y[train]) for train, _ in StratifiedKFold(3).split(X, y)
    ]
    if method == "decision_function":
        mean = np.mean([model.decision_function(X) for model in models], axis=0)
        logs = np.stack([np.zeros_like(mean), mean], axis=1) if mean.ndim == 1 else mean
    else:
        logs = np.log(np.mean([model.predict_proba(X) for model in models], axis=0))
    w = -np.log(many.source_prior_)
    np.testing.assert_array_equal(many.predict(X), (logs + many.strength_ * w).argmax(axis=1))
    assert many.n_features_in_ == 5
    assert set(many.estimator_.predict(X)) <= set(many.classes_)
    assert np.asarray(many.estimator_.predict(X)).shape == (len(X),)


def test_an_ensemble_keeps_the_models_of_the_better_training():
    meta = RebalancedClassifierCV(MODEL, training="auto", ensemble=True, cv=CV).fit(X, names)
    weighted = [model.class_weight is not None for model in meta.estimator_.estimators]
    assert len(weighted) == 4
    assert set(weighted) == {meta.training_ == "weighted"}


def test_a_frozen_estimator_is_its_own_ensemble():
    frozen = FrozenEstimator(GaussianNB().fit(X, names))
    meta = RebalancedClassifierCV(frozen, ensemble=True, source_prior=PRIOR).fit(X, names)
    assert meta.estimator_ is frozen


def test_a_weighted_linear_model_is_folded_like_any_other():
    meta = RebalancedClassifierCV(MODEL, training="weighted", cv=CV).fit(X, names)
    np.testing.assert_array_equal(fold_into(meta).predict(X), meta.predict(X))
    np.testing.assert_allclose(fold_into(meta).predict_proba(X), meta.predict_proba(X),
                               rtol=ROUNDING * 100, atol=1e-12)  # fmt: skip
