"""Curves of the networks that the paper corrects, as far as strengths are of interest."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from lab.tests.synthia.test_rgb_tables import RESULTS, judged

from reprior_lab.figures import new_figure
from reprior_lab.synthia.correction import CURVE
from reprior_lab.synthia.tables import USUAL, _panel, write_curves


def drawn(found):
    panel = new_figure(4, 3).subplots()
    _panel(panel, found)
    return panel


def test_what_is_written(tmp_path):
    files = write_curves(RESULTS, tmp_path)
    assert [path.name for path in files] == ["synthia-curves.png", "synthia-curves.svg"]
    again = write_curves(RESULTS, tmp_path / "again")
    assert files[0].read_bytes() == again[0].read_bytes()
    assert write_curves({"max_ce": RESULTS["max_ce"]}, tmp_path) == ()


def test_lines_and_marks():
    panel = drawn(RESULTS["ce"].correction)
    labels = [line.get_label() for line in panel.get_lines() if line.get_label()[0] != "_"]
    assert labels == [
        "mIoU, test frames",
        "mIoU, held-out frames",
        "mACC, test frames",
        "mACC, held-out frames",
        "λ for mACC",
        "λ for mACC,\nmIoU kept",
    ]
    first = panel.get_lines()[0]
    assert first.get_xdata()[-1] == panel.get_xlim()[1] == USUAL
    assert first.get_ydata()[10] == pytest.approx(41.0)
    marks = {float(line.get_xdata()[0]) for line in panel.get_lines() if len(line.get_xdata()) == 1}
    assert marks == {0.6, 0.3}


def test_a_strength_beyond_is_seen():
    found = RESULTS["ce"].correction
    raw = {**found.raw, "tuned": judged(1.8, 0.3, 0.6)}
    assert drawn(replace(found, raw=raw)).get_xlim()[1] == CURVE[-1]
