"""``reprior fit --checkpoint`` resumes, is removed at the end, and refuses other files."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from tests.support.chunked_scores import flat

import reprior as rp
from reprior import engines


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = flat(2, 90, shift=0.4)
    np.savez("val.npz", scores=data.scores, labels=data.labels, kind="logits")
    (tmp_path / "counts.json").write_text(json.dumps([600, 250, 100, 50]))
    return tmp_path


FIT = ("fit", "val.npz", "--counts", "counts.json", "--kind", "logits", "-o", "cal.json")


@pytest.fixture
def begin(folder, run, monkeypatch):
    """Fit the same data, and fail to write the calibrator: all is counted in the checkpoint."""

    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    def begin():
        with monkeypatch.context() as patched:
            patched.setattr(rp.PosteriorCalibrator, "save", full)
            return run(*FIT, "--checkpoint", "saved")

    return begin


def test_goes_on_and_is_removed(run, folder, begin):
    assert run(*FIT).code == 0
    plain = json.loads((folder / "cal.json").read_text())
    begin()
    result = run(*FIT, "--checkpoint", "saved")
    assert result.code == 0, result.err
    assert json.loads((folder / "cal.json").read_text()) == plain
    assert not (folder / "saved").exists()


def test_stays_where_the_calibrator_cannot_be_written(folder, begin):
    assert begin().code == 2
    assert not engines.Checkpoint(folder / "saved").is_empty


def test_a_changed_file_is_refused(run, folder, begin):
    begin()
    np.savez("val.npz", scores=np.zeros((9, 4)), labels=np.zeros(9, int), kind="logits")
    result = run(*FIT, "--checkpoint", "saved")
    assert result.code == 2
    assert "another version of" in result.err
    assert "val.npz" in result.err


@pytest.mark.parametrize("more", [("--checkpoint", "saved"), ("--resolution", "refine")])
def test_not_on_dask(run, folder, more):
    result = run(*FIT, *more, "--engine", "dask")
    assert result.code == 2
    assert "must go with --engine local" in result.err


def test_refine(run, folder):
    assert run(*FIT, "--resolution", "none").code == 0
    plain = json.loads((folder / "cal.json").read_text())
    assert run(*FIT, "--resolution", "refine").code == 0
    assert json.loads((folder / "cal.json").read_text()) == plain


GOES_ON = "The fit resumes from the checkpoint in 'saved': "


def test_it_says_what_was_counted_before(run, folder, begin):
    first = run(*FIT, "--checkpoint", "saved")
    assert first.code == 0
    assert "resumes" not in first.err
    begin()
    result = run(*FIT, "--checkpoint", "saved", "--json")
    sentence = f"{GOES_ON}90 samples (1 of 1 file) were counted before, for strengths from 0 to 2."
    assert result.err.count(GOES_ON) == 1
    assert sentence in result.err
    assert sentence in result.json["notes"]
    begin()
    assert run(*FIT, "--checkpoint", "saved", "--quiet").err == ""


def test_it_says_so_before_the_fit_is_done(begin):
    begin()
    result = begin()
    assert result.code == 2
    assert result.err.startswith(f"note: {GOES_ON}")
    assert result.err.count("\n") == 2


def test_a_file_that_was_only_touched_is_recognised_by_its_time(run, folder, begin):
    begin()
    size = (folder / "val.npz").stat().st_size
    os.utime("val.npz", ns=(0, 1_700_000_000_000_000_042))
    result = run(*FIT, "--checkpoint", "saved")
    assert result.code == 2
    assert f"which has the same {size} bytes, but was changed last at 20" in result.err
    assert "and now at 2023-11-14 22:13:20.000000042 UTC" in result.err


@pytest.mark.parametrize("saved", [False, True])
def test_ctrl_c_names_what_is_saved(folder, run, monkeypatch, saved):
    fit = engines.fit

    def interrupted(*args, **options):
        if saved:
            fit(*args, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr("reprior.engines.fit", interrupted)
    result = run(*FIT, "--checkpoint", "saved")
    assert result.code == 130
    assert ("is in 'saved': the same command continues from there." in result.err) == saved
