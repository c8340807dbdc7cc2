"""A calibrator as the fields of a file, and back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.calibrator.shared import PRIOR, VALID, K, case, fit

import reprior as rp


def saved(calibrator, path):
    """The fields of the file of a calibrator."""
    calibrator.save(path)
    return json.loads(path.read_text())


def loaded(fields, path):
    """The calibrator of a file with these fields."""
    path.write_text(json.dumps(fields))
    return rp.load(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cal.json"


def test_optional_fields_are_left_out(path):
    assert not {"biases", "scales", "probability_map"} & set(saved(fit({}), path))
    fields = saved(fit(VALID["separate-vector-per_class"]), path)
    assert set(fields["probability_map"]) == {"strength", "temperature", "biases", "scales"}
    assert len(fields["biases"]) == K


def test_the_bias_of_a_class_of_target_prior_0_is_null(path):
    fitted = fit({**VALID["per_class"], "target_prior": [0.5, 0.3, 0.2, 0.0]})
    assert saved(fitted, path)["biases"][3] is None
    again = rp.load(path)
    assert again.biases_[3] == -np.inf
    np.testing.assert_array_equal(again.biases_, fitted.biases_)


@pytest.mark.parametrize("name", VALID)
def test_the_options_of_another_fit_are_loaded(path, name):
    options = VALID[name]
    saved(fit(options, *case(n=300)), path)
    again = rp.load(path)
    assert again.tune == options.get("tune", "strength")
    assert again.separate == options.get("separate", False)
    by_log_loss = options.get("metric") == "log_loss" or options.get("separate")
    assert again.temperature == options.get("temperature", "fit" if by_log_loss else 1.0)


def test_the_fields_of_version_1_are_enough(path):
    fields = {
        "format": "reprior calibrator", "format_version": 1, "strength": 0.75, "temperature": 1.5,
        "source_prior": PRIOR.tolist(), "target_prior": [1 / K] * K, "kind": "logits",
        "metric": "balanced_accuracy", "classes": None,
    }  # fmt: skip
    old = loaded(fields, path)
    assert (old.strength_, old.temperature_, old.biases_) == (0.75, 1.5, None)
    z = case()[0]
    expected = rp.rebalance(z, PRIOR, strength=0.5, temperature=1.5)
    np.testing.assert_array_equal(old.predict_proba(z), expected)


def test_files_without_temperature_option(path):
    fields = saved(fit({"metric": "log_loss"}), path)
    assert fields.pop("temperature_option") == "fit"
    fields["format_version"] = 2
    del fields["confusion"]
    assert loaded(fields, path).temperature == "fit"
    assert loaded({**fields, "biases": [0.0] * K}, path).temperature == "bcts"
    vectors = {"biases": [0.0] * K, "scales": [1.0] * K}
    assert loaded({**fields, **vectors}, path).temperature == "vector"
    fields = saved(fit({"temperature": 1.7}), path)
    assert "temperature_option" not in fields
    assert rp.load(path).temperature == 1.7


@pytest.mark.parametrize("map", ["decision", "probability"])
def test_one_map_of_two_can_be_fitted_again(path, map):
    one = fit({"separate": True, "temperature": "bcts"}).one_map(map)
    assert one.temperature == {"decision": None, "probability": "bcts"}[map]
    saved(one, path)
    again = rp.load(path).fit(*case())
    np.testing.assert_allclose(again.as_affine()[1], one.as_affine()[1], atol=1e-9)
