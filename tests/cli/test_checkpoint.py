"""``reprior fit --checkpoint``: goes on, is removed at the end, and refuses other files."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from tests.engines.shared import flat

import reprior as rp
from reprior import engines
from reprior.engines.checkpoints import Checkpoint
from reprior.files.scores import open_scores


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = flat(2, 90, shift=0.4)
    np.savez("val.npz", scores=data.scores, labels=data.labels, kind="logits")
    (tmp_path / "counts.json").write_text(json.dumps([600, 250, 100, 50]))
    return tmp_path


FIT = ("fit", "val.npz", "--counts", "counts.json", "--kind", "logits", "-o", "cal.json")


def begun(folder):
    """A fit of the same data that was ended right after it was counted."""
    calibrator = rp.PosteriorCalibrator(rp.prior_from_counts([600, 250, 100, 50]))
    engines.fit(calibrator, open_scores("val.npz"), checkpoint=folder / "saved")


def test_goes_on_and_is_removed(run, folder):
    assert run(*FIT).code == 0
    plain = json.loads((folder / "cal.json").read_text())
    begun(folder)
    found = run(*FIT, "--checkpoint", "saved")
    assert found.code == 0, found.err
    assert json.loads((folder / "cal.json").read_text()) == plain
    assert not (folder / "saved").exists()


def test_stays_where_the_calibrator_cannot_be_written(run, folder, monkeypatch):
    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("reprior.calibrator.PosteriorCalibrator.save", full)
    assert run(*FIT, "--checkpoint", "saved").code == 2
    assert Checkpoint(folder / "saved")._files()


def test_a_changed_file_is_refused(run, folder):
    begun(folder)
    np.savez("val.npz", scores=np.zeros((9, 4)), labels=np.zeros(9, int), kind="logits")
    found = run(*FIT, "--checkpoint", "saved")
    assert found.code == 2
    assert "another version of" in found.err
    assert "val.npz" in found.err


@pytest.mark.parametrize("more", [("--checkpoint", "saved"), ("--resolution", "refine")])
def test_not_on_dask(run, folder, more):
    found = run(*FIT, *more, "--engine", "dask")
    assert found.code == 2
    assert "must go with --engine local" in found.err


def test_refine(run, folder):
    assert run(*FIT, "--resolution", "none").code == 0
    plain = json.loads((folder / "cal.json").read_text())
    assert run(*FIT, "--resolution", "refine").code == 0
    assert json.loads((folder / "cal.json").read_text()) == plain


GOES_ON = "The fit goes on from the checkpoint in 'saved': "


def test_it_says_what_was_counted_before(run, folder):
    first = run(*FIT, "--checkpoint", "saved")
    assert first.code == 0
    assert "goes on" not in first.err
    begun(folder)
    found = run(*FIT, "--checkpoint", "saved", "--json")
    said = f"{GOES_ON}90 samples (1 of 1 file) were counted before, for strengths from 0 to 2."
    assert found.err.count(GOES_ON) == 1
    assert said in found.err
    assert said in found.json["notes"]
    begun(folder)
    assert run(*FIT, "--checkpoint", "saved", "--quiet").err == ""


def test_it_says_so_before_the_fit_is_done(run, folder, monkeypatch):
    begun(folder)

    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("reprior.calibrator.PosteriorCalibrator.save", full)
    found = run(*FIT, "--checkpoint", "saved")
    assert found.code == 2
    assert found.err.startswith(f"note: {GOES_ON}")
    assert found.err.count("\n") == 2


def test_a_file_that_was_only_touched_is_told_by_its_time(run, folder):
    begun(folder)
    size = (folder / "val.npz").stat().st_size
    os.utime("val.npz", ns=(0, 1_700_000_000_000_000_042))
    found = run(*FIT, "--checkpoint", "saved")
    assert found.code == 2
    assert f"which has the same {size} bytes, but was changed last at 20" in found.err
    assert "and now at 2023-11-14 22:13:20.000000042 UTC" in found.err


@pytest.mark.parametrize("saved", [False, True])
def test_ctrl_c_tells_of_what_is_saved(folder, run, monkeypatch, saved):
    fit = engines.fit

    def interrupted(*args, **options):
        if saved:
            fit(*args, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr("reprior.engines.fit", interrupted)
    found = run(*FIT, "--checkpoint", "saved")
    assert found.code == 130
    assert ("is in 'saved': the same command goes on from there." in found.err) == saved
