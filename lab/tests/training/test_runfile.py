"""Run files and checkpoints: whole, checked, and no code in them."""

from __future__ import annotations

import json
import os
import pickle

import numpy as np
import pytest
import torch
from lab.tests.support.small_runs import tiny

from reprior.exceptions import FileFormatError, RepriorWarning
from reprior_lab.training import RunFile, checkpoints, read_scores
from reprior_lab.training.checkpoints import Checkpoint
from reprior_lab.training.scores import halves, measured


def state(epochs_done=1):
    return Checkpoint(epochs_done, {"a": 1}, {"w": torch.ones(2)}, {"lr": 0.1}, [{"epoch": 1}])


def test_a_checkpoint_comes_back(tmp_path):
    checkpoints.write_checkpoint(tmp_path / "deep" / "x.ckpt", state())
    found = checkpoints.read_checkpoint(tmp_path / "deep" / "x.ckpt")
    assert torch.equal(found.model["w"], torch.ones(2))
    assert (found.epochs_done, found.identity, found.history) == (1, {"a": 1}, [{"epoch": 1}])


class Malicious:
    def __reduce__(self):
        return (open, ("never-written", "w"))


@pytest.mark.parametrize("content", [b"", b"no checkpoint", pickle.dumps(Malicious())])
def test_what_is_no_checkpoint_is_refused(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x.ckpt"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="A checkpoint must be a complete file"):
        checkpoints.read_checkpoint(path)
    assert not (tmp_path / "never-written").exists()


def test_a_checkpoint_with_code_in_it_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"format_version": 1, "model": Malicious()}, tmp_path / "x.ckpt")
    with pytest.raises(FileFormatError, match="cannot be read"):
        checkpoints.read_checkpoint(tmp_path / "x.ckpt")
    assert not (tmp_path / "never-written").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"epochs_done": "1"},
        {"epochs_done": -1},
        {"history": "[1]"},
        {"history": "{"},
        {"identity": "3"},
        {"model": 3},
        {"optimizer": []},
        {"model": None},
    ],
)
def test_a_checkpoint_of_other_types_is_refused(tmp_path, change):
    path = tmp_path / "x.ckpt"
    checkpoints.write_checkpoint(path, state())
    torch.save(torch.load(path, weights_only=True) | change, path)
    with pytest.raises(FileFormatError, match="must be a complete file"):
        checkpoints.read_checkpoint(path)


@pytest.mark.parametrize("weights", [{}, {"weight": 3}, {"weight": torch.ones(3, 3), "bias": None}])
def test_weights_of_another_network_are_refused(weights):
    with pytest.raises(FileFormatError, match="must fit the network of its run"):
        checkpoints.restore(torch.nn.Linear(2, 2), weights)


def test_an_optimizer_of_another_network_is_refused():
    optimizers = [torch.optim.SGD(torch.nn.Linear(2, n).parameters()) for n in (2, 3)]
    damaged = optimizers[0].state_dict() | {"param_groups": [{}]}
    with pytest.raises(FileFormatError, match="must fit the network of its run"):
        checkpoints.restore(optimizers[1], damaged)


def test_a_checkpoint_of_another_version_is_refused(tmp_path):
    torch.save({"format_version": 99}, tmp_path / "x.ckpt")
    with pytest.raises(FileFormatError, match=r"must have format_version 1\. Got 99"):
        checkpoints.read_checkpoint(tmp_path / "x.ckpt")


def test_two_checkpoints_are_kept_and_the_first_stage(tmp_path):
    checkpoints.write_checkpoint(tmp_path / checkpoints.FIRST_STAGE, state())
    for done in range(1, 5):
        checkpoints.write_checkpoint(checkpoints.checkpoint_path(tmp_path, done), state(done))
        checkpoints.prune(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["epoch-0003.ckpt", "epoch-0004.ckpt", "first-stage.ckpt"]
    assert checkpoints.newest(tmp_path).epochs_done == 4


def test_without_a_readable_checkpoint_there_is_none(tmp_path):
    assert checkpoints.newest(tmp_path) is None
    (tmp_path / "epoch-0001.ckpt").write_bytes(b"broken")
    (tmp_path / ".epoch-0002.ckpt.abc").write_bytes(b"left by a killed process")
    with pytest.warns(RepriorWarning, match="resumes from the one before"):
        assert checkpoints.newest(tmp_path) is None
    assert not (tmp_path / ".epoch-0002.ckpt.abc").exists()


@pytest.mark.parametrize("change", [{"format_version": 9}, {"config": {}}, {"surprise": 1}])
def test_run_files_that_are_not_ours_are_refused(tmp_path, change):
    path = RunFile(tiny()).write(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FileFormatError, match="A run file must"):
        RunFile.read(tmp_path)


def test_a_run_file_cut_in_half_is_refused(tmp_path):
    path = RunFile(tiny()).write(tmp_path)
    path.write_text(path.read_text()[:50])
    with pytest.raises(FileFormatError, match="Start the run again"):
        RunFile.read(tmp_path)


@pytest.mark.timeout(60)  # a program that opens a pipe waits for ever
def test_a_run_file_that_is_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "run.json")
    with pytest.raises(FileFormatError, match=r"must be a regular file\. Got a named pipe"):
        RunFile.read(tmp_path)
    os.mkfifo(tmp_path / "epoch-0001.ckpt")
    with pytest.warns(RepriorWarning, match="resumes from the one before"):
        assert checkpoints.newest(tmp_path) is None


def test_halves_have_as_many_of_each_class():
    labels = np.random.default_rng(0).integers(0, 7, 999)
    first, second = halves(labels)
    assert np.array_equal(np.sort(np.concatenate([first, second])), np.arange(999))
    one, other = (np.bincount(labels[part]) for part in (first, second))
    assert np.abs(one - other).max() <= 1
    assert abs(first.size - second.size) <= 7


def test_top5_is_its_definition():
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(200, 20)), rng.integers(0, 20, 200)
    best = np.argsort(-scores, axis=1)[:, :5]
    expected = np.mean([label in row for label, row in zip(labels, best, strict=True)])
    assert measured(scores, labels)["top5_accuracy"] == pytest.approx(expected)


def test_score_files_that_lack_something_are_refused(tmp_path):
    for name in ("validation.npz", "test.npz"):
        np.savez(tmp_path / name, scores=np.zeros((2, 2)))
    with pytest.raises(FileFormatError, match="Score files of a run must have"):
        read_scores(tmp_path)
