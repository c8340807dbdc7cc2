"""Table 4 says what the corrections say, with the paper's figures beside."""

from __future__ import annotations

import pytest

from reprior_lab.synthia.correction import CURVE, Gain, JudgedFrames, NetworkCorrection
from reprior_lab.synthia.runs import NetworkRun
from reprior_lab.synthia.settings import NetworkSettings
from reprior_lab.synthia.tables import PROTOCOL, RgbResult, rgb_tables


def judged(strength, iou, accuracy):
    gains = {"mean_iou": Gain(-0.01, -0.02, 0.005), "balanced_accuracy": Gain(0.05, 0.04, 0.06)}
    return JudgedFrames(strength, iou, accuracy, gains)


def result(loss, *, effective=None):
    raw = {
        "tuned": judged(0.6, 0.4, 0.6),
        "kept": judged(0.3, 0.45, 0.55),
        "bayes": judged(1.0, 0.3, 0.58),
    }
    other = raw if effective is None else dict.fromkeys(raw, judged(1.0, effective, effective))
    curve = tuple(0.4 + 0.001 * i for i in range(len(CURVE)))
    curves = {
        part: {"mean_iou": curve, "balanced_accuracy": curve} for part in ("held_out", "clear")
    }
    run = NetworkRun(
        NetworkSettings(loss=loss, steps=50),
        classes=("sky", "pole", "car"),
        class_counts=(900, 10, 90),
        notes=("Absent from the 3 frames of validation: pole.",),
    )
    as_trained = {"mean_iou": 0.46, "balanced_accuracy": 0.5}
    shares = {"before": [0.9, 0.1, None], "after": [0.8, 0.6, None]}
    return RgbResult(run, NetworkCorrection(30, 40, as_trained, raw, other, curves, shares, {}))


RESULTS = {"ce": result("ce"), "max_ce": result("max_ce", effective=0.44)}


@pytest.fixture(scope="module")
def tables():
    return {table.name: table for table in rgb_tables(RESULTS, ["rgb-ldam/s0"])}


def rows(table):
    return {label: dict(zip(table.columns, cells, strict=True)) for label, cells in table.rows}


def test_table_four(tables):
    table = tables["synthia-rgb"]
    found = rows(table)
    assert list(found) == [
        "CE",
        "CE, median frequency",
        "CE, max frequency",
        "LDAM",
        "Focal",
        "CE-IC",
        "Focal-IC",
        "CE-IC, mIoU kept",
        "Focal-IC, mIoU kept",
    ]
    assert found["CE"]["mIoU"].shown() == "46.00 (paper 84.48)"
    assert found["CE-IC"]["mACC"].shown() == "60.00 (paper 94.93)"
    assert found["CE-IC"]["λ"].shown() == "0.60 (paper 0.2)"
    assert found["CE-IC, mIoU kept"]["λ"].shown() == "0.30 (paper 0.2)"
    assert found["LDAM"]["mIoU"].shown() == "– (paper 71.28)"
    assert found["Focal-IC"]["mACC"].value is None
    assert "λ is tuned on 30 frames held out" in table.notes[0]
    assert "judged on 40 test frames" in table.notes[0]
    assert table.notes[1] == "Absent from the 3 frames of validation: pole."
    assert table.notes[-1] == "1 of 5 networks are not finished: rgb-ldam/s0."
    assert "50 steps of 4 parts" in table.title
    assert PROTOCOL not in table.notes


def test_how_the_compact_protocol_was_come_by_is_said():
    found = result("ce")
    run = found.run.updated(settings=NetworkSettings())
    table = rgb_tables({"ce": RgbResult(run, found.correction)})[0]
    assert PROTOCOL in table.notes
    assert "earlier trials whose test figures had been seen" in PROTOCOL


def test_gains_and_ways(tables):
    gains = rows(tables["synthia-rgb-gains"])
    assert gains["CE"]["mIoU, IC"].shown() == "-1.00 [-2.00, +0.50]"
    assert gains["CE"]["mACC, IC, mIoU kept"].shown() == "+5.00 [+4.00, +6.00]"
    ways = rows(tables["synthia-rgb-ways-miou"])
    assert list(ways) == [
        "CE, raw counts",
        "CE, max frequency, raw counts",
        "CE, max frequency, effective prior",
    ]
    assert ways["CE, raw counts"]["λ = 1"].shown() == "30.00, λ 1.00"
    assert ways["CE, max frequency, effective prior"]["IC"].value == pytest.approx(44)
    assert rows(tables["synthia-rgb-ways-macc"])["CE, raw counts"]["as trained"].value == 50.0


def test_classes_are_in_order_of_their_pixels(tables):
    found = rows(tables["synthia-rgb-classes"])
    assert list(found) == ["sky", "car", "pole"]
    assert found["pole"]["training pixels"].shown() == "1.000"
    assert found["pole"]["CE-IC"].value == pytest.approx(60)
    assert found["car"]["CE"].shown() == "–"
