"""Fusing two modalities, checks and flattening included, against a softmax and a product."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np

import reprior as rp
from benchmarks.timing import Row, compare

#: Images, classes, height and width of a batch: the outputs of two networks for eight frames.
SHAPE = (8, 14, 384, 768)
TIME_BAR, MEMORY_BAR = 1.5, 1.0
PAIRS = 15

#: Settings of the paper's Table 5, the other rules, and a δ for each pixel.
CASES = {
    "UNO-IC": {},
    "UNO-IC, in the paper's order": {"order": "flatten_first"},
    "UNO-IC, δ by pixel": {"flatten_by": "pixel"},
    "IC": {"flatten": False},
    "SoftAve": {"rule": "mean", "flatten": False},
    "product": {"rule": "product"},
}


def scores_of() -> dict[str, np.ndarray]:
    """Float32 logits of two networks."""
    rng = np.random.default_rng(0)
    return {name: 3 * rng.standard_normal(SHAPE, dtype=np.float32) for name in ("rgb", "depth")}


def fusion_of(scores: dict[str, np.ndarray], options: dict[str, object]) -> rp.ModalityFusion:
    """Fit on images with lower entropy, so that every timed image is flattened."""
    prior = rp.prior_from_counts(100.0 ** -np.linspace(0, 1, SHAPE[1]))
    confident = {name: 2 * z[:, :, :32, :32] for name, z in scores.items()}
    labels = confident["rgb"].argmax(axis=1)
    fusion = rp.ModalityFusion(prior, class_axis=1, **{"strength": 0.4, **options})
    return fusion.fit(confident, labels)


def softmax(z: np.ndarray) -> np.ndarray:
    mass = np.exp(z - z.max(axis=1, keepdims=True))
    return mass / mass.sum(axis=1, keepdims=True)


def naive(scores: dict[str, np.ndarray]) -> np.ndarray:
    product = softmax(scores["rgb"]) * softmax(scores["depth"])
    return product / product.sum(axis=1, keepdims=True)


def extra(fusion: rp.ModalityFusion, scores: dict[str, np.ndarray]) -> float:
    """Return the peak memory besides scores and result, as a multiple of the input."""
    tracemalloc.start()
    result = fusion.predict_proba(scores)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (peak - result.nbytes) / scores["rgb"].nbytes


def rows() -> Iterator[Row]:
    scores = scores_of()
    for name, options in CASES.items():
        fusion = fusion_of(scores, options)
        yield compare(
            f"predict_proba, 2 x {SHAPE} float32, {name}",
            lambda fusion=fusion: fusion.predict_proba(scores),
            "softmax + product in NumPy",
            lambda: naive(scores),
            bar=TIME_BAR,
            pairs=PAIRS,
        )
        share = extra(fusion, scores)
        what = "its memory beside scores and result"
        yield Row(what, "one input", share, share, share, MEMORY_BAR)
