"""``reproduce inaturalist``, on a stand-in of few classes and on a tree of tiny images."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest
from lab.tests.support.small_runs import one_thread
from PIL import Image

import reprior as rp
from reprior.exceptions import FileFormatError, OptionError
from reprior_lab import inaturalist
from reprior_lab import inaturalist_stand_in as linear_training
from reprior_lab.inaturalist import reproduce
from reprior_lab.tables import Table
from reprior_lab.training import RunFile
from reprior_lab.training.loop import TrainingModule

SMALL = {"simulate": True, "n_classes": 60, "rows": ("ce", "ce-drw"), "settings": {"epochs": 3}}

#: Images of four classes, from common to rare, and how a network of seconds is trained on them.
COUNTS = (16, 8, 4, 3)
TINY = {
    "models": ("resnet8",),
    "protocol": "compact",
    "settings": {"epochs": 3, "batch_size": 8, "image_size": 16},
}


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("inaturalist") / "new"


@pytest.fixture(scope="module")
def found(folder):
    return reproduce(folder, **SMALL)


@pytest.fixture(scope="module")
def document(folder, found):
    return json.loads((folder / "inaturalist-simulated.run.json").read_text())


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """INaturalist of four species, whose images are of four shades."""
    home = tmp_path_factory.mktemp("inat")
    (home / "train_val2018").mkdir()
    rng, number = np.random.default_rng(0), 0
    for name, counts in (("train2018", COUNTS), ("val2018", (3, 3, 3, 3))):
        images, annotations = [], []
        for label, count in enumerate(counts):
            for _ in range(count):
                number += 1
                file = f"train_val2018/{number}.png"
                pixels = rng.normal(60 * label + 30, 20, (16, 16, 3)).clip(0, 255)
                Image.fromarray(pixels.astype(np.uint8)).save(home / file)
                images.append({"id": number, "file_name": file})
                annotations.append({"image_id": number, "category_id": label})
        categories = [{"id": k, "name": str(k)} for k in range(4)]
        text = {"images": images, "annotations": annotations, "categories": categories}
        (home / f"{name}.json").write_text(json.dumps(text))
    return home


@pytest.fixture(scope="module")
def trained(root, tmp_path_factory):
    """What it gave back for the images, its folder, and what it told."""
    home, told = tmp_path_factory.mktemp("trained"), []
    given = reproduce(
        home,
        root=root,
        rows=("ce", "ce-drw", "bbn"),
        **TINY,
        progress=lambda *each: told.append(each),
    )
    return given, home, told


def test_everything_is_written(folder, found):
    tables = ("inaturalist-simulated", "inaturalist-simulated-strength")
    names = {f"{name}.{end}" for name in tables for end in ("md", "tex", "json")}
    names |= {f"inaturalist-simulated.{end}" for end in ("png", "svg", "run.json")}
    assert {path.name for path in found.files} == names
    assert {path.name for path in folder.iterdir()} == names | {"cells"}
    assert (folder / "inaturalist-simulated.png").read_bytes().startswith(b"\x89PNG")
    drawing = ElementTree.parse(folder / "inaturalist-simulated.svg").getroot()
    assert drawing.tag.endswith("svg")
    for name, table in zip(tables, found.tables, strict=True):
        assert Table.from_dict(json.loads((folder / f"{name}.json").read_text())) == table


def test_the_numbers_are_those_of_the_score_files(folder, found, document):
    rows = dict(found.tables[0].rows)
    for cell, title in zip(document["cells"], ("CE", "CE-DRW"), strict=True):
        home = folder / cell["folder"]
        with np.load(home / "validation.npz", allow_pickle=False) as file:
            scores, labels = file["scores"].astype(float), file["labels"]
        prior = rp.prior_from_counts(json.loads((home / "counts.json").read_text()))
        before = np.mean(scores.argmax(axis=1) != labels)
        full = np.mean(rp.rebalance(scores, prior).argmax(axis=1) != labels)
        assert rows[title][0].value == pytest.approx(100 * before)
        assert rows[f"{title}, λ = 1"][0].value == pytest.approx(100 * full)
        assert rows[f"{title}-IC"][0].value == pytest.approx(
            100 * np.mean(cell["raw"]["folds"]["errors"])
        )
        # Folds have as many of each class, so that their mean is the error of all.
        assert np.mean(cell["raw"]["folds"]["baseline"]) == pytest.approx(before)
        profile = rp.StrengthProfile.from_scores(scores, labels, source_prior=prior)
        curves = cell["curves"]
        at = np.array(curves["strengths"])
        assert curves["top1_accuracy"] == pytest.approx(profile.evaluate("accuracy", at))


def test_the_run_file_says_what_it_was(document):
    assert document["experiment"] == "inaturalist-simulated"
    assert set(document["versions"]) >= {"reprior", "torch", "matplotlib", "threads"}
    assert [cell["row"] for cell in document["cells"]] == ["ce", "ce-drw"]
    for cell in document["cells"]:
        assert cell["settings"]["stand_in"]["n_classes"] == cell["n_classes"] == 60
        assert cell["settings"]["epochs"] == 3
        assert cell["n_samples"] == 180
        assert len(cell["curves"]["strengths"]) == len(cell["curves"]["top5_accuracy"])
        assert max(cell["curves"]["strengths"]) == 2.0


def test_what_is_finished_is_not_done_again(folder, found, monkeypatch):
    before = {path: path.read_bytes() for path in found.files}

    def never(*given, **options):
        raise AssertionError("a finished cell was trained")

    monkeypatch.setattr(linear_training, "fit_linear", never)
    told = []
    again = reproduce(folder, **SMALL, progress=lambda *given: told.append(given))
    assert {path: path.read_bytes() for path in again.files} == before
    assert told == []


def test_one_more_row_is_trained_alone(folder, found):
    told = []
    more = SMALL | {"rows": ("ce", "focal")}
    given = reproduce(folder, **more, progress=lambda *each: told.append(each))
    assert {what for what, _, _ in told} == {
        "drawing the stand-in",
        "training stand-in, focal",
        "correcting focal",
    }
    assert [label for label, _ in given.tables[0].rows][:2] == ["CE", "Focal"]
    reproduce(folder, **SMALL)  # as it was, for the tests that come after


def test_without_data_it_says_where_to_get_them(tmp_path):
    with pytest.raises(FileFormatError) as error:
        reproduce(tmp_path)
    assert "Get train2018.json" in str(error.value)
    assert "--simulate" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_root_without_the_data_is_answered(tmp_path):
    with pytest.raises(FileFormatError, match=r"which has no train2018\.json\. Get"):
        reproduce(tmp_path, root=tmp_path, rows=("ce",), **TINY)


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"n_classes": 5}, r"`n_classes` must be left out .* Got 5\. .*by simulate"),
        ({"simulate": True, "rows": ()}, r"`rows` must have one that can be trained"),
        ({"simulate": True, "rows": ("bbn",)}, r"Got 'bbn'"),
        ({"simulate": True, "settings": {"epoch": 3}}, r"Did you mean 'epochs'"),
    ],
)
def test_bad_options_are_refused(tmp_path, options, sentence):
    with pytest.raises(OptionError, match=sentence):
        reproduce(tmp_path, **options)


def test_networks_are_trained_on_the_images(trained):
    given, home, told = trained
    rows = [label for label, _ in given.tables[0].rows]
    assert rows[:6] == ["CE", "CE-DRW", "BBN", "CE-IC", "CE-DRW-IC", "BBN-IC"]
    assert given.tables[0].columns == ("resnet8",)
    runs = [RunFile.read(path) for path in sorted((home / "cells").iterdir())]
    assert len(runs) == 3
    for run in runs:
        assert run.finished
        assert tuple(run.class_counts) == COUNTS
        assert run.config.image_size == 16
    total = 3 * sum(COUNTS)
    assert ("training resnet8, ce", total, total) in told
    assert {path.name for path in given.files} >= {"inaturalist.md", "inaturalist.png"}


def test_drw_took_over_its_bases_first_epochs(trained):
    _, home, told = trained
    done = [each for what, each, _ in told if what == "training resnet8, ce-drw"]
    settings = RunFile.read(next((home / "cells").glob("*ce-drw*"))).config
    assert min(done) > settings.deferred_epoch * sum(COUNTS) > 0


def test_finished_networks_need_no_images(trained, monkeypatch):
    given, home, _ = trained
    before = {path: path.read_bytes() for path in given.files}

    def never(self, *each):
        raise AssertionError("a finished network was trained")

    monkeypatch.setattr(TrainingModule, "training_step", never)
    again = reproduce(home, rows=("ce", "ce-drw", "bbn"), **TINY)
    assert {path: path.read_bytes() for path in again.files} == before


def test_bbn_is_left_out_where_a_network_cannot_be_split(trained, root, monkeypatch):
    given, home, _ = trained
    monkeypatch.setattr(inaturalist, "can_split", lambda model: False)
    options = TINY | {"settings": TINY["settings"] | {"lr": 0.1}}
    found = reproduce(home.parent / "whole", root=root, rows=("ce", "bbn"), **options)
    assert "BBN has no resnet8" in found.notes[-1]
    assert "BBN" not in [label for label, _ in found.tables[0].rows]
    assert given.notes == given.tables[0].notes
