"""The cells of the iNaturalist table: their settings, their bases, and one process at a time."""

from __future__ import annotations

import pytest

from reprior.exceptions import OptionError
from reprior_lab.inaturalist import can_split, network_cells
from reprior_lab.inaturalist_results import ROWS
from reprior_lab.reproduction import held, progress_of


def test_all_rows_and_networks_in_the_papers_order():
    cells = network_cells(ROWS, ["inception_v3", "resnet50"])
    assert [(cell.row, cell.column) for cell in cells] == [
        (row, model) for model in ("inception_v3", "resnet50") for row in ROWS
    ]
    assert len({cell.id for cell in cells}) == 14


def test_the_settings_are_those_of_the_paper():
    cells = {cell.row: cell.config for cell in network_cells(ROWS, ["resnet50"], seed=2)}
    assert {each.data for each in cells.values()} == {"inaturalist2018"}
    assert (cells["ce"].epochs, cells["ce"].batch_size, cells["ce"].seed) == (90, 256, 2)
    assert (cells["ldam-drw"].loss, cells["ldam-drw"].schedule) == ("ldam", "drw")
    assert cells["bbn"].schedule == "bbn"
    (inception,) = network_cells(["ce"], ["inception_v3"])
    assert inception.config.image_size == 299
    assert cells["ce"].image_size is None


def test_settings_that_differ_are_taken():
    (cell,) = network_cells(
        ["ce"],
        ["inception_v3"],
        protocol="compact",
        root="here",
        settings={"epochs": 3, "image_size": 64},
    )
    assert (cell.config.epochs, cell.config.image_size, cell.config.root) == (3, 64, "here")


def test_drw_has_the_plain_run_as_its_base():
    plain, drw = network_cells(["focal-drw", "focal"], ["resnet50"])
    assert (plain.row, drw.row) == ("focal", "focal-drw")
    assert drw.base == plain.id
    assert plain.base is None


def test_an_unknown_row_is_refused():
    with pytest.raises(OptionError, match=r"`rows` must be .*'cb_ce'"):
        network_cells(["cb_ce"], ["resnet50"])


def test_which_networks_can_be_split():
    assert can_split("resnet18")
    assert not can_split("inception_v3")


def test_a_network_nobody_knows_is_refused():
    with pytest.raises(OptionError, match="'resnet51'"):
        can_split("resnet51")


def test_a_cell_is_held_by_one(tmp_path):
    with (
        held(tmp_path / "cell"),
        pytest.raises(OptionError, match=r"trained by one process at a time\. Got .*cell"),
        held(tmp_path / "cell"),
    ):
        pass
    with held(tmp_path / "cell"):
        pass


def test_nobody_to_tell():
    assert progress_of(None, "training", 3) is None
