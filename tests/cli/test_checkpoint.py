"""``reprior fit --checkpoint``: goes on, is removed at the end, and refuses other files."""

from __future__ import annotations

import json

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
