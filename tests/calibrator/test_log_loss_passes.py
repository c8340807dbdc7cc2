"""Fits by log-loss in parts: chunk by chunk and on Dask they are those in memory."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from tests.support.chunked_scores import flat, images, quietly, weighted

import reprior as rp

#: Newton's iteration by sums over other parts.
FITTED = 1e-6

OPTIONS = [
    {"metric": "log_loss"},
    {"metric": "log_loss", "temperature": 1.7},
    {"metric": "log_loss", "target_prior": [0.6, 0.25, 0.1, 0.05]},  # the source prior: flat
    {"metric": "log_loss", "target_prior": [0.6, 0.3, 0.1, 0.0]},
    {"metric": "log_loss", "label_prior": [0.1, 0.2, 0.3, 0.4]},
    {"temperature": "fit"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("make", [flat, lambda: weighted(flat()), images])
def test_parts_are_as_good_as_the_whole(options, make):
    data = make()
    arrays = (data.scores, data.labels, data.weight)
    in_memory, _ = quietly(data.calibrator(**options).fit, *arrays)
    chunks = data.chunks([2, 3, 5])
    lazy = [None if a is None else da.from_array(a, chunks=(4, *a.shape[1:])) for a in arrays]
    for fitted, _ in (
        quietly(rp.engines.fit, data.calibrator(**options), chunks),
        quietly(data.calibrator(**options).fit, *lazy),
    ):
        for one, other in zip(fitted.as_affine(), in_memory.as_affine(), strict=True):
            np.testing.assert_allclose(one, other, rtol=FITTED, atol=FITTED)
        if in_memory.log_loss_ is not None:
            assert fitted.log_loss_ == pytest.approx(in_memory.log_loss_, rel=FITTED)
