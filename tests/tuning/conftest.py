"""Fixtures of the tuning tests."""

from __future__ import annotations

import numpy as np
import pytest

from reprior.tuning import passes, sweep


@pytest.fixture
def rng() -> np.random.Generator:
    """Return random numbers that are the same in every run."""
    return np.random.default_rng(20201206)


@pytest.fixture
def without_numba(monkeypatch):
    """Take the array path, as an install without numba would."""
    for module in (passes, sweep):
        monkeypatch.setattr(module, "has_numba", lambda: False)
