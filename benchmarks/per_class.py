"""Per-class biases against optimal-classification-cutoffs, at equal or better macro-F1."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

import reprior as rp
from benchmarks.profile import scores_of
from benchmarks.timing import Row, compare, has
from reprior.tuning.per_class import tune_per_class

PACKAGE = "optimal-classification-cutoffs"

#: Samples and classes, mean lead of the true class over unit noise.
LARGE, LEAD = (100_000, 100), 5.0

#: The peer's coordinate ascent takes minutes for that: its work grows with N·K² in every round.
SMALL = (2_000, 20)

#: Bars: relative to the peer's coordinate ascent (the same method as ours); and the first round of
#: our ascent, which already finds better biases, relative to its quick one-against-rest method.
BAR = 0.1

#: Bars relative to the quick method: the complete ascent, and the default's cross-validation.
FASTER = 1.0


def probabilities(logits: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Convert to probabilities, which the peer needs."""
    return np.asarray(rp.rebalance(logits, prior, strength=0.0))


def macro_f1(labels: np.ndarray, predictions: np.ndarray, n_classes: int) -> float:
    return rp.metrics.evaluate("macro_f1", labels, predictions, n_classes=n_classes)


def against(
    shape: tuple[int, int], method: str, options: dict[str, Any], *, bar: float, pairs: int
) -> Row:
    """One row: the same float64 scores, and both results on the tuning labels."""
    from optimal_cutoffs import get_optimal_threshold

    logits, labels, prior = scores_of(shape, LEAD)
    logits = logits.astype(np.float64)
    probs = probabilities(logits, prior)
    ours = partial(tune_per_class, logits, labels, source_prior=prior, metric="macro_f1", **options)
    theirs = partial(get_optimal_threshold, labels, probs, metric="f1", method=method)
    mine = macro_f1(labels, (logits + ours().biases).argmax(axis=1), shape[1])
    other = macro_f1(labels, np.asarray(theirs().predict(probs)), shape[1])
    if not mine >= other:
        raise SystemExit(f"macro-F1 must be at least the peer's, {other:.4f}. It is {mine:.4f}.")
    how = ", ".join(f"{name}={value!r}" for name, value in options.items())
    size = f"{shape[0]:,} x {shape[1]}, {how}, macro-F1 {mine:.3f} to {other:.3f}"
    peer = f"{PACKAGE} {version(PACKAGE)}: get_optimal_threshold(…, method={method!r})"
    what = f"per-class biases, {size}"
    return compare(what, ours, peer, theirs, bar=bar, pairs=pairs, warm=True)


def rows() -> Iterator[Row]:
    if not has("optimal_cutoffs", PACKAGE):
        return
    raw: dict[str, Any] = {"shrinkage": 0}
    yield against(LARGE, "auto", {**raw, "max_cycles": 1}, bar=BAR, pairs=5)
    yield against(LARGE, "auto", raw, bar=FASTER, pairs=5)
    yield against(LARGE, "auto", {"shrinkage": "cv"}, bar=FASTER, pairs=3)
    # No shrinkage: it lowers the score on the tuning labels, which this benchmark compares.
    yield against(SMALL, "coord_ascent", raw, bar=BAR, pairs=11)
    yield against(LARGE, "coord_ascent", raw, bar=BAR, pairs=2)
