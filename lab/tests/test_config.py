"""A configuration: resolved from a protocol, checked, and known by what it depends on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reprior.exceptions import OptionError
from reprior_lab import RunConfig


def config(**differing):
    return RunConfig.resolve(**{"data": "cifar10", "imbalance": "exp"} | differing)


def test_what_differs_is_all_that_differs():
    plain, other = config().to_dict(), config(lr=0.3).to_dict()
    assert {key for key in plain if plain[key] != other[key]} == {"lr"}


@pytest.mark.parametrize(
    "key, near",
    [("epoch", "epochs"), ("batchsize", "batch_size"), ("learning", None), ("los", "loss")],
)
def test_an_unknown_key_is_refused_with_the_nearest(key, near):
    with pytest.raises(OptionError, match=f"Got {key!r}") as caught:
        config(**{key: 1})
    assert (f"Did you mean {near!r}?" if near else "There are data,") in str(caught.value)


def test_unknown_keys_are_refused_everywhere():
    base = config()
    with pytest.raises(OptionError, match="'tau'"):
        base.differing(tau=1)
    with pytest.raises(OptionError, match="'tau'"):
        RunConfig.from_dict(base.to_dict() | {"tau": 1})


def test_a_missing_key_is_refused():
    document = config().to_dict()
    del document["gamma"]
    with pytest.raises(OptionError, match="none for 'gamma'"):
        RunConfig.from_dict(document)


def test_json_and_back_is_the_same():
    made = config(protocol="paper", loss="ldam", schedule="drw")
    assert RunConfig.from_dict(json.loads(json.dumps(made.to_dict()))) == made


def test_the_id_depends_on_what_the_result_depends_on():
    base = config(root="a")
    assert base.id == config(root="b", evaluate_every=1).id
    assert base.id == config(ratio=100).id == config(ratio=100.0).id
    others = [config(seed=1), config(loss="focal"), config(lr=0.3), config(schedule="drw")]
    assert len({base.id, *(other.id for other in others)}) == 5


def test_the_id_says_what_it_is():
    made = config(loss="ldam", schedule="drw", sampler="over", seed=3)
    assert made.id.startswith("cifar10-exp100-ldam-drw-over-resnet8-wide-s3-")


def test_folders_are_told_apart_by_name():
    one, other = (RunConfig.resolve(data="folder", root=f"/x/{name}") for name in ("cats", "dogs"))
    assert one.id != other.id
    assert one.id.startswith("cats-ce")


def test_drw_and_its_base_have_the_same_first_stage():
    assert config(schedule="drw").first_stage == config().first_stage
    assert config(loss="focal").first_stage != config().first_stage


@pytest.mark.parametrize(
    "differing, words",
    [
        ({"loss": "cros"}, "`loss` must be one of"),
        ({"schedule": "dwr"}, "Did you mean 'drw'"),
        ({"loss": "cb_ce", "schedule": "drw"}, "without class weights"),
        ({"schedule": "bbn", "loss": "focal"}, "'ce' and 'plain'"),
        ({"imbalance": "none", "ratio": 10}, "`ratio` must be 1 without"),
        ({"epochs": 0}, "`epochs` must be a whole number of at least 1"),
        ({"epochs": 1.5}, "`epochs` must be a whole number"),
        ({"seed": True}, "`seed` must be a whole number"),
        ({"defer": 1.0}, "`defer` must be below 1"),
        ({"lr": 0}, "`lr` must be a finite number above 0"),
        ({"milestones": [0.5]}, "`decays` must have a factor"),
        ({"milestones": 3}, r"`milestones` must be a list of numbers, such as .*Got 3\."),
        ({"milestones": [1, 2], "decays": [0.1, 0.1]}, "`milestones` must be shares .*Got 1"),
        ({"decays": "x"}, "`decays` must be a list of numbers"),
        ({"decays": ["x"]}, "`decays` must be a list of numbers"),
        ({"image_size": "x"}, r"`image_size` must be a whole number\. Got 'x'"),
        ({"image_size": 0}, "`image_size` must be the side of an image"),
        ({"nesterov": "maybe"}, r"`nesterov` must be true or false\. Got 'maybe'"),
        ({"nesterov": 1}, "`nesterov` must be true or false"),
        ({"lr": "fast"}, r"`lr` must be a number\. Got 'fast'"),
        ({"lr": True}, "`lr` must be a number"),
        ({"model": 8}, r"`model` must be a word\. Got 8"),
        ({"precision": "16"}, "`precision` must be one of"),
        ({"accumulate": 0}, "`accumulate` must be a whole number of at least 1"),
        ({"accumulate": 3}, "`accumulate` must divide the batch size, 64"),
        ({"focal_reduction": "sum"}, "`focal_reduction` must be one of"),
        ({"schedule": "drw", "epochs": 1}, "`epochs` must be at least 2 for the schedule 'drw'"),
    ],
)
def test_what_cannot_be_is_refused(differing, words):
    with pytest.raises(OptionError, match=words):
        config(**differing)


@pytest.mark.parametrize("epochs, first", [(2, 1), (3, 2), (4, 3), (10, 8), (20, 16), (200, 160)])
def test_drw_always_has_a_deferred_epoch(epochs, first):
    """The committed runs, of 10 and 20 epochs, are as they were."""
    assert config(schedule="drw", epochs=epochs).deferred_epoch == first


def test_a_short_drw_is_no_run_of_those_that_never_deferred():
    """Only where the deferral was moved has the run an id that earlier versions did not give."""
    assert config(schedule="drw", epochs=2).identity["deferred_epoch"] == 1
    assert "deferred_epoch" not in config(schedule="drw", epochs=20).identity
    assert "deferred_epoch" not in config(epochs=2).identity
    short = config(schedule="drw", epochs=2)
    assert short.first_stage == config(epochs=2).first_stage


ADDED = {"precision": "bf16-mixed", "accumulate": 2, "focal_reduction": "plain_mean"}


@pytest.mark.parametrize("key", ADDED)
def test_a_run_file_without_a_later_setting_has_its_default(key):
    document = config(loss="focal").to_dict()
    del document[key]
    assert RunConfig.from_dict(document) == config(loss="focal")


@pytest.mark.parametrize("key, value", ADDED.items())
def test_a_later_setting_changes_the_id_only_where_it_is_not_the_default(key, value):
    plain, other = config(loss="focal"), config(loss="focal", **{key: value})
    assert key not in plain.identity
    assert other.identity == plain.identity | {key: value}
    assert other.id != plain.id


@pytest.mark.parametrize("loss", ["ce", "ldam", "cb_ce", "logit_adjusted"])
def test_the_mean_of_focal_is_nothing_to_other_losses(loss):
    assert config(loss=loss, focal_reduction="plain_mean").id == config(loss=loss).id


def test_cells_that_are_being_trained_keep_their_ids():
    """Of the protocol ``paper``, as earlier versions named them."""
    made = [
        RunConfig.resolve("paper", data=data, imbalance="exp") for data in ("cifar10", "cifar100")
    ]
    assert [each.id for each in made] == [
        "cifar10-exp100-ce-resnet32-s0-49129d2e",
        "cifar100-exp100-ce-resnet32-s0-ba9ee289",
    ]


RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_committed_cells_keep_their_ids():
    found = sorted(RESULTS.glob("cifar*/cells/*/run.json"))
    assert len(found) >= 53
    for path in found:
        document = json.loads(path.read_text())
        made = RunConfig.from_dict(document["config"])
        assert made.id == document["id"] == path.parent.name
