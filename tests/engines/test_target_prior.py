"""A target prior estimated chunk by chunk is that of all scores at once."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chunked_scores import cuts, quietly

import reprior as rp
from reprior.core.shift import METHODS, newton
from reprior.engines import estimate_target_prior, target_prior
from reprior.exceptions import FileFormatError, RepriorWarning
from reprior.files import Chunk, open_scores

TOLERANCE = 1e-9
"""Sums over other chunks round differently, and EM ends where 1e-9 is left."""

SOURCE = np.array([0.6, 0.25, 0.1, 0.05])


def world(seed=0, n=200, *, gap=2.5, source=SOURCE):
    """Log-scores of a target with its own mix, and labelled ones of the source's."""
    rng = np.random.default_rng(seed)
    k = len(source)

    def drawn(mix, n):
        labels = np.r_[np.arange(k), rng.choice(k, n - k, p=mix)]
        scores = rng.normal(size=(n, k)) + np.log(source)
        scores[np.arange(n), labels] += gap
        return scores, labels

    return drawn(rng.dirichlet(np.ones(k)), n)[0], drawn(np.full(k, 1 / k), 150)


def cut(array, where):
    return np.split(array, sorted(where))


@given(st.integers(0, 10), cuts(200), st.sampled_from(METHODS), st.booleans(), st.booleans())
def test_any_chunking_is_the_whole(seed, where, method, keeps, short):
    scores, validation = world(seed)
    scores = scores.astype(np.float32) if short else scores
    how = {"source_prior": SOURCE, "method": method, "validation": validation}
    kept = target_prior.HELD_SCORES
    target_prior.HELD_SCORES = kept if keeps else 10
    try:
        found, said = quietly(estimate_target_prior, cut(scores, where), **how)
    finally:
        target_prior.HELD_SCORES = kept
    known, words = quietly(rp.estimate_target_prior, scores, **how)
    np.testing.assert_allclose(found, known, rtol=0, atol=TOLERANCE)
    assert said == words


@pytest.mark.parametrize("keeps", [True, False])
def test_newtons_method_over_chunks(monkeypatch, keeps):
    monkeypatch.setattr(newton, "EM_PATIENCE", 3)
    monkeypatch.setattr(target_prior, "HELD_SCORES", 1 << 20 if keeps else 10)
    scores, _ = world(3, 500, gap=0.6)
    found, said = quietly(estimate_target_prior, cut(scores, [7, 100]), source_prior=SOURCE)
    known, words = quietly(rp.estimate_target_prior, scores, source_prior=SOURCE)
    np.testing.assert_allclose(found, known, rtol=0, atol=TOLERANCE)
    assert said == words


def test_blocks_of_the_core_cut_through_chunks(monkeypatch):
    monkeypatch.setattr("reprior.core.shift.em.BLOCK_ITEMS", 4 * 17)
    monkeypatch.setattr(target_prior, "HELD_SCORES", 10)
    scores, _ = world(3, 500)
    found = estimate_target_prior(cut(scores, [3, 17, 18, 99, 300]), source_prior=SOURCE)
    known = rp.estimate_target_prior(scores, source_prior=SOURCE)
    np.testing.assert_array_equal(found, known)  # the same sums, in the same order


@pytest.mark.parametrize("kind", ["probs", "log_probs"])
@pytest.mark.parametrize("method", ["em", "bbse_soft"])
def test_kinds_calibrations_and_single_scores(kind, method):
    scores, (seen, labels) = world(1, source=np.array([0.8, 0.2]))
    single = [z[:, 1] - z[:, 0] for z in (scores, seen)]
    p = [1 / (1 + np.exp(-z)) for z in single]
    given_as = p if kind == "probs" else [np.log(each) for each in p]
    for calibration in (None, (0.7, [0.1, 0.0]), lambda rows: 0.5 * rows):
        how = {
            "source_prior": [0.8, 0.2],
            "method": method,
            "kind": kind,
            "validation": (given_as[1], labels),
            "calibration": calibration,
        }
        known, _ = quietly(rp.estimate_target_prior, given_as[0], **how)
        found, _ = quietly(estimate_target_prior, cut(given_as[0], [5, 90]), **how)
        np.testing.assert_allclose(found, known, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("method", ["em", "rlls"])
def test_images_and_classes_first(axis, method):
    scores, (seen, labels) = world(2, 240)
    both = scores.reshape(20, 12, 4), seen[:144].reshape(12, 12, 4)
    target, known = (np.moveaxis(each, -1, axis) for each in both)
    labels = labels[:144].reshape(12, 12).copy()
    labels[3, 5:] = 9
    how = {
        "source_prior": SOURCE,
        "method": method,
        "class_axis": axis,
        "ignore_index": 9,
    }
    want, _ = quietly(rp.estimate_target_prior, target, validation=(known, labels), **how)
    samples = 1 if axis == 0 else 0
    chunks = np.split(target, [4, 11], axis=samples)
    parts = zip(np.split(known, [5], axis=samples), np.split(labels, [5]), strict=True)
    found, _ = quietly(estimate_target_prior, chunks, validation=list(parts), **how)
    np.testing.assert_allclose(found, want, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("method", ["em", "bbse"])
def test_files_are_chunks(tmp_path, monkeypatch, method):
    monkeypatch.setattr("reprior.files.scores.MAX_ROWS", 30)
    monkeypatch.setattr(target_prior, "HELD_SCORES", 10)
    scores, (seen, labels) = world(4)
    for i, part in enumerate(cut(scores, [80])):
        np.save(tmp_path / f"target-{i}.npy", part)
    np.savez(tmp_path / "validation.npz", scores=seen, labels=labels, kind="logits")
    file = open_scores(str(tmp_path / "target-*.npy"), kind="logits", skip_unreadable=True)
    validation, seen_samples = open_scores(tmp_path / "validation.npz"), []
    how = {"source_prior": SOURCE, "method": method}
    found, _ = quietly(
        estimate_target_prior, file, validation=validation, progress=seen_samples.append, **how
    )
    known, _ = quietly(rp.estimate_target_prior, scores, validation=(seen, labels), **how)
    np.testing.assert_allclose(found, known, rtol=0, atol=TOLERANCE)
    assert seen_samples[:7] == [30, 60, 80, 110, 140, 170, 200]
    assert (len(seen_samples) == 7) == (method == "bbse")  # one pass
    broken = tmp_path / "target-1.npy"
    broken.write_bytes(broken.read_bytes()[: 128 + 4 * 8 * 70])
    with pytest.raises(FileFormatError, match=r"target-1\.npy"):
        estimate_target_prior(open_scores(file.paths, kind="logits"), source_prior=SOURCE)
    with pytest.warns(RepriorWarning, match=r"1 file could not be read.*target-1\.npy"):
        found = estimate_target_prior(file, validation=validation, **how)
    known, _ = quietly(rp.estimate_target_prior, scores[:140], validation=(seen, labels), **how)
    np.testing.assert_allclose(found, known, rtol=0, atol=TOLERANCE)


def test_chunks_of_every_sort():
    scores, validation = world(5)
    known, _ = quietly(rp.estimate_target_prior, scores, source_prior=SOURCE)
    parts = cut(scores, [0, 50, 120])  # the first is empty
    for chunks in (
        parts,
        [Chunk(part) for part in parts],
        [(part, np.zeros(len(part), int)) for part in parts],
        [torch.as_tensor(part) for part in parts],
        scores,
    ):
        found, _ = quietly(estimate_target_prior, chunks, source_prior=SOURCE)
        np.testing.assert_allclose(found, known, rtol=0, atol=TOLERANCE)
    how = {"source_prior": SOURCE, "method": "bbse", "validation": list(validation)}
    once, _ = quietly(estimate_target_prior, iter(parts), **how)
    known, _ = quietly(rp.estimate_target_prior, scores, **how)
    np.testing.assert_allclose(once, known, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("method", ["em", "bbse"])
def test_chunks_may_reuse_their_arrays(monkeypatch, method):
    scores, (seen, labels) = world(6)

    def refilled(*arrays):
        class Refilled:
            def __iter__(self):
                room = [np.empty_like(each[:50]) for each in arrays]
                for start in range(0, len(arrays[0]), 50):
                    for mine, each in zip(room, arrays, strict=True):
                        mine[...] = each[start : start + 50]
                    yield tuple(room) if len(room) > 1 else room[0]

        return Refilled()

    for most in (10, 1 << 20):
        monkeypatch.setattr(target_prior, "HELD_SCORES", most)
        how = {"source_prior": SOURCE, "method": method}
        found, _ = quietly(
            estimate_target_prior, refilled(scores), validation=refilled(seen, labels), **how
        )
        known, _ = quietly(rp.estimate_target_prior, scores, validation=(seen, labels), **how)
        np.testing.assert_allclose(found, known, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("method", ["em", "rlls_soft"])
def test_memory_does_not_grow_with_the_chunks(monkeypatch, method):
    monkeypatch.setattr(target_prior, "HELD_SCORES", 10)
    scores, validation = world(7, 10_000)

    class Many:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return (scores.copy() for _ in range(self.n))  # 0.3 MB each

    def peak(n):
        tracemalloc.start()
        try:
            quietly(
                estimate_target_prior,
                Many(n),
                source_prior=SOURCE,
                method=method,
                validation=validation,
            )
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1)  # what is imported and compiled is there afterwards
    assert peak(60) < peak(20) + 2e6


def test_logits_that_look_like_probabilities_in_every_chunk():
    p = np.random.default_rng(0).dirichlet(np.ones(4), 60)
    _, said = quietly(estimate_target_prior, cut(p, [20, 40]), source_prior=SOURCE)
    assert sum("kind='logits'" in each for each in said) == 1
    _, said = quietly(estimate_target_prior, [p, 3 * p - 2], source_prior=SOURCE)
    assert not any("kind='logits'" in each for each in said)


def test_warnings_name_the_callers_line():
    scores, _ = world(0)
    blind = np.zeros((40, 4)), np.arange(40) % 4
    with pytest.warns(RepriorWarning, match="singular") as caught:
        estimate_target_prior([scores], source_prior=SOURCE, method="bbse", validation=blind)
    assert {each.filename for each in caught} == {__file__}


def changing(scores):
    class Changing:
        passes = 0

        def __iter__(self):
            self.passes += 1
            # the first asks whether it begins anew, the second counts
            more = self.by if self.passes > 2 else 0
            return iter([scores, scores[: 50 + more]])

    return Changing


@pytest.mark.parametrize("by, words", [(5, "Got 250 rows, and then more"), (-5, "and then 245")])
def test_samples_that_change_between_passes_are_noticed(monkeypatch, by, words):
    monkeypatch.setattr(target_prior, "HELD_SCORES", 10)
    chunks = changing(world(0)[0])()
    chunks.by = by
    with pytest.raises(rp.OptionError, match=words):
        estimate_target_prior(chunks, source_prior=SOURCE)


Z, (SEEN, LABELS) = world(0, 20)
BROKEN = Z.copy()
BROKEN[3, 1] = np.nan


@pytest.mark.parametrize(
    "chunks, how, words",
    [
        ([Z, BROKEN], {}, r"scores\[23, 1\]=nan"),
        (iter([Z]), {}, "several times for method='em'. Got list_iterator"),
        ([], {}, "`chunks` must give at least one sample"),
        ([Z], {"method": "bbse"}, "`validation` must be"),
        ([Z], {"method": "mle"}, "`method` must be"),
        ([Z], {"kind": "logit"}, "`kind` must be"),
        ([Z[:, :3]], {}, "class axis"),
        ([Z], {"method": "bbse", "validation": [SEEN]}, "must give Chunk"),
        ([Z], {"method": "bbse", "validation": [(SEEN, None)]}, "Got a chunk without labels"),
        ([Z], {"method": "bbse", "validation": []}, "Got no samples"),
        ([Z], {"method": "bbse", "validation": [(SEEN, LABELS * 0)]}, "labels of every class"),
        ([Z], {"method": "bbse", "validation": 7}, r"must be \(scores, labels\). Got int"),
    ],
)
def test_words(chunks, how, words):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepriorWarning)
        with pytest.raises(rp.RepriorError, match=words):
            estimate_target_prior(chunks, source_prior=SOURCE, **how)


def test_too_much_validation_is_refused(monkeypatch):
    monkeypatch.setattr(target_prior, "MOST_COLLECTED", 100)
    with pytest.raises(rp.OptionError, match="`validation` must fit into memory: at most 100"):
        estimate_target_prior([Z], source_prior=SOURCE, validation=[(SEEN, LABELS)])


@pytest.mark.parametrize("name", ["chunks", "validation"])
def test_files_of_another_kind_are_refused(tmp_path, name):
    np.savez(tmp_path / "a.npz", scores=SEEN, labels=LABELS, kind="logits")
    file = open_scores(tmp_path / "a.npz")
    with pytest.raises(rp.OptionError, match=rf"Got 'probs', and `{name}` are 'logits'"):
        estimate_target_prior(
            file if name == "chunks" else [Z],
            source_prior=SOURCE,
            kind="probs",
            validation=file,
        )
