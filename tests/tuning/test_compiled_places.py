from __future__ import annotations

import numpy as np
import pytest

from reprior.tuning.columns import Columns
from reprior.tuning.rows import Block
from reprior.tuning.top_two import TopTwo

NAMES = ("first", "second", "top", "following")


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n_classes", [2, 3, 12, 140])
@pytest.mark.parametrize("coarse", [False, True])
def test_equal_to_the_array_code_whatever_moves(rng, dtype, n_classes, coarse):
    scores = rng.normal(size=(300, n_classes))
    scores = np.round(scores) if coarse else scores
    scores[rng.random(scores.shape) < 0.1] = -np.inf
    scores[:, 0] = 0.0
    data = Columns(Block(scores.astype(dtype), rng.integers(n_classes, size=300), None))
    arrays, compiled = (TopTwo(data, np.zeros(n_classes), compiled=c) for c in (False, True))
    for _ in range(12):
        for name in NAMES:
            np.testing.assert_array_equal(getattr(arrays, name), getattr(compiled, name))
        k, bias = int(rng.integers(n_classes)), float(rng.normal())
        bias = round(bias) if coarse else bias
        arrays.move(k, bias)
        compiled.move(k, bias)
