"""Scores of every class, from every kind of classifier, of folds that may lack a class."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from tests.sklearn.shared import NAMES, three_classes, two_classes

import reprior as rp
from reprior.sklearn import RebalancedClassifierCV

X, y = three_classes(n=300)
names = NAMES[y]
UNIFORM = np.full(3, 1 / 3)


@pytest.mark.filterwarnings("ignore:The target prior is the source prior")
@pytest.mark.parametrize("method", ["predict_log_proba", "predict_proba", "decision_function"])
def test_a_class_that_the_model_lacks_has_probability_0(method):
    lacking = np.flatnonzero(names[:200] != "bee")
    classifier = RebalancedClassifierCV(
        LogisticRegression(), cv=[(lacking, np.arange(200, 300))], refit=False,
        response_method=method, source_prior=UNIFORM,
    )  # fmt: skip
    with pytest.warns(rp.RepriorWarning, match="Fold 0 of 1 trains without class 'bee'"):
        classifier.fit(X, names)
    posterior = classifier.predict_proba(X)
    expected = classifier.estimator_.predict_proba(X)
    np.testing.assert_allclose(posterior[:, [0, 2]], expected, rtol=1e-9)
    assert (posterior[:, 1] == 0).all()


def test_one_decision_value_per_sample_is_the_log_odds_of_the_second_class():
    data = two_classes()
    by_decision, by_posterior = (
        RebalancedClassifierCV(LogisticRegression(), response_method=method).fit(*data)
        for method in ("decision_function", "predict_log_proba")
    )
    assert by_decision.strength_ == pytest.approx(by_posterior.strength_, rel=1e-6)
    np.testing.assert_allclose(by_decision.predict_proba(data[0]).sum(axis=1), 1.0)


class Backwards(ClassifierMixin, BaseEstimator):
    """A classifier whose classes are not sorted."""

    def fit(self, X, y):
        self.model_ = GaussianNB().fit(X, y)
        self.classes_ = self.model_.classes_[::-1]
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)[:, ::-1]


def test_columns_are_put_in_the_order_of_the_classes():
    plain = RebalancedClassifierCV(GaussianNB(), response_method="predict_proba").fit(X, names)
    other = RebalancedClassifierCV(Backwards()).fit(X, names)
    assert other.strength_ == plain.strength_
    np.testing.assert_array_equal(other.predict_proba(X), plain.predict_proba(X))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: model,
        lambda model: make_pipeline(StandardScaler(), model),
        lambda model: FrozenEstimator(make_pipeline(StandardScaler(), model).fit(X, names)),
        lambda model: GridSearchCV(model, {"C": [1.0]}, cv=2),
    ],
    ids=["alone", "pipeline", "frozen", "search"],
)
def test_votes_of_pairs_of_classes_are_no_scores_of_classes(wrap):
    model = wrap(SVC(decision_function_shape="ovo"))
    with pytest.raises(rp.ScoresError, match="a score per pair of classes"):
        RebalancedClassifierCV(model, response_method="decision_function").fit(X, names)


def test_scores_of_another_shape():
    class Odd(GaussianNB):
        def predict_log_proba(self, X):
            return np.zeros((len(X), 2))

    with pytest.raises(rp.ScoresError, match=r"one score per class. Got shape \(60, 2\) for 3"):
        RebalancedClassifierCV(Odd()).fit(X, y)


def folds_without_a_class():
    cow = np.flatnonzero(y == 2)
    rest = np.flatnonzero(y != 2)
    return [(rest[:200], np.r_[rest[200:], cow]), (np.r_[rest[100:], cow], rest[:100])]


@pytest.mark.parametrize("method", ["predict_log_proba", "predict_proba", "decision_function"])
def test_a_fold_without_a_class_warns(method):
    classifier = RebalancedClassifierCV(
        LogisticRegression(), cv=folds_without_a_class(), response_method=method
    )
    with pytest.warns(rp.RepriorWarning, match="Fold 0 of 2 trains without class 'cow'") as caught:
        classifier.fit(X, names)
    assert caught[0].filename == __file__
    counts = classifier.profile_.counts(classifier.strength_)
    assert counts.true_positive[2] == 0  # all of class 2 are in the fold that cannot know it
    assert counts.support[2] == (y == 2).sum()
    np.testing.assert_array_equal(classifier.classes_, NAMES)
    assert (classifier.predict(X) == "cow").any()  # the model that stays knows it


@pytest.mark.filterwarnings("ignore:.*(worse than chance|no tuning labels)")
def test_several_missing_classes_are_counted():
    four = np.where(np.arange(300) % 50 == 0, "dog", names)
    rare = np.isin(four, ["cow", "dog"])
    splits = [(np.flatnonzero(~rare), np.flatnonzero(rare))]
    with pytest.warns(rp.RepriorWarning, match="without class 'cow' and 1 more"):
        RebalancedClassifierCV(GaussianNB(), cv=splits).fit(X, four)


def test_groups_go_to_the_splitter():
    groups = np.repeat(np.arange(30), 10)
    classifier = RebalancedClassifierCV(GaussianNB(), cv=GroupKFold(3))
    assert classifier.fit(X, y, groups=groups).profile_.n_samples == 300
    with pytest.raises(ValueError, match="groups"):
        classifier.fit(X, y)


def test_a_single_split_may_stay_as_it_is():
    classifier = RebalancedClassifierCV(GaussianNB(), cv=0.25, refit=False, random_state=0)
    classifier.fit(X, y)
    assert classifier.profile_.n_samples == 75
    assert classifier.estimator_.class_count_.sum() == 225
