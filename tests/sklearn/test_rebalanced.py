"""RebalancedClassifierCV: against the same thing done by hand, and in all the usual company."""

from __future__ import annotations

import copy
import inspect
import io
import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import (
    GridSearchCV,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import get_tags
from tests.sklearn.shared import NAMES, ROUNDING, long_tailed_digits, three_classes, two_classes

import reprior as rp
from reprior.sklearn import RebalancedClassifierCV

X, y = three_classes()
names = NAMES[y]

# -------------------------------------------------------------------------------- by hand


@pytest.mark.parametrize(
    "response_method, kind",
    [
        ("predict_log_proba", "log_probs"),
        ("predict_proba", "probs"),
        ("decision_function", "logits"),
    ],
)
@pytest.mark.parametrize("data", [three_classes, two_classes])
def test_is_out_of_fold_scores_and_a_calibrator(response_method, kind, data):
    X, y = data()
    cv = StratifiedKFold(4, shuffle=True, random_state=1)
    scores = cross_val_predict(LogisticRegression(), X, y, cv=cv, method=response_method)
    by_hand = rp.PosteriorCalibrator(rp.prior_from_labels(y), kind=kind).fit(scores, y)
    inner = LogisticRegression().fit(X, y)

    classifier = RebalancedClassifierCV(
        LogisticRegression(), cv=cv, response_method=response_method
    ).fit(X, y)

    assert classifier.response_method_ == response_method
    assert classifier.calibrator_.kind == kind
    assert classifier.strength_ == pytest.approx(by_hand.strength_, rel=ROUNDING)
    assert classifier.strength_interval_ == pytest.approx(by_hand.strength_interval_, rel=ROUNDING)
    assert classifier.best_score_ == by_hand.best_score_
    assert classifier.profile_.n_samples == len(y)
    expected = by_hand.predict_proba(getattr(inner, response_method)(X))
    got = classifier.predict_proba(X)
    np.testing.assert_allclose(
        got[:, 1] if expected.ndim == 1 else got, expected, rtol=ROUNDING, atol=1e-15
    )
    np.testing.assert_array_equal(
        classifier.predict(X), by_hand.predict(getattr(inner, response_method)(X))
    )


def test_the_profile_is_the_sum_of_the_profiles_of_the_folds():
    cv = StratifiedKFold(3)
    classifier = RebalancedClassifierCV(GaussianNB(), cv=cv).fit(X, y)
    prior = rp.prior_from_labels(y)
    folds = [
        rp.StrengthProfile.from_scores(
            GaussianNB().fit(X[train], y[train]).predict_log_proba(X[test]),
            y[test],
            source_prior=prior,
            kind="log_probs",
        )
        for train, test in cv.split(X, y)
    ]
    pooled = sum(folds[1:], start=folds[0])
    assert pooled.best("balanced_accuracy") == classifier.profile_.best("balanced_accuracy")
    np.testing.assert_array_equal(pooled.curve("mean_iou"), classifier.profile_.curve("mean_iou"))


def test_auto_prefers_logarithms_that_do_not_underflow():
    wide = np.repeat(X, 60, axis=1)  # naive Bayes multiplies 300 densities: 0 in float64
    classifier = RebalancedClassifierCV(GaussianNB(), temperature="fit").fit(wide, y)
    assert classifier.response_method_ == "predict_log_proba"
    assert classifier.temperature_ > 10
    with pytest.raises(rp.ScoresError, match="own class possible"):
        RebalancedClassifierCV(
            GaussianNB(), temperature="fit", response_method="predict_proba"
        ).fit(wide, y)


def test_auto_falls_back_on_probabilities():
    inner = CalibratedClassifierCV(GaussianNB(), cv=3)
    assert RebalancedClassifierCV(inner, cv=3).fit(X, y).response_method_ == "predict_proba"


def test_probabilities_of_zero_stay_zero_without_a_numpy_warning():
    forest = RandomForestClassifier(5, random_state=0)
    classifier = RebalancedClassifierCV(forest, cv=3).fit(X, y)
    zero = classifier.estimator_.predict_proba(X) == 0
    assert zero.any()
    assert (classifier.predict_proba(X)[zero] == 0).all()
    assert np.isneginf(classifier.predict_log_proba(X)[zero]).all()


@pytest.mark.filterwarnings("ignore:The target prior is the source prior")
def test_target_prior_equal_to_source_prior_is_the_identity():
    prior = rp.prior_from_labels(y)
    classifier = RebalancedClassifierCV(LogisticRegression(), target_prior=prior).fit(X, y)
    inner = LogisticRegression().fit(X, y)
    assert classifier.strength_ == 1
    np.testing.assert_allclose(classifier.predict_proba(X), inner.predict_proba(X), rtol=ROUNDING)
    np.testing.assert_array_equal(classifier.predict(X), inner.predict(X))


def test_prediction_is_the_arg_max_of_the_posterior():
    classifier = RebalancedClassifierCV(LogisticRegression()).fit(X, names)
    posterior = classifier.predict_proba(X)
    np.testing.assert_allclose(posterior.sum(1), 1, rtol=ROUNDING)
    np.testing.assert_array_equal(classifier.predict(X), classifier.classes_[posterior.argmax(1)])
    np.testing.assert_allclose(
        classifier.predict_log_proba(X), np.log(posterior), rtol=1e-6, atol=1e-12
    )
    assert classifier.score(X, names) == (classifier.predict(X) == names).mean()


def test_options_reach_the_calibrator():
    classifier = RebalancedClassifierCV(
        LogisticRegression(),
        target_prior={"ant": 0.5, "cow": 0.3, "bee": 0.2},
        metric="f1[cow]",
        subject_to="accuracy >= baseline - 0.05",
        temperature=2.0,
        bounds=(0.0, 3.0),
    )
    classifier.fit(X, names)
    np.testing.assert_allclose(classifier.target_prior_, [0.5, 0.2, 0.3])
    assert classifier.temperature_ == 2
    assert classifier.profile_.bounds == (0, 3)
    baseline = rp.metrics.COUNT_METRICS["accuracy"](classifier.profile_.baseline)
    assert classifier.profile_.evaluate("accuracy", classifier.strength_) >= baseline - 0.05


def test_the_upper_bound_is_widened_and_both_bounds_are_said():
    with (
        pytest.warns(rp.RepriorWarning, match="searching up to"),
        pytest.warns(rp.RepriorWarning, match="lies at the lower bound 0.01; less is not tried"),
    ):
        classifier = RebalancedClassifierCV(
            LogisticRegression(), bounds=(0.01, 0.05), metric="balanced_accuracy"
        ).fit(X, y)
    assert classifier.profile_.bounds[1] > 0.05


# ------------------------------------------------------------------- what it is there for


def test_better_balanced_accuracy_on_held_out_long_tailed_digits():
    X_train, y_train, X_test, y_test = long_tailed_digits()
    plain = LogisticRegression(max_iter=500).fit(X_train, y_train)
    with pytest.warns(UserWarning, match="least populated class"):
        rebalanced = RebalancedClassifierCV(LogisticRegression(max_iter=500)).fit(X_train, y_train)
    before = balanced_accuracy_score(y_test, plain.predict(X_test))
    after = balanced_accuracy_score(y_test, rebalanced.predict(X_test))
    assert after > before + 0.03
    assert rebalanced.strength_ > 0.2


def test_a_frozen_model_is_tuned_on_the_data_given():
    X_train, X_tune, y_train, y_tune = train_test_split(X, names, stratify=names, random_state=0)
    fitted = LogisticRegression().fit(X_train, y_train)
    prior = rp.prior_from_labels(np.unique(y_train, return_inverse=True)[1])
    by_hand = rp.PosteriorCalibrator(prior, classes=NAMES, kind="log_probs")
    by_hand.fit(fitted.predict_log_proba(X_tune), y_tune)
    coefficients = fitted.coef_.copy()

    frozen = FrozenEstimator(fitted)
    classifier = RebalancedClassifierCV(frozen, source_prior=prior).fit(X_tune, y_tune)

    assert classifier.strength_ == by_hand.strength_
    assert classifier.estimator_ is frozen
    assert classifier.n_features_in_ == 5
    np.testing.assert_array_equal(fitted.coef_, coefficients)
    np.testing.assert_array_equal(classifier.classes_, NAMES)


def test_a_frozen_model_keeps_classes_that_are_not_tuned_on():
    fitted = FrozenEstimator(LogisticRegression().fit(X, names))
    some = names != "cow"
    with pytest.warns(rp.RepriorWarning, match="have no tuning labels: 'cow'"):
        classifier = RebalancedClassifierCV(fitted, source_prior=rp.prior_from_labels(y)).fit(
            X[some], names[some]
        )
    assert classifier.predict_proba(X).shape == (len(X), 3)
    assert classifier.source_prior_.size == 3


# --------------------------------------------------------------------- splits and refitting


def test_a_float_is_one_split_and_refit_may_be_left_out():
    split = RebalancedClassifierCV(GaussianNB(), cv=0.25, refit=False, random_state=3).fit(X, y)
    assert split.profile_.n_samples == 150
    assert split.estimator_.class_count_.sum() == 450
    np.testing.assert_allclose(split.source_prior_, split.estimator_.class_prior_)
    again = RebalancedClassifierCV(GaussianNB(), cv=0.25, random_state=3).fit(X, y)
    assert again.strength_ == pytest.approx(split.strength_, abs=0.05)
    assert again.estimator_.class_count_.sum() == 600


@pytest.mark.parametrize(
    "cv, n_tuned",
    [
        (None, 600),
        (3, 600),
        (RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0), 1200),
        (ShuffleSplit(3, test_size=100, random_state=0), 300),
        ([(np.arange(400), np.arange(400, 600)), (np.arange(200, 600), np.arange(200))], 400),
        ([(np.arange(600) < 400, np.arange(600) >= 400)], 200),
    ],
    ids=["none", "int", "repeated", "shuffled", "indices", "masks"],
)
def test_any_splitter_pools_the_test_parts(cv, n_tuned):
    assert RebalancedClassifierCV(GaussianNB(), cv=cv).fit(X, y).profile_.n_samples == n_tuned


def test_folds_in_parallel_are_the_same():
    one = RebalancedClassifierCV(GaussianNB()).fit(X, names)
    with joblib.parallel_config("threading"):  # no processes to start
        two = RebalancedClassifierCV(GaussianNB(), n_jobs=2).fit(X, names)
    assert one.strength_ == two.strength_


def test_precomputed_kernels_are_split_both_ways():
    gram = X @ X.T
    tree = SVC(kernel="precomputed")
    classifier = RebalancedClassifierCV(tree, cv=3, response_method="decision_function")
    linear = RebalancedClassifierCV(
        SVC(kernel="linear"), cv=3, response_method="decision_function"
    ).fit(X, y)
    assert get_tags(classifier).input_tags.pairwise
    assert classifier.fit(gram, y).strength_ == pytest.approx(linear.strength_, rel=1e-6)


# --------------------------------------------------------------------------- its company


@pytest.mark.parametrize(
    "labels",
    [names, names.astype(object), list(names), y == 0, y + 7, y.astype(float), y.astype(np.uint8)],
    ids=["str", "object", "list", "bool", "offset", "float", "uint8"],
)
def test_labels_of_any_type(labels):
    classifier = RebalancedClassifierCV(GaussianNB(), cv=3).fit(X, labels)
    np.testing.assert_array_equal(classifier.classes_, np.unique(labels))
    assert classifier.predict(X).dtype == classifier.classes_.dtype
    reference = RebalancedClassifierCV(GaussianNB(), cv=3)
    if len(classifier.classes_) == 3:
        assert classifier.strength_ == reference.fit(X, y).strength_


@pytest.mark.parametrize("frame", ["pandas", "polars"])
def test_frames_reach_the_estimator_as_they_are(frame):
    seen = []

    class Watching(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            seen.append(type(X))
            return super().fit(X, y, sample_weight)

    columns = list("abcde")
    if frame == "pandas":
        table, labels = pd.DataFrame(X, columns=columns), pd.Series(names)
    else:
        table, labels = pl.DataFrame(X, schema=columns), pl.Series(names)
    classifier = RebalancedClassifierCV(Watching(), cv=3).fit(table, labels)
    assert set(seen) == {type(table)}
    assert classifier.feature_names_in_.tolist() == columns
    plain = RebalancedClassifierCV(GaussianNB(), cv=3).fit(X, names)
    np.testing.assert_array_equal(classifier.predict(table), plain.predict(X))
    assert not hasattr(classifier.fit(X, names), "feature_names_in_")


def test_sparse_data():
    dense = RebalancedClassifierCV(LogisticRegression(), cv=3).fit(X, y)
    thin = RebalancedClassifierCV(LogisticRegression(), cv=3).fit(sparse.csr_array(X), y)
    assert thin.strength_ == pytest.approx(dense.strength_, rel=1e-6)


def test_text_goes_through_a_pipeline():
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB

    words = ["good fine", "bad poor", "good good", "bad bad", "fine fine", "so so"] * 10
    labels = ["up", "down", "up", "down", "up", "up"] * 10
    inner = make_pipeline(CountVectorizer(), MultinomialNB())
    classifier = RebalancedClassifierCV(inner, cv=2).fit(words, labels)
    assert classifier.predict(["bad"]) == "down"
    assert not hasattr(classifier, "n_features_in_")


def test_inside_a_pipeline_and_around_one():
    around = RebalancedClassifierCV(make_pipeline(StandardScaler(), LogisticRegression()))
    inside = make_pipeline(StandardScaler(), RebalancedClassifierCV(LogisticRegression()))
    assert around.fit(X, y).n_features_in_ == 5
    assert (around.predict(X) == inside.fit(X, y).predict(X)).mean() > 0.95


def test_grid_search_around_it():
    search = GridSearchCV(
        RebalancedClassifierCV(GaussianNB(), cv=3),
        {"estimator__var_smoothing": [1e-9, 1e-2], "metric": ["accuracy", "macro_f1"]},
        scoring="balanced_accuracy",
        cv=3,
    ).fit(X, names)
    assert set(search.best_params_) == {"estimator__var_smoothing", "metric"}
    assert search.best_estimator_.strength_ > 0


def test_a_grid_search_inside_it():
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2)
    classifier = RebalancedClassifierCV(search, cv=3).fit(X, y)
    assert classifier.estimator_.best_params_
    assert classifier.predict_proba(X).shape == (600, 3)


def test_cross_val_score():
    scoring = "balanced_accuracy"
    plain = cross_val_score(GaussianNB(), X, names, scoring=scoring)
    rebalanced = cross_val_score(RebalancedClassifierCV(GaussianNB()), X, names, scoring=scoring)
    assert rebalanced.mean() > plain.mean()
    roc = cross_val_score(RebalancedClassifierCV(GaussianNB()), *two_classes(), scoring="roc_auc")
    assert roc.mean() > 0.5


def test_clone_and_parameters():
    classifier = RebalancedClassifierCV(GaussianNB(), source_prior=[0.2, 0.3, 0.5], cv=4)
    other = clone(classifier).set_params(estimator__var_smoothing=0.5, metric="accuracy")
    assert other.get_params()["estimator__var_smoothing"] == 0.5
    assert classifier.estimator.var_smoothing != 0.5
    assert repr(clone(classifier)) == repr(classifier)


@pytest.mark.parametrize("through", ["pickle", "joblib"])
def test_pickling(through):
    classifier = RebalancedClassifierCV(GaussianNB(), cv=3).fit(X, names)
    if through == "pickle":
        again = pickle.loads(pickle.dumps(classifier))
    else:
        buffer = io.BytesIO()
        joblib.dump(classifier, buffer)
        buffer.seek(0)
        again = joblib.load(buffer)
    np.testing.assert_array_equal(again.predict_proba(X), classifier.predict_proba(X))
    assert again.profile_ is None
    assert again.calibrator_.profile_ is None
    assert classifier.profile_ is not None
    assert again.strength_ == classifier.strength_


def test_pickles_with_the_profile_where_it_is_asked_for():
    kept = RebalancedClassifierCV(GaussianNB(), cv=3, keep_profile=True).fit(X, names)
    left = RebalancedClassifierCV(GaussianNB(), cv=3).fit(X, names)
    with_profile, without = pickle.dumps(kept), pickle.dumps(left)
    again = pickle.loads(with_profile)
    assert again.profile_.best("accuracy") == kept.profile_.best("accuracy")
    assert len(without) < len(with_profile) / 2
    assert copy.copy(left).profile_ is left.profile_
    assert copy.deepcopy(left).profile_.best("accuracy") == left.profile_.best("accuracy")


def test_the_calibrator_is_saved_with_class_names(tmp_path):
    classifier = RebalancedClassifierCV(GaussianNB(), cv=3).fit(X, names)
    classifier.calibrator_.save(tmp_path / "cal.json")
    loaded = rp.load(tmp_path / "cal.json")
    scores = classifier.estimator_.predict_log_proba(X)
    np.testing.assert_array_equal(loaded.predict(scores), classifier.predict(X))


def test_html_shows_the_classifier_inside():
    html = RebalancedClassifierCV(GaussianNB())._repr_html_()
    assert "RebalancedClassifierCV" in html
    assert "GaussianNB" in html


def test_tags_are_those_of_the_classifier_inside():
    from sklearn.ensemble import HistGradientBoostingClassifier

    tags = get_tags(RebalancedClassifierCV(HistGradientBoostingClassifier()))
    assert tags.input_tags.allow_nan
    assert not tags.input_tags.sparse
    assert tags.estimator_type == "classifier"
    assert get_tags(RebalancedClassifierCV(None)).estimator_type == "classifier"
    assert get_tags(RebalancedClassifierCV(StandardScaler())).classifier_tags.multi_class


def test_missing_values_pass():
    from sklearn.ensemble import HistGradientBoostingClassifier

    holes = X.copy()
    holes[::7, 2] = np.nan
    inner = HistGradientBoostingClassifier(max_iter=5, random_state=0)
    assert RebalancedClassifierCV(inner, cv=2).fit(holes, y).score(holes, y) > 0.5


# -------------------------------------------------------------------------------- weights


def test_whole_weights_are_repetitions():
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 4, len(y))
    repeat = np.repeat(np.arange(len(y)), weight)
    half = len(y) // 2
    splits = [
        (np.arange(half), np.arange(half, len(y))),
        (np.arange(half, len(y)), np.arange(half)),
    ]
    splits_repeated = [tuple(np.flatnonzero(np.isin(repeat, part)) for part in s) for s in splits]
    weighted = RebalancedClassifierCV(GaussianNB(), cv=splits).fit(X, y, sample_weight=weight)
    repeated = RebalancedClassifierCV(GaussianNB(), cv=splits_repeated).fit(X[repeat], y[repeat])
    np.testing.assert_allclose(weighted.source_prior_, repeated.source_prior_, rtol=ROUNDING)
    assert weighted.strength_ == pytest.approx(repeated.strength_, rel=1e-6)
    assert weighted.best_score_ == pytest.approx(repeated.best_score_, rel=ROUNDING)


@pytest.mark.filterwarnings("ignore:The source prior is taken from the labels given to `fit`")
def test_whole_weights_are_repetitions_for_a_frozen_model():
    frozen = FrozenEstimator(GaussianNB().fit(X[:300], y[:300]))
    weight = np.random.default_rng(0).integers(0, 4, 300)
    weighted = RebalancedClassifierCV(frozen).fit(X[300:], y[300:], sample_weight=weight)
    repeated = RebalancedClassifierCV(frozen).fit(
        np.repeat(X[300:], weight, axis=0), np.repeat(y[300:], weight)
    )
    np.testing.assert_allclose(weighted.source_prior_, repeated.source_prior_, rtol=ROUNDING)
    assert weighted.strength_ == pytest.approx(repeated.strength_, rel=ROUNDING)


# ------------------------------------------------------------------------ what is refused

wine = load_wine(return_X_y=True)


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"estimator": None}, rp.OptionError, "`estimator` must have `fit` and"),
        (
            {"estimator": LinearSVC(random_state=0)},
            rp.OptionError,
            "Wrap it in CalibratedClassifierCV",
        ),
        ({"estimator": RidgeClassifier()}, rp.OptionError, "response_method='decision_function'"),
        ({"response_method": "predict"}, rp.OptionError, "`response_method` must be 'auto' or"),
        ({"response_method": "decision_function"}, rp.OptionError, "`decision_function`"),
        ({"source_prior": "label"}, rp.OptionError, "`source_prior` must be 'labels', 'effective'"),
        ({"source_prior": [0.5, 0.5]}, rp.PriorError, "2 values for 3 classes"),
        ({"source_prior": [0.5, 0.5, 0.0]}, rp.PriorError, "positive for every class"),
        ({"source_prior": [9, 2, 1]}, rp.PriorError, "look like counts"),
        ({"source_prior": {0: 0.5, 1: 0.3, 7: 0.2}}, rp.PriorError, "no value for 2"),
        ({"target_prior": "unifrom"}, rp.OptionError, "Did you mean 'uniform'"),
        ({"target_prior": [0.5, 0.5]}, rp.PriorError, "one value per class"),
        ({"metric": "roc_auc"}, rp.OptionError, "hard labels"),
        ({"metric": "balanced"}, rp.OptionError, "Did you mean"),
        ({"metric": []}, rp.OptionError, "begins with the one to tune. Got an empty list"),
        ({"metric": ["accuracy", "log_loss"]}, rp.OptionError, "Put 'log_loss' first"),
        ({"metric": ["accuracy", "f2"]}, rp.OptionError, "`metric` must be"),
        ({"target_prior": "estimate"}, rp.OptionError, "estimates the mix of a batch"),
        ({"training": "balanced"}, rp.OptionError, "`training` must be one of 'as_given'"),
        ({"floor": 0.4}, rp.OptionError, "a probability from 0 to below 1 / 3"),
        ({"floor": "none"}, rp.OptionError, "`floor` must be 'auto', None or"),
        ({"metric": "recall[7]"}, rp.LabelsError, "a class that exists"),
        ({"subject_to": "accuracy is good"}, rp.OptionError, "subject_to"),
        ({"subject_to": "accuracy >= 1.01"}, rp.InfeasibleError, "accuracy"),
        ({"tune": "everything"}, rp.OptionError, "`tune`"),
        ({"selection": "min"}, rp.OptionError, "`selection`"),
        ({"temperature": -1}, rp.OptionError, "`temperature`"),
        ({"bounds": (2, 0)}, rp.OptionError, "bounds reversed"),
        ({"refit": False}, rp.OptionError, "`refit` must be True where there are several folds"),
    ],
)
def test_options_are_refused_with_the_remedy(options, error, words):
    with pytest.raises(error, match=words.replace("[", r"\[")):
        RebalancedClassifierCV(**{"estimator": GaussianNB(), **options}).fit(*wine)


@pytest.mark.parametrize(
    "module, classifier",
    [("xgboost.core", "xgboost.XGBClassifier"), ("lightgbm.basic", "lightgbm.LGBMClassifier")],
)
@pytest.mark.parametrize("wrapped", [lambda booster: booster, FrozenEstimator])
def test_a_booster_is_pointed_to_its_classifier(module, classifier, wrapped):
    booster = type("Booster", (), {"__module__": module, "predict": lambda self, X: X})()
    with pytest.raises(rp.OptionError, match=f"A Booster has neither: pass {classifier}"):
        RebalancedClassifierCV(wrapped(booster)).fit(*wine)


@pytest.mark.parametrize("labels", [y.astype(float), names.astype(object)], ids=["float", "names"])
@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_missing_label_is_named(labels, missing):
    labels = labels.copy()
    labels[5] = missing
    with pytest.raises(rp.LabelsError, match=r"`y` must name a class .* Got y\[5\]=(None|nan)"):
        RebalancedClassifierCV(GaussianNB()).fit(X, labels)


def test_a_wrong_option_is_refused_before_training():
    class Slow(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            raise AssertionError("trained")

    for wrong in ({"metric": "auc"}, {"bounds": 1}, {"target_prior": [1, 2, 3]}):
        with pytest.raises(rp.RepriorError):
            RebalancedClassifierCV(Slow(), **wrong).fit(*wine)
    # … and a right one with a temperature to be fitted is no wrong one.
    with pytest.raises(AssertionError, match="trained"):
        RebalancedClassifierCV(Slow(), temperature="fit").fit(*wine)


def test_one_class():
    with pytest.raises(rp.LabelsError, match=r"at least two classes\. Got 1 class, 5"):
        RebalancedClassifierCV(GaussianNB()).fit(X, np.full(len(X), 5))


def test_labels_a_frozen_model_does_not_know():
    frozen = FrozenEstimator(GaussianNB().fit(X, names))
    with pytest.raises(rp.LabelsError, match=r"Got y\[0\]='dog'"):
        RebalancedClassifierCV(frozen).fit(X, np.where(np.arange(600) == 0, "dog", names))


def test_unfitted_use():
    with pytest.raises(NotFittedError):
        RebalancedClassifierCV(GaussianNB()).predict(X)
    with pytest.raises(NotFittedError):
        RebalancedClassifierCV(FrozenEstimator(GaussianNB())).fit(X, y)


@pytest.mark.parametrize(
    "estimator, has",
    [(GaussianNB(), True), (LinearSVC(random_state=0), False), (SVC(), False), (None, False)],
)
def test_probabilities_are_offered_where_there_are_scores(estimator, has):
    assert hasattr(RebalancedClassifierCV(estimator), "predict_proba") is has
    assert hasattr(RebalancedClassifierCV(estimator), "predict_log_proba") is has


def test_margins_when_asked_for():
    classifier = RebalancedClassifierCV(
        LinearSVC(random_state=0), response_method="decision_function"
    )
    assert classifier.fit(X, names).calibrator_.kind == "logits"
    assert set(classifier.predict(X)) <= set(NAMES)


OWN = {
    "estimator", "training", "ensemble", "floor", "response_method", "cv", "refit", "n_jobs",
    "keep_profile",
}  # fmt: skip
"""Parameters of the classifier that are not the calibrator's, or mean something else there."""

SETTLED = {"kind", "class_axis", "classes", "cv", "ignore_index"}
"""Parameters of the calibrator that follow from the classifier, or have no meaning for one."""


def parameters(cls):
    found = dict(inspect.signature(cls.__init__).parameters)
    found.pop("self")
    return found


def test_every_option_of_the_calibrator_is_one_of_the_classifier():
    mine, its = parameters(RebalancedClassifierCV), parameters(rp.PosteriorCalibrator)
    assert set(mine) - OWN == set(its) - SETTLED
    shared = set(mine) - OWN - {"source_prior"}
    assert {name: mine[name].default for name in shared} == {
        name: its[name].default for name in shared
    }


def test_metrics_name_groups_of_classes():
    rare = {"rare": NAMES[1:].tolist()}
    metric = ["worst_recall[rare]", "recall[rare]"]
    classifier = RebalancedClassifierCV(
        GaussianNB(), metric=metric, class_groups=rare, bounds=(0, 8)
    )
    classifier.fit(X, names)
    decided = classifier.calibrator_.counts_
    recalls = decided.true_positive / decided.support
    order = [classifier.classes_.tolist().index(name) for name in rare["rare"]]
    assert np.isclose(classifier.best_score_, recalls[order].min())
    assert np.isclose(classifier.scores_["recall[rare]"]["after"], recalls[order].mean())


def test_options_are_handed_on():
    classifier = RebalancedClassifierCV(
        GaussianNB(), metric="accuracy", bounds=(0, 8), temperature="fit", random_state=3
    )
    calibrator = classifier.fit(X, names.astype(object)).calibrator_
    assert (calibrator.metric, calibrator.bounds) == ("accuracy", (0, 8))
    assert calibrator.kind == "log_probs"
    assert calibrator.temperature == "fit"
    assert calibrator.random_state == 3
    assert calibrator.classes.tolist() == NAMES.tolist()
    assert calibrator.classes.dtype.kind == "U"  # objects of one type get its dtype


def test_fewer_than_two_classes():
    with pytest.raises(rp.LabelsError, match=r"at least two classes\. Got 1 class, 3"):
        RebalancedClassifierCV(GaussianNB()).fit(X, np.full(len(X), 3))
