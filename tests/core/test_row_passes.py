from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.core.drawn import labelled

from reprior.core import labelled as rows_module
from reprior.core import row_passes
from reprior.core.labelled import Labelled
from reprior.core.row_passes import read_only, sum_blocks, takes_compiled


@pytest.fixture
def always(monkeypatch):
    """Compile whatever can be compiled."""
    monkeypatch.setattr(row_passes, "WORTH_COMPILING", 0)
    monkeypatch.setattr(row_passes, "WORTH_LOADING", 0)


@pytest.mark.parametrize("threads, items", [("1", 1 << 16), ("3", 40), ("50", 1)])
def test_every_row_is_counted_once(threads, items, rng, monkeypatch):
    monkeypatch.setenv("REPRIOR_NUM_THREADS", threads)
    monkeypatch.setattr(row_passes, "SCORES_PER_THREAD", 4)
    monkeypatch.setattr(rows_module, "BLOCK_ITEMS", items)
    data = labelled(rng.normal(size=(23, 4)), np.arange(23) % 4)
    counted = sum_blocks(data, lambda part: np.bincount(data.labels[part], minlength=4) * 1.0)
    assert counted.tolist() == [6.0, 6.0, 6.0, 5.0]


def test_what_is_compiled(always, rng):
    y = np.arange(10)
    z = rng.normal(size=(10, 40))
    assert takes_compiled(labelled(z, y))
    assert takes_compiled(labelled(z.astype(np.float32), y))
    assert not takes_compiled(labelled(z[:, :10], y))  # lies class by class
    impossible = z.copy()
    impossible[0, 20] = -np.inf
    assert not takes_compiled(labelled(impossible, y))
    made = Labelled.read(
        torch.tensor(z),
        torch.tensor(y),
        sample_weight=None,
        kind="logits",
        class_axis=-1,
        ignore_index=None,
    )
    assert not takes_compiled(made)


def test_little_work_is_not_compiled(rng):
    assert not takes_compiled(labelled(rng.normal(size=(10, 40)), np.arange(10)))


def test_a_read_only_view_shares_memory():
    array = np.arange(6.0).reshape(2, 3)
    view = read_only(array)
    assert np.shares_memory(view, array)
    assert not view.flags.writeable
    assert array.flags.writeable
    assert read_only(array.T).flags.c_contiguous
