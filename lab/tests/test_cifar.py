"""Cells are trained once, corrected both ways, and read back: on digits, in seconds."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

import reprior as rp
from reprior.exceptions import FileFormatError, OptionError
from reprior_lab import RunConfig, cifar
from reprior_lab.cifar import CellRun, select_cells
from reprior_lab.reproduction import claimed
from reprior_lab.training.scores import read_scores

CONFIG = RunConfig.resolve(
    data="digits", imbalance="exp", ratio=20, epochs=5, batch_size=32, model="resnet8"
)
PLAIN = CellRun("cifar10-exp100", "ce", CONFIG)
DRW = CellRun("cifar10-exp100", "ce-drw", CONFIG.differing(schedule="drw"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cifar")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for cell in (PLAIN, DRW):
        cifar.run_cell(folder, cell)
    torch.set_num_threads(threads)
    return folder


def test_the_correction_is_that_of_the_scores(folder):
    result = cifar.read_cell(folder, PLAIN)
    scores, labels = read_scores(folder / "cells" / PLAIN.config.id).whole()
    assert result.raw.error == pytest.approx(np.mean(scores.argmax(1) != labels))
    prior = rp.prior_from_counts(result.run.class_counts)
    for i in (0, 25, 60):
        corrected = rp.log_rebalance(scores, prior, strength=cifar.CURVE[i])
        assert result.curve[i] == pytest.approx(np.mean(corrected.argmax(1) != labels), abs=1e-6)
    assert result.raw.paper.error <= min(result.curve) + 1e-6
    assert result.raw.paper.same_labels
    assert not result.raw.honest.same_labels
    assert result.raw == result.effective  # cross-entropy has no weights


def test_the_effective_prior_of_drw_is_another(folder):
    result = cifar.read_cell(folder, DRW)
    assert result.raw != result.effective
    assert result.raw.error == result.effective.error


def test_drw_takes_over_the_first_epochs_of_its_base(folder):
    plain, drw = (cifar.read_cell(folder, cell).run for cell in (PLAIN, DRW))
    shared = CONFIG.deferred_epoch
    assert [e["train_loss"] for e in plain.epochs[:shared]] == [
        e["train_loss"] for e in drw.epochs[:shared]
    ]
    assert plain.epochs[-1]["train_loss"] != drw.epochs[-1]["train_loss"]


def test_a_finished_cell_is_not_run_again(folder, monkeypatch):
    chosen = select_cells(["cifar10-exp100/ce/s0"])
    there = CellRun(chosen[0].column, chosen[0].method, CONFIG)
    monkeypatch.setattr(cifar, "select_cells", lambda *_, **__: (there,))
    monkeypatch.setattr(cifar, "run_cell", pytest.fail)
    made = cifar.reproduce(folder)
    assert not any("not finished" in note for note in made.notes)
    assert [table.name for table in made.tables] == [
        "cifar-table2",
        "cifar-gains",
        "cifar-strengths",
        "cifar-ways-cifar10-exp100",
    ]
    assert all(path.exists() for path in made.files)
    assert {"cifar-curves.png", "cifar-table2.tex"} <= {path.name for path in made.files}


def test_what_is_not_finished_is_said(folder, monkeypatch):
    other = CellRun("cifar10-exp100", "ldam", CONFIG.differing(seed=5))
    monkeypatch.setattr(cifar, "select_cells", lambda *_, **__: (PLAIN, other))
    made = cifar.reproduce(folder, train=False)
    assert made.notes[-1] == "1 of 2 cells are not finished: cifar10-exp100/ldam/s5."


@pytest.mark.heavy
def test_several_at_once_are_the_same(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(cifar, "select_cells", lambda *_, **__: (PLAIN, DRW))
    monkeypatch.setattr("os.cpu_count", lambda: 2)  # a thread for each
    told = []
    cifar.reproduce(tmp_path, jobs=2, progress=lambda *what: told.append(what))
    assert told == [("cells", 0, 2), ("cells", 1, 2), ("cells", 2, 2)]
    for cell in (PLAIN, DRW):
        ours, alone = cifar.read_cell(tmp_path, cell), cifar.read_cell(folder, cell)
        assert (ours.raw, ours.effective, ours.curve) == (alone.raw, alone.effective, alone.curve)


def test_a_correction_that_was_lost_is_made_from_the_scores(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    path = copy / "cells" / PLAIN.config.id / "correction.json"
    before = json.loads(path.read_text())
    path.unlink()
    assert cifar.read_cell(copy, PLAIN) is None
    cifar.run_cell(copy, PLAIN)
    assert json.loads(path.read_text()) == before


def test_a_damaged_correction_is_named(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    path = copy / "cells" / PLAIN.config.id / "correction.json"
    path.write_text('{"raw": {}}')
    with pytest.raises(FileFormatError, match=r"Got .* in .*correction\.json"):
        cifar.read_cell(copy, PLAIN)
    path.write_text("{")
    with pytest.raises(FileFormatError, match=r"Delete the file"):
        cifar.read_cell(copy, PLAIN)


def test_bad_input(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(cifar, "select_cells", lambda *_, **__: (PLAIN,))
    with pytest.raises(OptionError, match="`folder` must have a finished cell"):
        cifar.reproduce(tmp_path, train=False)
    with pytest.raises(OptionError, match="`jobs` must be at least 1"):
        cifar.reproduce(tmp_path, jobs=0)


def test_a_cell_that_another_process_is_at_is_left_to_it(tmp_path):
    with claimed(tmp_path / "cells" / PLAIN.config.id):
        assert cifar.run_cell(tmp_path, PLAIN) is None


def test_a_damaged_run_file_is_named_itself(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "cells" / PLAIN.config.id / "run.json").write_text("{")
    with pytest.raises(FileFormatError, match=r"A run file must be JSON .*run\.json"):
        cifar.read_cell(copy, PLAIN)


def test_a_curve_at_other_strengths_is_refused(folder, monkeypatch):
    monkeypatch.setattr(cifar, "CURVE", (0.0, 1.0))
    with pytest.raises(FileFormatError, match="the curve is at other strengths"):
        cifar.read_cell(folder, PLAIN)


@pytest.mark.parametrize(
    "column, n_samples", [("cifar100-exp100", 10847), ("cifar100-step10", 50 * (500 + 50))]
)
def test_progress_counts_the_samples_of_all_epochs(column, n_samples):
    cell = select_cells([f"{column}/ce/s0"], settings={"epochs": 3})[0]
    assert cifar._n_samples(cell.config) == 3 * n_samples
