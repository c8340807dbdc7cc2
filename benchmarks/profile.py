"""The whole exact profile and its best strength, against one naive evaluation of one strength."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import reprior as rp
from benchmarks.timing import Row, array_code, compare

#: name, (N, K), mean lead of the true class over unit noise, and the bars of the kernels
#: and of array code. "Few": at most a fifth of the rows switch; "most": more than half.
CASES = [
    ("few", (1_000_000, 14), 14.0, 1.0, 3.0),
    ("few", (24_426, 8_142), 18.0, 1.0, 3.0),
    ("few", (10_000, 100), 16.0, 2.0, np.nan),
    ("most", (1_000_000, 14), 3.5, 3.0, np.nan),
    ("most", (24_426, 8_142), 6.0, 3.0, np.nan),
    ("most", (10_000, 100), 5.0, 3.0, np.nan),
]
IMBALANCE = 100.0


def scores_of(shape: tuple[int, int], lead: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Float32 logits of a model of long-tailed classes, labels, and the source prior.

    A sample's own class leads by between 0 and twice ``lead``.
    """
    n, k = shape
    rng = np.random.default_rng(0)
    prior = rp.prior_from_counts(IMBALANCE ** -np.linspace(0, 1, k))
    labels = rng.integers(0, k, n)
    logits = rng.standard_normal(shape, dtype=np.float32)
    logits[np.arange(n), labels] += rng.random(n, dtype=np.float32) * np.float32(2 * lead)
    return logits + np.log(prior).astype(np.float32), labels, prior


def switching_share(logits: np.ndarray, prior: np.ndarray) -> float:
    """Return the share of rows whose prediction differs between the strengths 0 and 2."""
    w = -np.log(prior).astype(np.float32)
    return float((logits.argmax(1) != (logits + 2 * w).argmax(1)).mean())


def rows() -> Iterator[Row]:
    for name, shape, lead, bar, array_bar in CASES:
        logits, labels, prior = scores_of(shape, lead)
        w = -np.log(prior).astype(np.float32)

        def naive(logits: np.ndarray = logits, w: np.ndarray = w) -> np.ndarray:
            return (logits + np.float32(0.7) * w).argmax(1)

        def exact(
            logits: np.ndarray = logits, labels: np.ndarray = labels, prior: np.ndarray = prior
        ) -> rp.Best:
            profile = rp.StrengthProfile.from_scores(logits, labels, source_prior=prior)
            return profile.best("balanced_accuracy")

        share = switching_share(logits, prior)
        size = f"{shape[0]:,} x {shape[1]:,}, {name} ({share:.0%}) switch"
        peer = "one (z + λ·w).argmax(1)"
        yield compare(f"profile + best, {size}", exact, peer, naive, bar=bar)
        with array_code():
            yield compare(f"… in array code, {size}", exact, peer, naive, bar=array_bar, pairs=11)
