"""The prior that we state is the one that the model has, for every re-weighting parameter.

The classes of the training set have known likelihoods over four cells, exactly. A model that learns
each cell's shares then shows its prior: P(k | cell) / P(cell | k), up to a factor per cell. A model
is trained with and without a parameter; the one without shows what the model makes of the data.
"""

from __future__ import annotations

import numpy as np
import pytest
from imblearn.ensemble import (
    BalancedBaggingClassifier,
    BalancedRandomForestClassifier,
    EasyEnsembleClassifier,
)
from imblearn.over_sampling import RandomOverSampler
from imblearn.pipeline import make_pipeline as make_sampling_pipeline
from imblearn.under_sampling import RandomUnderSampler
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    GaussianNB,
    MultinomialNB,
)
from sklearn.neighbors import NearestCentroid
from sklearn.tree import DecisionTreeClassifier

import reprior as rp
from reprior.sklearn.source_prior import Seen, effective_prior, reweighting

CLOSE = 0.1
"""In log P: trees stop before they have learnt the last percent, and samplers draw."""

LIKELIHOODS = {
    2: np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]]),
    3: np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.4, 0.1, 0.4], [0.2, 0.1, 0.4, 0.3]]),
}
COUNTS = {2: [2700, 300], 3: [2100, 600, 300]}
WEIGHTS = {0: 1.0, 1: 4.0}


def named(value):
    return getattr(value, "__name__", str(value))


def data(n_classes):
    cells, labels = [], []
    for k, (count, shares) in enumerate(
        zip(COUNTS[n_classes], LIKELIHOODS[n_classes], strict=True)
    ):
        sizes = np.round(count * shares).astype(int)
        cells.append(np.repeat(np.arange(4), sizes))
        labels.append(np.full(sizes.sum(), k))
    cells, labels = np.concatenate(cells), np.concatenate(labels)
    order = np.random.default_rng(0).permutation(labels.size)
    return np.eye(4)[cells[order]], labels[order]


def log_prior(model, n_classes):
    """The prior that a model shows, up to what it makes of the likelihoods."""
    columns = np.argsort(np.ravel(model.classes_))
    posterior = np.log(model.predict_proba(np.eye(4))[:, columns])
    return (posterior - np.log(LIKELIHOODS[n_classes]).T).mean(axis=0)


def stated_and_measured(make, options, n_classes, weighted):
    """log P of the model with the options: as we state it, and as it differs from that without."""
    X, y = data(n_classes)
    weight = np.where(y == 0, 0.5, 1.0) if weighted else None
    fit = {} if weight is None else {"sample_weight": weight}
    model = make(**options).fit(X, y, **fit)
    seen = Seen.of(X, y, np.arange(n_classes), weight)
    stated = np.log(effective_prior(model, seen)[0])
    plain = np.log(seen.mass / seen.mass.sum())
    measured = plain + log_prior(model, n_classes) - log_prior(make().fit(X, y, **fit), n_classes)
    measured -= np.logaddexp.reduce(measured)
    changed = np.abs(measured - plain).max() > CLOSE
    assert bool(reweighting(model)) or not changed
    return stated, measured


def check(make, options, n_classes, weighted=False):
    stated, measured = stated_and_measured(make, options, n_classes, weighted)
    np.testing.assert_allclose(stated, measured, atol=CLOSE)


def logistic(**options):
    return LogisticRegression(C=1e6, max_iter=2000, **options)


def forest(kind):
    return lambda **options: kind(30, random_state=0, **options)


def boosted(**options):
    return HistGradientBoostingClassifier(max_iter=100, learning_rate=0.3, **options)


def tree(**options):
    return DecisionTreeClassifier(random_state=0, **options)


BALANCED = [{"class_weight": "balanced"}, {"class_weight": WEIGHTS}]
FOREST = [*BALANCED, {"class_weight": "balanced_subsample"}]
CASES = [
    *((logistic, options) for options in BALANCED),
    *((tree, options) for options in BALANCED),
    *((boosted, options) for options in BALANCED),
    *((forest(RandomForestClassifier), options) for options in FOREST),
    *((forest(ExtraTreesClassifier), options) for options in FOREST),
]


@pytest.mark.parametrize("weighted", [False, True], ids=["", "sample weights"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("make, options", CASES, ids=named)
def test_class_weights_of_scikit_learn(make, options, n_classes, weighted):
    check(make, options, n_classes, weighted)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "make, options",
    [
        (BernoulliNB, {"fit_prior": False}),
        (MultinomialNB, {"fit_prior": False}),
        (CategoricalNB, {"fit_prior": False}),
        (BernoulliNB, {"class_prior": "given"}),
        (GaussianNB, {"priors": "given"}),
        (LinearDiscriminantAnalysis, {"priors": "given"}),
        (
            lambda **options: QuadraticDiscriminantAnalysis(reg_param=0.01, **options),
            {"priors": "given"},
        ),
    ],
)
def test_priors_of_scikit_learn(make, options, n_classes):
    given = [0.5, 0.5] if n_classes == 2 else [0.2, 0.3, 0.5]
    check(
        make,
        {name: given if value == "given" else value for name, value in options.items()},
        n_classes,
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("model", [ComplementNB(), NearestCentroid()], ids=str)
def test_models_that_leave_the_frequencies_out(model, n_classes):
    X, y = data(n_classes)
    seen = Seen.of(X, y, np.arange(n_classes), None)
    np.testing.assert_allclose(effective_prior(model.fit(X, y), seen)[0], 1 / n_classes)
    assert reweighting(model)
    shown = log_prior(model, n_classes)
    assert np.ptp(shown) < 0.2  # their likelihoods are not the data's
    assert np.ptp(np.log(seen.mass)) > 1.9


def test_a_prior_that_counts_twice_cannot_be_told():
    X, y = data(2)
    model = NearestCentroid(priors="empirical").fit(X, y)
    with pytest.raises(rp.PriorError, match=r"NearestCentroid\(priors='empirical'\)"):
        effective_prior(model, Seen.of(X, y, np.arange(2), None))


def sampled_forest(**options):
    return BalancedRandomForestClassifier(60, random_state=0, **options)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "make",
    [
        sampled_forest,
        lambda: sampled_forest(class_weight="balanced"),  # of the counts before sampling
        lambda: sampled_forest(class_weight="balanced_subsample"),
        lambda: sampled_forest(class_weight=WEIGHTS),
        lambda: sampled_forest(sampling_strategy="majority"),
        lambda: BalancedBaggingClassifier(n_estimators=30, random_state=0),
        lambda: BalancedBaggingClassifier(tree(class_weight=WEIGHTS), 30, random_state=0),
        lambda: EasyEnsembleClassifier(5, random_state=0),
        lambda: make_sampling_pipeline(RandomUnderSampler(random_state=0), logistic()),
        lambda: make_sampling_pipeline(
            RandomOverSampler(random_state=0), logistic(class_weight=WEIGHTS)
        ),
    ],
    ids=range(10),
)
def test_imbalanced_learn(make, n_classes):
    """Against the likelihoods themselves: a sampler cannot be left out."""
    X, y = np.tile(data(n_classes)[0], (3, 1)), np.tile(data(n_classes)[1], 3)
    model = make().fit(X, y)
    measured = log_prior(model, n_classes)
    measured -= np.logaddexp.reduce(measured)
    seen = Seen.of(X, y, np.arange(n_classes), None)
    np.testing.assert_allclose(np.log(effective_prior(model, seen)[0]), measured, atol=CLOSE)
    assert reweighting(model)


# ------------------------------------------------------------------------------ boosting libraries


def lightgbm(**options):
    module = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    return module.LGBMClassifier(
        n_estimators=100, learning_rate=0.2, n_jobs=1, verbose=-1, random_state=0, **options
    )


def xgboost(**options):
    module = pytest.importorskip("xgboost", reason="xgboost is not installed")
    return module.XGBClassifier(
        n_estimators=80, n_jobs=1, reg_lambda=0, min_child_weight=0, **options
    )


def catboost(**options):
    module = pytest.importorskip("catboost", reason="catboost is not installed")
    return module.CatBoostClassifier(
        iterations=200, learning_rate=0.3, l2_leaf_reg=0, verbose=False, thread_count=1,
        allow_writing_files=False, **options,
    )  # fmt: skip


NEGATIVE_SHARE = {"neg_bagging_fraction": 0.2, "bagging_freq": 1}
BOOSTED = {
    lightgbm: [
        *BALANCED,
        {"is_unbalance": True},
        {"unbalance": True},
        {"scale_pos_weight": 5.0},
        NEGATIVE_SHARE,
        {"neg_subsample": 0.2, "pos_sub_row": 0.9, "subsample_freq": 1},
        {**NEGATIVE_SHARE, "is_unbalance": True},
        {"neg_bagging_fraction": 0.2},  # without a frequency: no effect
        {**NEGATIVE_SHARE, "data_sample_strategy": "goss"},  # no effect
    ],
    xgboost: [{"scale_pos_weight": 5.0}],
    catboost: [
        {"class_weights": [1.0, 5.0, 2.0]},
        {"class_weights": {1: 5.0, 0: 1.0, 2: 2.0}},
        {"class_names": [1, 0, 2], "class_weights": [1.0, 5.0, 2.0]},
        {"auto_class_weights": "Balanced"},
        {"auto_class_weights": "SqrtBalanced"},
        {"scale_pos_weight": 5.0},
    ],
}


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::UserWarning")  # XGBoost: scale_pos_weight is not used
@pytest.mark.parametrize("weighted", [False, True], ids=["", "sample weights"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "make, options", [(make, each) for make, many in BOOSTED.items() for each in many], ids=named
)
def test_boosting_libraries(make, options, n_classes, weighted):
    if n_classes == 2:
        options = {
            name: value[:2]
            if isinstance(value, list)
            else {k: v for k, v in value.items() if k < 2}
            if isinstance(value, dict)
            else value
            for name, value in options.items()
        }
    elif make is catboost and "scale_pos_weight" in options:
        pytest.skip("CatBoost refuses scale_pos_weight for several classes")
    check(make, options, n_classes, weighted)


@pytest.mark.heavy
def test_several_classes_of_lightgbm_without_a_softmax():
    check(lightgbm, {"objective": "multiclassova", "is_unbalance": True}, 3)
    X, y = data(3)
    model = lightgbm(objective="multiclassova", scale_pos_weight=5.0).fit(X, y)
    with pytest.raises(rp.PriorError, match="scale_pos_weight with 3 classes"):
        effective_prior(model, Seen.of(X, y, np.arange(3), None))


def custom(y, raw):
    p = 1 / (1 + np.exp(-raw))
    return p - y, p * (1 - p)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "make, options, words, sure",
    [
        (lightgbm, {"objective": custom}, r"LGBMClassifier\(objective=", False),
        (xgboost, {"objective": custom}, r"XGBClassifier\(objective=", False),
        (
            catboost,
            {"loss_function": "Focal:focal_alpha=0.8;focal_gamma=0.5"},
            r"CatBoostClassifier\(loss_function='Focal",
            True,
        ),
    ],
)
def test_losses_that_cannot_be_told(make, options, words, sure):
    X, y = data(2)
    model = make(**options).fit(X, y)
    with pytest.raises(rp.PriorError, match=words) as error:
        effective_prior(model, Seen.of(X, y, np.arange(2), None))
    assert "Pass the class distribution that the model was trained on" in str(error.value)
    assert bool(reweighting(model)) == sure
