"""An interrupted fit continues and gives the same result to the bit; another fit is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.support.child_processes import ended
from tests.support.chunked_scores import assert_same_fit, quietly
from tests.support.chunked_scores import flat as drawn

import reprior as rp
from reprior.engines import Checkpoint, chunked, fit
from reprior.exceptions import FileFormatError, OptionError
from reprior.files import open_scores
from reprior.files import scores as score_files


def flat(seed, n):
    """Scores whose best strength lies within the bounds."""
    return drawn(seed, n, shift=0.4)


class EndedError(Exception):
    """Stands for the end of the process."""


def ends_at(n):
    """A progress function that ends the fit once so many samples were read."""

    def progress(done):
        if done >= n:
            raise EndedError

    return progress


def often(folder):
    """A checkpoint that saves before every chunk."""
    return Checkpoint(folder, pause=0.0, share=1.0)


def fractional(data):
    return replace(data, weight=np.random.default_rng(5).random(len(data.labels)))


@pytest.mark.parametrize("most", [10**7, 20])
@pytest.mark.parametrize("make", [flat, lambda seed, n: fractional(flat(seed, n))])
@pytest.mark.parametrize("resolution", ["auto", None, 0.01, "refine"])
def test_goes_on_to_the_bit(tmp_path, monkeypatch, make, resolution, most):
    monkeypatch.setattr(chunked, "MOST_SWITCHES", most)
    data = make(1, 120)
    chunks = data.chunks(range(10, 120, 10))
    whole, said = quietly(fit, data.calibrator(), chunks, resolution=resolution)
    for n in (10, 60, 120):  # each run gets a little further
        with pytest.raises(EndedError):
            quietly(
                fit,
                data.calibrator(),
                chunks,
                resolution=resolution,
                checkpoint=often(tmp_path),
                progress=ends_at(n),
            )
    read = []
    resumed, again = quietly(
        fit,
        data.calibrator(),
        chunks,
        resolution=resolution,
        checkpoint=often(tmp_path),
        progress=read.append,
    )
    assert_same_fit(resumed, whole)
    np.testing.assert_array_equal(resumed.profile_._table, whole.profile_._table)
    assert resumed.provenance_ == whole.provenance_
    assert again == said
    assert read[0] > 110  # what was counted was not counted again


def test_a_finished_fit_is_loaded_until_it_is_removed(tmp_path):
    data = flat(0, 60)
    folder = tmp_path / "new" / "folder"
    first = fit(data.calibrator(), data.chunks([30]), checkpoint=folder)
    read = []
    again = fit(data.calibrator(), data.chunks([30]), checkpoint=folder, progress=read.append)
    assert_same_fit(again, first)
    assert read == [30, 60]  # once, for the fingerprint: chunks have no name by which to know them
    other = fit(data.calibrator(metric="accuracy"), data.chunks([30]), checkpoint=folder)
    assert_same_fit(other, fit(data.calibrator(metric="accuracy"), data.chunks([30])))
    Checkpoint(folder).remove()
    assert not folder.exists()


def test_files_are_not_read_again_for_a_finished_fit(tmp_path, shards):
    first = fit(flat(2, 90).calibrator(), opened(shards), checkpoint=tmp_path / "saved")
    read = []
    again = fit(
        flat(2, 90).calibrator(),
        opened(shards),
        checkpoint=tmp_path / "saved",
        progress=read.append,
    )
    assert read == []
    assert_same_fit(again, first)
    assert again.provenance_ == first.provenance_


def test_removing_leaves_what_is_not_its_own(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    data = flat(0, 60)
    fit(data.calibrator(), data.chunks([30]), checkpoint=tmp_path)
    Checkpoint(tmp_path).remove()
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("how", ["removing", "beginning"])
def test_partial_files_of_killed_processes_are_removed(tmp_path, how):
    data, folder = flat(0, 60), tmp_path / "saved"
    fit(data.calibrator(), data.chunks([30]), checkpoint=folder)
    (folder / ".pass-0.0-to-2.0.npz.k3jd8s_a").write_bytes(b"half of it")
    if how == "removing":
        Checkpoint(folder).remove()
        assert not folder.exists()
    else:
        fit(data.calibrator(), data.chunks([30]), checkpoint=folder)
        assert [path.name for path in folder.iterdir()] == ["pass-0.0-to-2.0.npz"]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"kind": "log_probs"}, "another kind"),
        ({"target_prior": [0.4, 0.3, 0.2, 0.1]}, "another target_prior"),
        ({"ignore_index": 9}, "another ignore_index"),
        ({"classes": ["a", "b", "c", "d"]}, "another classes"),
    ],
)
def test_other_options_are_refused(tmp_path, options, words):
    data = flat(0, 60)
    fit(data.calibrator(), data.chunks([30]), checkpoint=tmp_path)
    with pytest.raises(OptionError, match=words) as caught:
        fit(data.calibrator(**options), data.chunks([30]), checkpoint=tmp_path)
    assert "Delete the folder" in str(caught.value)
    with pytest.raises(OptionError, match="another resolution"):
        fit(data.calibrator(), data.chunks([30]), checkpoint=tmp_path, resolution=0.1)


@pytest.mark.parametrize(
    "others",
    [
        lambda: flat(7, 60).chunks([20, 40]),
        lambda: flat(0, 60).chunks([15, 50]),
        lambda: flat(0, 10).chunks([]),
    ],
)
def test_other_chunks_are_refused(tmp_path, others):
    data = flat(0, 60)
    with pytest.raises(EndedError):
        fit(
            data.calibrator(),
            data.chunks([20, 40]),
            checkpoint=often(tmp_path),
            progress=ends_at(60),
        )
    with pytest.raises(OptionError, match="must be of the same data"):
        fit(data.calibrator(), others(), checkpoint=often(tmp_path))


@pytest.fixture
def shards(tmp_path, monkeypatch):
    """Three npy files and their labels, read in chunks of eight samples."""
    monkeypatch.setattr(score_files, "MAX_ROWS", 8)
    data, folder = flat(2, 90), tmp_path / "shards"
    folder.mkdir()
    for i in range(3):
        piece = data.chunk(30 * i, 30 * i + 30)
        np.save(folder / f"scores-{i}.npy", piece.scores.astype(np.float32))
        np.save(folder / f"labels-{i}.npy", piece.labels)
    return folder


def opened(folder):
    return open_scores(
        str(folder / "scores-*.npy"), labels=str(folder / "labels-*.npy"), kind="logits"
    )


def test_reading_files_continues_where_the_fit_was(tmp_path, shards):
    data, saved = flat(2, 90), tmp_path / "saved"
    whole = fit(data.calibrator(), opened(shards))
    for n in (8, 30, 46, 90):
        with pytest.raises(EndedError):
            fit(data.calibrator(), opened(shards), checkpoint=often(saved), progress=ends_at(n))
    found = fit(data.calibrator(), opened(shards), checkpoint=often(saved))
    assert_same_fit(found, whole)
    assert found.provenance_ == whole.provenance_


def test_a_changed_file_is_refused_by_name(tmp_path, shards):
    data, saved = flat(2, 90), tmp_path / "saved"
    fit(data.calibrator(), opened(shards), checkpoint=saved)
    np.save(shards / "scores-1.npy", np.zeros((30, 4)))
    with pytest.raises(OptionError, match=r"another version of '.*scores-1.npy', which was"):
        fit(data.calibrator(), opened(shards), checkpoint=saved)
    (shards / "scores-2.npy").unlink()
    (shards / "labels-2.npy").unlink()
    with pytest.raises(OptionError, match=r"another version|other files"):
        fit(data.calibrator(), opened(shards), checkpoint=saved)
    with pytest.raises(OptionError, match="other data"):
        fit(data.calibrator(), data.chunks([]), checkpoint=saved)


def test_a_damaged_checkpoint_is_refused(tmp_path):
    data = flat(0, 60)
    fit(data.calibrator(), data.chunks([30]), checkpoint=tmp_path)
    (path,) = tmp_path.glob("*.npz")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(FileFormatError, match="is truncated, damaged") as caught:
        fit(data.calibrator(), data.chunks([30]), checkpoint=tmp_path)
    assert f"Delete the folder {str(tmp_path)!r} to start again" in str(caught.value)


def test_a_full_disk_ends_the_fit_and_leaves_what_was_saved(tmp_path, monkeypatch):
    data = flat(0, 60)
    chunks = data.chunks([20, 40])
    with pytest.raises(EndedError):
        fit(data.calibrator(), chunks, checkpoint=often(tmp_path), progress=ends_at(40))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="No space left"):
        fit(data.calibrator(), chunks, checkpoint=often(tmp_path))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    monkeypatch.undo()
    assert_same_fit(
        fit(data.calibrator(), chunks, checkpoint=tmp_path), fit(data.calibrator(), chunks)
    )


def test_savings_are_apart_by_time_and_by_what_they_cost(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("reprior.engines.checkpoints.time.monotonic", lambda: now[0])
    checkpoint = Checkpoint(tmp_path, pause=30.0)
    now[0] = 29.0
    assert not checkpoint.due
    now[0] = 30.0
    assert checkpoint.due
    checkpoint._last, checkpoint._cost = 30.0, 10.0  # a saving of ten seconds
    now[0] = 219.0
    assert not checkpoint.due
    now[0] = 220.5
    assert checkpoint.due


KILLED = """
import os, signal, sys
import reprior as rp
from reprior.engines import Checkpoint
from reprior.files import scores as score_files
from reprior.files.scores import open_scores
score_files.MAX_ROWS = 8
folder, saved = sys.argv[1:]
scores = open_scores(folder + "/scores-*.npy", labels=folder + "/labels-*.npy", kind="logits")
def progress(done):
    if done >= 54:
        os.kill(os.getpid(), signal.SIGKILL)
rp.engines.fit(rp.PosteriorCalibrator([0.6, 0.25, 0.1, 0.05]), scores,
               checkpoint=Checkpoint(saved, pause=0.0, share=1.0), progress=progress)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="SKIPPED: no SIGKILL here")
def test_a_process_that_was_killed(tmp_path, shards):
    saved = tmp_path / "saved"
    done = ended([sys.executable, "-c", KILLED, os.fspath(shards), os.fspath(saved)])
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(list(saved.glob("pass-*.npz"))) == 1
    read = []
    found = fit(
        rp.PosteriorCalibrator([0.6, 0.25, 0.1, 0.05]),
        opened(shards),
        checkpoint=saved,
        progress=read.append,
    )
    whole = fit(rp.PosteriorCalibrator([0.6, 0.25, 0.1, 0.05]), opened(shards))
    assert_same_fit(found, whole)
    assert found.provenance_ == whole.provenance_
    assert min(read) > 46


def moment(nanoseconds):
    return f"{np.datetime64(nanoseconds, 'ns')} UTC".replace("T", " ", 1)


def test_a_touched_file_is_refused_until_it_has_its_time_again(tmp_path, shards):
    data, saved = flat(2, 90), tmp_path / "saved"
    first = fit(data.calibrator(), opened(shards), checkpoint=saved)
    path = shards / "scores-1.npy"
    before = path.stat().st_mtime_ns
    os.utime(path, ns=(before, before + 1))
    with pytest.raises(
        OptionError, match=r"scores-1\.npy', which has the same \d+ bytes"
    ) as caught:
        fit(data.calibrator(), opened(shards), checkpoint=saved)
    said = f"changed last at {moment(before)} and now at {moment(before + 1)}"
    assert said in str(caught.value)
    assert "was 0" not in str(caught.value)
    os.utime(path, ns=(before, before))
    assert_same_fit(fit(data.calibrator(), opened(shards), checkpoint=saved), first)


def test_files_of_another_size_are_named_with_both_sizes(tmp_path, shards):
    data, saved = flat(2, 90), tmp_path / "saved"
    fit(data.calibrator(), opened(shards), checkpoint=saved)
    path = shards / "scores-1.npy"
    size = path.stat().st_size
    np.save(path, np.zeros((30, 4)))
    with pytest.raises(
        OptionError, match=f"which was {size} bytes and is {size + 480} now"
    ) as caught:
        fit(data.calibrator(), opened(shards), checkpoint=saved)
    assert "changed last" not in str(caught.value)


# ------------------------------------------------------------------------------------- one fit


def test_a_second_fit_is_refused_while_the_first_one_runs(tmp_path):
    data = flat(0, 60)
    chunks, refusals = data.chunks([20, 40]), []

    def another(_done):
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        for use in (
            lambda: fit(data.calibrator(), chunks, checkpoint=tmp_path),
            Checkpoint(tmp_path).remove,
        ):
            with pytest.raises(OptionError, match="one fit at a time") as caught:
                use()
            refusals.append(str(caught.value))
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before

    found = fit(data.calibrator(), chunks, checkpoint=often(tmp_path), progress=another)
    assert refusals[0] == (
        f"`checkpoint` must be used by one fit at a time. Got the folder {str(tmp_path)!r}, which "
        f"another fit is using. Wait until that fit ends, or name another folder."
    )
    assert_same_fit(found, fit(data.calibrator(), chunks))
    assert_same_fit(fit(data.calibrator(), chunks, checkpoint=tmp_path), found)
    assert [path.name for path in tmp_path.iterdir()] == ["pass-0.0-to-2.0.npz"]


HOLDS = """
import sys, time
from reprior.engines import Checkpoint
with Checkpoint(sys.argv[1]):
    print("locked", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="SKIPPED: no SIGKILL here")
def test_the_lock_of_a_killed_process_does_not_block(tmp_path):
    data, folder = flat(0, 60), tmp_path / "saved"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, os.fspath(folder)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(OptionError, match="one fit at a time"):
            fit(data.calibrator(), data.chunks([30]), checkpoint=folder)
        holder.kill()
    found = fit(data.calibrator(), data.chunks([30]), checkpoint=folder)
    assert_same_fit(found, fit(data.calibrator(), data.chunks([30])))
    Checkpoint(folder).remove()
    assert not folder.exists()


def test_files_of_other_programs_stay(tmp_path):
    names = [".lock", "pass-1.npz", "pass-the-salt-to-2.0.npz", ".pass-1.npz.bak"]
    for name in names:
        (tmp_path / name).write_text("mine")
    data = flat(0, 60)
    fit(data.calibrator(), data.chunks([30]), checkpoint=tmp_path)
    Checkpoint(tmp_path).remove()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(
        names, "mine"
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="SKIPPED: no FIFOs here")
@pytest.mark.parametrize("kind", ["symlink", "pipe", "folder"])
def test_what_is_no_lock_file_is_refused(tmp_path, kind):
    lock, elsewhere = tmp_path / "saved" / ".reprior-lock", tmp_path / "elsewhere"
    lock.parent.mkdir()
    if kind == "symlink":
        lock.symlink_to(elsewhere)
    elif kind == "pipe":
        os.mkfifo(lock)
    else:
        lock.mkdir()
    data = flat(0, 60)
    with pytest.raises(OptionError, match="which is no lock file of a fit"):
        fit(data.calibrator(), data.chunks([30]), checkpoint=lock.parent)
    assert os.path.lexists(lock)
    assert not elsewhere.exists()


def test_a_fit_that_saves_nothing_leaves_no_folder(tmp_path):
    data = flat(0, 60)
    with pytest.raises(EndedError):
        fit(data.calibrator(), data.chunks([]), checkpoint=tmp_path / "new", progress=ends_at(1))
    assert not (tmp_path / "new").exists()
