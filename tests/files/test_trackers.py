"""Trackers of a prior as versioned JSON."""

from __future__ import annotations

import json

import pytest

import reprior as rp
from reprior.exceptions import FileFormatError
from reprior.files import read_tracker, write_tracker
from reprior.files.documents import TRACKER_FORMAT

FIELDS = {
    "source_prior": [0.75, 0.25],
    "reference_prior": [0.5, 0.5],
    "half_life": 160.0,
    "false_alarm_rate": 1e-6,
    "kind": "probs",
    "class_axis": -1,
    "calibration": [0.5, [0.0, 1.0]],
    "ratios": {"mean": [1.1, 0.9], "covariance": [[0.1, 0.0], [0.0, 0.1]]},
    "prior": [0.6, 0.4],
    "mass": [2.0, 1.0],
    "waiting": 3,
    "n_samples": 1003,
    "log_evidence": 0.5,
    "alarm_at": None,
}


def test_round_trip(tmp_path):
    path = tmp_path / "tracker.json"
    write_tracker(path, FIELDS)
    header = {"format": TRACKER_FORMAT, "format_version": 1, "fitted": False}
    assert read_tracker(path) == {**header, **FIELDS}
    assert rp.PriorTracker.load(path).n_samples == 1003


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "tracker.json"
    write_tracker(path, FIELDS)
    whole = path.read_bytes()
    for size in range(0, len(whole.rstrip()), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(FileFormatError, match="truncated, damaged"):
            rp.PriorTracker.load(path)


BAD = [
    ("source_prior", [0.75, 0.2]),
    ("source_prior", [1.0, 0.0]),
    ("source_prior", "0.75"),
    ("reference_prior", [1.0, 0.0]),
    ("reference_prior", [0.2, 0.3, 0.5]),
    ("half_life", 0),
    ("half_life", "160"),
    ("false_alarm_rate", 1),
    ("false_alarm_rate", 0),
    ("kind", "logit"),
    ("class_axis", 0.5),
    ("class_axis", 10**30),
    ("calibration", [0.5]),
    ("calibration", [0.0, 0.0]),
    ("calibration", [[1.0, -1.0], 0.0]),
    ("calibration", [1.0, [0.0, 0.0, 0.0]]),
    ("calibration", [1.0, None]),
    ("ratios", [1.0, 1.0]),
    ("ratios", {"mean": [1.0], "covariance": [[0.1, 0.0], [0.0, 0.1]]}),
    ("ratios", {"mean": [0.0, 0.0], "covariance": [[0.1, 0.0], [0.0, 0.1]]}),
    ("ratios", {"mean": [1.0, -1.0], "covariance": [[0.1, 0.0], [0.0, 0.1]]}),
    ("ratios", {"mean": [1.0, 1.0], "covariance": [[0.1, 0.0]]}),
    ("ratios", {"mean": [1.0, 1.0], "covariance": [[0.1, 0.0], [0.0, "0.1"]]}),
    ("ratios", {"mean": [1.0, 1.0], "covariance": [[0.1, 0.1], [0.0, 0.1]]}),
    ("ratios", {"mean": [1.0, 1.0], "covariance": [[0.1, 0.0], [0.0, -0.1]]}),
    ("fitted", "yes"),
    ("prior", [0.6, 0.6]),
    ("mass", [1.0, -1.0]),
    ("mass", 3.0),
    ("mass", [2.0, 2.0]),
    ("mass", [1e308, 1e308]),
    ("n_samples", -1),
    ("n_samples", 3.5),
    ("waiting", 10),
    ("waiting", -1),
    ("waiting", True),
    ("waiting", 4),
    ("log_evidence", -1.0),
    ("alarm_at", 0),
    ("alarm_at", "late"),
    ("alarm_at", 2000),
]


@pytest.mark.parametrize("name, value", BAD, ids=[f"{name}-{value}" for name, value in BAD])
def test_a_bad_field_is_named(tmp_path, name, value):
    path = tmp_path / "tracker.json"
    write_tracker(path, {**FIELDS, name: value})
    with pytest.raises(FileFormatError, match=f"as '{name}'. Got"):
        read_tracker(path)


@pytest.mark.parametrize("name", FIELDS)
def test_a_missing_field_is_named(tmp_path, name):
    path = tmp_path / "tracker.json"
    write_tracker(path, {key: value for key, value in FIELDS.items() if key != name})
    with pytest.raises(FileFormatError, match=r"Got nothing|as '"):
        read_tracker(path)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "tracker.json"
    for document, words in (
        ({**FIELDS, "format": "reprior calibrator", "format_version": 1}, "without that mark"),
        ({**FIELDS, "format": TRACKER_FORMAT, "format_version": 2}, "newer reprior"),
        ([1, 2], "without that mark"),
    ):
        path.write_text(json.dumps(document))
        with pytest.raises(FileFormatError, match=words):
            read_tracker(path)


def test_an_alarm_that_is_missing(tmp_path):
    path = tmp_path / "tracker.json"
    write_tracker(path, {**FIELDS, "log_evidence": 20.0})
    with pytest.raises(FileFormatError, match="which 'log_evidence' has reached, as 'alarm_at'"):
        read_tracker(path)
    write_tracker(path, {**FIELDS, "log_evidence": 20.0, "alarm_at": 1000})
    assert read_tracker(path)["alarm_at"] == 1000


def test_unknown_fields_are_refused_by_name(tmp_path):
    path = tmp_path / "tracker.json"
    write_tracker(path, {**FIELDS, "halflife": 10.0})
    with pytest.raises(FileFormatError, match=r"does not know\. Got 'halflife'"):
        read_tracker(path)
