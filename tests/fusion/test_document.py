"""A fusion's file with other content is refused in one sentence, or is a fusion that works."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import reprior as rp

WRITTEN = Path(__file__).parents[1] / "written_before" / "fusion.json"
SCORES = {name: np.random.default_rng(0).normal(size=(6, 4)) for name in ("rgb", "depth")}
OTHER_VALUES = (None, [], {}, -1, 0, 3, 0.5, 1e300, "x", True, 1 << 80, [1.0], {"mean": 1.0})


def document():
    return json.loads(WRITTEN.read_text())


def places(value, path=()):
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


def put(value, path, new):
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


def test_other_values_at_any_place(tmp_path):
    n_refused = 0
    for path in list(places(document()))[1:]:
        for value in OTHER_VALUES:
            fields = document()
            put(fields, path, value)
            (tmp_path / "f.json").write_text(json.dumps(fields))
            try:
                posterior = rp.load(tmp_path / "f.json").predict_proba(SCORES)
            except rp.RepriorError as error:
                n_refused += "\n" not in str(error)
            else:
                np.testing.assert_allclose(posterior.sum(-1), 1.0, err_msg=f"{path}: {value}")
    assert n_refused > 400


@pytest.mark.parametrize(
    "path, value, words",
    [
        (("modalities", 1, "strength"), 2.0, "one strength in all modalities.* 'modalities'"),
        (("search",), "exact", "as 'search'"),
        (("modalities", 0, "entropy", "mean"), 1.4, r"at most the logarithm of 4, .*'modalities'"),
        (("modalities", 0, "entropy", "spare"), 1, "references"),
        (("modalities", 0, "spare"), 1, r"inside of 'modalities\[0\]'"),
        (("spare",), 1, "no fields that its format_version"),
        (("class_axis",), 99, "as 'class_axis'"),
    ],
)
def test_what_does_not_fit_together_is_refused(tmp_path, path, value, words):
    fields = document()
    put(fields, path, value)
    (tmp_path / "f.json").write_text(json.dumps(fields))
    with pytest.raises(rp.exceptions.FileFormatError, match=words):
        rp.load(tmp_path / "f.json")


@pytest.mark.parametrize("name", sorted(document().keys() - {"best_score", "provenance"}))
def test_missing_fields_are_named(tmp_path, name):
    fields = document()
    del fields[name]
    (tmp_path / "f.json").write_text(json.dumps(fields))
    with pytest.raises(rp.exceptions.FileFormatError) as caught:
        rp.load(tmp_path / "f.json")
    assert name == "format" or name in str(caught.value)
