"""Files that version 0.1.0 wrote are read, and give what they gave."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import reprior as rp

WRITTEN = Path(__file__).parent / "written_before"
EXPECTED = json.loads((WRITTEN / "expected.json").read_text())
PRIOR = np.array([0.6, 0.25, 0.1, 0.05])


@pytest.fixture
def data():
    with np.load(WRITTEN / "data.npz") as arrays:
        return arrays["scores"], arrays["labels"]


@pytest.mark.parametrize(
    "name",
    [
        "calibrator",
        "calibrator_two_maps",
        "calibrator_biases",
        "calibrator_scales",
    ],
)
def test_a_calibrator(data, name):
    scores, _ = data
    loaded = rp.load(WRITTEN / f"{name}.json")
    assert loaded.predict(scores).tolist() == EXPECTED[name]["predictions"]
    total = loaded.predict_proba(scores).sum(0)
    np.testing.assert_allclose(total, EXPECTED[name]["posterior_sum"], rtol=1e-12)


def test_a_profile_and_its_bins(data):
    scores, labels = data
    loaded = rp.StrengthProfile.load(WRITTEN / "profile.npz")
    best = loaded.best("balanced_accuracy")
    assert [best.strength, best.value] == list(EXPECTED["profile"].values())
    again = rp.StrengthProfile.from_scores(scores, labels, source_prior=PRIOR)
    assert (loaded - again).n_samples == 0
    binned = rp.StrengthProfile.load(WRITTEN / "profile_binned.npz")
    assert binned.resolution == 0.01
    assert binned.best("accuracy") == loaded.binned(0.01).best("accuracy")


def test_a_weighted_profile(data):
    scores, labels = data
    loaded = rp.StrengthProfile.load(WRITTEN / "profile_weighted.npz")
    best = loaded.best("macro_f1")
    # Sums of fractional weights are equal up to their last bits alone.
    assert best.strength == EXPECTED["profile_weighted"]["strength"]
    assert best.value == pytest.approx(EXPECTED["profile_weighted"]["value"], abs=1e-12)
    weights = np.where(np.arange(len(labels)) % 3 == 0, 0.37, 1.9)
    again = rp.StrengthProfile.from_scores(
        scores, labels, source_prior=PRIOR, sample_weight=weights
    )
    assert again.best("macro_f1").strength == best.strength
    assert (loaded - again).n_samples == 0


def test_a_fusion(data):
    scores, _ = data
    loaded = rp.load(WRITTEN / "fusion.json")
    given = {"rgb": scores, "depth": scores[::-1].copy()}
    assert loaded.predict(given).tolist() == EXPECTED["fusion"]["predictions"]


def test_a_tracker(data):
    scores, _ = data
    loaded = rp.PriorTracker.load(WRITTEN / "tracker.json")
    assert loaded.n_samples == len(scores)
    np.testing.assert_allclose(loaded.prior, EXPECTED["tracker"]["prior"], rtol=1e-12)


def test_a_checkpoint_is_taken_up(data, tmp_path, caplog):
    scores, labels = data
    folder = tmp_path / "checkpoint"
    shutil.copytree(WRITTEN / "checkpoint", folder)
    chunks = [(scores[i : i + 20], labels[i : i + 20]) for i in (0, 20, 40)]
    with caplog.at_level("INFO", logger="reprior.engines.resuming"):
        found = rp.engines.fit(rp.PosteriorCalibrator(PRIOR), chunks, checkpoint=folder)
    assert "20 samples were counted before" in caplog.text
    assert [found.strength_, found.best_score_] == list(EXPECTED["checkpoint"].values())
