"""--set KEY=VALUE: numbers, words, and what is refused."""

from __future__ import annotations

import pytest

from reprior.exceptions import OptionError
from reprior_lab.settings import read_settings


def test_values_are_json_or_words():
    found = read_settings(["a=1", "b=0.5", "c=true", "d=[1, 2]", "e=resnet8", "f-g=x=y"])
    assert found == {"a": 1, "b": 0.5, "c": True, "d": [1, 2], "e": "resnet8", "f_g": "x=y"}


def test_numbers_with_commas_are_a_list():
    found = read_settings(["crop=64,64", "milestones=0.6, 0.8", "c=[1,2]", "d=a,b", "e=1,"])
    assert found == {
        "crop": [64, 64],
        "milestones": [0.6, 0.8],
        "c": [1, 2],
        "d": "a,b",
        "e": "1,",
    }


@pytest.mark.parametrize("setting", ["momentum", "=1", " = 1"])
def test_a_setting_has_a_key_and_a_value(setting):
    with pytest.raises(OptionError, match=r"--set must be KEY=VALUE\. Got "):
        read_settings([setting])


@pytest.mark.parametrize("settings", [["lr=1", "lr=2"], ["epochs=3"]])
def test_a_setting_is_given_once(settings):
    with pytest.raises(OptionError, match=r"must be given once\. Got '\w+' twice"):
        read_settings(settings, given=["epochs"])


def test_the_protocol_is_an_option_of_its_own():
    with pytest.raises(OptionError, match=r"without an option of its own\. Got 'protocol'\. Pass"):
        read_settings(["protocol=paper"])
