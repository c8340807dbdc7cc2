"""The effective prior: every way in which a model learns other frequencies than the labels'."""

from __future__ import annotations

import numpy as np
import pytest
from imblearn.ensemble import (
    BalancedBaggingClassifier,
    BalancedRandomForestClassifier,
    EasyEnsembleClassifier,
    RUSBoostClassifier,
)
from imblearn.over_sampling import SMOTE, RandomOverSampler
from imblearn.pipeline import make_pipeline as make_sampling_pipeline
from imblearn.under_sampling import EditedNearestNeighbours, RandomUnderSampler
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    BaggingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from tests.sklearn.shared import NAMES, three_classes, two_classes

import reprior as rp
from reprior.sklearn import RebalancedClassifierCV
from reprior.sklearn.source_prior import (
    Seen,
    check_source_prior,
    effective_prior,
    is_frozen,
    label_prior,
    reweighting,
)

X, y = three_classes(n=300)
names = NAMES[y]
COUNTS = np.bincount(y)
UNIFORM = np.full(3, 1 / 3)


def normal(mass):
    return np.asarray(mass) / np.sum(mass)


def prior_of(model, X=X, labels=names, weight=None):
    fitted = model.fit(X, labels)
    seen = Seen.of(X, np.asarray(labels), np.unique(labels), weight)
    return effective_prior(fitted, seen)[0]


class Booster(ClassifierMixin, BaseEstimator):
    """Has the parameters of the boosting libraries, and learns nothing."""

    def __init__(
        self,
        scale_pos_weight=None,
        is_unbalance=False,
        class_weights=None,
        auto_class_weights=None,
    ):
        self.scale_pos_weight = scale_pos_weight
        self.is_unbalance = is_unbalance
        self.class_weights = class_weights
        self.auto_class_weights = auto_class_weights

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self


WEIGHTS = {"ant": 1, "bee": 10}

UNTOUCHED = [
    LogisticRegression(),
    GaussianNB(),
    make_pipeline(StandardScaler(), LogisticRegression()),
    Booster(scale_pos_weight=1, auto_class_weights="None"),
    BernoulliNB(),
    VotingClassifier([("a", GaussianNB()), ("b", LogisticRegression())]),
    # Calibrated against the labels, whatever the model inside was told.
    CalibratedClassifierCV(LogisticRegression(class_weight="balanced"), cv=2),
    # Only what the last model is told counts.
    StackingClassifier([("a", LogisticRegression(class_weight="balanced"))], cv=2),
]

UNIFORMED = [
    LogisticRegression(class_weight="balanced"),
    DecisionTreeClassifier(random_state=0, class_weight="balanced"),
    RandomForestClassifier(3, random_state=0, class_weight="balanced_subsample"),
    make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced")),
    GridSearchCV(LogisticRegression(), {"class_weight": ["balanced"]}, cv=2),
    BaggingClassifier(
        DecisionTreeClassifier(random_state=0, class_weight="balanced"),
        n_estimators=2,
        random_state=0,
    ),
    StackingClassifier([("a", GaussianNB())], LogisticRegression(class_weight="balanced"), cv=2),
    CalibratedClassifierCV(LogisticRegression(class_weight="balanced"), method="temperature", cv=2),
    Booster(auto_class_weights="Balanced"),
    BernoulliNB(fit_prior=False),
    make_sampling_pipeline(RandomUnderSampler(random_state=0), LogisticRegression()),
    make_sampling_pipeline(
        StandardScaler(), "passthrough", RandomOverSampler(random_state=0), GaussianNB()
    ),
    make_sampling_pipeline(
        SMOTE(k_neighbors=2, random_state=0), StandardScaler(), LogisticRegression()
    ),
    BalancedRandomForestClassifier(3, random_state=0),
    BalancedBaggingClassifier(n_estimators=2, random_state=0),
    EasyEnsembleClassifier(n_estimators=2, random_state=0),
    RUSBoostClassifier(n_estimators=3, random_state=0),
]

TOLD = [
    (LogisticRegression(class_weight=WEIGHTS), COUNTS * [1, 10, 1]),
    (RandomForestClassifier(3, random_state=0, class_weight=WEIGHTS), COUNTS * [1, 10, 1]),
    (
        BaggingClassifier(LogisticRegression(class_weight={1: 5}), n_estimators=2, random_state=0),
        COUNTS * [1, 5, 1],
    ),
    (Booster(class_weights=[1, 2, 3]), COUNTS * [1, 2, 3]),
    (Booster(auto_class_weights="SqrtBalanced"), np.sqrt(COUNTS)),
    (GaussianNB(priors=[0.2, 0.3, 0.5]), [0.2, 0.3, 0.5]),
    (LinearDiscriminantAnalysis(priors=[0.2, 0.3, 0.5]), [0.2, 0.3, 0.5]),
    (BernoulliNB(class_prior=[0.2, 0.3, 0.5], fit_prior=False), [0.2, 0.3, 0.5]),
    (
        make_sampling_pipeline(
            RandomUnderSampler(random_state=0, sampling_strategy={"ant": 50}), GaussianNB()
        ),
        [50, COUNTS[1], COUNTS[2]],
    ),
    (
        BalancedRandomForestClassifier(3, random_state=0, sampling_strategy={"ant": 50}),
        [50, *COUNTS[1:]],
    ),
    (
        make_sampling_pipeline(
            RandomOverSampler(random_state=0, sampling_strategy={"cow": 90}),
            LogisticRegression(class_weight={"cow": 2}),
        ),
        [COUNTS[0], COUNTS[1], 180],
    ),
]


def first_words(value):
    return " ".join(str(value).split())[:70] if isinstance(value, BaseEstimator) else ""


@pytest.mark.parametrize("model", UNTOUCHED, ids=first_words)
def test_frequencies_of_the_labels(model):
    np.testing.assert_allclose(prior_of(model), normal(COUNTS))
    assert reweighting(model) == []


@pytest.mark.parametrize("model", UNIFORMED, ids=first_words)
def test_balanced(model):
    np.testing.assert_allclose(prior_of(model), UNIFORM)
    assert len(reweighting(model)) == 1


@pytest.mark.parametrize("model, mass", TOLD, ids=first_words)
def test_weighed_sampled_or_told(model, mass):
    np.testing.assert_allclose(prior_of(model), normal(mass))
    assert reweighting(model)


@pytest.mark.filterwarnings("ignore:.*probability.*:FutureWarning")
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_probabilities_of_a_support_vector_machine_follow_the_labels(class_weight):
    rng = np.random.default_rng(0)
    y = (rng.random(1000) < 0.1).astype(int)
    X = rng.normal(size=(1000, 2)) + 1.5 * y[:, None]
    model = SVC(probability=True, kernel="linear", class_weight=class_weight, random_state=0)
    assert model.fit(X, y).predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.02)
    np.testing.assert_allclose(prior_of(model, X, y), normal(np.bincount(y)))


def test_margins_of_a_weighted_support_vector_machine_do_not():
    model = SVC(class_weight={"bee": 10})
    np.testing.assert_allclose(prior_of(model), normal(COUNTS * [1, 10, 1]))


def test_a_cleaning_sampler_is_counted_on_the_transformed_data():
    cleaner = EditedNearestNeighbours()
    scale = StandardScaler().fit(X)
    kept = cleaner.fit_resample(scale.transform(X), y)[1]
    model = make_sampling_pipeline(StandardScaler(), EditedNearestNeighbours(), GaussianNB())
    np.testing.assert_allclose(prior_of(model), normal(np.bincount(kept)))


def test_a_positive_weight():
    X, y = two_classes()
    prior = prior_of(Booster(scale_pos_weight=9.0), X, y)
    np.testing.assert_allclose(prior, normal(np.bincount(y) * [1, 9]))
    np.testing.assert_allclose(prior_of(Booster(is_unbalance=True), X, y), [0.5, 0.5])
    threshold = TunedThresholdClassifierCV(LogisticRegression(class_weight="balanced"), cv=2)
    np.testing.assert_allclose(prior_of(threshold, X, y), [0.5, 0.5])


@pytest.mark.parametrize(
    "model, words",
    [
        (Booster(scale_pos_weight=2.0), "scale_pos_weight with 3 classes"),
        (Booster(is_unbalance=True), "is_unbalance with 3 classes"),
        (Booster(auto_class_weights="Other"), r"auto_class_weights='Other'"),
        (
            VotingClassifier([("a", LogisticRegression(class_weight="balanced"))]),
            r"LogisticRegression\(class_weight='balanced'\) inside VotingClassifier",
        ),
        (OneVsRestClassifier(LogisticRegression(class_weight="balanced")), "inside OneVsRest"),
        (
            VotingClassifier([("a", FrozenEstimator(GaussianNB(priors=UNIFORM).fit(X, names)))]),
            "GaussianNB.* inside VotingClassifier",
        ),
        (
            VotingClassifier([("a", BalancedRandomForestClassifier(3, random_state=0))]),
            "sampling_strategy='all'",
        ),
        (RebalancedClassifierCV(GaussianNB()), "target_prior='uniform'"),
    ],
    ids=[
        "K=3",
        "K=3, unbalance",
        "unknown",
        "voting",
        "one-vs-rest",
        "frozen",
        "sampler",
        "rebalanced",
    ],
)
def test_what_cannot_be_told_is_said(model, words):
    with pytest.raises(rp.PriorError, match=words) as error:
        prior_of(model)
    assert "cannot be determined" in str(error.value)
    assert "Pass the class distribution that the model was trained on" in str(error.value)
    assert reweighting(model.fit(X, names))


def test_a_sampler_that_fails_on_tuning_data_cannot_be_told():
    pipeline = make_sampling_pipeline(SMOTE(random_state=0), GaussianNB()).fit(X, names)
    few = np.concatenate([np.flatnonzero(y == k)[:n] for k, n in ((0, 9), (1, 3), (2, 3))])
    seen = Seen.of(X[few], names[few], NAMES, None)
    with pytest.raises(rp.PriorError, match="SMOTE, which fails on these data") as error:
        effective_prior(FrozenEstimator(pipeline), seen)
    assert isinstance(error.value.__cause__, ValueError)


def test_a_class_of_weight_0():
    model = DecisionTreeClassifier(random_state=0, class_weight={"cow": 0})
    with pytest.raises(rp.PriorError, match="effective weight of 0 for class 'cow'"):
        prior_of(model)


# --------------------------------------------------------------------------------- weights

WEIGHT = np.where(y == 1, 5.0, 1.0)


def test_sample_weights_count():
    np.testing.assert_allclose(prior_of(GaussianNB(), weight=WEIGHT), normal(COUNTS * [1, 5, 1]))
    np.testing.assert_allclose(
        prior_of(LogisticRegression(class_weight={"cow": 2}), weight=WEIGHT),
        normal(COUNTS * [1, 5, 2]),
    )
    balanced_forest = BalancedRandomForestClassifier(3, random_state=0)
    np.testing.assert_allclose(prior_of(balanced_forest, weight=WEIGHT), normal([1, 5, 1]))


@pytest.mark.parametrize(
    "model, expected",
    [
        (LogisticRegression(class_weight="balanced"), UNIFORM),
        (LinearSVC(class_weight="balanced"), UNIFORM),
        (DecisionTreeClassifier(random_state=0, class_weight="balanced"), normal([1, 5, 1])),
    ],
    ids=["logistic", "svc", "tree"],
)
def test_balance_of_weights_or_of_counts(model, expected):
    np.testing.assert_allclose(prior_of(model, weight=WEIGHT), expected)


@pytest.mark.parametrize("model", [LogisticRegression, DecisionTreeClassifier])
def test_scikit_learn_balances_as_we_think_it_does(model):
    """A model without features can only learn the prior it was shown."""
    nothing = np.zeros((len(y), 1))
    options = {"C": 1e6, "tol": 1e-8} if model is LogisticRegression else {"random_state": 0}
    fitted = model(class_weight="balanced", **options).fit(nothing, names, sample_weight=WEIGHT)
    seen = Seen.of(nothing, names, NAMES, WEIGHT)
    np.testing.assert_allclose(
        fitted.predict_proba(nothing[:1])[0], effective_prior(fitted, seen)[0], atol=1e-4
    )


# -------------------------------------------------------------------- its use, and the warning


@pytest.mark.filterwarnings("ignore:The target prior is the source prior")
def test_balanced_training_is_not_corrected_twice():
    inner = LogisticRegression(class_weight="balanced")
    classifier = RebalancedClassifierCV(inner, source_prior="effective").fit(X, names)
    np.testing.assert_allclose(classifier.source_prior_, UNIFORM)
    np.testing.assert_allclose(
        classifier.predict_proba(X), inner.fit(X, names).predict_proba(X), rtol=1e-9
    )


def test_weighting_undone_by_the_effective_prior():
    """From balanced training back to the labels' own frequencies: strength 1 undoes the weights."""
    rng = np.random.default_rng(0)
    y = rng.choice(3, 40_000, p=[0.8, 0.14, 0.06])
    X = rng.normal(size=(40_000, 2)) + np.array([[0, 0], [1.5, 0], [0, 1.5]])[y]  # truly logistic
    own = rp.prior_from_labels(y)
    classifier = RebalancedClassifierCV(
        LogisticRegression(class_weight="balanced"),
        source_prior="effective",
        target_prior=own,
        metric="accuracy",
    ).fit(X, y)
    at_1 = classifier.profile_.evaluate("accuracy", 1.0)
    assert classifier.best_score_ - at_1 < 0.002  # 80 samples
    balanced = classifier.estimator_.predict_proba(X)
    undone = rp.rebalance(balanced, classifier.source_prior_, target_prior=own, kind="probs")
    plain = LogisticRegression().fit(X, y).predict_proba(X)
    # Two consistent estimates of one posterior: they differ by about 1 / √2400, the rare samples.
    np.testing.assert_allclose(undone, plain, atol=0.03)
    assert np.abs(balanced - plain).max() > 0.3


@pytest.mark.parametrize(
    "model, part",
    [
        (
            LogisticRegression(class_weight="balanced"),
            "LogisticRegression(class_weight='balanced')",
        ),
        (
            make_sampling_pipeline(RandomUnderSampler(random_state=0), GaussianNB()),
            "RandomUnderSampler",
        ),
        (BalancedRandomForestClassifier(3, random_state=0), "sampling_strategy='all'"),
    ],
    ids=["weights", "sampler", "forest"],
)
def test_labels_with_a_model_that_reweights_warn(model, part):
    with pytest.warns(rp.RepriorWarning, match="corrected twice") as caught:
        classifier = RebalancedClassifierCV(model, cv=3).fit(X, names)
    (warning,) = [w for w in caught if "corrected twice" in str(w.message)]
    assert part in str(warning.message)
    assert "Pass bounds=(-1, 1)" in str(warning.message)
    assert "source_prior='effective'" in str(warning.message)
    assert warning.filename == __file__
    np.testing.assert_allclose(classifier.source_prior_, normal(COUNTS))


def test_the_recipe_of_the_warning_searches_both_sides():
    """Frequencies as the source prior, bounds from −1: strength 0 is the model as it is."""
    inner = LogisticRegression(class_weight="balanced")
    by_recipe = RebalancedClassifierCV(inner, bounds=(-1, 1)).fit(X, names)  # no warning
    by_hand = RebalancedClassifierCV(inner, bounds=(-1, 1), source_prior=normal(COUNTS))
    assert by_recipe.strength_ == by_hand.fit(X, names).strength_
    assert by_recipe.profile_.bounds == (-1, 1)


def test_an_array_is_taken_at_its_word():
    inner = LogisticRegression(class_weight="balanced")
    classifier = RebalancedClassifierCV(inner, source_prior=[0.5, 0.3, 0.2]).fit(X, names)
    np.testing.assert_allclose(classifier.source_prior_, [0.5, 0.3, 0.2])
    by_name = {"cow": 0.2, "ant": 0.5, "bee": 0.3}
    again = RebalancedClassifierCV(inner, source_prior=by_name).fit(X, names)
    assert again.strength_ == classifier.strength_


def test_frozen():
    model = GaussianNB().fit(X, names)
    assert is_frozen(FrozenEstimator(model))
    assert is_frozen(make_pipeline(StandardScaler(), FrozenEstimator(model)))
    assert not is_frozen(model)
    assert not is_frozen(make_pipeline(FrozenEstimator(StandardScaler().fit(X)), model))


def test_a_plain_object_that_has_no_parameters():
    assert reweighting(object()) == []


def test_label_prior():
    np.testing.assert_allclose(label_prior(names, NAMES, None), rp.prior_from_labels(y))
    weight = np.linspace(0, 1, y.size)
    np.testing.assert_allclose(
        label_prior(names, NAMES, weight), rp.prior_from_labels(y, sample_weight=weight)
    )


@pytest.mark.parametrize(
    "weight, words",
    [(None, "must have samples of every class"), (np.ones(2), "must have samples of positive")],
)
def test_label_prior_of_a_class_without_samples(weight, words):
    with pytest.raises(rp.PriorError, match=f"{words}.*none of class 'cow'"):
        label_prior(np.array(["ant", "bee"]), NAMES, weight)


def test_a_class_of_weight_0_is_refused():
    with pytest.raises(rp.PriorError, match="none of class 'cow'"):
        RebalancedClassifierCV(GaussianNB()).fit(X, names, sample_weight=(y != 2).astype(float))


@pytest.mark.parametrize("option", ["labels", "effective", [9, 9, 9], dict.fromkeys("abc", 0.5)])
def test_what_is_left_to_the_calibrator(option):
    check_source_prior(option, NAMES)


@pytest.mark.parametrize(
    "option, words",
    [
        (0.5, r"Got 0\.5\. Pass an array of shape \(3,\)"),
        (None, r"Got None\. Pass an array"),
        (np.full((3, 1), 1 / 3), r"Pass an array of shape \(3,\)"),
        ({"ant": 1.0}, "Got 1 values for 3 classes"),
        ([0.5, 0.5], "Got 2 values for 3 classes"),
    ],
    ids=["number", "none", "2d", "mapping", "list"],
)
def test_what_is_no_prior_over_the_classes(option, words):
    with pytest.raises(rp.PriorError, match=words):
        RebalancedClassifierCV(GaussianNB(), source_prior=option).fit(X, names)


FROZEN = "but the frozen estimator was trained on others"


@pytest.mark.parametrize("source_prior", ["labels", "effective"])
@pytest.mark.parametrize("inside_a_pipeline", [False, True])
def test_a_frozen_model_was_trained_on_other_labels(source_prior, inside_a_pipeline):
    model = FrozenEstimator(GaussianNB().fit(X, names))
    if inside_a_pipeline:
        model = make_pipeline(StandardScaler(with_std=False), model)
    with pytest.warns(rp.RepriorWarning, match=FROZEN) as caught:
        RebalancedClassifierCV(model, source_prior=source_prior).fit(X, names)
    assert caught[0].filename == __file__


def test_no_warning_where_the_labels_have_no_say():
    balanced = FrozenEstimator(LogisticRegression(class_weight="balanced").fit(X, names))
    with pytest.warns(rp.RepriorWarning) as caught:
        RebalancedClassifierCV(balanced, source_prior="effective").fit(X, names)
    assert [str(w.message)[:16] for w in caught] == ["The target prior"]
    given = RebalancedClassifierCV(balanced, source_prior=[0.3, 0.3, 0.4])
    given.fit(X, names)  # no warning at all
