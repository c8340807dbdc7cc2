"""Cache the scores of every model on every split for the held-out study.

Training takes minutes, choosing a strength milliseconds: out-of-fold and test scores of each base
model, as given and with balanced class weights, and the test predictions of its peers, are written
to one file per set, model and split, so that rules of selection can be compared again at once.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from catboost import CatBoostClassifier
from imblearn.ensemble import BalancedRandomForestClassifier, EasyEnsembleClassifier
from imblearn.over_sampling import SMOTE, RandomOverSampler
from imblearn.pipeline import make_pipeline as make_sampling_pipeline
from lightgbm import LGBMClassifier
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import (
    StratifiedKFold,
    StratifiedShuffleSplit,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.held_out_data import DataSet
from reprior.metrics import evaluate

TEST_SHARE = 0.4
FOLDS = 5

METRICS = ("balanced_accuracy", "macro_f1", "mcc")

#: The steps of every base model, the classifier last.
MODELS: dict[str, tuple[Any, ...]] = {
    "logistic regression": (StandardScaler(), LogisticRegression(max_iter=1000)),
    "LightGBM": (LGBMClassifier(n_jobs=1, random_state=0, verbose=-1),),
    "CatBoost": (
        CatBoostClassifier(
            iterations=100, thread_count=1, random_seed=0, verbose=False, allow_writing_files=False
        ),
    ),
    "boosting": (
        HistGradientBoostingClassifier(
            max_iter=50, max_leaf_nodes=15, early_stopping=False, random_state=0
        ),
    ),
}

#: Models that are trained with class weights too. scikit-learn's boosting is left out: version 1.9
#: needs thirty times as long to bin features of weighted samples.
WEIGHTED = ("logistic regression", "LightGBM", "CatBoost")

#: imbalanced-learn's ensembles, which have a base model of their own: peers of every model.
ENSEMBLES = "ensembles"


class Remembering(ClassifierMixin, BaseEstimator):
    """A model that caches its fit, because several rows need the same folds."""

    def __init__(self, model: Any, memory: dict[bytes, Any]) -> None:
        self.model = model
        self.memory = memory

    def __sklearn_clone__(self) -> Remembering:
        return Remembering(self.model, self.memory)

    def fit(self, X: Any, y: Any) -> Remembering:
        key = hashlib.sha256(X.tobytes() + y.tobytes()).digest()
        if key not in self.memory:
            self.memory[key] = clone(self.model).fit(X, y)
        self.fitted_ = self.memory[key]
        self.classes_ = self.fitted_.classes_
        return self

    def predict_proba(self, X: Any) -> Any:
        return self.fitted_.predict_proba(X)


class Weighted(ClassifierMixin, BaseEstimator):
    """A model that is trained with balanced class weights, given as sample weights."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Any, y: Any) -> Weighted:
        weight = (y.size / np.count_nonzero(np.bincount(y)) / np.bincount(y).clip(1))[y]
        last = self.model.steps[-1][0]
        self.fitted_ = clone(self.model).fit(X, y, **{f"{last}__sample_weight": weight})
        self.classes_ = self.fitted_.classes_
        return self

    def predict_proba(self, X: Any) -> Any:
        return self.fitted_.predict_proba(X)


#: Arrays of one model on one split. ``out_of_fold`` (N, K) and ``test`` (M, K) are
#: log-probabilities, ``labels`` and ``test_labels`` their labels. ``weighted_…`` are those of the
#: model trained with balanced class weights, if it was. ``over_sampling``, ``smote`` and, for two
#: classes, ``threshold_{metric}`` are predictions of the test samples.
#: Of the ensembles: ``forest_out_of_fold``, ``forest_test`` and the predictions ``easy_ensemble``.
Scored = Mapping[str, Any]


def file_name(*parts: Any) -> str:
    """Return the file name for a set, a model and a split."""
    return "-".join(map(str, parts)).replace(" ", "_").replace("(", "").replace(")", "")


def place(cache: Path, name: str, model: str, split: int) -> Path:
    """Return the path in the cache."""
    return cache / f"{file_name(name, model, split)}.npz"


def scored(cache: Path, data: DataSet, model: str, split: int) -> Scored:
    """Load from the cache, or train and store it there."""
    path = place(cache, data.name, model, split)
    if not path.exists():
        with warnings.catch_warnings():  # classes smaller than the folds are a part of the study
            warnings.simplefilter("ignore", UserWarning)
            arrays = _train(data, model, split)
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_suffix(".part.npz")
        np.savez_compressed(whole, **arrays)
        whole.replace(path)
    with np.load(path, allow_pickle=False) as stored:
        return dict(stored)


def _train(data: DataSet, model: str, split: int) -> dict[str, Any]:
    parts = StratifiedShuffleSplit(1, test_size=TEST_SHARE, random_state=split)
    train, test = next(parts.split(data.X, data.y))
    X, y, X_test = data.X[train], data.y[train], data.X[test]
    if model == ENSEMBLES:
        return _ensembles(X, y, X_test)
    base = Remembering(clone(make_pipeline(*MODELS[model])), {})
    arrays = {
        "out_of_fold": _out_of_fold(base, X, y),
        "labels": y,
        "test": _log_scores(clone(base).fit(X, y), X_test, data.n_classes),
        "test_labels": data.y[test],
    }
    if model in WEIGHTED:
        weighted = Weighted(make_pipeline(*MODELS[model]))
        arrays["weighted_out_of_fold"] = _out_of_fold(weighted, X, y)
        arrays["weighted_test"] = _log_scores(weighted.fit(X, y), X_test, data.n_classes)
    arrays |= _sampled(MODELS[model][-1], X, y, X_test)
    if data.n_classes == 2:
        arrays |= {f"threshold_{name}": _threshold(base, X, y, X_test, name) for name in METRICS}
    return arrays


def _ensembles(X: Any, y: Any, X_test: Any) -> dict[str, Any]:
    """Return the scores of a balanced random forest, and the predictions of EasyEnsemble."""
    n_classes = int(y.max()) + 1
    forest = BalancedRandomForestClassifier(
        sampling_strategy="all", replacement=True, bootstrap=False, random_state=0
    )
    easy = EasyEnsembleClassifier(random_state=0)
    return {
        "forest_out_of_fold": _out_of_fold(forest, X, y),
        "forest_test": _log_scores(forest.fit(X, y), X_test, n_classes),
        "easy_ensemble": easy.fit(X, y).predict(X_test),
    }


def _sampled(classifier: Any, X: Any, y: Any, X_test: Any) -> dict[str, Any]:
    """Predict after re-sampling. Features are always scaled first: SMOTE searches neighbours."""
    few = int(np.bincount(y).min())
    peers = {
        "over_sampling": RandomOverSampler(random_state=0),
        "smote": SMOTE(random_state=0, k_neighbors=min(5, few - 1)),
    }
    pipelines = {
        name: make_sampling_pipeline(StandardScaler(), peer, clone(classifier))
        for name, peer in peers.items()
    }
    return {
        name: np.ravel(pipeline.fit(X, y).predict(X_test)) for name, pipeline in pipelines.items()
    }


def _threshold(model: Any, X: Any, y: Any, X_test: Any, metric: str) -> Any:
    # The same number as scikit-learn's, without its checks, because it is called 500 times.
    scorer = make_scorer(partial(evaluate, metric, n_classes=2))
    tuned = TunedThresholdClassifierCV(clone(model), scoring=scorer, cv=_folds())
    return tuned.fit(X, y).predict(X_test)


def _out_of_fold(model: Any, X: Any, y: Any) -> Any:
    scores = np.empty((y.size, int(y.max()) + 1))
    for train, test in _folds().split(X, y):
        scores[test] = _log_scores(clone(model).fit(X[train], y[train]), X[test], scores.shape[1])
    return scores


def _folds() -> StratifiedKFold:
    return StratifiedKFold(FOLDS, shuffle=True, random_state=0)


def _log_scores(fitted: Any, X: Any, n_classes: int) -> Any:
    """Log-probabilities, −inf for a class without training samples."""
    scores = np.full((len(X), n_classes), -np.inf)
    with np.errstate(divide="ignore"):
        scores[:, np.ravel(fitted.classes_)] = np.log(fitted.predict_proba(X))
    return scores
