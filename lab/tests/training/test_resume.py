"""A run that is killed at any moment resumes to the same result, bit for bit."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys

import numpy as np
import pytest
from lab.tests.support.small_runs import compared, one_thread, tiny
from tests.support.child_processes import ended

from reprior.exceptions import OptionError, RepriorWarning
from reprior_lab import RunFile, train
from reprior_lab.training import checkpoints, loop, read_scores

#: Each child is killed at a place of its own: in the middle of an epoch, while a checkpoint is
#: being written, and between a checkpoint and the run file. One process imports, three are forked.
SCRIPT = """
import json, os, signal, sys, traceback
import torch
torch.set_num_threads(1)
from reprior_lab import RunConfig
from reprior_lab.training import checkpoints, loop, runfile

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def in_the_middle():
    step, seen = loop.TrainingModule.training_step, []
    def counted(self, *given):
        seen.append(1)
        if len(seen) == 15:
            die()
        return step(self, *given)
    loop.TrainingModule.training_step = counted

def while_writing():
    save, seen = torch.save, []
    def cut(document, file):
        seen.append(1)
        if len(seen) == 3:
            file.write(b"half of a checkpoint")
            file.flush()
            die()
        save(document, file)
    torch.save = cut

def before_the_run_file():
    write = loop.EpochEnd._write
    def late(self, trainer):
        if len(self.history) == 2:
            die()
        write(self, trainer)
    loop.EpochEnd._write = late

places = [in_the_middle, while_writing, before_the_run_file]
config = RunConfig.from_dict(json.loads(sys.argv[1]))
codes = []
for place in places:
    child = os.fork()
    if not child:
        try:
            place()
            loop.train(config, os.path.join(sys.argv[2], place.__name__), accelerator="cpu")
        except BaseException:
            traceback.print_exc()
        os._exit(3)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(codes))
"""

PLACES = ["in_the_middle", "while_writing", "before_the_run_file"]


@pytest.fixture(scope="module")
def config():
    return tiny(loss="ldam", schedule="drw", defer=0.5, evaluate_every=2)


@pytest.fixture(scope="module")
def reference(config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference") / "run"
    with one_thread():
        return train(config, folder, accelerator="cpu"), read_scores(folder)


@pytest.fixture(scope="module")
def killed(config, tmp_path_factory):
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    folder = tmp_path_factory.mktemp("killed")
    done = ended(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, json.dumps(config.to_dict()), folder]
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [-signal.SIGKILL] * len(PLACES), done.stderr
    return folder


@pytest.mark.parametrize("place", PLACES)
def test_a_killed_run_resumes_to_the_same_bits(config, reference, killed, place):
    folder = killed / place
    assert not RunFile.read(folder).finished
    with one_thread():
        run = train(config, folder, resume=True, accelerator="cpu")
    expected, scores = reference
    assert compared(run) == compared(expected)
    found = read_scores(folder)
    assert np.array_equal(found.test_scores, scores.test_scores)
    assert np.array_equal(found.validation_scores, scores.validation_scores)
    assert RunFile.read(folder) == run
    assert not list(folder.rglob(".*"))  # of temporary files none is left


def test_a_full_disk_leaves_the_last_good_checkpoint(config, reference, tmp_path, monkeypatch):
    folder, save, seen = tmp_path / "run", checkpoints.torch.save, []

    def full(document, file):
        seen.append(document["epochs_done"])
        if len(seen) == 4:  # first stage, of the second epoch, is written apart
            file.write(b"some of it")
            raise OSError(errno.ENOSPC, "No space left on device")
        save(document, file)

    monkeypatch.setattr(checkpoints.torch, "save", full)
    with one_thread(), pytest.raises(OSError, match="No space left"):
        train(config, folder, accelerator="cpu")
    monkeypatch.undo()
    kept = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert kept == ["epoch-0001.ckpt", "epoch-0002.ckpt", "first-stage.ckpt"]
    with one_thread():
        run = train(config, folder, resume=True, accelerator="cpu")
    assert compared(run) == compared(reference[0])


def test_a_run_goes_on_with_as_many_devices(tmp_path):
    folder = tmp_path / "run"
    run = train(tiny(epochs=2), folder, accelerator="cpu", devices=1)
    begun = run.updated(status="running", versions={**run.versions, "devices": "2"})
    begun.write(folder)
    for path in (folder / "checkpoints").glob("epoch-0002.ckpt"):
        path.unlink()
    with pytest.raises(OptionError, match=r"started with, 2: .* Got 1\. Pass devices=2"):
        train(tiny(epochs=2), folder, resume=True, accelerator="cpu", devices=1)


def test_a_failing_fsync_leaves_the_last_good_checkpoint(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    sync, write = os.fsync, loop.write_checkpoint

    def broken(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    def fails_later(path, state):
        monkeypatch.setattr(os, "fsync", broken if state.epochs_done == 2 else sync)
        write(path, state)

    monkeypatch.setattr(loop, "write_checkpoint", fails_later)
    with pytest.raises(OSError, match="Input/output"):
        train(tiny(epochs=3), folder, accelerator="cpu")
    monkeypatch.undo()
    assert checkpoints.newest(folder / "checkpoints").epochs_done == 1


def test_a_damaged_checkpoint_gives_way_to_the_one_before(config, reference, tmp_path):
    folder = tmp_path / "run"
    with one_thread():
        train(config, folder, accelerator="cpu")
        (folder / "run.json").write_text(
            (folder / "run.json").read_text().replace('"finished"', '"running"')
        )
        last = folder / "checkpoints" / "epoch-0004.ckpt"
        last.write_bytes(last.read_bytes()[:1000])
        with pytest.warns(RepriorWarning, match="resumes from the one before"):
            run = train(config, folder, resume=True, accelerator="cpu")
    assert compared(run) == compared(reference[0])


def test_a_run_that_lacks_only_its_scores_is_not_trained_again(tmp_path, monkeypatch):
    from reprior_lab.training import loop

    def stopped(*given, **more):
        raise KeyboardInterrupt

    folder, config = tmp_path / "run", tiny(epochs=2)
    monkeypatch.setattr(loop, "write_scores", stopped)
    with one_thread(), pytest.raises(KeyboardInterrupt):
        train(config, folder, accelerator="cpu")
    monkeypatch.undo()
    monkeypatch.setattr(loop, "_fit", stopped)
    with one_thread():
        run = train(config, folder, resume=True, accelerator="cpu")
    assert run.finished
    assert [each["epoch"] for each in run.epochs] == [1, 2]
    assert run.result["accuracy"] == run.epochs[-1]["accuracy"]


def test_a_folder_with_a_run_needs_resume(tmp_path):
    config = tiny(epochs=1)
    first = train(config, tmp_path, accelerator="cpu")
    with pytest.raises(OptionError, match=r"which has one\. Pass resume=True"):
        train(config, tmp_path)
    assert train(config, tmp_path, resume=True) == first
    with pytest.raises(OptionError, match="where seed is 0 and not 1"):
        train(config.differing(seed=1), tmp_path, resume=True)


def test_checkpoints_without_a_run_file_are_a_run_too(tmp_path):
    config = tiny(epochs=1)
    first = train(config, tmp_path, accelerator="cpu")
    (tmp_path / "run.json").unlink()
    with pytest.raises(OptionError, match="which has one"):
        train(config, tmp_path)
    with pytest.raises(OptionError, match="where seed is 0 and not 1"):
        train(config.differing(seed=1), tmp_path, resume=True)
    with one_thread():
        assert train(config, tmp_path, resume=True, accelerator="cpu").epochs == first.epochs
