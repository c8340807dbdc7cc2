"""Tuning data: weights that make labels stand for the target prior."""

from __future__ import annotations

import numpy as np
import pytest

from reprior.core.importance import importance_weights
from reprior.profile.data import TuningData


@pytest.mark.parametrize("known", [None, np.array([0.2, 0.3, 0.5])])
@pytest.mark.parametrize("weighted", [False, True])
def test_importance_is_that_of_the_labels_that_count(rng, known, weighted):
    labels = rng.integers(-1, 3, size=50)  # -1 is ignored
    weight = rng.random(50) if weighted else None
    target, source = np.array([0.5, 0.25, 0.25]), np.array([0.7, 0.2, 0.1])
    data = TuningData(
        scores=rng.normal(size=(50, 3)), labels=labels, weight=weight, ignore_index=-1,
        kind="logits", class_axis=-1, source_prior=source, target_prior=target,
    )  # fmt: skip
    kept = labels >= 0
    given = np.ones(50) if weight is None else weight
    expected = importance_weights(labels[kept], given[kept], target_prior=target, label_prior=known)
    found = data.importance(known)
    # Without a prior of the labels, their weights are not divided by what they sum to.
    scale = 1.0 if known is not None else given[kept].sum()
    np.testing.assert_allclose(found[kept] * scale, expected)
    assert (found[~kept] == 0.0).all()
