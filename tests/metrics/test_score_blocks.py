from __future__ import annotations

import numpy as np
import pytest
from tests.metrics.shared import LIBRARIES, random_samples, softmax

from reprior.exceptions import ScoresError
from reprior.metrics import ScoreBlocks, log_loss, score_blocks


def read(scores, labels, **options) -> ScoreBlocks:
    defaults = {"kind": "probs", "class_axis": -1, "ignore_index": None, "sample_weight": None}
    return ScoreBlocks.read(scores, labels, **(defaults | options))


@pytest.mark.parametrize("block_size", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("shape", [(60,), (5, 12), (3, 4, 5)])
@pytest.mark.parametrize("library", LIBRARIES)
def test_blocks_are_the_samples_in_order(monkeypatch, library, shape, block_size):
    monkeypatch.setattr(score_blocks, "BLOCK_SIZE", block_size)
    array = LIBRARIES[library]
    logits, labels = random_samples(np.random.default_rng(0), n=60)
    probs = softmax(logits).astype(np.float32)
    cube = np.moveaxis(probs.reshape(*shape, 4), -1, len(shape) // 2).copy()
    samples = read(array(cube), array(labels.reshape(shape)), class_axis=len(shape) // 2)
    blocks = list(samples.posterior())
    np.testing.assert_allclose(np.concatenate([b.scores for b in blocks]), probs, rtol=1e-6)
    np.testing.assert_array_equal(np.concatenate([b.labels for b in blocks]), labels)
    np.testing.assert_array_equal(np.concatenate([b.weight for b in blocks]), np.ones(60))


def test_a_block_is_no_larger_than_it_must_be(monkeypatch):
    monkeypatch.setattr(score_blocks, "BLOCK_SIZE", 10)
    probs = np.full((9, 4), 0.25)
    assert [len(b.labels) for b in read(probs, np.zeros(9, int)).posterior()] == [2, 2, 2, 2, 1]


BAD_ROWS = {
    "probs": [[0.5, 0.5], [np.nan, 0.5], [0.2, 0.2]],
    "logits": [[5.0, 0.0], [np.nan, 0.5], [-np.inf, -np.inf]],
    "log_probs": [np.log([0.5, 0.5]), [np.nan, 0.5], [-9.0, -9.0]],
}


@pytest.mark.parametrize("block_size", [1, 1 << 20])
@pytest.mark.parametrize("kind", BAD_ROWS)
def test_samples_to_leave_out_are_not_looked_at(monkeypatch, kind, block_size):
    monkeypatch.setattr(score_blocks, "BLOCK_SIZE", block_size)
    samples = read(BAD_ROWS[kind], [0, -1, 1], kind=kind, ignore_index=-1, sample_weight=[1, 1, 0])
    assert [block.labels.tolist() for block in samples.posterior()] == [[0]]


@pytest.mark.parametrize(
    "kind, sentence",
    [
        ("probs", r"sum to 1 .* Got scores\[2, :\] with sum 0\.4"),
        ("logits", r"finite score in every row\. Got scores\[2, :\]"),
        ("log_probs", r"sum to 1 .* Got scores\[2, :\]"),
    ],
)
def test_nor_blamed_for_the_others(kind, sentence):
    samples = read(BAD_ROWS[kind], [0, -1, 1], kind=kind, ignore_index=-1)
    with pytest.raises(ScoresError, match=sentence):
        list(samples.posterior())


def test_the_sentence_has_the_callers_indices(monkeypatch):
    monkeypatch.setattr(score_blocks, "BLOCK_SIZE", 4)
    probs = np.full((5, 2, 3), 0.5)
    probs[4, 1, 2] = 0.7
    with pytest.raises(ScoresError, match=r"Got scores\[4, :, 2\] with sum 1\.2"):
        list(read(probs, np.zeros((5, 3), int), class_axis=1).posterior())


def test_numpy_integers_are_axes():
    assert read(np.full((2, 3, 4), 1 / 3), np.zeros((2, 4), int), class_axis=np.int64(1)).axis == 1


def test_single_scores_on_a_first_axis():
    p, labels = np.array([0.2, 0.7, 0.4]), np.array([0, 1, 1])
    across = log_loss(p[None], labels, kind="probs", class_axis=0)
    assert across == pytest.approx(log_loss(p, labels, kind="probs"))
