"""The λ-curve of iNaturalist, of results that are stated here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lab.tests.support.drawings import overlapping
from lab.tests.test_inaturalist_tables import result

from reprior_lab.inaturalist import MOST_STEPS, ROWS, draw


@pytest.fixture(scope="module")
def figure():
    rows = ("ce", "ce-drw", "focal")
    return draw(
        {(row, column): result() for column in ("inception_v3", "resnet50") for row in rows}
    )


def steps(ax):
    return [line for line in ax.get_lines() if line.get_drawstyle() == "steps-post"]


def test_a_row_of_panels_for_each_network(figure):
    assert [ax.get_title(loc="left") for ax in figure.axes] == [
        "Inception v3: top-1 accuracy",
        "Inception v3: top-5 accuracy",
        "ResNet-50: top-1 accuracy",
        "ResNet-50: top-5 accuracy",
    ]
    assert {ax.get_xlabel() for ax in figure.axes} == {"strength λ"}


def test_every_method_has_its_curve_in_per_cent(figure):
    for ax in figure.axes:
        curves = steps(ax)
        assert len(curves) == 3
        for line in curves:
            assert np.array_equal(line.get_xdata(), [0.0, 1.0, 2.0])
            assert line.get_ydata() == pytest.approx([60.0, 70.0, 70.0])


def test_a_curve_of_many_steps_is_drawn_at_some_strengths_exactly():
    strengths = np.concatenate([[0.0], np.sort(np.random.default_rng(0).uniform(0, 2, 5000))])
    values = np.linspace(0.5, 0.9, strengths.size)
    many = replace(result(), top1=(strengths, values))
    panel = draw({("ce", "resnet50"): many}).axes[0]
    (line,) = steps(panel)
    at, drawn = line.get_xdata(), line.get_ydata()
    assert len(at) == MOST_STEPS + 1
    expected = [100 * values[strengths <= each][-1] for each in at]
    assert drawn == pytest.approx(expected)
    (mark,) = (line for line in panel.get_lines() if line.get_marker() == "D")
    assert mark.get_ydata()[0] == pytest.approx(100 * values[strengths <= 1.25][-1])


def test_drw_is_broken_in_the_colour_of_its_loss(figure):
    plain, deferred, other = steps(figure.axes[0])
    assert plain.get_color() == deferred.get_color() != other.get_color()
    assert (plain.get_linestyle(), deferred.get_linestyle()) == ("-", "--")


def test_the_best_strength_is_marked_on_its_curve(figure):
    marks = [line for line in figure.axes[0].get_lines() if line.get_marker() == "D"]
    assert [(*line.get_xdata(), *line.get_ydata()) for line in marks] == [(1.25, 70.0)] * 3


def test_the_key_names_all(figure):
    (key,) = figure.legends
    assert [text.get_text() for text in key.get_texts()] == [
        "CE",
        "CE-DRW",
        "Focal",
        "as trained",
        "best λ for top-1",
    ]


@pytest.mark.parametrize("columns", [("stand-in",), ("inception_v3", "resnet50")])
def test_no_text_covers_another(columns):
    figure = draw({(row, column): result() for column in columns for row in ROWS})
    assert overlapping(figure) == []
