"""The toy figure's numbers, each against a slow oracle, and runs that are not run again."""

from __future__ import annotations

import json
import shutil
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from lab.tests.support.small_runs import one_thread

import reprior as rp
from reprior.exceptions import FileFormatError, OptionError
from reprior_lab import open_data, toy
from reprior_lab.tables import Table
from reprior_lab.toy import SETS, STRENGTHS, reproduce
from reprior_lab.training import RunFile, read_scores
from reprior_lab.training.loop import TrainingModule
from reprior_lab.training.scores import score

#: Enough to learn the shapes, in a second.
EPOCHS = 6

#: Not the one that is taken where none is given.
SEED = 1

FILES = {f"toy.{end}" for end in ("png", "svg", "md", "tex", "json", "run.json")}


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("toy") / "new"


@pytest.fixture(scope="module")
def whole(folder):
    """What it gave back, and what it told on its way."""
    told = []

    def progress(*given):
        told.append(given)

    return reproduce(folder, seed=SEED, epochs=EPOCHS, progress=progress), told


@pytest.fixture(scope="module")
def found(whole):
    return whole[0]


@pytest.fixture(scope="module")
def document(folder, found):
    return json.loads((folder / "toy.run.json").read_text())


@pytest.fixture(params=SETS)
def one(request, folder, document):
    """A set: what the run file says of it, and the folder of its run."""
    described = document["sets"][request.param]
    return described, folder / described["run"]


def accuracy(scores, labels, prior, strength):
    """Oracle: the correction itself, and a count."""
    return np.mean(rp.rebalance(scores, prior, strength=strength).argmax(axis=1) == labels)


def test_everything_is_written(folder, found):
    assert {path.name for path in found.files} == FILES
    assert {path.name for path in folder.iterdir()} == FILES | {"runs"}
    assert (folder / "toy.png").read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse(folder / "toy.svg").getroot().tag.endswith("svg")
    assert Table.from_dict(json.loads((folder / "toy.json").read_text())) == found.tables[0]
    assert found.notes == found.tables[0].notes


def test_the_run_file_says_what_it_was(document, one):
    described, home = one
    run = RunFile.read(home)
    assert run.finished
    assert described["config"] == run.config.to_dict()
    assert described["class_counts"] == [2500, 277]
    assert described["samples"] == {"validation": 5000, "test": 5000}
    assert document["seed"] == described["config"]["seed"] == SEED
    assert document["protocol"] == "compact"
    assert document["strengths"] == list(STRENGTHS)
    assert set(document["versions"]) >= {"reprior", "torch", "matplotlib", "threads"}


def test_every_figure_of_the_table_is_that_of_the_corrected_test_scores(found, one):
    described, home = one
    scores, labels = read_scores(home).test_scores, read_scores(home).test_labels
    prior = rp.prior_from_counts([2500, 277])
    rows = dict(found.tables[0].rows)
    for judged in described["judged_on_test"]:
        winner = rp.rebalance(scores, prior, strength=judged["strength"]).argmax(axis=1)
        right = winner == labels
        larger, smaller = (right[labels == k].mean() for k in (0, 1))
        expected = [(larger + smaller) / 2, right.mean(), larger, smaller]
        kinds = ("balanced_accuracy", "accuracy", "larger", "smaller")
        np.testing.assert_allclose([judged[kind] for kind in kinds], expected)
        cells = rows[f"{described['config']['data']}, {judged['name']}"]
        np.testing.assert_allclose([cell.value / 100 for cell in cells[1:]], expected)
        # The test samples are balanced.
        assert judged["balanced_accuracy"] == pytest.approx(judged["accuracy"], abs=1e-12)
    assert [judged["strength"] for judged in described["judged_on_test"]] == [
        0.0,
        1.0,
        described["strength"],
    ]


def test_the_strength_is_the_best_on_the_validation_samples(one):
    described, home = one
    scores = read_scores(home)
    prior = rp.prior_from_counts([2500, 277])

    def at(strength):
        return accuracy(scores.validation_scores, scores.validation_labels, prior, strength)

    best = at(described["strength"])
    assert all(at(strength) <= best for strength in np.linspace(*described["bounds"], 200))
    low, high = described["strength_interval"]
    assert low <= described["strength"] < high


@pytest.mark.parametrize("part", ["validation", "test"])
def test_the_curves_are_exact(one, part):
    described, home = one
    scores = read_scores(home)
    values, labels = (getattr(scores, f"{part}_{what}") for what in ("scores", "labels"))
    curve = described["curves"][part]
    prior = rp.prior_from_counts([2500, 277])
    for strength in np.random.default_rng(0).uniform(*described["bounds"], 60):
        step = np.searchsorted(curve["strengths"], strength, side="right") - 1
        expected = accuracy(values, labels, prior, strength)
        assert curve["values"][step] == pytest.approx(expected, abs=1e-12)
    assert np.all(np.diff(curve["strengths"]) > 0)


def test_the_plane_says_from_which_strength_on_a_point_goes_over(one):
    """Oracle: the network's scores of some points, corrected with each strength."""
    described, home = one
    data, run = open_data(described["config"]["data"]), RunFile.read(home)
    plane = toy.plane_of(home, data, run)
    assert plane.strengths.shape == (plane.y.size, plane.x.size)
    rng = np.random.default_rng(0)
    i, j = rng.integers(plane.y.size, size=500), rng.integers(plane.x.size, size=500)
    points = np.stack([plane.x[j], plane.y[i]], axis=1).astype(np.float32)
    scores = score(toy._network(home, data, run), points, data)
    prior, seen = rp.prior_from_counts([2500, 277]), []
    for strength in STRENGTHS:
        smaller = rp.rebalance(scores, prior, strength=strength).argmax(axis=1) == 1
        np.testing.assert_array_equal(smaller, strength > plane.strengths[i, j])
        seen.append(smaller.mean())
    assert seen == sorted(seen)  # the boundary moves away from the smaller class
    assert seen[0] < seen[-1]


def test_the_plane_holds_all_training_samples_in_squares(one):
    described, _ = one
    data = open_data(described["config"]["data"])
    x, y = toy._grid(data.train_images)
    assert np.all(data.train_images > [x[0], y[0]])
    assert np.all(data.train_images < [x[-1], y[-1]])
    assert np.ptp(x) / np.ptp(y) == pytest.approx(toy.ASPECT)
    assert np.diff(x)[0] == pytest.approx(np.diff(y)[0], rel=0.01)


def test_the_network_of_the_plane_is_the_one_that_was_scored(one):
    described, home = one
    data = open_data(described["config"]["data"])
    network = toy._network(home, data, RunFile.read(home))
    again = score(network, data.test_images, data)
    np.testing.assert_array_equal(again, read_scores(home).test_scores)


def test_finished_runs_are_not_run_again(folder, found, monkeypatch):
    before = {path: path.read_bytes() for path in found.files}

    def never(self, *given):
        raise AssertionError("a finished run was trained")

    monkeypatch.setattr(TrainingModule, "training_step", never)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    told = []
    again = reproduce(folder, seed=SEED, epochs=EPOCHS, progress=lambda *given: told.append(given))
    assert {path: path.read_bytes() for path in again.files} == before
    assert told == [(f"training on {name}", EPOCHS * 2777, EPOCHS * 2777) for name in SETS]
    assert torch.equal(torch.rand(3), expected)


def test_a_stopped_run_goes_on_to_the_same_result(tmp_path, document):
    def stop(_what, done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(tmp_path, seed=SEED, epochs=EPOCHS, progress=stop)
    assert not (tmp_path / "toy.png").exists()
    told = []
    reproduce(tmp_path, seed=SEED, epochs=EPOCHS, progress=lambda *given: told.append(given))
    assert told[0][1] > EPOCHS * 2777 // 3
    assert json.loads((tmp_path / "toy.run.json").read_text()) == document


def test_progress_is_told_of_each_set_to_its_end(whole):
    told = whole[1]
    for name in SETS:
        done = [each[1] for each in told if each[0] == f"training on {name}"]
        assert done == sorted(done)
        assert done[0] < done[-1] == EPOCHS * 2777
    assert {each[2] for each in told} == {EPOCHS * 2777}


def test_a_run_without_its_last_checkpoint_is_answered(tmp_path, one):
    described, home = one
    data, run = open_data(described["config"]["data"]), RunFile.read(home)
    copy = shutil.copytree(home, tmp_path / "run")
    (copy / "checkpoints" / f"epoch-{EPOCHS:04d}.ckpt").unlink()
    with pytest.raises(FileFormatError, match=r"must have its last checkpoint.*Remove that folder"):
        toy.plane_of(copy, data, run)
    shutil.rmtree(copy / "checkpoints")
    with pytest.raises(FileFormatError, match=r"must have its last checkpoint.*Remove that folder"):
        toy.plane_of(copy, data, run)


def test_settings_are_checked_before_anything_is_written(tmp_path):
    with pytest.raises(OptionError, match="`epochs` must be a whole number"):
        reproduce(tmp_path / "new", epochs=0)
    assert not (tmp_path / "new").exists()
