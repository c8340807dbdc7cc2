"""XGBoost, LightGBM and CatBoost: wrapped, tuned, exported by their own converters."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
import skl2onnx
from sklearn.datasets import make_classification
from tests.support.onnx_models import POSTERIOR, assert_follows, run

from reprior.onnx import fold, fold_report
from reprior.sklearn import RebalancedClassifierCV

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def data(n_classes):
    X, y = make_classification(
        11_500, n_features=8, n_informative=5, n_classes=n_classes, class_sep=0.8,
        weights=[0.8] if n_classes == 2 else [0.8, 0.14], random_state=0,
    )  # fmt: skip
    X = X.astype(np.float32)
    return X[:1500], y[:1500], X[1500:]


def tuned(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return RebalancedClassifierCV(model, cv=3).fit(X, y)


def check(meta, model, x):
    outputs = list(run(model, x).values())
    label, posterior = outputs[0], outputs[1]
    if isinstance(posterior, list):
        posterior = np.array([[row[k] for k in meta.classes_.tolist()] for row in posterior])
    wanted = meta.predict_proba(x)
    same = np.abs(wanted - posterior).max(1) <= POSTERIOR
    # A float32 sum of trees may fall on the other side of nothing: all samples must agree.
    assert same.all(), float(np.abs(wanted - posterior).max())
    assert len(x) == 10_000
    assert_follows(wanted, meta.predict(x), posterior, np.asarray(label).ravel())


def register(model_type, alias, converter):
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes

    skl2onnx.update_registered_converter(
        model_type, alias, calculate_linear_classifier_output_shapes, converter, overwrite=True,
        options={"nocl": [True, False], "zipmap": [True, False, "columns"],
                 "raw_scores": [True, False]},
    )  # fmt: skip


@pytest.mark.parametrize("n_classes", [3, 2])
def test_xgboost(n_classes):
    from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
    from xgboost import XGBClassifier

    register(XGBClassifier, "XGBoostXGBClassifier", convert_xgboost)
    X, y, x = data(n_classes)
    meta = tuned(XGBClassifier(n_estimators=15, max_depth=4, n_jobs=1), X, y)
    options = {id(meta): {"zipmap": False}}
    opsets = {"": 15, "ai.onnx.ml": 3}
    check(meta, skl2onnx.to_onnx(meta, X[:1], options=options, target_opset=opsets), x)


@pytest.mark.parametrize("n_classes", [3, 2])
def test_xgboost_folded_after_its_own_export(n_classes):
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType
    from xgboost import XGBClassifier

    X, y, x = data(n_classes)
    meta = tuned(XGBClassifier(n_estimators=15, max_depth=4, n_jobs=1), X, y)
    export = onnxmltools.convert_xgboost(
        meta.estimator_, initial_types=[("x", FloatTensorType([None, 8]))], target_opset=15
    )
    export = onnx.load_from_string(export.SerializeToString())
    check(meta, fold(export, meta.calibrator_), x)


@pytest.mark.parametrize("n_classes", [3, 2])
def test_lightgbm(n_classes):
    from lightgbm import LGBMClassifier
    from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm

    register(LGBMClassifier, "LightGbmLGBMClassifier", convert_lightgbm)
    X, y, x = data(n_classes)
    meta = tuned(LGBMClassifier(n_estimators=15, n_jobs=1, verbose=-1), X, y)
    options = {id(meta): {"zipmap": False}}
    opsets = {"": 15, "ai.onnx.ml": 3}
    check(meta, skl2onnx.to_onnx(meta, X[:1], options=options, target_opset=opsets), x)


@pytest.mark.parametrize("n_classes", [3, 2])
def test_catboost(n_classes, tmp_path):
    from catboost import CatBoostClassifier

    X, y, x = data(n_classes)
    booster = CatBoostClassifier(
        iterations=15, depth=4, verbose=False, thread_count=1, allow_writing_files=False,
        random_seed=0,
    )  # fmt: skip
    meta = tuned(booster, X, y)
    path, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    meta.estimator_.save_model(str(path), format="onnx")
    folded = fold_report(path, meta.calibrator_, output=out)
    assert folded.parity.labels > 0
    check(meta, onnx.load(out), x)
