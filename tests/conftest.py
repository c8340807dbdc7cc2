"""Fixtures of all tests."""

from __future__ import annotations

import numpy as np
import pytest

from reprior.core import kernels


@pytest.fixture
def rng() -> np.random.Generator:
    """Return random numbers that are the same in every run."""
    return np.random.default_rng(20201206)


@pytest.fixture
def without_native(monkeypatch):
    """Take the array code, as an installation without the extension does."""
    monkeypatch.setattr(kernels, "native", None)
