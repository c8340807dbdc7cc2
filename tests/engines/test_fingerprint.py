"""The digest of labelled scores."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from tests.engines.shared import cuts, flat, images

import reprior as rp


@given(cuts(6))
def test_chunks_do_not_matter(where):
    data = images()
    assert rp.engines.digest(data.chunks(where)) == rp.engines.digest(data.chunks([]))


def test_memory_layout_library_and_label_dtype_do_not_matter():
    data = flat()
    known = rp.engines.digest([(data.scores, data.labels)])
    assert rp.engines.digest([(np.asfortranarray(data.scores), data.labels.astype("i2"))]) == known
    assert rp.engines.digest([(data.scores.astype(">f8"), data.labels)]) == known
    tensors = torch.as_tensor(data.scores), torch.as_tensor(data.labels)
    assert rp.engines.digest([tensors]) == known
    assert rp.engines.digest([(data.scores.T, data.labels)], class_axis=0) == known


def test_everything_else_does():
    data = flat()
    names = np.array(["a", "b", "c", "d"])[data.labels]
    others = [
        (data.scores, data.labels),
        (data.scores[::-1], data.labels),
        (data.scores, data.labels[::-1]),
        (data.scores.astype("f4"), data.labels),
        (data.scores.reshape(-1, 2), np.repeat(data.labels, 2)),
        (data.scores, None),
        (data.scores, names),
        (data.scores, names[::-1]),
        (data.scores[:0], data.labels[:0]),
    ]
    found = [rp.engines.digest([other]) for other in others]
    assert len(set(found)) == len(others)
