"""The passes of a fit: how many there are, and what a broken shard leaves in the provenance."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from tests.support.chunked_scores import assert_same_fit, flat, quietly, weighted

import reprior as rp
from reprior.core.threads import _pool
from reprior.engines import (
    Checkpoint,
    Digest,
    PreallocatedSum,
    Profiler,
    Stream,
    chunked,
    fit,
    profile_sum,
    settle_terms,
)
from reprior.exceptions import FileFormatError, RepriorWarning
from reprior.files import open_scores
from reprior.profile import Priors, ProfileSum


class Counted(list):
    """Chunks that count how often they are read."""

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


def priors(bounds):
    prior = np.asarray(data().prior)
    return Priors.of(prior, np.full(prior.size, 1 / prior.size), bounds)


def test_one_pass_per_bounds_and_the_digest_with_the_first():
    chunks = Counted(data().chunks([30, 60]))
    profiler = profiler_of(chunks)
    before = chunks.passes
    first = profiler.profile(priors((0.0, 2.0)))
    assert chunks.passes == before + 1
    assert profiler.digest.value == rp.engines.digest(data().chunks([17]))
    wider = profiler.profile(priors((0.0, 4.0)))
    assert chunks.passes == before + 2
    assert profiler.digest.n_samples == 90
    assert (first.bounds, wider.bounds) == ((0.0, 2.0), (0.0, 4.0))


def test_an_error_in_the_digest_is_not_lost(monkeypatch):
    def broken(_self, _chunk):
        raise ValueError("no digest")

    monkeypatch.setattr("reprior.engines.fingerprint.Digest.update", broken)
    with pytest.raises(ValueError, match="no digest"):
        profiler_of(data().chunks([30])).profile(priors((0.0, 2.0)))


@pytest.mark.parametrize("n_parts", [1, 2, 3, 5, 9, 30, 90])
def test_files_in_chunks_of_any_size_are_as_in_memory(tmp_path, monkeypatch, n_parts):
    monkeypatch.setattr("reprior.files.scores.MAX_ROWS", -(-90 // n_parts))
    whole = data()
    np.save(tmp_path / "scores.npy", whole.scores.astype(np.float32))
    np.save(tmp_path / "labels.npy", whole.labels)
    file = open_scores(tmp_path / "scores.npy", labels=tmp_path / "labels.npy", kind="logits")
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


class Passes(list):
    """A progress function that knows how many passes were begun; each has chunks of ten."""

    ends = 99, 0
    """In which pass, and after how many samples, it ends the fit."""

    def __call__(self, done):
        self.append(done)
        if (self.n, done) == self.ends:
            raise KeyboardInterrupt

    @property
    def n(self):
        return self.count(10)


def in_a_file(folder, whole):
    arrays = {"scores": whole.scores, "labels": whole.labels, "weight": whole.weight}
    given = {name: array for name, array in arrays.items() if array is not None}
    np.savez(folder / "all.npz", **given, kind=np.array("logits"))
    return open_scores(folder / "all.npz")


def switching_first(whole):
    """The same samples, those first that switch between 0 and 2."""
    shares = [
        rp.StrengthProfile.from_scores(
            whole.scores[i : i + 1], whole.labels[i : i + 1], source_prior=whole.prior
        ).n_switches
        for i in range(len(whole.labels))
    ]
    order = np.argsort(shares, kind="stable")[::-1]
    return replace(whole, scores=whole.scores[order], labels=whole.labels[order]), sum(shares)


@pytest.mark.parametrize("resolution", ["auto", "refine"])
@pytest.mark.parametrize("weigh", [lambda whole: whole, weighted], ids=["plain", "weighted"])
def test_bins_are_begun_as_soon_as_too_many_switches_are_sure(
    tmp_path, monkeypatch, resolution, weigh
):
    monkeypatch.setattr("reprior.files.scores.MAX_ROWS", 10)
    monkeypatch.setattr(chunked, "MOST_SWITCHES", 60)
    whole, kept = weigh(data(600)), []
    coarsen = PreallocatedSum.coarsen

    def noted(total):
        kept.append(total.n_waiting)
        coarsen(total)

    monkeypatch.setattr(PreallocatedSum, "coarsen", noted)
    passes, file = Passes(), in_a_file(tmp_path, whole)
    found, _ = quietly(fit, whole.calibrator(), file, resolution=resolution, progress=passes)
    assert 6 <= max(kept) < 30
    assert passes.n == (2 if resolution == "refine" else 1)
    assert found.profile_.n_switches > 120
    late, _ = quietly(fit, whole.calibrator(), whole.chunks([]), resolution=resolution)
    assert_same_fit(found, late)
    np.testing.assert_array_equal(found.profile_._table, late.profile_._table)


def test_switches_are_kept_in_another_pass_where_too_many_were_foreseen_in_vain(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("reprior.files.scores.MAX_ROWS", 10)
    whole, n = switching_first(data(600))
    monkeypatch.setattr(chunked, "MOST_SWITCHES", n)
    passes, file = Passes(), in_a_file(tmp_path, whole)
    found, said = quietly(fit, whole.calibrator(), file, progress=passes)
    assert passes.n == 2
    assert (found.profile_.n_switches, found.profile_.resolution) == (n, None)
    exact, sentences = quietly(fit, whole.calibrator(), whole.chunks([]), resolution=None)
    assert said == sentences
    assert_same_fit(found, exact)
    monkeypatch.setattr(chunked, "MOST_SWITCHES", n - 1)
    found, _ = quietly(fit, whole.calibrator(), file, progress=passes)
    assert passes.n == 3
    assert found.profile_.resolution == 1e-4


@pytest.mark.parametrize("times, passes, latest", [(0.9, 1, None), (1.5, 1, 1.1), (3.0, 1, 0.5)])
def test_shuffled_files_are_read_once(tmp_path, monkeypatch, times, passes, latest):
    monkeypatch.setattr("reprior.files.scores.MAX_ROWS", 10)
    whole, kept = data(600), []
    n = rp.StrengthProfile.from_scores(
        whole.scores, whole.labels, source_prior=whole.prior
    ).n_switches
    most = int(n / times)
    monkeypatch.setattr(chunked, "MOST_SWITCHES", most)
    coarsen = PreallocatedSum.coarsen

    def noted(total):
        if total.n_waiting:
            kept.append(total.n_waiting)
        coarsen(total)

    monkeypatch.setattr(PreallocatedSum, "coarsen", noted)
    read = Passes()
    found, _ = quietly(
        fit, whole.calibrator(bounds=(0.0, 2.0)), in_a_file(tmp_path, whole), progress=read
    )
    assert found.profile_.bounds == (0.0, 2.0)
    assert read.n == passes
    if latest is None:
        assert kept == []
    elif latest < 1:
        assert most * 0.1 <= kept[0] <= latest * most
    else:  # too many, but not twice as many as are kept: not foreseen
        assert most < kept[0] <= latest * most + 20


def test_what_was_foreseen_in_vain_is_not_foreseen_again(tmp_path, monkeypatch):
    monkeypatch.setattr("reprior.files.scores.MAX_ROWS", 10)
    some, sure = flat(2, 600, shift=1.5), np.arange(3000) % 4  # the best of some lies far up
    whole = replace(
        some,
        scores=np.concatenate([some.scores, 100.0 * np.eye(4)[sure]]),
        labels=np.concatenate([some.labels, sure]),
    )
    file, calm, read = in_a_file(tmp_path, whole), Passes(), Passes()
    narrow = {"bounds": (0.0, 0.5)}
    expected, _ = quietly(fit, whole.calibrator(**narrow), file, resolution=None, progress=calm)
    monkeypatch.setattr(chunked, "MOST_SWITCHES", expected.profile_.n_switches)
    found, _ = quietly(fit, whole.calibrator(**narrow), file, progress=read)
    assert_same_fit(found, expected)
    assert calm.n > 2
    assert read.n == calm.n + 1


@pytest.mark.parametrize("n_threads, saved", [(1, True), (2, False), (4, True)])
def test_the_bits_of_fractional_weights_are_of_the_data_alone(
    tmp_path, monkeypatch, n_threads, saved
):
    monkeypatch.setattr("reprior.files.scores.MAX_ROWS", 10)
    monkeypatch.setattr(chunked, "AUTO_RESOLUTION", 0.05)

    def table(whole, folder, n_threads, saved):
        folder.mkdir()
        file = in_a_file(folder, whole)
        monkeypatch.setenv("REPRIOR_NUM_THREADS", str(n_threads))
        often = Checkpoint(folder / "saved", pause=0.0, share=1.0) if saved else None
        found, _ = quietly(fit, whole.calibrator(metric="macro_f1"), file, checkpoint=often)
        events = found.profile_._switches.events
        return [events.weighted_predicted, events.weighted_true_positive, found.best_score_]

    for seed in range(3):
        whole = flat(seed, 600, shift=0.5)
        whole = replace(whole, weight=np.random.default_rng(seed).random(600))
        n = rp.StrengthProfile.from_scores(
            whole.scores, whole.labels, source_prior=whole.prior
        ).n_switches
        monkeypatch.setattr(chunked, "MOST_SWITCHES", int(n / 2.1))  # hardly enough to be foreseen
        expected = table(whole, tmp_path / f"{seed}-alone", 1, False)
        found = table(whole, tmp_path / f"{seed}", n_threads, saved)
        for mine, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_one_thread_at_a_time_adds_to_the_sum(tmp_path, monkeypatch):
    monkeypatch.setattr("reprior.files.scores.MAX_ROWS", 10)
    monkeypatch.setenv("REPRIOR_NUM_THREADS", "4")
    _pool.cache_clear()
    whole, inside, add = data(600), [], ProfileSum.add

    def watched(total, profile):
        assert not inside
        inside.append(1)
        time.sleep(0.001)
        add(total, profile)
        inside.pop()

    monkeypatch.setattr(ProfileSum, "add", watched)
    file = in_a_file(tmp_path, whole)
    found, _ = quietly(fit, whole.calibrator(), file, resolution=0.01)
    _pool.cache_clear()
    monkeypatch.undo()
    expected, _ = quietly(fit, whole.calibrator(), whole.chunks([]), resolution=0.01)
    assert_same_fit(found, expected)
    np.testing.assert_array_equal(found.profile_._table, expected.profile_._table)


def test_bins_that_were_asked_for_stay_where_nothing_switches(tmp_path):
    whole = data(60)
    whole = replace(whole, scores=100.0 * np.eye(4)[whole.labels])
    read = []
    found, _ = quietly(
        fit,
        whole.calibrator(bounds=(0.0, 2.0)),
        in_a_file(tmp_path, whole),
        resolution=0.5,
        progress=read.append,
    )
    assert (found.profile_.n_switches, found.profile_.resolution) == (0, 0.5)
    assert len(read) == 1


@pytest.mark.parametrize("ended", [(2, 600), (1, 600), (2, 300), (2, 10)])
def test_a_fit_ended_there_goes_on(tmp_path, monkeypatch, caplog, ended):
    monkeypatch.setattr("reprior.files.scores.MAX_ROWS", 10)
    whole, n = switching_first(data(600))
    monkeypatch.setattr(chunked, "MOST_SWITCHES", n)
    passes, file = Passes(), in_a_file(tmp_path, whole)
    passes.ends = ended
    saved = Checkpoint(tmp_path / "saved", pause=0.0, share=1.0)
    with pytest.raises(KeyboardInterrupt):
        fit(whole.calibrator(), file, checkpoint=saved, progress=passes)
    with caplog.at_level("INFO"):
        resumed = Passes()
        found, _ = quietly(fit, whole.calibrator(), file, checkpoint=saved, progress=resumed)
    assert_same_fit(found, fit(whole.calibrator(), whole.chunks([]), resolution=None))
    assert found.profile_.resolution is None
    said = " ".join(caplog.messages)
    if ended == (2, 300):  # the second reading resumes and does not restart
        assert 280 <= resumed[0] <= 310
        assert resumed.n == 0
        assert "in another reading of the same files" in said
    elif ended[0] == 2 and ended[1] == 10:  # nothing of it was saved
        assert resumed.n == 1
        assert "counted before" not in said
    read = []
    again, _ = quietly(fit, whole.calibrator(), file, checkpoint=saved, progress=read.append)
    assert_same_fit(again, found)
    assert read == []
