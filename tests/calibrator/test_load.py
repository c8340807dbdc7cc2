"""A calibrator, or a fusion, comes back from its file."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import reprior as rp


@pytest.fixture
def fitted():
    return rp.PosteriorCalibrator([0.75, 0.25]).fit(3 * np.eye(2), [0, 1])


def test_fitted_attributes_are_loaded(fitted, tmp_path):
    fitted.provenance_ = {"digest": "ab12", "n_samples": 2}
    fitted.save(tmp_path / "cal.json")
    loaded = rp.load(tmp_path / "cal.json")
    for name in ("strength_", "strength_interval_", "temperature_", "best_score_", "provenance_"):
        assert getattr(loaded, name) == getattr(fitted, name)
    assert loaded.profile_ is None


def test_a_file_without_the_optional_fields(fitted, tmp_path):
    path = tmp_path / "cal.json"
    fitted.save(path)
    fields = json.loads(path.read_text())
    for name in ("provenance", "best_score", "class_axis", "strength_interval"):
        del fields[name]
    path.write_text(json.dumps(fields))
    loaded = rp.load(path)
    assert loaded.provenance_ is None
    assert math.isnan(loaded.best_score_)


@pytest.mark.parametrize(
    "provenance",
    ["ab", {}, {"digest": 1, "n_samples": 2}, {"digest": "a"}, {"digest": "a", "n_samples": -1},
     {"digest": "a", "n_samples": True}],
)  # fmt: skip
def test_a_damaged_provenance_is_refused(fitted, tmp_path, provenance):
    path = tmp_path / "cal.json"
    fitted.save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "provenance": provenance}))
    with pytest.raises(rp.FileFormatError, match="'digest' and the integer 'n_samples'"):
        rp.load(path)


def test_the_file_states_whether_it_is_a_fusion(fitted, tmp_path):
    scores = {"rgb": np.array([[3.0, 0.5], [0.2, 2.0]]), "depth": np.array([[2.0, 0.2], [0.1, 3]])}
    fusion = rp.ModalityFusion([0.75, 0.25]).fit(scores, [0, 1])
    fitted.save(tmp_path / "cal.json")
    fusion.save(tmp_path / "fusion.json")
    assert type(rp.load(tmp_path / "cal.json")) is rp.PosteriorCalibrator
    assert type(rp.load(tmp_path / "fusion.json")) is rp.ModalityFusion


def test_a_tracker_is_pointed_to_its_own_reader(tmp_path):
    path = tmp_path / "tracker.json"
    path.write_text('{"format": "reprior prior tracker", "format_version": 1}')
    with pytest.raises(
        rp.FileFormatError, match=r"Got a prior tracker\. Read it with PriorTracker"
    ):
        rp.load(path)


def test_a_metric_of_your_own_survives_two_round_trips(tmp_path):
    metric = rp.CountMetric("macro_f2", gain=5, support=4, predicted=1)
    fitted = rp.PosteriorCalibrator([0.75, 0.25], metric=metric).fit(3 * np.eye(2), [0, 1])
    fitted.save(tmp_path / "cal.json")
    rp.load(tmp_path / "cal.json").save(tmp_path / "again.json")
    assert rp.load(tmp_path / "again.json").metric == "macro_f2"


def test_a_strength_that_the_user_sets_survives_a_round_trip(fitted, tmp_path):
    fitted.strength_ = 7.5
    fitted.save(tmp_path / "cal.json")
    assert rp.load(tmp_path / "cal.json").strength_ == 7.5


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(
        rp.FileFormatError, match=r"must be a regular file\. Got a folder\. Name a file"
    ):
        rp.load(tmp_path)


@pytest.mark.parametrize("made", ["calibrator", "fusion"])
def test_a_summary_prints_no_control_characters_of_a_file(fitted, tmp_path, made):
    path = tmp_path / "made.json"
    scores = {"rg\x1bb": 3 * np.eye(2), "depth": 2 * np.eye(2)}
    model = fitted if made == "calibrator" else rp.ModalityFusion([0.75, 0.25]).fit(scores, [0, 1])
    model.save(path)
    text = json.loads(path.read_text())
    metric = {"metric": "\x1b]0;title\x07", **({"custom_metric": True} if model is fitted else {})}
    path.write_text(json.dumps({**text, **metric}))
    summary = rp.load(path).summary()
    assert "\\x1b]0;title\\x07" in summary
    assert all(line.isprintable() for line in summary.splitlines())


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "metric", ["a" * 10_000_000, f"recall[{'9' * 5_000}]", f"recall[{'9' * 9_000}"]
)
def test_a_metric_of_absurd_length_is_refused(fitted, tmp_path, metric):
    path = tmp_path / "cal.json"
    fitted.save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "metric": metric}))
    with pytest.raises(rp.FileFormatError, match="as 'metric'"):
        rp.load(path)
