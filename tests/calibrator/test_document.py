"""A calibrator as the fields of a file, and back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.calibrator.shared import PRIOR, VALID, K, case, fit

import reprior as rp
from reprior.calibrator.document import document_of, map_of, options_of


def test_what_is_not_there_is_left_out():
    fields = document_of(fit({}))
    assert not {"biases", "scales", "probability_map"} & set(fields)
    both = document_of(fit(VALID["separate-vector-per_class"]))
    assert set(both["probability_map"]) == {"strength", "temperature", "biases", "scales"}
    assert len(both["biases"]) == K


def test_a_class_that_is_not_to_be_is_null(tmp_path):
    options = {**VALID["per_class"], "target_prior": [0.5, 0.3, 0.2, 0.0]}
    found, path = fit(options), tmp_path / "cal.json"
    found.save(path)
    assert json.loads(path.read_text())["biases"][3] is None
    again = rp.load(path)
    assert again.biases_[3] == -np.inf
    np.testing.assert_array_equal(again.biases_, found.biases_)


def test_maps_of_fields():
    at = map_of({"strength": 1, "temperature": 2, "biases": [None, 0.5], "scales": [1, 2]})
    assert (at.strength, at.temperature) == (1.0, 2.0)
    np.testing.assert_array_equal(at.biases, [-np.inf, 0.5])
    np.testing.assert_array_equal(at.scales, [1.0, 2.0])
    assert map_of({"strength": 1, "temperature": 2, "biases": None}).plain


@pytest.mark.parametrize("name", VALID)
def test_options_of_fields(name):
    fields = document_of(fit(VALID[name], *case(n=200)))
    found, asked = options_of(fields), VALID[name]
    assert found["tune"] == asked.get("tune", "strength")
    assert found["separate"] == asked.get("separate", False)
    if asked.get("temperature") in ("bcts", "vector"):
        assert found["temperature"] == asked["temperature"]


def test_files_of_before_still_load(tmp_path):
    """The fields that version 1 promised, and no more."""
    path = tmp_path / "cal.json"
    fields = {
        "format": "reprior calibrator", "format_version": 1, "strength": 0.75, "temperature": 1.5,
        "source_prior": PRIOR.tolist(), "target_prior": [1 / K] * K, "kind": "logits",
        "metric": "balanced_accuracy", "classes": None,
    }  # fmt: skip
    path.write_text(json.dumps(fields))
    old = rp.load(path)
    assert (old.strength_, old.temperature_, old.biases_) == (0.75, 1.5, None)
    z = case()[0]
    expected = rp.rebalance(z, PRIOR, strength=0.5, temperature=1.5)
    np.testing.assert_array_equal(old.predict_proba(z), expected)


@pytest.mark.parametrize("name", [name for name in VALID if name != "plain"])
def test_another_fit_of_what_was_loaded_is_the_same(tmp_path, name):
    asked, (scores, labels) = VALID[name], case(n=300)
    fit(asked, scores, labels).save(tmp_path / "cal.json")
    found = rp.load(tmp_path / "cal.json").temperature
    fits = asked.get("metric") == "log_loss" or asked.get("separate")
    assert found == asked.get("temperature", "fit" if fits else 1.0)


def test_files_that_do_not_tell_how_a_temperature_came_about():
    fields = document_of(fit({"metric": "log_loss"}))
    assert fields.pop("temperature_option") == "fit"
    assert options_of(fields)["temperature"] == "fit"
    assert options_of({**fields, "biases": [0.0] * K})["temperature"] == "bcts"
    vectors = {"biases": [0.0] * K, "scales": [1.0] * K}
    assert options_of({**fields, **vectors})["temperature"] == "vector"
    count = document_of(fit({"temperature": 1.7}))
    assert "temperature_option" not in count
    assert options_of(count)["temperature"] == 1.7


@pytest.mark.parametrize("map", ["decision", "probability"])
def test_one_map_of_two_can_be_fitted_again(map):
    one = fit({"separate": True, "temperature": "bcts"}).one_map(map)
    assert one.temperature == {"decision": None, "probability": "bcts"}[map]
    again = rp.PosteriorCalibrator(PRIOR, **options_of(document_of(one)), metric=one.metric)
    again.fit(*case())
    np.testing.assert_allclose(again.as_affine()[1], one.as_affine()[1], atol=1e-9)
