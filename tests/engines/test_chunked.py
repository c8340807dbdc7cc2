"""A fit chunk by chunk is the fit in memory."""

from __future__ import annotations

import threading
import warnings
from functools import cache, partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chunked_scores import (
    PRIOR,
    TEMPERATURE_TOLERANCE,
    Data,
    assert_same_fit,
    cuts,
    flat,
    images,
    quietly,
    weighted,
)

import reprior as rp
from reprior.core import threads
from reprior.engines import chunked
from reprior.exceptions import OptionError, RepriorWarning
from reprior.files import Chunk, open_scores
from reprior.files import scores as score_files
from reprior.profile import source

NAMES = ["ant", "bee", "cow", "dog"]


def in_memory(data, **options):
    return quietly(data.calibrator(**options).fit, data.scores, data.labels, data.weight)


def by_chunks(data, where, resolution=None, **options):
    return quietly(
        rp.engines.fit, data.calibrator(**options), data.chunks(where), resolution=resolution
    )


@given(st.integers(0, 20), cuts(60), st.booleans())
def test_any_chunking_is_the_whole(seed, where, heavy):
    data = weighted(flat(seed), seed) if heavy else flat(seed)
    (a, said), (b, known) = by_chunks(data, where), in_memory(data)
    assert_same_fit(a, b)
    assert said == known


@given(st.integers(0, 10), cuts(6), st.booleans())
def test_images_with_ignored_pixels(seed, where, heavy):
    data = weighted(images(seed), seed) if heavy else images(seed)
    (a, said), (b, known) = by_chunks(data, where), in_memory(data)
    assert_same_fit(a, b)
    assert said == known


@given(st.integers(0, 10), cuts(60), st.booleans(), st.booleans())
def test_the_temperature_of_any_chunking(seed, where, heavy, keeps):
    data = weighted(flat(seed), seed) if heavy else flat(seed)
    label_prior = [0.1, 0.2, 0.3, 0.4] if seed % 2 else None
    kept = source.HELD_SCORES
    source.HELD_SCORES = kept if keeps else 10
    try:
        a, _ = by_chunks(data, where, temperature="fit", label_prior=label_prior)
    finally:
        source.HELD_SCORES = kept
    b, _ = in_memory(data, temperature="fit", label_prior=label_prior)
    assert_same_fit(a, b)
    assert a.temperature_ != 1.0


@given(cuts(60))
def test_bounds_are_widened_over_chunks(where):
    data = flat(3, shift=2.5).with_options(bounds=(0.1, 0.25))
    (a, said), (b, known) = by_chunks(data, where), in_memory(data)
    assert a.profile_.bounds[1] > 0.25
    assert_same_fit(a, b)
    assert said == known


@given(cuts(60), st.sampled_from(["logits", "probs", "log_probs"]), st.booleans())
def test_single_scores_of_two_classes(where, kind, column):
    two = flat(5, prior=np.array([0.8, 0.2]))
    z = two.scores[:, 1] - two.scores[:, 0]
    p = 1 / (1 + np.exp(-z))
    scores = {"logits": z, "probs": p, "log_probs": np.log(p)}[kind]
    data = Data(scores[:, None] if column else scores, two.labels, prior=two.prior)
    data = data.with_options(kind=kind)
    (a, said), (b, known) = by_chunks(data, where), in_memory(data)
    assert_same_fit(a, b)
    assert said == known


@given(cuts(60))
def test_names_as_labels(where):
    one = flat(7)
    data = Data(one.scores, np.array(NAMES)[one.labels])
    a, _ = by_chunks(data, where)
    b, _ = in_memory(data)
    assert_same_fit(a, b)
    assert a.classes_.tolist() == NAMES
    known, _ = by_chunks(data.with_options(classes=NAMES, ignore_index="ant"), where)
    same, _ = in_memory(data.with_options(classes=NAMES, ignore_index="ant"))
    assert_same_fit(known, same)


def test_integer_labels_are_indices_of_the_classes_named():
    one = flat(7)
    by_name, _ = in_memory(Data(one.scores, np.array(NAMES)[one.labels]), classes=NAMES)
    by_index, _ = by_chunks(one, [20], classes=NAMES, ignore_index="void")
    assert_same_fit(by_index, by_name)


def test_a_prior_by_name_takes_the_order_of_the_columns():
    class File(list):
        class_names = ("dog", "cow", "bee", "ant")

    one = flat(7)
    prior = dict(zip(reversed(NAMES), PRIOR.tolist(), strict=True))
    fitted, _ = quietly(rp.engines.fit, rp.PosteriorCalibrator(prior), File(one.chunks([9])))
    assert fitted.classes_.tolist() == ["dog", "cow", "bee", "ant"]
    np.testing.assert_allclose(fitted.source_prior_, PRIOR)
    plain, _ = quietly(rp.engines.fit, rp.PosteriorCalibrator(prior), one.chunks([9]))
    assert plain.classes_.tolist() == NAMES


def test_one_class_per_chunk_and_torch_tensors():
    data = flat(9)
    order = np.argsort(data.labels, kind="stable")
    scores, labels = data.scores[order], data.labels[order]
    edges = np.flatnonzero(np.diff(labels)) + 1
    parts = zip(np.split(scores, edges), np.split(labels, edges), strict=True)
    chunks = [(torch.as_tensor(z), torch.as_tensor(y)) for z, y in parts]
    a, _ = quietly(rp.engines.fit, data.calibrator(), chunks)
    b, _ = in_memory(Data(scores, labels))
    assert_same_fit(a, b)


def test_classes_first():
    data = flat(2).with_options(class_axis=0)
    chunks = [Chunk(c.scores.T, c.labels, start=c.start) for c in data.chunks([7, 30])]
    a, _ = quietly(rp.engines.fit, data.calibrator(), chunks)
    b, _ = quietly(data.calibrator().fit, data.scores.T, data.labels)
    assert_same_fit(a, b)
    assert a.provenance_["digest"] == rp.engines.digest([(data.scores, data.labels)])
    bad = data.scores.copy()
    bad[33, 2] = np.nan
    chunks = [(bad[:30].T, data.labels[:30]), (bad[30:].T, data.labels[30:])]
    with pytest.raises(rp.ScoresError, match=r"scores\[2, 33\]=nan"):
        rp.engines.fit(data.calibrator(), chunks)


@given(cuts(60), st.sampled_from([0.05, "auto"]))
def test_bins_are_those_of_the_whole(where, resolution):
    data = flat(4).with_options(bounds=(0.0, 8.0))  # as far as bounds are ever widened
    most = chunked.MOST_SWITCHES
    chunked.MOST_SWITCHES = 20
    try:
        fitted, said = by_chunks(data, where, resolution)
    finally:
        chunked.MOST_SWITCHES = most
    width = 1e-4 if resolution == "auto" else resolution
    whole = rp.StrengthProfile.from_scores(
        data.scores, data.labels, source_prior=PRIOR, resolution=width, bounds=(0.0, 8.0)
    )
    assert fitted.profile_.resolution == width
    assert fitted.strength_ == whole.best("balanced_accuracy").strength
    for name, column in whole._switches.arrays().items():
        np.testing.assert_array_equal(fitted.profile_._switches.arrays()[name], column)
    assert sum("summed in bins" in sentence for sentence in said) == (resolution == "auto")


def test_too_many_switches_are_said_once_however_wide_the_bounds(monkeypatch):
    monkeypatch.setattr(chunked, "MOST_SWITCHES", 5)
    data = flat(3, shift=2.5).with_options(bounds=(0.1, 0.25))
    fitted, said = by_chunks(data, [20, 40], "auto")
    assert fitted.profile_.bounds[1] > 0.25
    assert fitted.profile_.resolution == 1e-4
    assert sum("switches, too many to keep" in sentence for sentence in said) == 1


def test_progress_counts_samples_in_every_pass():
    seen = []
    data = flat(1)
    quietly(rp.engines.fit, data.calibrator(), data.chunks([10, 25]), progress=seen.append)
    assert seen[:3] == [10, 25, 60]


def test_provenance_is_the_digest_and_survives_the_file(tmp_path):
    data = flat(1)
    fitted, _ = by_chunks(data, [13, 13, 40])
    assert fitted.provenance_ == {"digest": rp.engines.digest(data.chunks([5])), "n_samples": 60}
    fitted.save(tmp_path / "cal.json")
    assert rp.load(tmp_path / "cal.json").provenance_ == fitted.provenance_
    assert fitted.retarget("uniform").provenance_ == fitted.provenance_
    assert in_memory(data)[0].provenance_ is None


def test_logits_that_look_like_probabilities_in_every_chunk():
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.ones(4), 60)
    data = Data(scores, rng.integers(4, size=60))
    (_, said), (_, known) = by_chunks(data, [10, 30]), in_memory(data)
    assert set(said) == set(known)
    assert any("kind='logits'" in sentence for sentence in said)
    mixed = Data(np.concatenate([scores, 3 * scores - 2]), np.tile(data.labels, 2))
    assert not any("kind='logits'" in sentence for sentence in by_chunks(mixed, [60])[1])


@pytest.mark.parametrize("n", [10, 40])
def test_single_logits_that_look_like_probabilities(n):
    rng = np.random.default_rng(0)
    data = Data(rng.random(n), rng.integers(2, size=n), prior=[0.7, 0.3])
    (_, said), (_, known) = by_chunks(data, [5, 9]), in_memory(data)
    assert set(said) == set(known)
    assert any("second class" in sentence for sentence in said) == (n == 40)


def test_a_sharp_temperature_is_said():
    z = 5 * np.eye(4)[[0, 1, 2, 3] * 3]
    data = Data(z, z.argmax(axis=1))
    fitted, said = by_chunks(data, [5], temperature="fit")
    assert fitted.temperature_ == 0.01
    assert any("still falls at the bound" in sentence for sentence in said)


def test_a_class_out_of_play_in_a_chunk_of_its_own():
    data = flat(8)
    order = np.argsort(data.labels, kind="stable")
    labels = data.labels[order].copy()
    labels[np.flatnonzero(labels == 0)[-1]] = 255
    target = [0.0, 0.5, 0.25, 0.25]
    data = Data(data.scores[order], labels).with_options(target_prior=target, ignore_index=255)
    where = [int((labels == 0).sum()) + 1]
    a, _ = by_chunks(data, where, temperature="fit")
    b, _ = in_memory(data, temperature="fit")
    assert_same_fit(a, b)


def test_warnings_name_the_callers_line():
    data = flat(3, shift=2.5).with_options(bounds=(0.1, 0.25))
    with pytest.warns(rp.RepriorWarning) as caught:
        rp.engines.fit(data.calibrator(), data.chunks([30]))
    assert {warning.filename for warning in caught} == {__file__}


def bad(chunks, **options):
    def call():
        rp.engines.fit(rp.PosteriorCalibrator(PRIOR, **options), chunks)

    return call


Z, Y = np.arange(40.0).reshape(10, 4) % 7, np.arange(10) % 4
BROKEN = Z.copy()
BROKEN[8, 1] = np.nan


@pytest.mark.parametrize(
    "call, words",
    [
        (bad([(Z, Y), (BROKEN, Y)]), r"scores\[18, 1\]=nan"),
        (bad([Chunk(Z, Y), Chunk(BROKEN, Y, start=100)]), r"scores\[108, 1\]=nan"),
        (bad([(Z, Y), (Z, np.where(Y == 3, 9, Y))]), r"labels\[13\]=9"),
        (bad([(Z, Y, np.ones(10)), (Z, Y, -np.ones(10))]), r"sample_weight\[10\]=-1"),
        (bad([(Z, Y), (Z[:, :3], Y)]), r"class axis.*among the samples from 10 on"),
        (bad([(Z, Y), (Z, None)]), "without labels"),
        (bad([(Z, None)]), "without labels"),
        (bad([(Z, Y), (Z, Y, np.ones(10))]), "for all samples or for none"),
        (bad([]), "Got 0 samples in all chunks"),
        (bad([(Z, Y * 0 + 9)], ignore_index=9), "Got 10 samples, all of them ignored"),
        (bad([(Z, Y), (Z, Y * 0 + 9, None)], ignore_index=8), r"labels\[10\]=9"),
        (
            bad([(Z, Y, np.ones(10)), (Z, Y * 0 + 9, -np.ones(10))], ignore_index=9),
            r"sample_weight\[10\]",
        ),
        (bad(iter([(Z, Y)])), "several times. Got list_iterator"),
        (bad(7), "several times. Got int"),
        (bad([Z]), "Got ndarray"),
        (bad([(Z, np.array(NAMES)[Y])], classes=["a", "b", "c", "d"]), "among the classes"),
        (bad([(Z, Y)], kind="logit"), "kind"),
        (
            bad([(Z, Y * 0)], target_prior=[0, 0.5, 0.25, 0.25], temperature="fit"),
            "positive `target_prior`",
        ),
    ],
)
def test_words(call, words):
    with pytest.raises(rp.RepriorError, match=words):
        quietly(call)


@pytest.mark.parametrize("resolution", ["fine", 0, -1.0, np.nan])
def test_a_wrong_resolution_is_refused_before_the_first_pass(resolution):
    class Unread:
        class_names = None

        def __iter__(self):
            yield from ()
            raise AssertionError

    with pytest.raises(rp.OptionError, match="`resolution` must be"):
        rp.engines.fit(
            rp.PosteriorCalibrator(PRIOR, classes=NAMES), Unread(), resolution=resolution
        )


def test_files_that_change_between_passes_are_noticed():
    data = flat(3, shift=2.5).with_options(bounds=(0.1, 0.25), classes=[0, 1, 2, 3])

    class Growing:
        passes = 0

        def __iter__(self):
            self.passes += 1
            return iter(data.chunks([30]) * self.passes)

    with pytest.raises(rp.OptionError, match="Got 120 samples, and then 180"):
        quietly(rp.engines.fit, data.calibrator(), Growing())


def test_a_fit_where_no_thread_can_be_started(tmp_path, monkeypatch):
    data = flat(1)
    np.savez(tmp_path / "a.npz", scores=data.scores, labels=data.labels)
    monkeypatch.setattr(score_files, "MAX_ROWS", 10)
    monkeypatch.setenv("REPRIOR_NUM_THREADS", "4")
    monkeypatch.setattr(threads, "_pool", cache(threads._pool.__wrapped__))

    def refused(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    file = open_scores(tmp_path / "a.npz", kind="logits")
    found, _ = quietly(rp.engines.fit, data.calibrator(temperature="fit"), file)
    monkeypatch.undo()
    want, _ = quietly(data.calibrator(temperature="fit").fit, data.scores, data.labels)
    assert_same_fit(found, want)


def test_a_fit_that_fails_changes_nothing():
    data = flat(1)
    fitted, _ = by_chunks(data, [30])
    before = dict(fitted.__dict__)
    with pytest.raises(rp.RepriorError):
        rp.engines.fit(fitted, [(BROKEN, Y)])
    assert fitted.__dict__ == before


def test_the_impossible_label_is_located():
    probs = np.full((6, 4), 0.25)
    probs[4] = [0.5, 0.5, 0, 0]
    labels = np.array([0, 1, 2, 3, 3, 1])
    chunks = [(probs[:3], labels[:3]), (probs[3:], labels[3:])]
    calibrator = rp.PosteriorCalibrator(PRIOR, kind="probs", temperature="fit")
    with pytest.raises(rp.ScoresError, match=r"sample 4 "):
        quietly(rp.engines.fit, calibrator, chunks)


def test_the_tolerance_of_the_temperature_is_what_the_docstring_says():
    assert f"{TEMPERATURE_TOLERANCE:.0e}".replace("-0", "-") in rp.engines.fit.__doc__


@pytest.mark.parametrize("run", [rp.engines.fit, rp.engines.evaluate])
def test_files_of_another_kind_or_axis_than_the_calibrators_are_refused(tmp_path, run):
    rng = np.random.default_rng(0)
    scores, labels = rng.standard_normal((6, 4, 4, 4)), rng.integers(0, 4, (6, 4, 4))
    np.savez(tmp_path / "a.npz", scores=scores, labels=labels, kind="logits")
    file = open_scores(tmp_path / "a.npz")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepriorWarning)  # of noise any strength may be the best
        good = rp.PosteriorCalibrator(PRIOR, class_axis=1).fit(scores, labels)
        run(good, file)
    other_kind = rp.PosteriorCalibrator(PRIOR, class_axis=1, kind="log_probs")
    other_axis = rp.PosteriorCalibrator(PRIOR)
    for other in (other_kind, other_axis):
        vars(other).update({k: v for k, v in vars(good).items() if k.endswith("_")})
    with pytest.raises(OptionError, match=r"`kind` of the calibrator .* Pass kind='logits'"):
        run(other_kind, file)
    with pytest.raises(OptionError, match=r"`class_axis` of the calibrator .* Pass class_axis=1"):
        run(other_axis, file)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("native", [True, False])
def test_a_score_that_is_none_is_named_by_its_place_in_its_file(tmp_path, bad, native, request):
    if not native:
        request.getfixturevalue("without_native")
    data = flat(3, n=60)
    scores = data.scores.copy()
    scores[47, 2] = bad
    for i, part in enumerate((slice(20), slice(20, 60))):
        np.savez(tmp_path / f"{i}.npz", scores=scores[part], labels=data.labels[part])
    files = open_scores([tmp_path / "0.npz", tmp_path / "1.npz"], kind="logits")
    with pytest.raises(rp.ScoresError) as caught:
        rp.engines.fit(data.calibrator(), files)
    assert "row 27 of" in str(caught.value)
    assert "1.npz" in str(caught.value)
    assert "column 2" in str(caught.value)


@pytest.mark.parametrize("what", ["path", "paths", "dask"])
def test_what_is_no_chunks_is_sent_where_it_belongs(tmp_path, what):
    data = flat(3)
    path = tmp_path / "all.npz"
    np.savez(path, scores=data.scores, labels=data.labels)
    lazy = pytest.importorskip("dask.array").from_array
    given, words = {
        "path": (str(path), r"Got the path '.*all\.npz'\. Open the file: .*open_scores"),
        "paths": ([path], r"Got the path '.*all\.npz'\. Open the file: .*open_scores"),
        "dask": ((lazy(data.scores), lazy(data.labels)), r"calibrator\.fit\(scores, labels\)"),
    }[what]
    known = data.calibrator().fit(data.scores, data.labels)
    calls = [
        lambda: rp.engines.fit(data.calibrator(), given),
        lambda: rp.engines.evaluate(known, given),
    ]
    if what != "dask":
        prior = known.source_prior_
        calls.append(lambda: rp.engines.estimate_target_prior(given, source_prior=prior))
    for call in calls:
        with pytest.raises(OptionError, match=words):
            call()


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_of_frames_are_put_in_the_order_of_the_classes(frame):
    data = flat(4)
    names = np.array(["ant", "bee", "cow", "dog"])
    new = partial(rp.PosteriorCalibrator, data.prior, classes=names, bounds=(0.0, 8.0))
    known = new().fit(data.scores, names[data.labels])
    mixed = ["dog", "ant", "cow", "bee"]
    scores = frame({name: data.scores[:, names.tolist().index(name)] for name in mixed})
    chunk = scores, names[data.labels]
    assert rp.engines.fit(new(), [chunk]).strength_ == known.strength_
    online = rp.engines.OnlineFit(new())
    online.update(*chunk)
    assert online.finish().strength_ == known.strength_
    judged = rp.engines.evaluate(known, [chunk]).metrics
    assert judged == rp.engines.evaluate(known, [(data.scores, names[data.labels])]).metrics
    renamed = scores.rename(columns={"ant": "emu"}) if frame is pd.DataFrame else None
    if renamed is not None:
        with pytest.raises(rp.ScoresError, match="Got 'emu', which is no class"):
            rp.engines.fit(new(), [(renamed, chunk[1])])


def test_what_is_ignored_in_files_is_told_to_the_calibrator_too(tmp_path):
    data = flat(0, 60)
    labels = np.where(np.arange(60) % 7 == 0, 9, data.labels)
    scores = np.where((labels == 9)[:, None], np.nan, data.scores)
    np.savez(tmp_path / "a.npz", scores=scores, labels=labels, kind="logits")
    file = open_scores(tmp_path / "a.npz", ignore_index=9)
    with pytest.raises(OptionError, match="Pass ignore_index=9 to the calibrator too"):
        rp.engines.fit(data.calibrator(), file)
    options = {"ignore_index": 9, "bounds": (0.0, 2.0)}
    found, _ = quietly(rp.engines.fit, data.calibrator(**options), file)
    assert_same_fit(found, quietly(data.calibrator(**options).fit, scores, labels)[0])


def test_chunks_may_be_single_samples():
    data = flat(0, 20)
    chunks = [(data.scores[i], data.labels[i]) for i in range(20)]
    found, _ = quietly(rp.engines.fit, data.calibrator(), chunks)
    assert_same_fit(found, quietly(data.calibrator().fit, data.scores, data.labels)[0])
