"""Settings of a network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reprior.exceptions import OptionError
from reprior_lab.synthia.settings import FIRST_RECIPE, RECIPE, NetworkSettings
from reprior_lab.training.schedules import learning_rate

REPOSITORY = Path(__file__).parents[3]


def test_settings_go_to_json_and_back():
    settings = NetworkSettings.resolve("paper", modality="depth", loss="ldam", seed=3)
    again = NetworkSettings.from_dict(json.loads(json.dumps(settings.to_dict())))
    assert again == settings
    assert again.id == settings.id


def test_names_tell_networks_apart():
    plain = NetworkSettings()
    others = [plain.differing(seed=1), plain.differing(steps=7), plain.differing(modality="depth")]
    assert len({plain.id, *(other.id for other in others)}) == 4
    assert plain.id.startswith("rgb-ce-small-s0-")


def test_ids_of_networks_that_are_trained_stay():
    assert NetworkSettings().id == "rgb-ce-small-s0-2e16f087"
    assert NetworkSettings(modality="depth").id == "depth-ce-small-s0-b0a1f5a1"


def test_settings_of_committed_networks_are_written_as_they_were():
    homes = sorted((REPOSITORY / "docs/results/synthia/networks").iterdir())
    assert len(homes) == 6
    for home in homes:
        document = json.loads((home / "run.json").read_text())["settings"]
        settings = NetworkSettings.from_dict(document)
        assert list(settings.to_dict().items()) == list(document.items())
        assert settings.id == home.name


def test_younger_settings_are_written_only_where_they_differ():
    assert len(NetworkSettings().to_dict()) == 16
    settings = NetworkSettings(size=(64, 96), cameras="all")
    assert settings.to_dict() == {
        **NetworkSettings().to_dict(),
        "cameras": "all",
        "size": [64, 96],
    }
    assert NetworkSettings.from_dict(settings.to_dict()) == settings
    assert settings.id != NetworkSettings().id


def test_the_recipe_goes_up_with_what_it_is_of():
    pytest.importorskip("torch", reason="torch is not installed")
    from reprior_lab.synthia import batches, networks, scores

    found = (
        networks.SMALL["small"],
        networks.DILATIONS,
        batches.ZOOM,
        batches.LIGHT,
        batches.GAMMA,
        batches.SKY,
        scores.STRIDE,
    )
    # Who changes one of these adds a recipe to the table, and leaves the others as they are.
    recipes = {2: ((24, 32, 64, 32), (2, 4, 8), (0.95, 1.5), 0.3, (0.75, 4 / 3), 999.0, 2)}
    assert found == recipes[RECIPE]
    assert min(recipes) == FIRST_RECIPE


def test_only_a_cosine_is_scaled_to_a_logit():
    assert NetworkSettings(loss="ldam").logit_scale == 30.0
    assert NetworkSettings(loss="focal").logit_scale == 1.0


def test_learning_rates_rise_and_fall_over_all_steps():
    settings = NetworkSettings(steps=100, lr=1.0, warmup=0.1)
    rates = [learning_rate(settings, 0, step, 100) for step in range(100)]
    assert max(range(100), key=rates.__getitem__) == 10
    assert rates[10] == 1.0
    assert rates[-1] < 0.01
    paper = NetworkSettings.resolve("paper")
    assert {learning_rate(paper, 0, step, 500_000) for step in (0, 9, 499_999)} == {1e-5}


@pytest.mark.parametrize(
    "options, words",
    [
        ({"modality": "lidar"}, "`modality` must be one of"),
        ({"loss": "dice"}, "`loss` must be one of"),
        ({"depth_code": "hot"}, "`depth_code` must be one of"),
        ({"lr": 0.0}, "`lr` must be a finite number above 0"),
        ({"steps": 0}, "`steps` must be a whole number of at least 1. Got 0"),
        ({"seed": True}, "`seed` must be a whole number"),
        ({"crop": (96,)}, "`crop` must be (two whole numbers|a height and a width)"),
        ({"crop": (96, 4)}, "`crop` must be a whole number of at least 8. Got 4"),
        ({"warmup": 1.0}, "`warmup` must be below 1"),
        ({"lr_schedule": "cosine"}, "`lr_schedule` must be one of"),
        ({"step": 5}, "known settings. Got 'step'. Did you mean 'steps'?"),
        ({"augment": "cutout"}, "`augment` must be one of 'full', 'flip', 'none'"),
        ({"normalization": "none"}, "`normalization` must be one of"),
        ({"cameras": "left"}, "`cameras` must be one of 'front', 'all'"),
        ({"size": (4, 96)}, "`size` must be a whole number of at least 8. Got 4"),
        ({"size": 96}, "`size` must be two whole numbers"),
        ({"test_every": 0}, "`test_every` must be a whole number of at least 1"),
        ({"pretrained": True}, "`pretrained` must be false for 'small'"),
        (
            {"model": "deeplabv3plus-resnet18", "batch_size": 1},
            "`batch_size` must be at least 2 for 'deeplabv3plus-resnet18'.* Got 1",
        ),
        ({"zzz": 5}, "known settings. Got 'zzz'. There are modality, "),
    ],
)
def test_bad_settings(options, words):
    with pytest.raises(OptionError, match=words):
        NetworkSettings.resolve(**options)


def test_an_unknown_protocol():
    with pytest.raises(OptionError, match="`protocol` must be one of 'compact', 'paper'"):
        NetworkSettings.resolve("long")
