"""fold_into of boosted trees: LightGBM, XGBoost and CatBoost predict corrected probabilities."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import reprior as rp
from reprior.boosting import fold_into
from reprior.sklearn import RebalancedClassifierCV

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

TOLERANCE = {"lightgbm": 1e-12, "xgboost": 1e-5, "catboost": 1e-12}
"""float64 sums in another order; XGBoost adds float32."""

LIBRARIES = list(TOLERANCE)
NAMES = np.array(["ant", "bee", "cow"])


def data(n_classes, n=2000):
    X, y = make_classification(
        n, n_features=6, n_informative=5, n_redundant=0, n_classes=n_classes, class_sep=0.8,
        weights=[0.8] if n_classes == 2 else [0.8, 0.14], random_state=0,
    )  # fmt: skip
    return X[: n // 2], y[: n // 2], X[n // 2 :], y[n // 2 :]


def wrapper(library, n_trees=20, **options):
    if library == "lightgbm":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_estimators=n_trees, n_jobs=1, verbose=-1, **options)
    if library == "xgboost":
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=n_trees, n_jobs=1, **options)
    from catboost import CatBoostClassifier

    return CatBoostClassifier(
        iterations=n_trees, verbose=False, thread_count=1, allow_writing_files=False, **options
    )


def native(library, X, y, n_classes, n_trees=20, **options):
    """Train by the library's own interface."""
    if library == "lightgbm":
        import lightgbm

        objective = {"objective": "binary"}
        if n_classes > 2:
            objective = {"objective": "multiclass", "num_class": n_classes}
        parameters = {**objective, "verbose": -1, "num_threads": 1, **options}
        return lightgbm.train(parameters, lightgbm.Dataset(X, y), n_trees)
    if library == "xgboost":
        import xgboost

        objective = {"objective": "binary:logistic"}
        if n_classes > 2:
            objective = {"objective": "multi:softprob", "num_class": n_classes}
        return xgboost.train({**objective, "nthread": 1, **options}, xgboost.DMatrix(X, y), n_trees)
    from catboost import CatBoost

    loss = "Logloss" if n_classes == 2 else "MultiClass"
    parameters = {"loss_function": loss, "iterations": n_trees, "verbose": False, **options}
    return CatBoost({**parameters, "allow_writing_files": False}).fit(X, y)


def scores_of(booster, X, kind):
    """What the library itself predicts, as the kind of scores."""
    library = type(booster).__module__.partition(".")[0]
    raw = kind == "logits"
    if library == "lightgbm":
        scores = booster.predict(X, raw_score=raw)
    elif library == "xgboost":
        import xgboost

        scores = booster.predict(xgboost.DMatrix(X), output_margin=raw).astype(np.float64)
    else:
        scores = booster.predict(X, prediction_type="RawFormulaVal" if raw else "Probability")
        scores = scores[:, 1] if scores.ndim == 2 and scores.shape[1] == 2 else scores
    return np.log(scores) if kind == "log_probs" else scores


def tuned(scores, y, kind="probs", **options):
    return rp.PosteriorCalibrator(rp.prior_from_labels(y), kind=kind, **options).fit(scores, y)


@pytest.mark.parametrize("temperature", [None, 0.6, 1.7])
@pytest.mark.parametrize("kind", ["probs", "logits", "log_probs"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("library", LIBRARIES)
def test_boosters(library, n_classes, kind, temperature):
    X, y, X_test, y_test = data(n_classes)
    booster = native(library, X, y, n_classes)
    scores = scores_of(booster, X_test, kind)
    calibrator = tuned(scores, y_test, kind, temperature=temperature)
    folded = fold_into(booster, calibrator)
    assert type(folded) is type(booster)
    wanted = calibrator.predict_proba(scores)
    assert np.abs(scores_of(folded, X_test, "probs") - wanted).max() < TOLERANCE[library]
    np.testing.assert_array_equal(scores_of(booster, X_test, kind), scores)
    with pytest.raises(rp.RepriorError, match="must not hold a calibrator yet"):
        fold_into(folded, calibrator)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("library", LIBRARIES)
def test_wrappers_predict_the_labels_of_the_calibrator(library, n_classes):
    X, y, X_test, y_test = data(n_classes)
    names = np.arange(n_classes) if library == "xgboost" else NAMES[:n_classes]
    model = wrapper(library).fit(X, names[y])
    before = model.predict_proba(X_test)
    calibrator = tuned(before, y_test)
    folded = fold_into(model, calibrator)
    assert type(folded) is type(model)
    wanted = calibrator.predict_proba(before.astype(np.float64))
    assert np.abs(folded.predict_proba(X_test) - wanted).max() < TOLERANCE[library]
    assert (np.ravel(folded.predict(X_test)) == names[calibrator.predict(before)]).all()
    assert (np.ravel(folded.predict(X_test)) != np.ravel(model.predict(X_test))).any()
    np.testing.assert_array_equal(model.predict_proba(X_test), before)
    assert folded.get_params() == model.get_params()
    copy = pickle.loads(pickle.dumps(folded))
    np.testing.assert_array_equal(copy.predict_proba(X_test), folded.predict_proba(X_test))
    with pytest.raises(rp.RepriorError, match="must not hold a calibrator yet"):
        fold_into(copy, calibrator)
    fold_into(folded.fit(X, names[y]), calibrator)  # a new training has no correction


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("library", LIBRARIES)
def test_rebalanced_pipelines_and_frozen_models(library, n_classes):
    X, y, X_test, _ = data(n_classes)
    tuned = RebalancedClassifierCV(make_pipeline(StandardScaler(), wrapper(library)), cv=2)
    tuned.fit(X, y)
    tolerance = TOLERANCE[library]
    for model in (tuned, FrozenEstimator(tuned.estimator_), tuned.estimator_):
        calibrator = None if model is tuned else tuned.calibrator_
        plain = fold_into(model, calibrator, inputs=X_test)
        assert type(plain) is type(tuned.estimator_)
        assert np.abs(plain.predict_proba(X_test) - tuned.predict_proba(X_test)).max() < tolerance
        assert (np.ravel(plain.predict(X_test)) == tuned.predict(X_test)).all()


FOREIGN = """
import sys
import numpy as np
X = np.load(sys.argv[2])
if sys.argv[1] == "lightgbm":
    import lightgbm
    p = lightgbm.Booster(model_file=sys.argv[3]).predict(X)
    lightgbm.Booster(model_file=sys.argv[3]).save_model(sys.argv[3] + ".again")
elif sys.argv[1] == "xgboost":
    import xgboost
    booster = xgboost.Booster(model_file=sys.argv[3])
    p = booster.predict(xgboost.DMatrix(X))
else:
    import catboost
    kind = sys.argv[3].rpartition(".")[2]
    model = catboost.CatBoost().load_model(sys.argv[3], format=kind)
    p = model.predict(X, prediction_type="Probability")
    p = p[:, 1] if p.shape[1] == 2 else p
assert not [name for name in sys.modules if name.startswith("reprior")]
np.save(sys.argv[4], p)
"""
EXTENSIONS = {"lightgbm": ["txt"], "xgboost": ["json", "ubj"], "catboost": ["cbm", "json"]}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "library, extension", [(name, end) for name, ends in EXTENSIONS.items() for end in ends]
)
def test_saved_and_loaded_without_reprior(library, extension, n_classes, tmp_path):
    X, y, X_test, y_test = data(n_classes)
    booster = native(library, X, y, n_classes)
    calibrator = tuned(scores_of(booster, X_test, "probs"), y_test, temperature=1.3)
    folded = fold_into(booster, calibrator)
    path = str(tmp_path / f"model.{extension}")
    if library == "catboost":
        folded.save_model(path, format=extension)
    else:
        folded.save_model(path)
    np.save(tmp_path / "X.npy", X_test)
    out = tmp_path / "out.npy"
    command = [sys.executable, "-c", FOREIGN, library, str(tmp_path / "X.npy"), path, str(out)]
    subprocess.run(command, check=True, cwd=tmp_path)
    wanted = calibrator.predict_proba(scores_of(booster, X_test, "probs"))
    assert np.abs(np.load(out) - wanted).max() < TOLERANCE[library]
    if library == "catboost":
        loaded = type(folded)().load_model(path, format=extension)
    else:  # LightGBM: loaded and saved again
        loaded = type(folded)(model_file=path + ".again" if library == "lightgbm" else path)
    with pytest.raises(rp.RepriorError, match="must not hold a calibrator yet"):
        fold_into(loaded, calibrator)


@pytest.mark.parametrize("temperature", [None, 1.3])
@pytest.mark.parametrize("library", LIBRARIES)
def test_early_stopping(library, temperature):
    X, y, X_test, y_test = data(3)
    options = {"early_stopping_rounds": 2} if library == "xgboost" else {}
    model = wrapper(library, n_trees=60, learning_rate=0.6, **options)
    if library == "lightgbm":
        import lightgbm

        stop = lightgbm.early_stopping(2, verbose=False)
        model.fit(X, y, eval_set=[(X_test, y_test)], callbacks=[stop])
        assert model.best_iteration_ < 60
    elif library == "xgboost":
        model.fit(X, y, eval_set=[(X_test, y_test)], verbose=False)
        assert model.best_iteration < 59
    else:
        model.fit(X, y, eval_set=(X_test, y_test), early_stopping_rounds=2)
        assert model.tree_count_ < 60
    before = model.predict_proba(X_test)
    calibrator = tuned(before, y_test, temperature=temperature)
    folded = fold_into(model, calibrator)
    wanted = calibrator.predict_proba(before.astype(np.float64))
    assert np.abs(folded.predict_proba(X_test) - wanted).max() < TOLERANCE[library]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_forests(n_classes):
    from xgboost import XGBRFClassifier

    X, y, X_test, y_test = data(n_classes)
    lightgbm = wrapper(
        "lightgbm", boosting_type="rf", subsample=0.7, subsample_freq=1, random_state=0
    )
    for library, model in (("lightgbm", lightgbm), ("xgboost", XGBRFClassifier(20, n_jobs=1))):
        before = model.fit(X, y).predict_proba(X_test)
        calibrator = tuned(before, y_test, temperature=1.4)
        folded = fold_into(model, calibrator)
        wanted = calibrator.predict_proba(before.astype(np.float64))
        assert np.abs(folded.predict_proba(X_test) - wanted).max() < TOLERANCE[library]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("library", LIBRARIES)
def test_categories_and_missing_values(library, n_classes):
    import pandas as pd

    X, y, X_test, y_test = data(n_classes)

    def frame(X):
        table = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
        table.loc[::7, "a"] = np.nan
        names = np.array(["red", "green", "blue", "none"])
        codes = np.clip(np.round(X[:, 3]), 0, 3).astype(int)
        return table.assign(colour=pd.Categorical(names[codes], categories=names.tolist()))

    options = {
        "lightgbm": {},
        "xgboost": {"enable_categorical": True, "max_cat_to_onehot": 1},
        "catboost": {"cat_features": ["colour"]},
    }
    model = wrapper(library, **options[library]).fit(frame(X), y)
    before = model.predict_proba(frame(X_test))
    calibrator = tuned(before, y_test, temperature=1.3)
    wanted = calibrator.predict_proba(before.astype(np.float64))
    for inputs in (None, frame(X_test)):
        folded = fold_into(model, calibrator, inputs=inputs)
        got = folded.predict_proba(frame(X_test))
        assert np.abs(got - wanted).max() < TOLERANCE[library]


@pytest.mark.parametrize("library", LIBRARIES)
def test_two_maps(library):
    X, y, X_test, y_test = data(3)
    booster = native(library, X, y, 3)
    scores = scores_of(booster, X_test, "probs")
    calibrator = tuned(scores, y_test, separate=True)
    with pytest.raises(rp.OptionError, match="map"):
        fold_into(booster, calibrator)
    for name in ("decision", "probability"):
        got = scores_of(fold_into(booster, calibrator, map=name), X_test, "probs")
        wanted = calibrator.predict_proba(scores, map=name)
        assert np.abs(got - wanted).max() < TOLERANCE[library]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_a_scale_per_class(library, n_classes):
    X, y, X_test, y_test = data(n_classes)
    booster = native(library, X, y, n_classes)
    scores = scores_of(booster, X_test, "logits")
    options = {"metric": "log_loss", "temperature": "vector"}
    calibrator = tuned(scores, y_test, "logits", **options)
    got = scores_of(fold_into(booster, calibrator), X_test, "probs")
    assert np.abs(got - calibrator.predict_proba(scores)).max() < TOLERANCE[library]
    probabilities = tuned(scores_of(booster, X_test, "probs"), y_test, **options)
    with pytest.raises(rp.RepriorError, match=r"raw scores .* \(temperature='vector'\)"):
        fold_into(booster, probabilities)


def test_the_slope_of_lightgbm_and_logits_of_xgboost():
    X, y, X_test, y_test = data(2)
    steep = native("lightgbm", X, y, 2, sigmoid=2.5)
    for kind in ("probs", "logits"):
        scores = scores_of(steep, X_test, kind)
        calibrator = tuned(scores, y_test, kind)
        got = scores_of(fold_into(steep, calibrator), X_test, "probs")
        assert np.abs(got - calibrator.predict_proba(scores)).max() < TOLERANCE["lightgbm"]
    raw = native("xgboost", X, y, 2, objective="binary:logitraw")
    scores = scores_of(raw, X_test, "logits")
    calibrator = tuned(scores, y_test, "logits")
    got = 1 / (1 + np.exp(-scores_of(fold_into(raw, calibrator), X_test, "logits")))
    assert np.abs(got - calibrator.predict_proba(scores)).max() < TOLERANCE["xgboost"]
    hard = native("xgboost", *data(3)[:2], 3, objective="multi:softmax")
    X, y, X_test, y_test = data(3)
    scores = scores_of(hard, X_test, "logits")
    calibrator = tuned(scores, y_test, "logits")
    labels = scores_of(fold_into(hard, calibrator), X_test, "probs")
    np.testing.assert_array_equal(labels, calibrator.predict(scores))


@pytest.mark.parametrize("base_score", [0.5, 0.2])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_base_score_of_xgboost_is_scaled(n_classes, base_score):
    X, y, X_test, y_test = data(n_classes)
    booster = native("xgboost", X, y, n_classes, base_score=base_score)
    scores = scores_of(booster, X_test, "logits")
    calibrator = tuned(scores, y_test, "logits", temperature=2.5)
    got = scores_of(fold_into(booster, calibrator), X_test, "probs")
    assert np.abs(got - calibrator.predict_proba(scores)).max() < TOLERANCE["xgboost"]


def custom_log_loss(y, raw):
    p = 1 / (1 + np.exp(-raw))
    return p - y, p * (1 - p)


class CatBoostLogLoss:
    def calc_ders_range(self, raw, y, weights):
        p = 1 / (1 + np.exp(-np.array(raw)))
        return list(zip(np.array(y) - p, -p * (1 - p), strict=True))


def refused_models():
    X, y, *_ = data(2)
    X3, y3, *_ = data(3)
    yield "DART", lambda: wrapper("lightgbm", boosting_type="dart").fit(X, y)
    yield "DART", lambda: wrapper("xgboost", booster="dart").fit(X, y)
    yield "linear trees", lambda: wrapper("lightgbm", linear_tree=True).fit(X, y)
    yield "must have trees", lambda: wrapper("xgboost", booster="gblinear").fit(X, y)
    yield "custom", lambda: wrapper("lightgbm", objective=custom_log_loss).fit(X, y)
    yield "custom", lambda: wrapper("lightgbm", objective=custom_log_loss).fit(X, y).booster_
    yield "custom", lambda: wrapper("xgboost", objective=custom_log_loss).fit(X, y)
    yield (
        "custom",
        lambda: native("xgboost", X, y, 2, objective="reg:squarederror"),
    )
    yield (
        "custom",
        lambda: wrapper("catboost", loss_function=CatBoostLogLoss(), eval_metric="Logloss").fit(
            X, y
        ),
    )
    yield "one softmax", lambda: wrapper("lightgbm", objective="multiclassova").fit(X3, y3)
    yield "one softmax", lambda: wrapper("catboost", loss_function="MultiClassOneVsAll").fit(X3, y3)
    yield "one softmax", lambda: wrapper("xgboost").fit(X, np.eye(2, dtype=int)[y])
    yield (
        "vector",
        lambda: wrapper("xgboost", multi_strategy="multi_output_tree", tree_method="hist").fit(
            X3, y3
        ),
    )
    yield "classifier", lambda: native("lightgbm", X, y, 2, objective="regression")
    yield "classifier", lambda: native("catboost", X, y, 2, loss_function="RMSE")
    yield "must have the 3 classes of the model. Got 2", lambda: wrapper("xgboost").fit(X3, y3)
    yield "must have the 3 classes of the model", lambda: native("lightgbm", X3, y3, 3)
    yield "must have the 3 classes of the model", lambda: wrapper("catboost").fit(X3, y3)
    yield "must be fitted", lambda: wrapper("lightgbm")
    yield "must be fitted", lambda: wrapper("xgboost")
    yield "must be fitted", lambda: wrapper("catboost")
    yield "LightGBM, XGBoost or CatBoost", StandardScaler


@pytest.mark.parametrize(
    "words, make",
    [pytest.param(*case, id=f"{i}-{case[0]}") for i, case in enumerate(refused_models())],
)
def test_refused_with_the_reason(words, make):
    calibrator = rp.PosteriorCalibrator([0.8, 0.2], kind="probs")
    calibrator.fit([[0.9, 0.1], [0.6, 0.4]], [0, 1])
    with pytest.raises(rp.RepriorError, match=words):
        fold_into(make(), calibrator)


def test_refused_calibrators():
    X, y, X_test, y_test = data(2)
    model = wrapper("lightgbm").fit(X, NAMES[y])
    scores = model.predict_proba(X_test)
    with pytest.raises(rp.RepriorError, match="must be a PosteriorCalibrator"):
        fold_into(model)
    named = tuned_with_names(scores, y_test, ["bee", "ant"])
    with pytest.raises(rp.RepriorError, match=r"classes of the model, \['ant', 'bee'\]"):
        fold_into(model, named)
    fold_into(model, tuned_with_names(scores, y_test, ["ant", "bee"]))
    with pytest.raises(rp.RepriorError, match="a target prior of 0"):
        fold_into(model, tuned(scores, y_test).retarget([0, 1]))
    with pytest.raises(rp.NotFittedError):
        fold_into(model, rp.PosteriorCalibrator([0.8, 0.2]))


def test_integer_classes_in_another_order_are_refused():
    X, y, X_test, y_test = data(3)
    model = wrapper("lightgbm").fit(X, y)
    scores = model.predict_proba(X_test)[:, ::-1]
    calibrator = rp.PosteriorCalibrator([0.06, 0.14, 0.8], kind="probs", classes=[2, 1, 0])
    with pytest.raises(rp.FoldError, match=r"classes of the model, \[0, 1, 2\]"):
        fold_into(model, calibrator.fit(scores, y_test))


def tuned_with_names(scores, y, names):
    calibrator = rp.PosteriorCalibrator([0.8, 0.2], kind="probs", classes=names)
    return calibrator.fit(scores, np.array(names)[y])


def test_a_probability_threshold_of_catboost():
    X, y, X_test, y_test = data(2)
    model = wrapper("catboost").fit(X, y)
    model.set_probability_threshold(0.3)
    with pytest.raises(rp.RepriorError, match=r"a probability threshold of 0.3"):
        fold_into(model, tuned(model.predict_proba(X_test), y_test))


def test_a_model_that_does_not_follow_is_refused():
    """Parity is measured: a booster that lies about its leaves is found out."""
    import lightgbm

    class Lying(lightgbm.Booster):
        def set_leaf_output(self, tree_id, leaf_id, value):
            return super().set_leaf_output(tree_id, leaf_id, value + 1e-6)

    X, y, X_test, y_test = data(2)
    booster = native("lightgbm", X, y, 2)
    calibrator = tuned(booster.predict(X_test), y_test)
    with pytest.raises(rp.RepriorError, match="must predict what the calibrator does"):
        fold_into(Lying(model_str=booster.model_to_string()), calibrator)


@pytest.mark.parametrize("temperature", [None, 1.5])
@pytest.mark.parametrize("library", LIBRARIES)
def test_shap_values(library, temperature):
    """They add up to the corrected raw score, but for CatBoost with a scale."""
    X, y, X_test, y_test = data(2)
    booster = native(library, X, y, 2)
    calibrator = tuned(scores_of(booster, X_test, "probs"), y_test, temperature=temperature)
    folded = fold_into(booster, calibrator)
    if library == "lightgbm":
        values = folded.predict(X_test, pred_contrib=True)
    elif library == "xgboost":
        import xgboost

        values = folded.predict(xgboost.DMatrix(X_test), pred_contribs=True)
    else:
        import catboost

        pool = catboost.Pool(X_test)
        if temperature is not None:
            with pytest.raises(catboost.CatBoostError):
                folded.get_feature_importance(pool, "ShapValues")
            return
        values = folded.get_feature_importance(pool, "ShapValues")
    raw = scores_of(folded, X_test, "logits")
    assert np.abs(values.sum(1) - raw).max() < 1e-4
