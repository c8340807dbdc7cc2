"""scikit-learn's own tests of two meta-estimators, with RebalancedClassifierCV in their place.

Options of these that it does not have are taken and dropped, so that the tests of what is common
run: data, labels, weights, splitters, routing, tags, parallel folds, quality of probabilities.
``docs/api/sklearn.md`` lists the tests that ask for something else, with the reason.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from pathlib import Path

import pytest
import sklearn.calibration
import sklearn.model_selection
from sklearn.frozen import FrozenEstimator
from sklearn.svm import LinearSVC

from reprior.sklearn import RebalancedClassifierCV

pytestmark = pytest.mark.filterwarnings("ignore")  # the data are tiny: most fits warn


class Threshold(RebalancedClassifierCV):
    """Has the options of TunedThresholdClassifierCV."""

    def __init__(
        self, estimator, *, scoring="balanced_accuracy", response_method="auto", thresholds=100,
        cv=None, refit=True, n_jobs=None, random_state=None, store_cv_results=False,
    ):  # fmt: skip
        super().__init__(
            estimator, metric=scoring, response_method=response_method, cv=cv, refit=refit,
            n_jobs=n_jobs, random_state=random_state, training="as_given",
        )  # fmt: skip
        self.scoring = scoring
        self.thresholds = thresholds
        self.store_cv_results = store_cv_results


class Calibrated(RebalancedClassifierCV):
    """Has the options of CalibratedClassifierCV: probabilities for the mix of the labels."""

    def __init__(self, estimator=None, *, method="sigmoid", cv=None, n_jobs=None, ensemble="auto"):
        estimator = LinearSVC(random_state=0) if estimator is None else estimator
        has_probabilities = hasattr(estimator, "predict_proba")
        frozen = isinstance(estimator, FrozenEstimator)
        super().__init__(
            estimator,
            metric="log_loss",
            target_prior="labels",
            response_method="auto" if has_probabilities else "decision_function",
            cv=cv,
            n_jobs=n_jobs,
            ensemble=not frozen if ensemble == "auto" else ensemble,
            training="as_given",
        )
        self.method = method


#: Fixtures of scikit-learn's modules.
SHARED = ("data", "dict_data", "dict_data_pipeline")
FIXTURES = {}

#: They train many models.
SLOW = {
    "test_calibration_multiclass",
    "test_calibrated_classifier_cv_works_with_large_confidence_scores",
    "test_parallel_execution",
}


def _tests_of(module, owner, name, replacement):
    """Return the tests of a module of scikit-learn that use a class, with another in its place."""
    spec = importlib.util.find_spec(module)
    suite = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, replacement)
        spec.loader.exec_module(suite)
    source = Path(spec.origin).read_text(encoding="utf-8")
    names = [each for each in SHARED if hasattr(suite, each)]
    FIXTURES.update({each: getattr(suite, each) for each in names})
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            parts = [ast.get_source_segment(source, each) for each in (*node.decorator_list, node)]
            if name in "".join(parts):
                found[node.name] = getattr(suite, node.name)
    return found


#: Tests that ask for what the estimator does not do.
PAGE = Path(__file__).parents[2] / "docs" / "api" / "sklearn.md"
OTHERS = set(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8")))

FOUND = {
    **_tests_of(
        "sklearn.model_selection.tests.test_classification_threshold",
        sklearn.model_selection, "TunedThresholdClassifierCV", Threshold,
    ),
    **_tests_of(
        "sklearn.tests.test_calibration", sklearn.calibration, "CalibratedClassifierCV", Calibrated
    ),
}  # fmt: skip

for _name, _test in FOUND.items():
    if _name not in OTHERS:
        globals()[_name] = pytest.mark.heavy(_test) if _name in SLOW else _test
globals().update(FIXTURES)


@pytest.fixture
def global_random_seed():
    """The seed that scikit-learn's own configuration gives its tests."""
    return 42


def test_every_listed_test_exists():
    assert set(FOUND) >= OTHERS
    assert len(FOUND) - len(OTHERS) > 20
    assert all(inspect.isfunction(test) for test in FOUND.values())
