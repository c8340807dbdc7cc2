"""Lightning is found, or a sentence says what to install."""

from __future__ import annotations

import sys

import pytest

from reprior.exceptions import MissingDependencyError
from reprior.experiments.training.lightning_library import require_lightning


def test_lightning_is_found():
    assert require_lightning().Trainer.__name__ == "Trainer"


def test_without_lightning_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    with pytest.raises(MissingDependencyError, match=r"To train, lightning.*\[experiments\]"):
        require_lightning()
