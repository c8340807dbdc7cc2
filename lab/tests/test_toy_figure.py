"""The toy figure, of a set that is stated here."""

from __future__ import annotations

import numpy as np
import pytest
from lab.tests.support.drawings import overlapping, texts

from reprior_lab import ImageData, RunConfig, RunFile
from reprior_lab.toy import Judgement, Plane, ToySet, draw

STRENGTHS = (0.0, 0.5, 1.0, 1.5, 2.0)

#: Contours of a plane that is linear are where they are, but for the last bits.
ROUNDING = 1e-9


def a_set(name, *, shift=0.0, bounds=(0.0, 2.0), tuned=1.234):
    """Boundaries are upright lines: at strength λ, where x is λ + shift."""
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 3, (40, 2)).astype(np.float32)
    labels = np.repeat([0, 1], [30, 10])
    names = ["larger", "smaller"]
    data = ImageData(name, points, labels, points, labels, names, (), (), points, labels)
    run = RunFile(RunConfig.resolve(data=name), class_counts=(30, 10))
    x, y = np.linspace(-1, 4, 101), np.linspace(0, 3, 61)
    plane = Plane(x, y, np.broadcast_to(x - shift, (61, 101)).copy())
    curve = np.array([0.0, 0.8, 1.3]), np.array([0.5, 0.9, 0.7])
    judgements = tuple(
        Judgement(what, at, value, value, 0.9, 0.8)
        for what, at, value in (("before", 0.0, 0.5), ("λ = 1", 1.0, 0.9), ("tuned", tuned, 0.9))
    )
    validation = curve[0] + np.array([0.0, 0.1, 0.1]), curve[1] - 0.1
    interval = (tuned - 0.1, tuned + 0.1)
    return ToySet(data, run, bounds, tuned, interval, validation, curve, judgements, plane)


@pytest.fixture(scope="module")
def figure():
    return draw([a_set("circles"), a_set("moons", shift=0.5)], STRENGTHS)


def test_the_circles_are_above_the_moons(figure):
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert [title.partition(":")[0] for title in titles] == [
        "Circles",
        "Circles",
        "Two moons",
        "Two moons",
    ]


@pytest.mark.parametrize("row, shift", [(0, 0.0), (1, 0.5)])
def test_the_boundary_of_a_strength_is_its_contour(figure, row, shift):
    contours = [each for each in figure.axes[2 * row].collections if hasattr(each, "levels")]
    assert [float(each.levels[0]) for each in contours] == list(STRENGTHS)
    for each, strength in zip(contours, STRENGTHS, strict=True):
        (path,) = each.get_paths()
        np.testing.assert_allclose(path.vertices[:, 0], strength + shift, atol=ROUNDING)


def test_the_colours_of_boundaries_are_those_of_marks_and_key(figure):
    left, right = figure.axes[:2]
    boundaries = [tuple(c.get_edgecolor()[0]) for c in left.collections if hasattr(c, "levels")]
    assert len(set(boundaries)) == len(STRENGTHS)
    (key,) = figure.legends
    from matplotlib.colors import to_rgba

    assert [to_rgba(each.get_color()) for each in key.get_lines()[2:]] == boundaries
    dots = [each for each in right.get_lines() if each.get_markersize() == 5]
    assert [to_rgba(each.get_color()) for each in dots] == boundaries


def test_every_training_sample_is_drawn(figure):
    points = [each.get_offsets() for each in figure.axes[0].collections][:2]
    assert [len(each) for each in points] == [30, 10]


def test_the_curves_are_steps_in_per_cent_and_end_at_the_bound(figure):
    lines = {line.get_label(): line for line in figure.axes[1].get_lines()}
    test = lines["test samples: judged"]
    assert test.get_drawstyle() == "steps-post"
    np.testing.assert_allclose(test.get_xdata(), [0, 0.8, 1.3, 2])
    np.testing.assert_allclose(test.get_ydata(), [50, 90, 70, 70])
    validation = lines["validation samples: tuned on"]
    np.testing.assert_allclose(validation.get_ydata(), [40, 80, 60, 60])


def test_marks_lie_on_the_test_curve_and_say_what_they_are(figure):
    lines = {line.get_label(): line for line in figure.axes[1].get_lines()}
    assert [float(lines["λ = 0: 50.00 %"].get_data()[k][0]) for k in (0, 1)] == [0, 50]
    assert [float(lines["λ = 1: 90.00 %"].get_data()[k][0]) for k in (0, 1)] == [1, 90]
    assert float(lines["λ = 1.234, tuned: 90.00 %"].get_xdata()[0]) == 1.234
    dots = [line for line in figure.axes[1].get_lines() if line.get_markersize() == 5]
    assert [float(dot.get_ydata()[0]) for dot in dots] == pytest.approx([50, 50, 90, 70, 70])


def test_no_text_lies_on_another(figure):
    assert overlapping(figure) == []


def test_the_key_says_how_many_samples_there_are(figure):
    words = {each.get_text() for each in texts(figure)}
    assert words >= {"larger class (30)", "smaller class (10)", "boundary at λ = 0", "λ = 2"}


def test_a_strength_that_changes_nothing_in_sight_has_no_boundary():
    figure = draw([a_set("circles", shift=3.2)], STRENGTHS)
    contours = [each for each in figure.axes[0].collections if hasattr(each, "levels")]
    assert [float(each.levels[0]) for each in contours] == [0.0, 0.5]


def test_wider_bounds_have_fewer_ticks():
    figure = draw([a_set("moons", bounds=(0.0, 8.0), tuned=5.0)], STRENGTHS)
    assert figure.axes[1].get_xlim() == (0, 8)
    assert list(figure.axes[1].get_xticks()) == list(range(9))
    assert overlapping(figure) == []
