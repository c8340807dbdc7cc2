"""Axes, options and names that all Displays share."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import resources

import numpy as np
import pytest
from matplotlib import pyplot as plt

import reprior as rp
from reprior.report import plots
from reprior.report.plots.drawing import (
    AFTER,
    BEFORE,
    CYCLE,
    artist_options,
    axes,
    axis_label,
    class_names,
    groups,
)


def test_given_axes_are_used():
    figure, (left, right) = plt.subplots(1, 2)
    assert axes(left) == [left]
    assert axes(np.array([left, right]), 2) == [left, right]
    assert axes((left, right), 2) == [left, right]
    assert plt.get_fignums() == [figure.number]


def test_a_new_figure_has_the_axes_asked_for():
    made = axes(None, 2, figsize=(8, 3))
    assert len(made) == 2
    assert made[0].figure.get_size_inches().tolist() == [8, 3]


@pytest.mark.parametrize(
    "ax, n, got",
    [("left", 1, "'left'"), (3, 2, "3"), ([], 1, r"\[\]")],
)
def test_something_else_is_refused(ax, n, got):
    with pytest.raises(rp.OptionError, match=rf"`ax` must be .* Got {got}. Pass what"):
        axes(ax, n)


def test_the_wrong_number_of_axes_is_refused():
    _, both = plt.subplots(1, 2)
    with pytest.raises(rp.OptionError, match=r"`ax` must be axes of matplotlib, or None. Got 2 of"):
        axes(both)


def test_long_names_lose_their_middle_and_dollars_are_escaped_once():
    long = "the name of this class is far longer than any axis has room for"
    names = class_names([long, "5 $", "x" * 26], 3)
    assert names == ["the name of this…room for", r"5 \$", "x" * 26]
    assert class_names(names, 3) == names


def test_the_report_has_the_same_colours():
    assets = resources.files("reprior.report") / "assets"
    lines = re.search(r"light: (\[.*\])", (assets / "js" / "theme.js").read_text("utf-8"))[1]
    assert [color.lower() for color in CYCLE] == re.findall("#[0-9a-f]{6}", lines)
    light = (assets / "css" / "page.css").read_text("utf-8")
    assert f"--accent: {AFTER.lower()};" in light
    assert f"--before: {BEFORE};" in light


def test_options_must_be_a_dictionary():
    with pytest.raises(rp.OptionError, match=r"`line_kw` must be a dictionary .* Got 'red'"):
        artist_options("line_kw", "red", color="blue")


def test_names_are_text_and_no_formulas():
    assert class_names([1, "a$b$"], 2) == ["1", r"a\$b\$"]


def test_names_must_be_of_all_classes():
    with pytest.raises(rp.OptionError, match=r"`classes` must name the 3 classes. Got 2 names"):
        class_names(["a", "b"], 3)


def test_groups_keep_the_order_and_every_class():
    runs = groups(np.arange(101)[::-1], 40)
    assert len(runs) == 40
    assert np.concatenate(runs).tolist() == list(range(101))[::-1]
    assert {run.size for run in runs} == {2, 3}


@pytest.mark.parametrize(
    "metric, text",
    [
        ("balanced_accuracy", "balanced accuracy"),
        ("macro_f1", "macro F1"),
        ("iou[car]", "IoU of car"),
        ("f1[my_class]", "F1 of my_class"),
    ],
)
def test_metrics_in_words(metric, text):
    assert axis_label(metric) == text


def test_the_module_imports_no_matplotlib():
    code = "import sys, reprior.report.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_matplotlib_a_sentence_says_what_to_install(monkeypatch, calibrator):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(rp.MissingDependencyError, match=r"pip install 'reprior\[plots\]'"):
        plots.PriorDisplay.from_calibrator(calibrator)


def test_every_display_is_public_and_documented():
    displays = [name for name in plots.__all__ if name.endswith("Display")]
    assert displays == sorted(displays)
    assert len(displays) == 6
    for name in displays:
        assert "Examples" in getattr(plots, name).__doc__
