"""Who gets which of the arguments of ``fit``, with scikit-learn's metadata routing off and on."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
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


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


class Noting(GaussianNB):
    """Notes what `fit` is given."""

    notes: list = []  # noqa: RUF012 - clones share it

    def fit(self, X, y, sample_weight=None, colour=None):
        self.notes.append((len(y), sample_weight, colour))
        return super().fit(X, y, sample_weight)


@pytest.fixture
def notes():
    Noting.notes = []
    return Noting.notes


# ---------------------------------------------------------------------------------------- off


def test_weights_are_cut_to_the_fold(notes):
    colour = np.arange(300)
    classifier = RebalancedClassifierCV(Noting(), cv=3)
    classifier.fit(X, y, sample_weight=WEIGHT, colour=colour)
    assert [n for n, _, _ in notes] == [200, 200, 200, 300]
    assert all(len(weight) == len(part) == n for n, weight, part in notes)
    np.testing.assert_array_equal(notes[0][1], WEIGHT[notes[0][2]])
    np.testing.assert_allclose(classifier.source_prior_, WEIGHTED)
    assert classifier.profile_.baseline.support.sum() == WEIGHT.sum()


def test_parameters_that_are_no_arrays_pass(notes):
    RebalancedClassifierCV(Noting(), cv=3).fit(X, y, colour="blue")
    assert {colour for _, _, colour in notes} == {"blue"}


@pytest.mark.filterwarnings("ignore:The best strength l")  # five neighbours, few probabilities
def test_an_estimator_without_weights_is_tuned_with_them_only():
    with pytest.warns(rp.RepriorWarning, match="KNeighborsClassifier does not take") as caught:
        classifier = RebalancedClassifierCV(KNeighborsClassifier()).fit(X, y, sample_weight=WEIGHT)
    assert __file__ in {warning.filename for warning in caught}
    np.testing.assert_allclose(classifier.source_prior_, PLAIN)
    assert classifier.profile_.baseline.support.sum() == WEIGHT.sum()


def test_a_pipeline_takes_weights_by_the_name_of_its_step():
    pipeline = make_pipeline(StandardScaler(), GaussianNB())
    with pytest.warns(rp.RepriorWarning, match="Pass gaussiannb__sample_weight too"):
        classifier = RebalancedClassifierCV(pipeline).fit(X, y, sample_weight=WEIGHT)
    np.testing.assert_allclose(classifier.source_prior_, PLAIN)
    both = RebalancedClassifierCV(pipeline).fit(
        X, y, sample_weight=WEIGHT, gaussiannb__sample_weight=WEIGHT
    )
    np.testing.assert_allclose(both.source_prior_, WEIGHTED)
    np.testing.assert_allclose(both.estimator_[-1].class_prior_, WEIGHTED)
    nested = make_pipeline(StandardScaler(), make_pipeline(GaussianNB()))
    inner = {"pipeline__gaussiannb__sample_weight": WEIGHT}
    reached = RebalancedClassifierCV(nested).fit(X, y, **inner)
    np.testing.assert_allclose(reached.source_prior_, WEIGHTED)
    missed = RebalancedClassifierCV(nested).fit(X, y, standardscaler__sample_weight=WEIGHT)
    np.testing.assert_allclose(missed.source_prior_, PLAIN)


@pytest.mark.parametrize(
    "weight, words",
    [
        (WEIGHT[:-1], "sample_weight.shape"),
        (-WEIGHT, "[Nn]egative"),
        (np.where(y == 0, np.nan, 1.0), "NaN"),
        (np.ones((300, 2)), "1D"),
    ],
    ids=["short", "negative", "nan", "2d"],
)
def test_weights_that_are_none(weight, words):
    with pytest.raises(ValueError, match=words):
        RebalancedClassifierCV(KNeighborsClassifier()).fit(X, y, sample_weight=weight)


# ----------------------------------------------------------------------------------------- on


@pytest.mark.usefixtures("routing")
def test_weights_must_be_asked_for():
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        RebalancedClassifierCV(GaussianNB()).fit(X, y, sample_weight=WEIGHT)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("asked, prior", [(True, WEIGHTED), (False, PLAIN)])
def test_the_prior_is_weighted_if_the_estimator_asked(asked, prior):
    inner = GaussianNB().set_fit_request(sample_weight=asked)
    classifier = RebalancedClassifierCV(inner).fit(X, y, sample_weight=WEIGHT)
    np.testing.assert_allclose(classifier.source_prior_, prior)
    np.testing.assert_allclose(classifier.estimator_.class_prior_, prior)
    assert classifier.profile_.baseline.support.sum() == WEIGHT.sum()


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize(
    "scaler, model, prior",
    [(True, True, WEIGHTED), (False, True, WEIGHTED), (True, False, PLAIN)],
)
def test_in_a_pipeline_what_the_classifier_asked_for_counts(scaler, model, prior):
    pipeline = make_pipeline(
        StandardScaler().set_fit_request(sample_weight=scaler),
        GaussianNB().set_fit_request(sample_weight=model),
    )
    classifier = RebalancedClassifierCV(pipeline).fit(X, y, sample_weight=WEIGHT)
    np.testing.assert_allclose(classifier.source_prior_, prior)
    np.testing.assert_allclose(classifier.estimator_[-1].class_prior_, prior)


@pytest.mark.usefixtures("routing")
def test_weights_by_another_name():
    pipeline = make_pipeline(StandardScaler(), GaussianNB().set_fit_request(sample_weight="mass"))
    classifier = RebalancedClassifierCV(pipeline).fit(X, y, mass=WEIGHT)
    np.testing.assert_allclose(classifier.source_prior_, WEIGHTED)
    assert classifier.profile_.baseline.support.sum() == len(y)


@pytest.mark.usefixtures("routing")
def test_a_router_at_the_end_of_a_pipeline():
    search = GridSearchCV(
        LogisticRegression()
        .set_fit_request(sample_weight=True)
        .set_score_request(sample_weight=False),
        {"C": [1.0]},
        cv=2,
    )
    pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), search)
    classifier = RebalancedClassifierCV(pipeline, cv=2).fit(X, y, sample_weight=WEIGHT)
    np.testing.assert_allclose(classifier.source_prior_, WEIGHTED)


@pytest.mark.usefixtures("routing")
def test_groups_are_routed_to_the_splitter(notes):
    groups = np.repeat(np.arange(30), 10)
    RebalancedClassifierCV(Noting(), cv=GroupKFold(3)).fit(X, y, groups=groups)
    assert len(notes) == 4


@pytest.mark.usefixtures("routing")
def test_a_frozen_estimator_asks_for_nothing():
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    classifier = RebalancedClassifierCV(frozen, source_prior=PLAIN)
    classifier.fit(X, y, sample_weight=WEIGHT)
    assert classifier.profile_.baseline.support.sum() == WEIGHT.sum()


@pytest.mark.usefixtures("routing")
@pytest.mark.filterwarnings("ignore:The best strength lay (at|near) the upper bound")
def test_from_outside_in():
    inner = GaussianNB().set_fit_request(sample_weight=True)
    classifier = (
        RebalancedClassifierCV(inner, cv=3)
        .set_fit_request(sample_weight=True)
        .set_score_request(sample_weight=False)
    )
    found = cross_validate(
        classifier, X, y, params={"sample_weight": WEIGHT}, return_estimator=True, cv=3
    )
    for fitted in found["estimator"]:
        np.testing.assert_allclose(fitted.source_prior_, WEIGHTED, atol=0.02)
