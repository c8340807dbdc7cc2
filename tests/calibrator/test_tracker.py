"""PriorTracker: batches in, mix and alarm out, saved and gone on with."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax, softmax
from tests.support.backends import WIDE_BACKENDS
from tests.support.label_shift import world

import reprior as rp
from reprior.core.shift import every_second_label

EXACT = 1e-10
"""The same sums, cut in other places."""


def stream(seed=0, n=600, n_classes=3):
    rng = np.random.default_rng(seed)
    here = world(rng, n_classes, 2.5)
    scores, _ = here.draw(rng, n, here.target)
    return here, scores, here.validation(rng, 300)


def test_it_follows_the_mix_and_raises_the_alarm():
    here, scores, _ = stream(1, 4000)
    tracker = rp.PriorTracker(here.source, half_life=400)
    assert tracker.update(scores) is True
    np.testing.assert_allclose(tracker.prior, here.target, atol=0.08)
    assert tracker.alarm
    assert 0 < tracker.alarm_at < 4000
    assert tracker.n_samples == 4000
    assert tracker.evidence > 6
    assert tracker.prior.sum() == pytest.approx(1)


def test_without_a_shift_there_is_none():
    rng = np.random.default_rng(2)
    here = world(rng, 3, 2.5)
    tracker = rp.PriorTracker(here.source, half_life=400)
    scores, _ = here.draw(rng, 4000, here.source)
    assert tracker.update(scores) is False
    assert tracker.alarm_at is None
    np.testing.assert_allclose(tracker.prior, here.source, atol=0.08)


def test_a_reference_that_is_not_the_source():
    here, scores, validation = stream(3, 4000)
    for more in ({}, {"validation": validation}):
        there = rp.PriorTracker(here.source, reference_prior=here.target, half_life=400, **more)
        assert not there.update(scores)
        np.testing.assert_allclose(there.reference_prior, here.target)


@pytest.mark.parametrize("backend", WIDE_BACKENDS, ids=str)
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_every_library_kind_and_layout(backend, kind):
    here, scores, _ = stream(4, 96)
    known = rp.PriorTracker(here.source, half_life=50)
    known.update(scores)
    form = {
        "logits": lambda z: z,
        "probs": lambda z: softmax(z, axis=1),
        "log_probs": lambda z: log_softmax(z, axis=1),
    }[kind]
    maps = np.moveaxis(form(scores).reshape(4, 6, 4, 3), -1, 1)
    tracker = rp.PriorTracker(here.source, half_life=50, kind=kind, class_axis=1)
    for part in (maps[:1], maps[1:]):
        tracker.update(backend.make(part))
    np.testing.assert_allclose(tracker.prior, known.prior, atol=1e-5)


def test_single_scores_of_two_classes():
    here, scores, _ = stream(5, 100, 2)
    two, one = (rp.PriorTracker(here.source, half_life=50) for _ in range(2))
    two.update(scores)
    one.update(scores[:, 1] - scores[:, 0])
    np.testing.assert_allclose(one.prior, two.prior, atol=EXACT)


def test_calibrated_scores():
    here, scores, validation = stream(6)
    known = rp.PriorTracker(
        here.source, half_life=50, validation=validation, calibration=(1.0, 0.0)
    )
    known.update(scores)
    seen = (validation[0] / 3 - 1, validation[1])
    for calibration in ((3.0, 3.0), lambda rows: 3 * (rows + 1)):
        found = rp.PriorTracker(here.source, half_life=50, validation=seen, calibration=calibration)
        found.update(scores / 3 - 1)
        np.testing.assert_allclose(found.prior, known.prior, atol=EXACT)
        assert found.evidence == pytest.approx(known.evidence)


def test_rebase_takes_the_tracked_mix_as_the_reference():
    here, scores, _ = stream(7, 4000)
    tracker = rp.PriorTracker(here.source, half_life=400)
    tracker.update(scores)
    assert tracker.alarm
    now = tracker.prior
    tracker.rebase()
    np.testing.assert_allclose(tracker.reference_prior, now)
    np.testing.assert_allclose(tracker.prior, now)
    assert (tracker.alarm, tracker.n_samples, tracker.evidence) == (False, 0, 0.0)
    tracker.rebase(here.target)
    assert not tracker.update(here.draw(np.random.default_rng(0), 2000, here.target)[0])


def test_rebase_measures_again():
    here, scores, validation = stream(8)
    tracker = rp.PriorTracker(here.source, half_life=100, validation=validation)
    with pytest.raises(rp.OptionError, match="must be given again"):
        tracker.rebase()
    tracker.rebase(here.target, validation=validation)
    fresh = rp.PriorTracker(
        here.source, reference_prior=here.target, half_life=100, validation=validation
    )
    np.testing.assert_array_equal(tracker._options.ratios.mean, fresh._options.ratios.mean)
    tracker.update(scores)


@pytest.mark.parametrize("calibration", [None, (0.5, [0.0, 1.0, 0.0])])
@pytest.mark.parametrize("validated", [False, True])
@pytest.mark.parametrize("cut", [1, 250, 599])
def test_a_saved_one_goes_on_as_if_it_had_never_stopped(tmp_path, calibration, validated, cut):
    here, scores, validation = stream(9)
    tracker = rp.PriorTracker(
        here.source,
        reference_prior=np.full(3, 1 / 3),
        half_life=130,
        false_alarm_rate=1e-3,
        calibration=calibration,
        validation=validation if validated else None,
    )
    tracker.update(scores[:cut])
    tracker.save(tmp_path / "t.json")
    loaded = rp.PriorTracker.load(tmp_path / "t.json")
    for each in (tracker, loaded):
        each.update(scores[cut:])
    np.testing.assert_array_equal(loaded.prior, tracker.prior)
    assert loaded.evidence == tracker.evidence
    assert loaded.alarm_at == tracker.alarm_at
    assert loaded.summary() == tracker.summary()
    if validated:
        with pytest.raises(rp.OptionError, match="must be given again"):
            loaded.rebase()


def test_what_is_saved_is_plain_json(tmp_path):
    here, scores, _ = stream(10)
    tracker = rp.PriorTracker(here.source)
    tracker.update(scores)
    tracker.save(tmp_path / "t.json")
    document = json.loads((tmp_path / "t.json").read_text())
    assert document["format"] == "reprior prior tracker"
    assert document["n_samples"] == 600
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


def test_a_function_cannot_be_saved(tmp_path):
    tracker = rp.PriorTracker([0.5, 0.5], calibration=lambda rows: rows)
    with pytest.raises(rp.OptionError, match="Got a function"):
        tracker.save(tmp_path / "t.json")
    assert not list(tmp_path.iterdir())


def test_ignored_labels_are_left_out():
    here, _, (scores, labels) = stream(11)
    marked = np.where(np.arange(300) < 30, 255, labels)
    assert np.bincount(labels[30:], minlength=3).all()
    found = rp.PriorTracker(here.source, validation=(scores, marked), ignore_index=255)
    known = rp.PriorTracker(here.source, validation=(scores[30:], labels[30:]))
    np.testing.assert_allclose(found._options.ratios.mean, known._options.ratios.mean)


def test_summary_and_repr():
    here, scores, _ = stream(12, 3000)
    tracker = rp.PriorTracker(here.source, half_life=400)
    assert "no alarm  (evidence 0.00 of 6.00)" in tracker.summary()
    tracker.update(scores)
    text = tracker.summary()
    assert f"ALARM after {tracker.alarm_at:,} samples" in text
    assert "false alarms at most 1e-06 per sample" in text
    assert len(text.splitlines()) == 5 + 3
    assert repr(tracker) == (
        "PriorTracker(3 classes, half_life=400, false_alarm_rate=1e-06, n_samples=3000, alarm=True)"
    )


def test_a_summary_of_many_classes_is_short():
    tracker = rp.PriorTracker(np.full(100, 0.01))
    assert tracker.summary().splitlines()[-1] == "… and 80 classes whose shares change less"


def test_nothing_is_mutated():
    here, scores, _ = stream(13)
    before = scores.copy()
    rp.PriorTracker(here.source).update(scores)
    np.testing.assert_array_equal(scores, before)


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"source_prior": [0.5, 0.0]}, rp.PriorError, r"source_prior\[1\]=0"),
        ({"reference_prior": [1.0, 0.0]}, rp.PriorError, r"reference_prior\[1\]=0"),
        ({"reference_prior": [0.2, 0.3, 0.5]}, rp.PriorError, "3 values for 2 classes"),
        ({"half_life": 0}, rp.OptionError, "`half_life` must be a finite number above 0"),
        ({"false_alarm_rate": 0}, rp.OptionError, "`false_alarm_rate` must be a finite number"),
        ({"false_alarm_rate": 1}, rp.OptionError, "below 1: it is a chance per sample. Got 1"),
        ({"kind": "logit"}, rp.OptionError, "Did you mean 'logits'"),
        ({"calibration": 3.0}, rp.OptionError, r"must be \(scale, bias\)"),
        ({"validation": [[1.0, 2.0]]}, rp.OptionError, r"must be \(scores, labels\)"),
        ({"validation": ([[1.0, 2.0]] * 3, [0, 0, 1])}, rp.LabelsError, "Got one of class 1"),
        (
            {"validation": ([[1.0, 2.0]] * 5, [0, 0, 1, 0, 1])},
            rp.LabelsError,
            r"at least three labels of every class.*Got two of class 1. Add some, pass a `calibr",
        ),
        (
            {"validation": ([[1.0, 2.0]] * 3, [0, 0, 1]), "calibration": (1, 0)},
            rp.LabelsError,
            "at least two labels of every class.*Got one of class 1. Add some, or leave",
        ),
        (
            {"validation": ([[1.0, 2.0]] * 3, [0, 0, 0])},
            rp.LabelsError,
            "none of class 1.* or leave `validation` out, which EM and PriorTracker do without",
        ),
        ({"source_prior": pd.Series([0.5, 0.5], index=[1, 0])}, rp.PriorError, "indexed by 1, 0"),
    ],
)
def test_words(options, error, words):
    with pytest.raises(error, match=words):
        rp.PriorTracker(**{"source_prior": [0.5, 0.5], **options})


@pytest.mark.parametrize(
    "scores, words",
    [
        ([[1.0, np.nan]], r"scores\[0, 1\]=nan"),
        ([[1.0, 2.0, 3.0]], "one entry per class"),
        (np.float64(1.0), r"Got shape \(\)"),
    ],
)
def test_words_about_scores(scores, words):
    tracker = rp.PriorTracker([0.5, 0.5])
    with pytest.raises(rp.ScoresError, match=words):
        tracker.update(scores)
    assert tracker.n_samples == 0


@pytest.mark.parametrize("batch", [[], np.empty((0, 3)), np.empty((0, 3), np.float32)])
def test_a_batch_without_samples_passes_by(batch):
    tracker = rp.PriorTracker([0.5, 0.3, 0.2])
    tracker.update([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    before = tracker.prior
    assert tracker.update(batch) is False
    assert tracker.n_samples == 2
    np.testing.assert_array_equal(tracker.prior, before)


def test_empty_maps_and_vectors_pass_by_and_other_classes_do_not():
    maps = rp.PriorTracker([0.5, 0.3, 0.2], class_axis=1)
    assert maps.update(np.empty((0, 3, 4, 4))) is False
    assert rp.PriorTracker([0.5, 0.5]).update(np.empty(0)) is False
    with pytest.raises(rp.ScoresError, match="one entry per class"):
        maps.update(np.empty((0, 4, 4, 3)))


def wrong(scores):
    """Scores of a model that is too sure, and leans to some classes."""
    return 2.5 * scores + np.array([0.0, 0.8, -0.5])


def test_it_calibrates_as_an_estimate_does():
    rng = np.random.default_rng(0)
    here = world(rng, 3, 2.0)
    scores, _ = here.draw(rng, 20_000, here.target)
    seen, labels = here.validation(rng, 4000)
    validation = wrong(seen), labels
    known = rp.PriorTracker(here.source, half_life=5000)
    known.update(scores)
    tracker = rp.PriorTracker(here.source, half_life=5000, validation=validation)
    tracker.update(wrong(scores))
    raw = rp.PriorTracker(
        here.source, half_life=5000, validation=validation, calibration=(1.0, 0.0)
    )
    raw.update(wrong(scores))
    off, without = (np.abs(each.prior - known.prior).max() for each in (tracker, raw))
    assert off < 0.02 < 0.05 < without
    halved = every_second_label(labels)
    fitted = rp.estimate_target_prior_report(
        wrong(scores[:100]),
        source_prior=here.source,
        validation=(wrong(seen)[halved], labels[halved]),
        n_replicates=2,
    ).calibration
    for mine, theirs in zip(
        (tracker._calibration.scale, tracker._calibration.bias), fitted, strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_false_alarms_of_one_that_calibrates_are_as_rare_as_stated():
    # 4,000 samples at 1e-5: 4 in 100 streams may end in an alarm, and 2 in 100 sets of labels may
    # be unlucky; of 80 that is 4.8, with a standard deviation of 2.1. Measured on the labels that
    # the calibration is fitted to, 8 in 100 did.
    rng = np.random.default_rng(5)
    here = world(rng, 3, 2.0)._replace(source=np.array([0.6, 0.3, 0.1]))
    alarms = 0
    for _ in range(80):
        labels = np.repeat([0, 1, 2], [60, 30, 10])
        x = here.means[labels] + rng.normal(size=(100, here.means.shape[1]))
        seen = -0.5 * ((x[:, None] - here.means) ** 2).sum(axis=-1) + np.log(here.source)
        tracker = rp.PriorTracker(
            here.source, half_life=500, false_alarm_rate=1e-5, validation=(wrong(seen), labels)
        )
        alarms += tracker.update(wrong(here.draw(rng, 4000, here.source)[0]))
    assert alarms <= 4.8 + 2 * 2.1


def test_rebase_keeps_the_fitted_calibration_and_its_half_of_the_labels(tmp_path):
    here, scores, (seen, labels) = stream(14, 1500)
    validation = wrong(seen), labels
    tracker = rp.PriorTracker(here.source, half_life=200, validation=validation)
    tracker.update(wrong(scores))
    tracker.save(tmp_path / "t.json")
    loaded = rp.PriorTracker.load(tmp_path / "t.json")
    before = tracker._calibration
    for each in (tracker, loaded):
        each.rebase(here.target, validation=validation)
        np.testing.assert_array_equal(each._calibration.bias, before.bias)
    fresh = rp.PriorTracker(here.source, reference_prior=here.target, validation=validation)
    for each in (tracker, loaded):
        np.testing.assert_allclose(each._options.ratios.mean, fresh._options.ratios.mean)


def test_frames_name_the_classes():
    here, scores, (seen, labels) = stream(15)
    names = ["cow", "ant", "bee"]
    frame, named = pd.DataFrame(scores, columns=names), pd.DataFrame(seen, columns=names)
    known = rp.PriorTracker(here.source, half_life=50, validation=(seen, labels))
    known.update(scores)
    series = pd.Series(here.source, index=names).sort_index()
    found = rp.PriorTracker(series, half_life=50, validation=(named, np.array(names)[labels]))
    found.update(frame)
    np.testing.assert_allclose(found.prior, known.prior)
    bare = rp.PriorTracker(here.source, half_life=50)
    bare.update(frame)
    for tracker in (found, bare):
        with pytest.raises(rp.ScoresError, match="in the order of those that were given first"):
            tracker.update(frame[sorted(names)])
        assert tracker.n_samples == 600


def test_what_looks_like_probabilities_is_said_where_it_is_called():
    here, scores, (seen, labels) = stream(16)
    with pytest.warns(rp.RepriorWarning, match=r"`validation\[0\]` were declared") as caught:
        tracker = rp.PriorTracker(here.source, validation=(softmax(seen, axis=1), labels))
    assert [w.filename for w in caught] == [__file__]
    with pytest.warns(rp.RepriorWarning, match="`scores` were declared") as caught:
        tracker.update(softmax(scores, axis=1))
    assert [w.filename for w in caught] == [__file__]
    with pytest.warns(rp.RepriorWarning, match=r"`validation\[0\]` were declared") as caught:
        tracker.rebase(validation=(softmax(seen, axis=1), labels))
    assert [w.filename for w in caught] == [__file__]
