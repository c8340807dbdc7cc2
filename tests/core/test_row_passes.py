from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.core.drawn import labelled

from reprior.core import row_passes
from reprior.core import weighted_rows as rows_module
from reprior.core.row_passes import sum_blocks, takes_native
from reprior.core.weighted_rows import Labelled


@pytest.mark.parametrize("threads, items", [("1", 1 << 16), ("3", 40), ("50", 1)])
def test_every_row_is_counted_once(threads, items, rng, monkeypatch):
    monkeypatch.setenv("REPRIOR_NUM_THREADS", threads)
    monkeypatch.setattr(row_passes, "SCORES_PER_THREAD", 4)
    monkeypatch.setattr(rows_module, "BLOCK_ITEMS", items)
    data = labelled(rng.normal(size=(23, 4)), np.arange(23) % 4)
    counted = sum_blocks(data, lambda part: np.bincount(data.labels[part], minlength=4) * 1.0)
    assert counted.tolist() == [6.0, 6.0, 6.0, 5.0]


def test_what_the_kernels_take(rng):
    y = np.arange(10)
    z = rng.normal(size=(10, 40))
    for dtype in (np.float16, np.float32, np.float64):
        assert takes_native(labelled(z.astype(dtype), y))
    assert takes_native(labelled(z[:, :10], y))  # lies class by class
    made = Labelled.read(
        torch.tensor(z, requires_grad=True),
        torch.tensor(y),
        sample_weight=None,
        kind="logits",
        class_axis=-1,
        ignore_index=None,
    )
    assert not takes_native(made)
