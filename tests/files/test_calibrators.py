"""Calibrators as versioned JSON."""

import datetime
import json

import pytest

from reprior.exceptions import FileFormatError
from reprior.files import read_calibrator, write_calibrator
from reprior.files.documents import PROMISED

FIELDS = {
    "strength": 1.25,
    "temperature": 1.0,
    "source_prior": [0.75, 0.25],
    "target_prior": [1.0, 0.0],
    "kind": "logits",
    "metric": "mean_iou",
    "classes": ["cat", "dög"],
    "class_axis": 1,
    "strength_interval": [1.0, 1.5],
    "best_score": None,
    "provenance": None,
}

#: The defaults of the fields that FIELDS leaves out.
NOT_THERE = {
    "biases": None,
    "scales": None,
    "probability_map": None,
    "temperature_option": None,
    "custom_metric": None,
    "promise": None,
    "cost_matrix": None,
    "class_groups": None,
    "metric_function": None,
    "strength_outside_interval": None,
    "confusion": None,
}


def test_round_trip(tmp_path):
    path = tmp_path / "cal.json"
    write_calibrator(path, FIELDS)
    assert read_calibrator(path) == {
        "format": "reprior calibrator",
        "format_version": 1,
        **FIELDS,
        **NOT_THERE,
    }


MAP = {"strength": 1.0, "temperature": 2.0}
NEWER = [
    {"biases": [0.5, None]},
    {"scales": [1.0, -1]},
    {"probability_map": MAP},
    {"probability_map": {**MAP, "biases": [0, 1], "scales": [1, 1]}},
]


@pytest.mark.parametrize("more", NEWER)
def test_what_version_1_does_not_know_makes_version_2(tmp_path, more):
    path = tmp_path / "cal.json"
    write_calibrator(path, {**FIELDS, **more})
    found = read_calibrator(path)
    assert found["format_version"] == 2
    assert {name: found[name] for name in more} == more


@pytest.mark.parametrize(
    "more",
    [
        {"biases": [1.0]},
        {"biases": [None, None]},
        {"biases": [1.0, "a"]},
        {"biases": 1.0},
        {"scales": [1.0, None]},
        {"scales": [1.0, 2.0, 3.0]},
        {"probability_map": []},
        {"probability_map": {"strength": 1.0}},
        {"probability_map": {"strength": None, "temperature": 1.0}},
        {"probability_map": {**MAP, "temperature": 0.0}},
        {"probability_map": {**MAP, "biases": [1.0]}},
    ],
)
def test_damaged_maps_are_refused(tmp_path, more):
    path = tmp_path / "cal.json"
    write_calibrator(path, {**FIELDS, **more})
    with pytest.raises(FileFormatError, match=f"as '{next(iter(more))}'. Got"):
        read_calibrator(path)


@pytest.mark.parametrize(
    "change, words",
    [
        (
            {"strength": 1.6, "strength_outside_interval": False},
            "inside of 'strength_interval'",
        ),
        (
            {"metric": "balanced_acuracy", "custom_metric": False},
            "a metric that reprior knows",
        ),
        ({"metric": "recall[bird]", "custom_metric": False}, "a metric that reprior knows"),
        (
            {"metric": "log_loss", "probability_map": MAP},
            "null, because 'metric' is 'log_loss'",
        ),
        ({"biases": [None, 1.0]}, "of positive 'target_prior' as 'biases'"),
        ({"probability_map": {**MAP, "biases": [None, 1.0]}}, "of positive 'target_prior'"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(tmp_path, change, words):
    path = tmp_path / "cal.json"
    write_calibrator(path, {**FIELDS, **change})
    with pytest.raises(FileFormatError, match=words):
        read_calibrator(path)


@pytest.mark.parametrize(
    "change",
    [
        {"strength": 1.6, "strength_outside_interval": True},
        {"strength": 1.6},  # as reprior 0.1 wrote it
        {"metric": "macro_f2"},
        {"strength": 1.6, "target_prior": FIELDS["source_prior"]},  # no strength matters
        {"metric": "macro_f2", "custom_metric": True},
        {"metric": "log_loss"},
        {"metric": "recall[cat]"},
    ],
)
def test_exceptions_that_a_file_may_state(tmp_path, change):
    path = tmp_path / "cal.json"
    write_calibrator(path, {**FIELDS, **change})
    assert read_calibrator(path).items() >= change.items()


@pytest.mark.parametrize(
    "change, words",
    [
        ({"strenght": 1.0}, "no fields that its format_version does not know. Got 'strenght'"),
        ({str(i): 0 for i in range(9)}, "Got '0', '1', '2', '3', '4', …"),
        ({"probability_map": {**MAP, "bias": [0, 1]}}, "inside of 'probability_map'.*Got 'bias'"),
        ({"provenance": {"digest": "a", "n_samples": 1, "by": "me"}}, "inside of 'provenance'"),
    ],
)
def test_unknown_fields_are_refused_by_name(tmp_path, change, words):
    path = tmp_path / "cal.json"
    write_calibrator(path, {**FIELDS, **change})
    with pytest.raises(FileFormatError, match=words):
        read_calibrator(path)


def test_a_field_of_a_newer_version_is_refused_in_an_older_one(tmp_path):
    path = tmp_path / "cal.json"
    document = {"format": "reprior calibrator", "format_version": 1, **FIELDS}
    path.write_text(json.dumps({**document, "biases": [1.0, None]}))
    with pytest.raises(FileFormatError, match=r"does not know\. Got 'biases'"):
        read_calibrator(path)


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "cal.json"
    write_calibrator(path, FIELDS)
    whole = path.read_bytes()
    for size in range(len(whole.rstrip())):
        path.write_bytes(whole[:size])
        with pytest.raises(FileFormatError, match=r"truncated, damaged|must have"):
            read_calibrator(path)


BAD = [
    ("strength", "1.0"),
    ("strength", True),
    ("strength", 10**400),
    ("temperature", 0.0),
    ("temperature", -1.0),
    ("source_prior", [1.0]),
    ("source_prior", [1.0, 0.0]),
    ("source_prior", [0.5, 0.4]),
    ("source_prior", "uniform"),
    ("target_prior", [0.2, 0.3, 0.5]),
    ("target_prior", [1.5, -0.5]),
    ("target_prior", [None, 1.0]),
    ("kind", "logit"),
    ("metric", None),
    ("class_axis", 1.0),
    ("class_axis", 10**400),
    ("source_prior", [10**400, 1.0]),
    ("source_prior", [1.7e308, 1.7e308]),
    ("classes", ["cat"]),
    ("classes", ["cat", "cat"]),
    ("classes", [1, 1.0]),
    ("classes", ["cat", ["dog"]]),
    ("classes", ["cat", {"name": "dog"}]),
    ("classes", ["cat", None]),
    ("classes", "ab"),
    ("strength_interval", [1.0]),
    ("strength_interval", [1.0, None]),
    ("strength_interval", [1.5, 1.0]),
    ("custom_metric", 1),
    ("strength_outside_interval", None),
    ("best_score", "good"),
]


@pytest.mark.parametrize("name, value", BAD)
def test_every_bad_field_is_named(tmp_path, name, value):
    path = tmp_path / "cal.json"
    write_calibrator(path, {**FIELDS, name: value})
    with pytest.raises(FileFormatError, match=rf"'{name}'.*save\(\)"):
        read_calibrator(path)


@pytest.mark.parametrize("name", [name for name in PROMISED if name != "format_version"])
def test_every_missing_field_is_named(tmp_path, name):
    path = tmp_path / "cal.json"
    write_calibrator(path, {key: value for key, value in FIELDS.items() if key != name})
    with pytest.raises(FileFormatError, match=rf"'(source_prior|{name})'. Got (nothing|\[)"):
        read_calibrator(path)


def test_what_a_file_may_leave_out_has_defaults(tmp_path):
    path = tmp_path / "cal.json"
    promised = {"format_version": 1, **FIELDS}
    promised = {name: promised[name] for name in PROMISED}
    path.write_text(json.dumps(promised))
    assert read_calibrator(path) == {
        "format": "reprior calibrator",
        "class_axis": -1,
        "strength_interval": [1.25, 1.25],
        "best_score": None,
        "provenance": None,
        **NOT_THERE,
        **promised,
    }


@pytest.mark.parametrize("name", PROMISED)
def test_without_the_mark_every_promised_field_is_needed(tmp_path, name):
    path = tmp_path / "cal.json"
    fields = {"format_version": 1, **FIELDS}
    del fields[name]
    path.write_text(json.dumps(fields))
    with pytest.raises(FileFormatError, match="without that mark"):
        read_calibrator(path)


def test_nesting_too_deep_to_parse_is_refused(tmp_path):
    path = tmp_path / "cal.json"
    path.write_text("[" * 200_000 + "]" * 200_000)
    with pytest.raises(FileFormatError, match="truncated, damaged"):
        read_calibrator(path)


def test_nesting_that_can_be_parsed_is_shown_in_short(tmp_path):
    path = tmp_path / "cal.json"
    text = json.dumps({"format": "reprior calibrator", "format_version": 1, **FIELDS})
    path.write_text(text.replace("1.25", "[" * 300 + "]" * 300))
    with pytest.raises(FileFormatError, match=r"'strength'. Got \[{2,10}\.\.\."):
        read_calibrator(path)


@pytest.mark.parametrize(
    "classes", [[datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)], ["a", "\ud800"]]
)
def test_classes_that_json_cannot_hold_are_not_written(tmp_path, classes):
    path = tmp_path / "cal.json"
    with pytest.raises(FileFormatError, match="'classes' what JSON can hold"):
        write_calibrator(path, {**FIELDS, "classes": classes})
    assert list(tmp_path.iterdir()) == []
    write_calibrator(path, FIELDS)
    before = path.read_bytes()
    with pytest.raises(FileFormatError, match="nothing was written"):
        write_calibrator(path, {**FIELDS, "classes": classes})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_nan_and_infinity_are_refused(tmp_path, constant):
    path = tmp_path / "cal.json"
    write_calibrator(path, FIELDS)
    path.write_text(path.read_text().replace("1.25", constant))
    with pytest.raises(FileFormatError, match=f"{constant} is not a number"):
        read_calibrator(path)
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_calibrator(path, {**FIELDS, "strength": float(constant.lower())})


@pytest.mark.parametrize(
    "change, words",
    [
        ({"format_version": 99}, "this reprior reads up to 3. Install a newer reprior"),
        ({"format_version": None}, "integer format_version"),
        ({"format_version": 0}, "integer format_version"),
        ({"format": "x"}, "without that mark"),
    ],
)
def test_other_versions_and_files_are_refused(tmp_path, change, words):
    path = tmp_path / "cal.json"
    write_calibrator(path, FIELDS)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(FileFormatError, match=words):
        read_calibrator(path)


def test_json_that_is_no_object_and_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "cal.json"
    path.write_text("[1, 2]")
    with pytest.raises(FileFormatError, match="without that mark"):
        read_calibrator(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileFormatError, match="truncated, damaged"):
        read_calibrator(path)


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_calibrator(tmp_path / "nothing.json")


@pytest.mark.parametrize("option", ["fit", "bcts", "vector", 2.5, None])
def test_how_a_temperature_came_about(tmp_path, option):
    path = tmp_path / "cal.json"
    write_calibrator(path, {**FIELDS, "temperature_option": option})
    found = read_calibrator(path)
    assert (found["temperature_option"], found["format_version"]) == (option, 1)


@pytest.mark.parametrize("option", ["platt", 0, -1.0, [], True])
def test_how_it_cannot_come_about(tmp_path, option):
    path = tmp_path / "cal.json"
    write_calibrator(path, {**FIELDS, "temperature_option": option})
    with pytest.raises(FileFormatError, match="a positive number or one of fit, bcts, vector"):
        read_calibrator(path)
