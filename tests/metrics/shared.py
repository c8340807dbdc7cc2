"""What the tests of metrics share: the array libraries, random samples, Hypothesis strategies."""

from __future__ import annotations

from typing import Any

import array_api_strict
import jax.numpy as jnp
import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

LIBRARIES = {
    "numpy": np.asarray,
    "torch": torch.as_tensor,
    "jax": jnp.asarray,
    "array_api_strict": array_api_strict.asarray,
}

ROUNDING = 1e-12
"""Relative; float64 sums of at most some thousand terms in another order."""

ROUNDING_32 = 2e-6
"""Relative; posteriors computed in float32 (spacing 1.2e-7, a few operations)."""


def random_samples(
    rng: np.random.Generator, n: int = 200, n_classes: int = 4, *, spread: float = 2.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return logits (n, K) that know something of the labels (n,); every class has labels."""
    labels = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=n - n_classes)])
    logits = rng.normal(scale=spread, size=(n, n_classes))
    logits[np.arange(n), labels] += 1.0
    return logits, labels


def softmax(logits: np.ndarray) -> np.ndarray:
    mass = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return mass / mass.sum(axis=-1, keepdims=True)


@st.composite
def scored_samples(draw: st.DrawFn, *, min_classes: int = 2) -> tuple[Any, Any, Any]:
    """Draw logits on a coarse grid (ties are common), labels, and whole weights."""
    n_classes = draw(st.integers(min_classes, 6))
    n = draw(st.integers(1, 30))
    logits = draw(hnp.arrays(np.int64, (n, n_classes), elements=st.integers(-6, 6))) / 2.0
    labels = draw(hnp.arrays(np.int64, n, elements=st.integers(0, n_classes - 1)))
    weight = draw(hnp.arrays(np.int64, n, elements=st.integers(1, 3)))
    return logits, labels, weight


@st.composite
def predicted_samples(draw: st.DrawFn) -> tuple[int, Any, Any, Any]:
    """Draw a number of classes, labels, predictions, and whole weights; classes may be absent."""
    n_classes = draw(st.integers(2, 7))
    n = draw(st.integers(1, 40))
    classes = st.integers(0, n_classes - 1)
    labels = draw(hnp.arrays(np.int64, n, elements=classes))
    predictions = draw(hnp.arrays(np.int64, n, elements=classes))
    weight = draw(hnp.arrays(np.int64, n, elements=st.integers(1, 3)))
    return n_classes, labels, predictions, weight
