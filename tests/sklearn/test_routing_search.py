"""The weights that reach a classifier inside a search over parameters."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import VotingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - switches it on
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.sklearn.shared import three_classes

import reprior as rp
from reprior.sklearn import RebalancedClassifierCV

X, y = three_classes(n=300)
WEIGHT = np.where(y == 2, 6.0, 1.0)
PLAIN = rp.prior_from_labels(y)
WEIGHTED = rp.prior_from_labels(y, sample_weight=WEIGHT)
STEP = {"gaussiannb__var_smoothing": [1e-9, 1e-8]}


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


class Wrapper(ClassifierMixin, BaseEstimator):
    """Takes any parameter, and does not say what it does with it."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y, **fit_params):
        self.estimator_ = clone(self.estimator).fit(X, y, **fit_params)
        self.classes_ = self.estimator_.classes_
        return self

    def predict_proba(self, X):
        return self.estimator_.predict_proba(X)


def pipeline():
    return make_pipeline(StandardScaler(), GaussianNB())


def asking(scaler, model):
    return make_pipeline(
        StandardScaler().set_fit_request(sample_weight=scaler),
        GaussianNB().set_fit_request(sample_weight=model).set_score_request(sample_weight=False),
    )


SEARCHES = [
    GridSearchCV(pipeline(), STEP, cv=2),
    RandomizedSearchCV(pipeline(), STEP, n_iter=2, cv=2, random_state=0),
    HalvingGridSearchCV(pipeline(), STEP, cv=2, min_resources=100, random_state=0),
]


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
def test_weights_by_the_name_of_the_step_reach_it_through_a_search(search):
    classifier = RebalancedClassifierCV(search, cv=2)
    classifier.fit(X, y, gaussiannb__sample_weight=WEIGHT)
    np.testing.assert_allclose(classifier.source_prior_, WEIGHTED)
    np.testing.assert_allclose(classifier.estimator_.best_estimator_[-1].class_prior_, WEIGHTED)


def test_weights_of_another_step_do_not_count():
    classifier = RebalancedClassifierCV(SEARCHES[0], cv=2)
    classifier.fit(X, y, standardscaler__sample_weight=WEIGHT)
    np.testing.assert_allclose(classifier.source_prior_, PLAIN)


def test_a_search_hands_weights_on():
    search = GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9]}, cv=2)
    classifier = RebalancedClassifierCV(search, cv=2).fit(X, y, sample_weight=WEIGHT)
    np.testing.assert_allclose(classifier.source_prior_, WEIGHTED)
    np.testing.assert_allclose(classifier.estimator_.best_estimator_.class_prior_, WEIGHTED)


def test_a_search_over_a_pipeline_names_the_step():
    nested = GridSearchCV(make_pipeline(StandardScaler(), pipeline()), {}, cv=2)
    words = "Pass pipeline__gaussiannb__sample_weight too"
    with pytest.warns(rp.RepriorWarning, match=words) as caught:
        classifier = RebalancedClassifierCV(nested, cv=2).fit(X, y, sample_weight=WEIGHT)
    assert __file__ in {warning.filename for warning in caught}
    np.testing.assert_allclose(classifier.source_prior_, PLAIN)


@pytest.mark.parametrize(
    "inner, name",
    [(pipeline(), "gaussiannb__sample_weight"), (GaussianNB(), "wrapper__sample_weight")],
)
def test_doubt_brings_a_warning_unless_the_prior_is_given(inner, name):
    model = Wrapper(inner) if name.startswith("g") else make_pipeline(Wrapper(inner))
    with pytest.warns(rp.RepriorWarning, match="It is unknown whether.*as an array") as caught:
        RebalancedClassifierCV(model, cv=2).fit(X, y, **{name: WEIGHT})
    assert __file__ in {warning.filename for warning in caught}
    classifier = RebalancedClassifierCV(model, cv=2, source_prior=WEIGHTED)
    classifier.fit(X, y, **{name: WEIGHT})


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize(
    "scaler, model, prior",
    [(True, True, WEIGHTED), (False, True, WEIGHTED), (True, False, PLAIN)],
)
def test_routed_through_a_search(scaler, model, prior):
    scorer = get_scorer("accuracy").set_score_request(sample_weight=False)
    search = GridSearchCV(asking(scaler, model), STEP, cv=2, scoring=scorer)
    classifier = RebalancedClassifierCV(search, cv=2).fit(X, y, sample_weight=WEIGHT)
    np.testing.assert_allclose(classifier.source_prior_, prior)
    np.testing.assert_allclose(classifier.estimator_.best_estimator_[-1].class_prior_, prior)


@pytest.mark.filterwarnings("ignore:The best strength l")
@pytest.mark.usefixtures("routing")
def test_routed_by_another_name_or_to_none():
    scorer = get_scorer("accuracy").set_score_request(sample_weight=False)
    search = GridSearchCV(asking(False, "mass"), STEP, cv=2, scoring=scorer)
    classifier = RebalancedClassifierCV(search, cv=2).fit(X, y, mass=WEIGHT)
    np.testing.assert_allclose(classifier.source_prior_, WEIGHTED)
    scaler = StandardScaler().set_fit_request(sample_weight=True)
    neighbours = make_pipeline(scaler, KNeighborsClassifier())
    classifier = RebalancedClassifierCV(neighbours, cv=2)
    classifier.fit(X, y, sample_weight=WEIGHT)
    np.testing.assert_allclose(classifier.source_prior_, PLAIN)


@pytest.mark.filterwarnings("ignore:The best strength l")
@pytest.mark.usefixtures("routing")
def test_routed_through_a_choice_of_threshold():
    scorer = get_scorer("balanced_accuracy").set_score_request(sample_weight=False)
    tuned = TunedThresholdClassifierCV(asking(True, False), scoring=scorer, cv=2)
    is_first = y == 0
    classifier = RebalancedClassifierCV(tuned, cv=2).fit(X, is_first, sample_weight=WEIGHT)
    np.testing.assert_allclose(classifier.source_prior_, [1 - PLAIN[0], PLAIN[0]])


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("second", [True, False])
def test_members_that_disagree_are_in_doubt(second, recwarn):
    members = [
        ("a", GaussianNB().set_fit_request(sample_weight=True)),
        ("b", LogisticRegression().set_fit_request(sample_weight=second)),
    ]
    vote = VotingClassifier(members, voting="soft")
    classifier = RebalancedClassifierCV(vote, cv=2).fit(X, y, sample_weight=WEIGHT)
    np.testing.assert_allclose(classifier.source_prior_, WEIGHTED)
    doubts = [w for w in recwarn if "It is unknown whether" in str(w.message)]
    assert len(doubts) == (not second)
