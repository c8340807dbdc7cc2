"""The passes of a fit: how many there are, and what a broken shard leaves in the provenance."""

from __future__ import annotations

import time

import numpy as np
import pytest
from tests.engines.shared import assert_same_fit, flat, quietly

import reprior as rp
from reprior.engines import chunked, fit
from reprior.engines.chunked import profile_sum
from reprior.engines.fingerprint import Digest
from reprior.engines.profiling import Profiler
from reprior.engines.stream import Stream, settle_terms
from reprior.exceptions import FileFormatError, RepriorWarning
from reprior.files.scores import open_scores


class Counted(list):
    """Chunks that count how often they are gone through."""

    passes = 0

    def __iter__(self):
        self.passes += 1
        return super().__iter__()


def data(n=90):
    return flat(2, n, shift=0.4)


def profiler_of(chunks, **how):
    calibrator = data().calibrator()
    stream = Stream(calibrator, chunks, settle_terms(calibrator, chunks))
    return Profiler(stream, lambda: profile_sum(how.pop("resolution", "auto"), 10**7), **how)


def test_one_pass_per_bounds_and_the_digest_with_the_first():
    chunks = Counted(data().chunks([30, 60]))
    profiler = profiler_of(chunks)
    before = chunks.passes
    first = profiler.profile((0.0, 2.0))
    assert chunks.passes == before + 1
    assert profiler.digest.value == rp.engines.digest(data().chunks([17]))
    wider = profiler.profile((0.0, 4.0))
    assert chunks.passes == before + 2
    assert profiler.digest.n_samples == 90
    assert (first.bounds, wider.bounds) == ((0.0, 2.0), (0.0, 4.0))


def test_an_error_in_the_digest_is_not_lost(monkeypatch):
    def broken(_self, _chunk):
        raise ValueError("no digest")

    monkeypatch.setattr("reprior.engines.fingerprint.Digest.update", broken)
    with pytest.raises(ValueError, match="no digest"):
        profiler_of(data().chunks([30])).profile((0.0, 2.0))


@pytest.mark.parametrize("n_parts", [1, 2, 3, 5, 9, 30, 90])
def test_files_in_chunks_of_any_size_are_as_in_memory(tmp_path, monkeypatch, n_parts):
    monkeypatch.setattr("reprior.files.score_file.MAX_ROWS", -(-90 // n_parts))
    whole = data()
    np.save(tmp_path / "scores.npy", whole.scores.astype(np.float32))
    np.save(tmp_path / "labels.npy", whole.labels)
    file = open_scores(
        tmp_path / "scores.npy", labels=tmp_path / "labels.npy", kind="logits"
    )  # fmt: skip
    assert len(list(file)) == n_parts
    found = fit(whole.calibrator(), file)
    assert_same_fit(found, whole.calibrator().fit(whole.scores.astype(np.float32), whole.labels))


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 2, 0]])
@pytest.mark.parametrize("most", [10**7, 20])
def test_shards_in_any_order_give_the_same(tmp_path, monkeypatch, order, most):
    monkeypatch.setattr(chunked, "MOST_SWITCHES", most)
    whole, paths = data(), []
    for i in range(3):
        paths.append(tmp_path / f"{i}.npz")
        piece = whole.chunk(30 * i, 30 * i + 30)
        np.savez(paths[-1], scores=piece.scores, labels=piece.labels, kind="logits")
    found, _ = quietly(fit, whole.calibrator(), open_scores([paths[i] for i in order]))
    expected, _ = quietly(fit, whole.calibrator(), whole.chunks([]))
    assert_same_fit(found, expected)


def test_what_is_left_out_is_said_and_kept_in_the_provenance(tmp_path):
    whole = data()
    for i in range(3):
        piece = whole.chunk(30 * i, 30 * i + 30)
        np.savez(tmp_path / f"{i}.npz", scores=piece.scores, labels=piece.labels, kind="logits")
    bad = tmp_path / "1.npz"
    bad.write_bytes(bad.read_bytes()[:300])
    pattern = str(tmp_path / "*.npz")
    with pytest.raises(FileFormatError, match=r"1\.npz"):
        fit(whole.calibrator(), open_scores(pattern))
    with pytest.warns(RepriorWarning, match="1 file could not be read and was left out"):
        found = fit(whole.calibrator(), open_scores(pattern, skip_unreadable=True))
    assert found.provenance_["n_samples"] == 60
    assert found.provenance_["left_out"] == {"files": [str(bad)], "n_samples": None}
    rest = whole.chunks([30, 60])
    assert_same_fit(found, fit(whole.calibrator(), [rest[0], rest[2]]))
    found.save(tmp_path / "cal.json")
    again = rp.load(tmp_path / "cal.json")
    assert again.provenance_ == found.provenance_


class Refilled:
    """Chunks that are all handed out in the same arrays, filled anew for each."""

    def __init__(self, whole, n):
        self.whole, self.n = whole, n

    def __iter__(self):
        room = [np.empty_like(each[: self.n]) for each in (self.whole.scores, self.whole.labels)]
        for start in range(0, len(self.whole.labels), self.n):
            piece = self.whole.chunk(start, start + self.n)
            room[0][...], room[1][...] = piece.scores, piece.labels
            yield tuple(room)


@pytest.mark.parametrize("options", [{}, {"temperature": "fit"}, {"cv": 3}, {"separate": True}])
def test_chunks_may_reuse_their_arrays(monkeypatch, options):
    taken = Digest.update

    def slowly(self, chunk):
        time.sleep(0.01)
        taken(self, chunk)

    monkeypatch.setattr(Digest, "update", slowly)
    whole = data().with_options(ignore_index=9)
    whole.labels[30:45] = 9  # a chunk of which nothing counts
    found, _ = quietly(fit, whole.calibrator(**options), Refilled(whole, 15))
    known, _ = quietly(fit, whole.calibrator(**options), whole.chunks(range(15, 90, 15)))
    assert_same_fit(found, quietly(whole.calibrator(**options).fit, whole.scores, whole.labels)[0])
    if known.log_loss_ is not None:
        np.testing.assert_allclose(found.log_loss_, known.log_loss_, rtol=1e-9)
    if "cv" in options:
        assert found.cross_validation_.scores == known.cross_validation_.scores
    assert found.provenance_["digest"] == rp.engines.digest(whole.chunks([17]))
