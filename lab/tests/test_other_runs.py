"""Runs that only other settings keep from being found are spoken of."""

from __future__ import annotations

import pytest

from reprior.exceptions import OptionError
from reprior_lab.cifar import select_cells, tables_of
from reprior_lab.reproduction import of_other_settings
from reprior_lab.training.runfile import RunFile

WANTED = [{"loss": "ce", "epochs": 20}, {"loss": "focal", "epochs": 20}]


def test_nothing_is_said_of_what_is_asked_for_or_unlike():
    assert of_other_settings([], WANTED, ["loss"], "cell") == ""
    assert of_other_settings([WANTED[0], {"loss": "ldam"}], WANTED, ["loss"], "cell") == ""


def test_several():
    there = [{"loss": "ce", "epochs": 2}, {"loss": "focal", "epochs": 2}]
    assert of_other_settings(there, WANTED, ["loss"], "cell").startswith(
        "It has 2 cells of other settings: epochs is 2, not 20. Ask for them by the --set"
    )


def test_a_folder_of_cells_trained_otherwise(tmp_path):
    (cell,) = select_cells(["cifar10-exp100/ce/s0"], settings={"epochs": 2})
    home = tmp_path / "cells" / cell.config.id
    home.mkdir(parents=True)
    RunFile(cell.config, status="finished").write(home)
    with pytest.raises(OptionError, match="It has 1 cell of other settings: epochs is 2, not 20"):
        tables_of(tmp_path, select_cells(["cifar10-exp100/ce/s0"]))
