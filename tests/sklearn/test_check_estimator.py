"""scikit-learn's own suite of checks, on several inner classifiers."""

from __future__ import annotations

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from reprior.sklearn import RebalancedClassifierCV

# Pure naive Bayes and trees are quick, so most of the suite is run on these.
ESTIMATORS = [
    RebalancedClassifierCV(LogisticRegression(C=1), cv=3),
    RebalancedClassifierCV(LogisticRegression(C=1), cv=3, response_method="decision_function"),
    RebalancedClassifierCV(GaussianNB(), temperature="fit"),
    RebalancedClassifierCV(
        DecisionTreeClassifier(max_depth=3, random_state=0), source_prior="effective"
    ),
    RebalancedClassifierCV(make_pipeline(StandardScaler(with_mean=False), GaussianNB())),
]


def expected_failures(estimator):
    if not hasattr(estimator.estimator, "steps"):
        return {}
    # With metadata routing off, a Pipeline takes no `sample_weight` (scikit-learn's own
    # CalibratedClassifierCV meets the same limit): the weights count in tuning only, and a
    # warning says so. `test_routing.py` tests the weights that do reach the classifier.
    reason = "a pipeline takes no sample_weight without metadata routing"
    return {"check_sample_weight_equivalence_on_dense_data": reason}


# The data of the checks are tiny, random or separable: strengths at the bound, folds without a
# class, temperatures at the bound, weights a pipeline does not take. All are said in a warning.
@pytest.mark.filterwarnings("ignore::reprior.RepriorWarning")
@pytest.mark.filterwarnings("ignore:The least populated class in y:UserWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_check(estimator, check):
    check(estimator)
