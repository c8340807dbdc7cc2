"""Slow, plain fusion of (N, K, P) logits, one pixel at a time, and data to fuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

import reprior as rp

Vector = np.ndarray[Any, Any]

RULES = ("noisy_or", "mean", "product")
ORDERS = ("rebalance_first", "flatten_first")
COUNTS = np.array([1000, 300, 100, 20])
PRIOR = rp.prior_from_counts(COUNTS)
K = COUNTS.size

#: Two float64 routes to the same posterior, a few dozen roundings of 2e-16 long.
ROUNDING = 1e-12


def softmax(z: Any) -> Vector:
    """Over the last axis."""
    mass = np.exp(z - np.max(z, axis=-1, keepdims=True))
    return np.asarray(mass / mass.sum(axis=-1, keepdims=True))


def entropy(p: Vector) -> float:
    return -float(sum(x * np.log(x) for x in p if x > 0))


def delta(value: float, reference: tuple[float, float]) -> float:
    mean, std = reference
    return mean / (mean + max(0.0, value - mean - std))


FUSE: dict[str, Callable[[Vector], Vector]] = {
    "noisy_or": lambda p: 1 - np.prod(1 - p, axis=0),
    "mean": lambda p: p.mean(axis=0),
    "product": lambda p: np.prod(p, axis=0),
}


def deltas_by_hand(z: Vector, reference: tuple[float, float], by: str) -> Vector:
    """δ of every pixel of (N, K, P) logits, (N, P)."""
    n, _, n_pixels = z.shape
    h = np.array([[entropy(softmax(z[i, :, j])) for j in range(n_pixels)] for i in range(n)])
    if by == "image":
        h = np.repeat(h.mean(axis=1, keepdims=True), n_pixels, axis=1)
    return np.array([[delta(x, reference) for x in row] for row in h])


def fused_by_hand(
    scores: Mapping[str, Vector],
    *,
    slopes: Vector,
    strengths: Mapping[str, float],
    references: Mapping[str, tuple[float, float]] | None = None,
    rule: str = "noisy_or",
    order: str = "rebalance_first",
    by: str = "image",
) -> Vector:
    """Algorithm 1 on (N, K, P) logits, in the order asked for."""
    first = next(iter(scores.values()))
    result = np.empty(first.shape)
    factor = {
        name: np.ones((z.shape[0], z.shape[2]))
        if references is None
        else deltas_by_hand(z, references[name], by)
        for name, z in scores.items()
    }
    for i in range(first.shape[0]):
        for j in range(first.shape[2]):
            own = []
            for name, z in scores.items():
                d, shift = factor[name][i, j], strengths[name] * slopes
                if order == "rebalance_first":
                    own.append(softmax(d * (z[i, :, j] + shift)))
                else:
                    own.append(softmax(d * z[i, :, j] + shift))
            mass = FUSE[rule](np.array(own))
            result[i, :, j] = mass / mass.sum()
    return result


def references_by_hand(z: Vector, by: str = "image") -> tuple[float, float]:
    """μ and population σ of (N, K, P) logits."""
    h = np.array([[entropy(softmax(pixel)) for pixel in image.T] for image in z])
    values = h.mean(axis=1) if by == "image" else h.reshape(-1)
    return float(values.mean()), float(values.std())


def modalities(
    rng: np.random.Generator, n: int = 40, pixels: tuple[int, ...] = (3, 5)
) -> tuple[dict[str, Vector], Vector]:
    """Logits (n, K, *pixels) of an able and a worse model with a learnt prior, and labels."""
    labels = rng.integers(0, K, (n, *pixels))
    lead = np.moveaxis(np.eye(K)[labels], -1, 1)
    prior = np.log(PRIOR).reshape(K, *(1,) * len(pixels))
    sure = rng.uniform(0.5, 2.0, (n, *(1,) * (len(pixels) + 1)))
    scores = {
        "rgb": sure * (3.0 * lead + rng.standard_normal(lead.shape)) + prior,
        "depth": 1.5 * lead + rng.standard_normal(lead.shape) + prior,
    }
    return scores, labels


def flat(scores: Mapping[str, Vector]) -> dict[str, Vector]:
    """(N, K, *pixels) as (N, K, P)."""
    return {name: z.reshape(*z.shape[:2], -1) for name, z in scores.items()}


@st.composite
def problems(draw: st.DrawFn) -> dict[str, Any]:
    """One to three modalities of (N, K, P) logits, references, strengths, slopes and options."""
    n, n_classes, p = draw(st.integers(1, 4)), draw(st.integers(2, 5)), draw(st.integers(1, 3))
    names = ["rgb", "depth", "lidar"][: draw(st.integers(1, 3))]
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    spread = draw(st.sampled_from([0.3, 2.0, 8.0]))
    mass = rng.uniform(0.01, 1.0, n_classes)
    return {
        "scores": {name: spread * rng.standard_normal((n, n_classes, p)) + 2 for name in names},
        "prior": mass / mass.sum(),
        "references": {name: (rng.uniform(0.05, 1.0), rng.uniform(0, 0.2)) for name in names},
        "strengths": {name: float(rng.uniform(-0.5, 2.0)) for name in names},
        "rule": draw(st.sampled_from(RULES)),
        "order": draw(st.sampled_from(ORDERS)),
        "by": draw(st.sampled_from(["image", "pixel"])),
    }


def made(
    prior: Vector,
    references: Mapping[str, tuple[float, float]] | None,
    strengths: Mapping[str, float],
    **options: Any,
) -> rp.ModalityFusion:
    """A fusion with statistics of one's own, as if it had been fitted."""
    fusion = rp.ModalityFusion(prior, flatten=references is not None, **options)
    fusion.modalities_ = tuple(strengths)
    known = {} if references is None else references
    fusion.references_ = {name: rp.EntropyReference(*each) for name, each in known.items()}
    fusion.information_references_ = {}
    fusion.strengths_, fusion.strength_ = dict(strengths), None
    fusion.best_score_, fusion.search_, fusion.curve_ = 0.5, "fixed", None
    fusion.source_prior_ = np.asarray(prior, dtype=np.float64)
    fusion.target_prior_ = np.full(len(prior), 1 / len(prior))
    fusion.classes_ = np.arange(len(prior))
    return fusion
