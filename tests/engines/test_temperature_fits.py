"""Fits beyond one number over chunks: as in memory, and refused where they need all at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chunked_scores import Data, cuts, flat, images, quietly, weighted

import reprior as rp
from reprior.profile import source

#: Newton's iteration by sums over other chunks; of a scaling, L-BFGS.
FITTED = 1e-6


def both(data: Data, where, **options):
    """Fitted by chunks and in memory; what was said by each."""
    a, said = quietly(rp.engines.fit, data.calibrator(**options), data.chunks(where))
    b, known = quietly(
        data.calibrator(**options).fit, data.scores, data.labels, sample_weight=data.weight
    )
    assert sorted(said) == sorted(known)
    return a, b


def assert_alike(a, b):
    for which in ("decision", "probability"):
        for one, other in zip(a.as_affine(which), b.as_affine(which), strict=True):
            np.testing.assert_allclose(one, other, rtol=FITTED, atol=FITTED)
    assert a.best_score_ == pytest.approx(b.best_score_, rel=FITTED)
    if b.log_loss_ is not None:
        assert a.log_loss_ == pytest.approx(b.log_loss_, rel=FITTED)


@given(st.integers(0, 10), cuts(60), st.booleans(), st.booleans())
def test_the_joint_fit_of_any_chunking(seed, where, heavy, keeps):
    data = weighted(flat(seed), seed) if heavy else flat(seed)
    label_prior = [0.1, 0.2, 0.3, 0.4] if seed % 2 else None
    kept = source.HELD_SCORES
    source.HELD_SCORES = kept if keeps else 10
    try:
        assert_alike(*both(data, where, metric="log_loss", label_prior=label_prior))
    finally:
        source.HELD_SCORES = kept


CUTS = [7, 30, 30, 41]
OPTIONS = [
    {"metric": "log_loss", "temperature": 1.7},
    {"metric": "log_loss", "temperature": "bcts"},
    {"metric": "log_loss", "target_prior": [0.6, 0.25, 0.1, 0.05]},
    {"metric": "log_loss", "target_prior": [0.6, 0.3, 0.1, 0.0]},
    {"separate": True},
    {"separate": True, "temperature": "vector", "tune": "per_class"},
    {"tune": "per_class", "temperature": "fit"},
    {"selection": "smooth", "temperature": "fit"},
    {"selection": "balanced_log_loss"},
    {"cv": 3, "n_bootstrap": 20},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_chunks_are_as_good_as_memory(options):
    a, b = both(flat(3), CUTS, **options)
    assert_alike(a, b)
    assert a.uncertainty_ == b.uncertainty_
    if b.cross_validation_ is not None:
        assert a.cross_validation_.score == b.cross_validation_.score
    assert a.provenance_["n_samples"] == 60


@pytest.mark.parametrize("options", [{"metric": "log_loss"}, {"tune": "per_class", "cv": 2}])
def test_images_with_ignored_pixels(options):
    data = images()
    a, _ = quietly(rp.engines.fit, data.calibrator(**options), data.chunks([2, 4]))
    b, _ = quietly(data.calibrator(**options).fit, data.scores, data.labels)
    np.testing.assert_allclose(a.as_affine()[1], b.as_affine()[1], rtol=1e-5, atol=1e-5)


def test_what_does_not_fit_into_memory_is_refused(monkeypatch):
    monkeypatch.setattr(source, "MOST_COLLECTED", 100)
    data = flat(3)
    for options in (
        {"tune": "per_class"},
        {"n_bootstrap": 20},
        {"cv": 2},
        {"metric": "log_loss", "temperature": "vector"},
    ):
        with pytest.raises(rp.OptionError, match=r"must fit into memory.*at most 100\. Got more"):
            quietly(rp.engines.fit, data.calibrator(**options), data.chunks(CUTS))
    monkeypatch.setattr(source, "HELD_SCORES", 100)
    quietly(rp.engines.fit, data.calibrator(metric="log_loss"), data.chunks(CUTS))


def test_a_label_prior_without_a_class_that_has_labels_is_refused():
    data = flat(3)
    calibrator = data.calibrator(metric="log_loss", label_prior=[0.5, 0.5, 0.0, 0.0])
    with pytest.raises(rp.PriorError, match="`label_prior` must be positive"):
        rp.engines.fit(calibrator, data.chunks(CUTS))


ONLINE = [
    {"metric": "log_loss"},
    {"metric": "log_loss", "temperature": 1.7},
    {"separate": True},
    {"separate": True, "temperature": "bcts"},
    {"selection": "bagged", "temperature": "fit"},
]


@pytest.mark.parametrize("options", ONLINE, ids=str)
def test_batches_that_are_not_kept(options):
    data = flat(3).with_options(bounds=(0.0, 4.0))
    online = rp.engines.OnlineFit(data.calibrator(**options))
    for part in data.chunks(CUTS):
        online.update(part.scores, part.labels)
    a, _ = quietly(online.finish)
    b, _ = quietly(data.calibrator(**options).fit, data.scores, data.labels)
    assert_alike(a, b)


@pytest.mark.parametrize(
    "options",
    [
        {"tune": "per_class"},
        {"cv": 3},
        {"n_bootstrap": 20},
        {"selection": "balanced_log_loss"},
        {"metric": "log_loss", "temperature": "vector"},
    ],
    ids=str,
)
def test_what_needs_all_scores_at_once_is_refused_online(options):
    words = r"must not need all scores at once.*Gather the scores"
    with pytest.raises(rp.OptionError, match=words):
        rp.engines.OnlineFit(flat(3).calibrator(**options))


def test_a_strength_beyond_the_bounds_has_no_counts_online():
    data = flat(3).with_options(bounds=(0.0, 0.2))
    online = rp.engines.OnlineFit(data.calibrator(metric="log_loss"))
    online.update(data.scores, data.labels)
    found, _ = quietly(online.finish)
    assert found.strength_ > 0.2
    assert found.counts_ is None
    assert "log_loss" in found.summary()


def test_judging_two_maps():
    tuning, test = flat(3, 200), flat(4, 200)
    calibrator, _ = quietly(
        tuning.calibrator(separate=True, tune="per_class").fit, tuning.scores, tuning.labels
    )
    found = rp.engines.evaluate(calibrator, test.chunks([50, 120]))
    predicted = calibrator.predict(test.scores)
    np.testing.assert_array_equal(found.after.predicted, np.bincount(predicted, minlength=4))
    p = calibrator.predict_proba(test.scores)
    expected = -np.log(p[np.arange(200), test.labels]).mean()
    assert found.log_loss[1] == pytest.approx(expected)
    assert found.metrics["brier"][1] == pytest.approx(rp.metrics.brier_score(p, test.labels))


@pytest.mark.parametrize("scaling", ["bcts", "vector"])
def test_judging_a_fit_of_probabilities(scaling):
    tuning = flat(3, 200)
    calibrator = tuning.calibrator(metric="log_loss", temperature=scaling)
    calibrator.fit(tuning.scores, tuning.labels)
    found = rp.engines.evaluate(calibrator, tuning.chunks([50]))
    assert found.metric is None
    assert found.log_loss[1] < found.log_loss[0]


def test_weights_are_gathered_too():
    a, b = both(weighted(flat(3), 3), CUTS, tune="per_class")
    np.testing.assert_array_equal(a.biases_, b.biases_)


def test_a_chunk_of_a_class_that_the_target_lacks_says_nothing():
    data = flat(3)
    order = np.argsort(data.labels == 3, kind="stable")
    data = Data(data.scores[order], data.labels[order], prior=data.prior)
    first = int((data.labels != 3).sum())
    a, b = both(data, [20, first], metric="log_loss", target_prior=[0.5, 0.3, 0.2, 0.0])
    assert_alike(a, b)


def test_a_rule_keeps_to_the_grid_of_a_binned_profile():
    data = flat(3)
    calibrator = data.calibrator(selection="one_se")
    found, _ = quietly(rp.engines.fit, calibrator, data.chunks(CUTS), resolution=0.01)
    assert found.strength_ == pytest.approx(round(found.strength_, 2))
