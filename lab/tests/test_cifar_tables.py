"""The tables say what the cells say: numbers by hand, seeds averaged, harm admitted."""

from __future__ import annotations

import pytest

from reprior_lab import RunConfig
from reprior_lab.cifar import COLUMNS, CURVE, CellResult, make_tables, write_curves
from reprior_lab.correction import Correction, Judged
from reprior_lab.training.runfile import RunFile


def cell(error, honest, *, interval=(0.01, 0.2), strengths=(1.0, 1.5), effective=0.4, **differing):
    judged = Judged(honest, error - honest, interval, strengths, same_labels=False)
    tuned = Judged(honest - 0.01, 0.0, interval, (1.2,), same_labels=True)
    plain = Judged(honest + 0.02, 0.0, interval, (1.0,), same_labels=False)
    other = Judged(effective, 0.0, interval, (0.3, 0.4), same_labels=False)
    return CellResult(
        RunFile(
            RunConfig.resolve(data="cifar10", imbalance="exp", **differing), class_counts=(9, 1)
        ),
        Correction(error, judged, tuned, plain),
        Correction(error, other, tuned, plain),
        tuple(error - 0.001 * i for i in range(len(CURVE))),
    )


RESULTS = {
    "cifar10-exp100/ce/s0": cell(0.50, 0.36),
    "cifar10-exp100/ce/s1": cell(0.52, 0.38, strengths=(0.8, 1.1)),
    "cifar10-step100/ce/s0": cell(0.60, 0.50, interval=(-0.01, 0.02)),
    "cifar10-exp100/ldam/s0": cell(0.40, 0.41, interval=(-0.02, -0.01)),
}


@pytest.fixture(scope="module")
def tables():
    return {table.name: table for table in make_tables(RESULTS)}


def rows(table):
    return {label: dict(zip(table.columns, cells, strict=True)) for label, cells in table.rows}


def test_table_two(tables):
    found = rows(tables["cifar-table2"])
    assert list(found) == ["CE", "LDAM", "CE-IC", "LDAM-IC"]
    ce = found["CE"]["cifar10-exp100"]
    assert (ce.value, ce.paper, ce.n) == (pytest.approx(51.0), 28.48, 2)
    assert ce.spread == pytest.approx(2**0.5)
    corrected = found["CE-IC"]["cifar10-exp100"]
    assert (corrected.value, corrected.paper) == (pytest.approx(37.0), 20.14)
    assert found["CE"]["average"].value == pytest.approx((51 + 60) / 2)
    assert found["CE"]["average"].paper == pytest.approx((28.48 + 34.01) / 2)
    assert found["LDAM"]["average"].value is None
    assert found["LDAM"]["cifar10-step100"].value is None
    notes = " ".join(tables["cifar-table2"].notes)
    assert "left out: cifar10-exp10, cifar10-step10, cifar100-exp100" in notes
    assert "± is the standard deviation" in notes
    assert "chosen among five" in notes
    assert "not finished" not in notes


def test_what_is_missing_is_said_and_has_its_place():
    table = make_tables({"cifar10-exp100/ce/s0": cell(0.5, 0.4)}, ["cifar100-exp100/bbn/s0"])[0]
    found = rows(table)
    assert found["BBN"]["cifar100-exp100"].value is None
    assert found["BBN"]["cifar100-exp100"].paper == 57.44
    assert table.notes[-1] == "1 of 2 cells are not finished: cifar100-exp100/bbn/s0."
    assert not any("±" in note for note in table.notes)


def test_doubtful_figures_of_the_paper_are_marked():
    table = make_tables({"cifar10-exp100/focal-drw/s0": cell(0.5, 0.4)})[0]
    assert any(
        note.startswith("The paper's Focal-DRW-IC on cifar10-exp100: ") for note in table.notes
    )


def test_all_columns_need_no_note_of_what_is_left_out():
    results = {f"{column}/ce/s0": cell(0.5, 0.4) for column in COLUMNS}
    assert any("misprinted" in note for note in make_tables(results)[0].notes)


def test_strengths(tables):
    found = rows(tables["cifar-strengths"])
    ce = found["CE-IC"]["cifar10-exp100"]
    assert (ce.value, ce.paper, ce.note) == (pytest.approx(1.2), 2.1, "halves 0.80 to 1.50")
    assert found["LDAM-IC"]["cifar10-step100"].value is None


def test_gains_and_what_is_said_of_them(tables):
    found = rows(tables["cifar-gains"])
    assert found["CE"]["cifar10-exp100"].text == "+14.00 [+1.00, +20.00]"
    assert found["LDAM"]["cifar10-step100"].text is None
    assert tables["cifar-gains"].notes[1:] == (
        "CE: IC helps on cifar10-exp100; is inconclusive on cifar10-step100.",
        "LDAM: IC harms on cifar10-exp100.",
    )


def test_of_several_seeds_the_widest_bounds_hold():
    results = {
        "cifar10-exp100/ce/s0": cell(0.50, 0.36, interval=(0.1, 0.2)),
        "cifar10-exp100/ce/s1": cell(0.50, 0.36, interval=(-0.1, 0.3)),
    }
    gains = make_tables(results)[1]
    assert gains.rows[0][1][0].text == "+14.00 [-10.00, +30.00]"
    assert gains.notes[1] == "CE: IC is inconclusive on cifar10-exp100."


def test_every_way_to_correct(tables):
    found = rows(tables["cifar-ways-cifar10-exp100"])["CE"]
    values = [each.value for each in found.values()]
    assert values == pytest.approx([51.0, 37.0, 36.0, 39.0, 40.0, 39.0])
    assert list(rows(tables["cifar-ways-cifar10-step100"])) == ["CE"]


def test_curves_are_drawn_for_each_column(tmp_path):
    paths = write_curves(RESULTS, tmp_path)
    assert [path.name for path in paths] == ["cifar-curves.png", "cifar-curves.svg"]
    drawn = paths[1].read_text()
    assert "cifar10-step100" in drawn
    assert "cifar100" not in drawn


def test_a_protocol_that_was_changed_is_not_called_by_its_name_alone():
    own, changed = (
        make_tables({"cifar10-exp100/ce/s0": cell(0.5, 0.4, **differing)})[0]
        for differing in ({}, {"epochs": 2, "sampler": "over"})
    )
    assert own.title.endswith("protocol compact: resnet8-wide, 20 epochs")
    assert changed.title.endswith(
        "protocol compact, changed by sampler=over, epochs=2: resnet8-wide, 2 epochs"
    )
    assert any("was chosen among five" in note for note in own.notes)
    assert not any("was chosen among five" in note for note in changed.notes)


def test_one_column_is_spoken_of_as_one():
    tables = make_tables({"cifar10-exp100/ce/s0": cell(0.5, 0.4)})
    assert any("over the one column shown" in note for note in tables[0].notes)
    assert tables[1].notes[1] == "CE: IC helps on cifar10-exp100."
