"""The first run of numba's loops is announced."""

from __future__ import annotations

import numpy as np
import pytest

from reprior.cli.status import COMPILING, with_compiling
from reprior.files.scores import open_scores


@pytest.fixture
def scores(tmp_path, monkeypatch):
    monkeypatch.setattr("reprior.tuning.compiling.has_numba", lambda: True)
    monkeypatch.setattr("reprior.tuning.compiling.WORTH_COMPILING", 10)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    np.save(tmp_path / "s.npy", np.zeros((10, 3)))
    return open_scores(tmp_path / "s.npy")


def test_it_is_said_once(scores, tmp_path):
    assert with_compiling("tuning", scores) == f"tuning ({COMPILING})"
    (tmp_path / "cache" / "tuning_1").mkdir(parents=True)
    (tmp_path / "cache" / "tuning_1" / "compiled.scan-1.py311.nbi").touch()
    assert with_compiling("tuning", scores) == "tuning"


def test_small_work_is_not_compiled(scores, monkeypatch):
    monkeypatch.setattr("reprior.tuning.compiling.WORTH_COMPILING", 1000)
    assert with_compiling("tuning", scores) == "tuning"


def test_rows_that_are_not_counted_are_estimated(scores, tmp_path):
    (tmp_path / "s.csv").write_text("cat,dog\n" + "0.123456,0.654321\n" * 20)
    assert COMPILING in with_compiling("tuning", open_scores(tmp_path / "s.csv"))
