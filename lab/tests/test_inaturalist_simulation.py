"""The stand-in's cells: names made of all settings, scores that are kept, words for what is odd."""

from __future__ import annotations

import json

import numpy as np
import pytest
from lab.tests.support.small_runs import one_thread

import reprior as rp
from reprior.exceptions import FileFormatError, OptionError
from reprior.files.scores import open_scores
from reprior_lab import inaturalist_stand_in as linear_training
from reprior_lab.inaturalist_results import read_result
from reprior_lab.inaturalist_stand_in import (
    DEFAULT_ROWS,
    SIMULATED_ROWS,
    SimulatedCell,
    StandIn,
    simulated_cells,
)

DATA = StandIn(n_classes=30, n_features=8)


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def samples():
    return DATA.draw()


@pytest.fixture(scope="module")
def trained(samples, tmp_path_factory):
    """A cell and its folder, with all that was told."""
    folder, told = tmp_path_factory.mktemp("cells"), []
    (cell,) = simulated_cells(["ce"], DATA, settings={"epochs": 2})
    result = cell.run(folder, samples, lambda *given: told.append(given))
    return cell, folder, result, told


def test_every_base_comes_before_its_drw():
    cells = simulated_cells(SIMULATED_ROWS[::-1], DATA)
    assert [cell.row for cell in cells] == list(SIMULATED_ROWS)
    assert cells[1].base == cells[0]
    assert cells[0].base is None
    assert set(DEFAULT_ROWS) < set(SIMULATED_ROWS)


@pytest.mark.parametrize(
    "data, settings",
    [
        (StandIn(n_classes=30, n_features=8, noise=1.1), {}),
        (StandIn(n_classes=30, n_features=8, seed=1), {}),
        (StandIn(n_classes=31, n_features=8), {}),
        (DATA, {"epochs": 5}),
        (DATA, {"lr": 1.0}),
    ],
)
def test_whatever_a_result_depends_on_is_in_its_name(data, settings):
    (one,) = simulated_cells(["ce"], DATA)
    (other,) = simulated_cells(["ce"], data, settings=settings)
    assert one.id != other.id


def test_the_name_is_the_same_every_time():
    assert len({simulated_cells(["ce"], StandIn())[0].id for _ in range(2)}) == 1
    assert simulated_cells(["ce"], StandIn())[0].id.startswith("stand-in-8142x64-ce-linear-s0-")


def test_bbn_is_refused_with_the_reason():
    with pytest.raises(OptionError, match=r"Got 'bbn', which doubles the last block"):
        simulated_cells(["ce", "bbn"], DATA)


def test_an_unknown_row_is_refused():
    with pytest.raises(OptionError, match=r"`rows` must be .*'cb_ce'"):
        simulated_cells(["cb_ce"], DATA)


def test_the_folder_of_a_cell(trained, samples):
    cell, folder, _, _ = trained
    home = folder / "cells" / cell.id
    names = {"run.json", "counts.json", "validation.npz", "correction.json", "curves.npz"}
    assert {path.name for path in home.iterdir()} - {".claim"} == names | {"checkpoints"}
    document = json.loads((home / "run.json").read_text())
    assert document["settings"] == cell.identity
    assert document["settings"]["stand_in"]["n_classes"] == 30
    assert [each["epoch"] for each in document["epochs"]] == [1, 2]
    assert document["versions"]["threads"] == "1"
    assert json.loads((home / "counts.json").read_text()) == samples.class_counts.tolist()


def test_the_scores_are_a_score_file(trained):
    cell, folder, result, _ = trained
    path = folder / "cells" / cell.id / "validation.npz"
    with np.load(path, allow_pickle=False) as found:
        scores, labels = found["scores"], found["labels"]
    assert scores.shape == (90, 30)
    assert np.mean(scores.argmax(axis=1) != labels) == pytest.approx(result.error)
    assert open_scores(path).kind == "logits"


def test_the_prior_is_that_of_the_training_counts(trained, samples):
    cell, folder, result, _ = trained
    with np.load(folder / "cells" / cell.id / "validation.npz", allow_pickle=False) as found:
        scores, labels = found["scores"].astype(float), found["labels"]
    prior = rp.prior_from_counts(samples.class_counts)
    corrected = rp.rebalance(scores, prior, strength=1.0).argmax(axis=1)
    assert np.mean(corrected != labels) == pytest.approx(result.raw.bayes)
    assert result.effective is None


def test_drw_has_an_effective_prior_of_its_own(samples, tmp_path):
    (cell,) = simulated_cells(["ce-drw"], DATA, settings={"epochs": 2, "beta": 0.99})
    assert cell.run(tmp_path, samples, None).effective is not None


def test_what_was_told(trained, samples):
    _, _, _, told = trained
    total = 2 * len(samples.train_labels)
    assert told[0] == ("training stand-in, ce", 256, total)
    assert ("training stand-in, ce", total, total) in told
    assert told[-1] == ("correcting ce", 1, 1)


def test_scores_that_are_there_are_not_trained_again(trained, samples, monkeypatch):
    cell, folder, result, _ = trained

    def never(*given, **options):
        raise AssertionError("a finished cell was trained")

    home = folder / "cells" / cell.id
    (home / "correction.json").unlink()
    monkeypatch.setattr(linear_training, "fit_linear", never)
    again = cell.run(folder, samples, None)
    assert again.to_dict() == result.to_dict()
    assert read_result(home).to_dict() == result.to_dict()


def test_broken_scores_are_refused(samples, tmp_path):
    (cell,) = simulated_cells(["ce"], DATA, settings={"epochs": 1})
    result = cell.run(tmp_path, samples, None)
    home = tmp_path / "cells" / cell.id
    path = home / "validation.npz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(FileFormatError, match=r"must be a complete file .* is scored again"):
        cell.run(tmp_path, samples, None)
    path.unlink()
    assert cell.run(tmp_path, samples, None).to_dict() == result.to_dict()


def test_a_cell_is_a_value():
    (one,), (other,) = (simulated_cells(["ce"], DATA) for _ in range(2))
    assert one == other
    assert one == SimulatedCell("ce", DATA, one.config)
