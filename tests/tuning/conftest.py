"""Fixtures of the tuning tests."""

from __future__ import annotations

import numpy as np
import pytest

import reprior.tuning.compiled  # noqa: F401 - from here on even small work is compiled
from reprior.tuning import passes, sweep


@pytest.fixture
def rng() -> np.random.Generator:
    """Return random numbers that are the same in every run."""
    return np.random.default_rng(20201206)


@pytest.fixture
def without_numba(monkeypatch):
    """Take the array path, as an install without numba would."""
    for module in (passes, sweep):
        monkeypatch.setattr(module, "compiles", lambda _: False)
