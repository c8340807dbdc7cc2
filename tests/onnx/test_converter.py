"""skl2onnx: a RebalancedClassifierCV exports with its correction, labels included."""

from __future__ import annotations

import numpy as np
import pytest
import skl2onnx
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.sklearn.shared import three_classes, two_classes
from tests.support.onnx_models import assert_follows, run

import reprior as rp
from reprior.onnx import FoldError
from reprior.sklearn import RebalancedClassifierCV

CASES = {
    "logistic": (LogisticRegression(), {}),
    "forest": (RandomForestClassifier(10, max_depth=5, random_state=0), {}),
    "pipeline": (make_pipeline(StandardScaler(), LogisticRegression()), {}),
    "histogram": (HistGradientBoostingClassifier(max_iter=5, random_state=0), {}),
    "bayes": (GaussianNB(), {"temperature": 2.0}),
    "decision": (LogisticRegression(), {"response_method": "decision_function"}),
    "sgd": (
        SGDClassifier(loss="log_loss", alpha=0.01, random_state=0),
        {"response_method": "decision_function", "temperature": 1.5},
    ),
}


def fitted(case, n_classes, names):
    X, y = three_classes() if n_classes == 3 else two_classes()
    X = X.astype(np.float32)
    estimator, options = CASES[case]
    return RebalancedClassifierCV(estimator, cv=2, **options).fit(X, names[y]), X


def posterior_of(outputs, names):
    label, first, *rest = outputs.values()
    if rest:
        return label, np.column_stack([first, *rest])
    if isinstance(first, list):
        return label, np.array([[row[name] for name in names.tolist()] for row in first])
    return label, first


@pytest.mark.parametrize("zipmap", [True, False, "columns"])
@pytest.mark.parametrize("n_classes", [3, 2])
@pytest.mark.parametrize("case", CASES)
def test_exports_what_it_predicts(case, n_classes, zipmap):
    names = {True: np.array(["ant", "bee", "cow"]), False: np.arange(3)}.get(
        zipmap, np.array([3, 7, 9])
    )[:n_classes]
    meta, X = fitted(case, n_classes, names)
    model = skl2onnx.to_onnx(meta, X[:1], options={"zipmap": zipmap})
    label, posterior = posterior_of(run(model, X), names)
    # Trees compare in single precision, scikit-learn's with what it was trained on: all agree here.
    assert_follows(meta.predict_proba(X), meta.predict(X), posterior, label)
    plain = meta.estimator_.predict(X)
    assert (plain != label).any()


def test_inside_a_pipeline_and_frozen():
    X, y = three_classes()
    X = X.astype(np.float32)
    inner = FrozenEstimator(LogisticRegression().fit(StandardScaler().fit_transform(X), y))
    prior = rp.prior_from_labels(y)
    meta = make_pipeline(StandardScaler(), RebalancedClassifierCV(inner, source_prior=prior))
    meta.fit(X, y)
    options = {id(meta.steps[-1][1]): {"zipmap": False}}
    outputs = run(skl2onnx.to_onnx(meta, X[:1], options=options), X)
    assert_follows(
        meta.predict_proba(X), meta.predict(X), outputs["probabilities"], outputs["label"]
    )


def test_indices_instead_of_names():
    meta, X = fitted("logistic", 3, np.array(["ant", "bee", "cow"]))
    model = skl2onnx.to_onnx(meta, X[:1], options={"zipmap": False, "nocl": True})
    label = run(model, X)["label"]
    assert (meta.classes_[label] == meta.predict(X)).all()


def test_an_estimator_that_misses_a_class():
    meta, X = fitted("logistic", 3, np.arange(3))
    meta.classes_ = np.arange(4)
    with pytest.raises(FoldError, match="must know the classes"):
        skl2onnx.to_onnx(meta, X[:1], options={"zipmap": False})
