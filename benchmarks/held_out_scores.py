"""Cache the scores of every model on every split for the held-out study.

Training takes minutes, choosing a strength milliseconds: out-of-fold and test scores of the base
model, and the test predictions of its peers, are written to one file per set, model and split, so
that rules of selection can be compared again at once.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from imblearn.over_sampling import SMOTE, RandomOverSampler
from imblearn.pipeline import make_pipeline as make_sampling_pipeline
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

#: Number of repetitions of cross-validation whose out-of-fold scores are cached; rules use the
#: first one unless they say otherwise.
DIVISIONS = 2

METRICS = ("balanced_accuracy", "macro_f1")

#: The steps of every base model, the classifier last.
MODELS: dict[str, tuple[Any, ...]] = {
    "logistic regression": (StandardScaler(), LogisticRegression(max_iter=1000)),
    "boosting": (
        HistGradientBoostingClassifier(
            max_iter=50, max_leaf_nodes=15, early_stopping=False, random_state=0
        ),
    ),
}

#: Models that are trained with class weights too. Boosting is left out: scikit-learn 1.9 needs
#: thirty times as long to bin features of weighted samples.
WEIGHTED = ("logistic regression",)


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


@dataclass(frozen=True, eq=False)
class Scored:
    """One base model on one split.

    ``out_of_fold`` (divisions, N, K) and ``test`` (M, K) are log-probabilities, and so are
    ``weighted_out_of_fold`` (N, K) and ``weighted_test`` (M, K) of the model that was trained with
    ``class_weight="balanced"``, which are empty where it was not. The others are predictions of the
    test samples; those of the tuned threshold are empty for several classes.
    """

    out_of_fold: Any
    labels: Any
    test: Any
    test_labels: Any
    weighted_out_of_fold: Any
    weighted_test: Any
    over_sampling: Any
    smote: Any
    threshold_balanced_accuracy: Any
    threshold_macro_f1: Any

    def save(self, path: Path) -> None:
        """Write all arrays to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_suffix(".part.npz")
        np.savez_compressed(whole, **{f.name: getattr(self, f.name) for f in fields(self)})
        whole.replace(path)

    @classmethod
    def load(cls, path: Path) -> Scored:
        """Read what :meth:`save` wrote."""
        with np.load(path, allow_pickle=False) as arrays:
            return cls(**{f.name: arrays[f.name] for f in fields(cls)})


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
            _train(data, model, split).save(path)
    return Scored.load(path)


def _train(data: DataSet, model: str, split: int) -> Scored:
    parts = StratifiedShuffleSplit(1, test_size=TEST_SHARE, random_state=split)
    train, test = next(parts.split(data.X, data.y))
    X, y, X_test = data.X[train], data.y[train], data.X[test]
    base = Remembering(clone(make_pipeline(*MODELS[model])), {})
    return Scored(
        out_of_fold=np.stack([_out_of_fold(base, X, y, n) for n in range(DIVISIONS)]),
        labels=y,
        test=_log_scores(clone(base).fit(X, y), X_test, data.n_classes),
        test_labels=data.y[test],
        **_weighted(model, X, y, X_test),
        **_sampled(MODELS[model][-1], X, y, X_test),
        **{f"threshold_{name}": _threshold(base, X, y, X_test, name) for name in METRICS},
    )


def _weighted(model: str, X: Any, y: Any, X_test: Any) -> dict[str, Any]:
    """Log-probabilities of the model that was trained with balanced class weights."""
    if model not in WEIGHTED:
        return {"weighted_out_of_fold": np.empty(0), "weighted_test": np.empty(0)}
    weighted = clone(make_pipeline(*MODELS[model]))
    weighted[-1].set_params(class_weight="balanced")
    return {
        "weighted_out_of_fold": _out_of_fold(weighted, X, y, 0),
        "weighted_test": _log_scores(weighted.fit(X, y), X_test, int(y.max()) + 1),
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
    return {name: pipeline.fit(X, y).predict(X_test) for name, pipeline in pipelines.items()}


def _threshold(model: Any, X: Any, y: Any, X_test: Any, metric: str) -> Any:
    if y.max() > 1:
        return np.empty(0, np.int64)
    # The same number as scikit-learn's, without its checks, because it is called 500 times.
    scorer = make_scorer(partial(evaluate, metric, n_classes=2))
    tuned = TunedThresholdClassifierCV(clone(model), scoring=scorer, cv=_folds(0))
    return tuned.fit(X, y).predict(X_test)


def _out_of_fold(model: Any, X: Any, y: Any, division: int) -> Any:
    scores = np.empty((y.size, int(y.max()) + 1))
    for train, test in _folds(division).split(X, y):
        scores[test] = _log_scores(clone(model).fit(X[train], y[train]), X[test], scores.shape[1])
    return scores


def _folds(division: int) -> StratifiedKFold:
    return StratifiedKFold(FOLDS, shuffle=True, random_state=division)


def _log_scores(fitted: Any, X: Any, n_classes: int) -> Any:
    """Log-probabilities, −inf for a class without training samples."""
    scores = np.full((len(X), n_classes), -np.inf)
    with np.errstate(divide="ignore"):
        scores[:, fitted.classes_] = np.log(fitted.predict_proba(X))
    return scores
