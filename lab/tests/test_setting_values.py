"""Settings by name: values of the declared type, and sentences for the rest."""

from __future__ import annotations

import pytest

from reprior.exceptions import OptionError
from reprior_lab.config import RunConfig
from reprior_lab.settings import _RULES, check_known, declared, keys_of
from reprior_lab.synthia.settings import NetworkSettings


@pytest.mark.parametrize("kind", [RunConfig, NetworkSettings])
def test_every_field_has_a_rule(kind):
    assert {str(field.type) for field in kind.__dataclass_fields__.values()} <= set(_RULES)


def test_equal_settings_have_equal_bytes():
    assert declared(NetworkSettings, {"crop": [64, 96], "lr": 1}) == {"crop": (64, 96), "lr": 1.0}
    assert declared(RunConfig, {"milestones": [0], "root": None}) == {
        "milestones": (0.0,),
        "root": None,
    }


@pytest.mark.parametrize("crop", [64, "64", [64], [64, 64, 64], [64, 1.5], [64, True], "x", None])
def test_a_crop_is_two_whole_numbers(crop):
    with pytest.raises(OptionError, match="`crop` must be two whole numbers, height and width"):
        NetworkSettings.resolve(crop=crop)


def test_keys():
    assert "steps" in keys_of(NetworkSettings)
    assert "seed" not in keys_of(NetworkSettings, ["seed"])
    with pytest.raises(OptionError, match="Did you mean 'epochs'"):
        check_known(RunConfig, {"epoch": 1}, "run")
