"""Boosted models with the correction in their trees, against the same models without."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import reprior as rp
from benchmarks.timing import Row, compare, has
from reprior.boosting import fold_into

#: Folded prediction must cost what the original costs, within the resolution of paired ratios.
BAR = 1.02
PAIRS = 101

N_CLASSES = 5


def rows() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    prior = rp.prior_from_counts(0.5 ** np.arange(N_CLASSES) * 1000)
    y = rng.choice(N_CLASSES, 8_000, p=prior)
    X = rng.normal(size=(y.size, 20)) + 0.5 * rng.normal(size=(N_CLASSES, 20))[y]
    train, rest = slice(4_000), slice(4_000, None)
    for name, model in _models():
        model.fit(X[train], y[train])
        scores = model.predict_proba(X[rest])
        calibrator = rp.PosteriorCalibrator(prior, kind="probs", temperature=1.2)
        folded = fold_into(model, calibrator.fit(scores, y[rest]))
        yield compare(
            f"{name}, 4,000 rows, fold_into",
            lambda folded=folded: folded.predict_proba(X[rest]),
            "the model as it was",
            lambda model=model: model.predict_proba(X[rest]),
            bar=BAR,
            pairs=PAIRS,
        )


def _models() -> Iterator[tuple[str, object]]:
    if has("lightgbm"):
        from lightgbm import LGBMClassifier

        yield "LightGBM", LGBMClassifier(n_estimators=50, n_jobs=1, verbose=-1)
    if has("xgboost"):
        from xgboost import XGBClassifier

        yield "XGBoost", XGBClassifier(n_estimators=50, n_jobs=1)
    if has("catboost"):
        from catboost import CatBoostClassifier

        yield (
            "CatBoost",
            CatBoostClassifier(
                iterations=200, thread_count=1, verbose=False, allow_writing_files=False
            ),
        )
