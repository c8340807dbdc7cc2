"""Rebalancing, checks included, against SciPy's softmax of the same scores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import log_softmax, softmax

import reprior as rp
from benchmarks.timing import Row, compare

CASES = [(1_000_000, 14), (10_000, 100), (2_000, 8_142)]


def rows() -> Iterator[Row]:
    for shape in CASES:
        prior = rp.prior_from_counts(100.0 ** -np.linspace(0, 1, shape[1]))
        for dtype in (np.float32, np.float64):
            logits = np.random.default_rng(0).standard_normal(shape).astype(dtype)
            size = f"{shape[0]:,} x {shape[1]:,} {np.dtype(dtype).name}"
            yield compare(
                f"log_rebalance, {size}",
                lambda z=logits, p=prior: rp.log_rebalance(z, p, strength=0.7),
                "scipy.special.log_softmax",
                lambda z=logits: log_softmax(z, axis=1),
                bar=1.2,
            )
            yield compare(
                f"rebalance, {size}",
                lambda z=logits, p=prior: rp.rebalance(z, p, strength=0.7),
                "scipy.special.softmax",
                lambda z=logits: softmax(z, axis=1),
                bar=1.2,
            )
