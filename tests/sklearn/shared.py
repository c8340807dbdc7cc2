"""What the tests of the scikit-learn adapter share: long-tailed data."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits, make_classification

ROUNDING = 1e-9
"""Relative; the same float64 formula with logarithms taken at different places."""

NAMES = np.array(["ant", "bee", "cow"])


def three_classes(n: int = 600, seed: int = 0, **options):
    """Three classes in the ratio 80 : 14 : 6."""
    weights = [0.8, 0.14]
    return make_classification(
        n, n_features=5, n_informative=4, n_redundant=0, n_classes=3,
        n_clusters_per_class=1, weights=weights, random_state=seed, **options,
    )  # fmt: skip


def two_classes(n: int = 400, seed: int = 0):
    return make_classification(n, n_features=5, weights=[0.9], random_state=seed)


def long_tailed_digits():
    """Digits: 0 has 110 training samples, 9 has 4, falling geometrically; the rest are the test."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    train = np.concatenate(
        [
            rng.permutation(np.flatnonzero(y == k))[: int(110 * (4 / 110) ** (k / 9) + 0.5)]
            for k in range(10)
        ]
    )
    test = np.setdiff1d(np.arange(y.size), train)
    return X[train] / 16, y[train], X[test] / 16, y[test]
