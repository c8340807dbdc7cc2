"""An installation without the compiled kernels gives the same results."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import reprior as rp
from reprior import ScoreMap, ScoresError
from reprior.core import kernels

#: The two differ by the order of their sums and by roundings of the exponential.
ROUNDING = 1e-9


def problem(n=4000, k=7, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.choice(k, size=n, p=np.arange(1, k + 1) / (k * (k + 1) / 2))
    scores = rng.normal(size=(n, k))
    scores[np.arange(n), labels] += 1.5
    return scores, labels, rp.prior_from_labels(labels, k)


@pytest.fixture
def both_ways(monkeypatch):
    """Call a function with the kernels, then without them."""

    def run(function):
        found = function()
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "native", None)
            return found, function()

    return run


def test_fits_by_log_loss_over_several_blocks(both_ways):
    scores, labels, _ = problem(n=60_000, k=30)
    native, arrays = both_ways(lambda: rp.fit_temperature(scores, labels).temperature)
    assert native == pytest.approx(arrays, rel=ROUNDING)


def test_fits_by_log_loss_with_impossible_classes(both_ways):
    scores, labels, prior = problem()
    scores[np.arange(0, 4000, 3), (labels[::3] + 1) % 7] = -np.inf
    scores -= np.logaddexp.reduce(scores, axis=1, keepdims=True)

    def fitted():
        calibrator = rp.PosteriorCalibrator(prior, metric="log_loss", kind="log_probs")
        calibrator.fit(scores, labels)
        return calibrator.strength_, calibrator.temperature_

    native, arrays = both_ways(fitted)
    assert native == pytest.approx(arrays, rel=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_binned_profiles(both_ways, weighted):
    scores, labels, prior = problem()
    weight = np.random.default_rng(1).integers(1, 5, size=labels.size) if weighted else None

    def curve():
        profile = rp.StrengthProfile.from_scores(
            scores, labels, source_prior=prior, sample_weight=weight, resolution=0.01
        )
        return profile.curve("mean_iou")

    native, arrays = both_ways(curve)
    np.testing.assert_array_equal(native[0], arrays[0])
    np.testing.assert_allclose(native[1], arrays[1], rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("scales", [None, np.array([0.5, 1.0, 2.0])])
def test_decisions_of_a_map(both_ways, scales):
    rows = np.random.default_rng(2).normal(size=(200, 3))
    rows[::5, 1] = -np.inf
    score_map = ScoreMap(0.7, scales=scales)
    target = np.full(3, 1 / 3)
    native, arrays = both_ways(lambda: score_map.decisions(rows, [0.6, 0.3, 0.1], target))
    np.testing.assert_array_equal(native, arrays)


def test_a_score_that_is_nan_has_no_decision(both_ways):
    scores, labels, prior = problem()
    calibrator = rp.PosteriorCalibrator(prior).fit(scores, labels)

    def refused():
        with pytest.raises(ScoresError, match=r"scores\[1, 2\]") as error:
            calibrator.predict(np.where(np.arange(21).reshape(3, 7) == 9, np.nan, 0.5))
        return str(error.value)

    native, arrays = both_ways(refused)
    assert native == arrays


def test_maps_of_more_classes_than_are_cached():
    rng = np.random.default_rng(3)
    prior = rp.prior_from_counts(rng.integers(1, 100, size=1100))
    rows = rng.normal(size=(4, 1100))
    found = ScoreMap(0.5).posterior(
        rows, prior, np.full(1100, 1 / 1100), kind="logits", class_axis=-1, log=False
    )
    np.testing.assert_allclose(found, rp.rebalance(rows, prior, strength=0.5), rtol=ROUNDING)


def test_compiled_code_is_no_view(monkeypatch):
    assert kernels.host_view(torch.ones(2, 3)) is not None
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert kernels.host_view(torch.ones(2, 3)) is None
