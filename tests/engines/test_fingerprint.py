"""The digest of labelled scores."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from hypothesis import given
from tests.support.chunked_scores import cuts, flat, images

import reprior as rp
from reprior.engines import Digest, fingerprint
from reprior.engines.fingerprint import BLOCK
from reprior.files import Chunk


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


def test_chunks_that_cut_through_blocks_do_not_matter():
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(5 * BLOCK // 24, 3)), rng.integers(3, size=5 * BLOCK // 24)
    edges = [0, 1, BLOCK // 24, BLOCK // 24 + 1, 2 * BLOCK // 24 + 7, labels.size]
    parts = [(scores[a:b], labels[a:b]) for a, b in pairwise(edges)]
    assert rp.engines.digest(parts) == rp.engines.digest([(scores, labels)])


def test_of_much_data_blocks_are_passed_over(monkeypatch):
    monkeypatch.setattr(fingerprint, "WHOLE", 3)
    monkeypatch.setattr(fingerprint, "EVERY", 4)
    per_block = BLOCK // 16
    scores, labels = np.zeros((10 * per_block, 2)), np.zeros(10 * per_block, int)
    known = rp.engines.digest([(scores, labels)])
    seen = []
    for block in range(10):
        other = scores.copy()
        other[block * per_block] = 1.0
        cut = [(other[part], labels[part]) for part in (slice(33_333), slice(33_333, None))]
        found = rp.engines.digest(cut)
        assert found == rp.engines.digest([(other, labels)])
        seen.append(found != known)
    assert seen == [True, True, True, False, True, False, False, False, True, False]
    assert rp.engines.digest([(scores[:-1], labels[:-1])]) != known


def test_one_bit_anywhere_matters():
    rng = np.random.default_rng(1)
    n = 2 * BLOCK // 24 + 5
    scores, labels = rng.normal(size=(n, 3)), rng.integers(3, size=n)
    known = rp.engines.digest([(scores, labels)])
    for row, bit in zip(rng.integers(n, size=20), rng.integers(64, size=20), strict=True):
        other = scores.copy()
        other[row, 1:2].view(np.uint64)[:] ^= np.uint64(1) << np.uint64(bit)
        assert rp.engines.digest([(other, labels)]) != known


def test_signs_turned_round_in_pairs_matter():
    scores, labels = np.random.default_rng(2).normal(size=(100, 2)), np.zeros(100, int)
    known = rp.engines.digest([(scores, labels)])
    assert rp.engines.digest([(-scores, labels)]) != known
    assert rp.engines.digest([(scores[:, ::-1], labels)]) != known


def test_weights_are_told_apart_by_what_a_checkpoint_goes_by():
    data = flat()
    ones, other = np.ones(60), np.r_[np.ones(59), 2.0]
    known = []
    for weight, cut in ((None, 60), (ones, 60), (ones, 17), (ones.astype("f4"), 60), (other, 60)):
        found = Digest(-1)
        for part in (slice(0, cut), slice(cut, None)):
            mine = None if weight is None else weight[part]
            found.update(Chunk(data.scores[part], data.labels[part], mine))
        known.append(found.known)
    assert len({each.value for each in known}) == 1
    assert known[0].value == rp.engines.digest([(data.scores, data.labels)])
    assert known[1] == known[2] == known[3]
    assert len({each.weighed for each in known}) == 3
