"""One style for all figures of the lab, and files that do not change."""

from __future__ import annotations

import json
import subprocess
import sys
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab.tests.support.drawings import overlapping
from matplotlib.colors import to_rgb

from reprior import StrengthProfile
from reprior_lab.figures import (
    draw_steps,
    drawn_with,
    new_figure,
    save_figure,
    sequence,
    style,
)

PROBE = """
import importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps([name for name in ("matplotlib", "sklearn", "torch") if name in sys.modules]))
"""


def a_drawing():
    """Something with clip paths, markers and pixels, which all get names in an SVG."""
    with style():
        figure = new_figure(3, 2)
        ax = figure.subplots()
        ax.scatter([0, 1, 2], [2, 0, 1], rasterized=True)
        ax.plot([0, 2], [0, 2], "o-", label="a line")
        ax.set(xlabel="strength λ", title="A title")
        ax.legend()
    return figure


def test_the_same_drawing_gives_the_same_bytes(tmp_path):
    one, two = (save_figure(a_drawing(), tmp_path / name, "drawing") for name in "ab")
    for first, second in zip(one, two, strict=True):
        assert first.read_bytes() == second.read_bytes()


def test_files_are_a_png_and_an_svg(tmp_path):
    png, svg = save_figure(a_drawing(), tmp_path / "new" / "folder", "drawing")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    assert sorted(each.name for each in png.parent.iterdir()) == ["drawing.png", "drawing.svg"]


def test_what_a_person_has_set_does_not_matter_and_stays(tmp_path):
    plain = save_figure(a_drawing(), tmp_path / "a", "drawing")
    with mpl.rc_context({"font.size": 30, "axes.grid": True, "savefig.dpi": 30}):
        before = dict(mpl.rcParams)
        other = save_figure(a_drawing(), tmp_path / "b", "drawing")
        assert dict(mpl.rcParams) == before
    for first, second in zip(plain, other, strict=True):
        assert first.read_bytes() == second.read_bytes()


def test_after_an_error_both_files_are_as_they_were(tmp_path, monkeypatch):
    paths = save_figure(a_drawing(), tmp_path, "drawing")
    before = [path.read_bytes() for path in paths]
    figure, saved = new_figure(5, 5), []
    save = figure.savefig

    def full(path, **given):
        saved.append(path)
        if len(saved) == 2:
            raise OSError(28, "No space left on device")
        save(path, **given)

    monkeypatch.setattr(figure, "savefig", full)
    with pytest.raises(OSError, match="No space"):
        save_figure(figure, tmp_path, "drawing")
    assert [path.read_bytes() for path in paths] == before
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_a_sequence_goes_from_dark_to_light(n):
    red, green, blue = np.array([to_rgb(colour) for colour in sequence(n)]).T
    light = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    assert len(light) == n
    assert np.all(np.diff(light) > 0.05)
    assert light[-1] < 0.85


@given(st.integers(0, 2**32 - 1), st.floats(0, 2))
def test_steps_are_the_curve_at_every_strength(seed, strength):
    rng = np.random.default_rng(seed)
    scores, labels = rng.normal(size=(30, 3)), np.arange(30) % 3
    profile = StrengthProfile.from_scores(scores, labels, source_prior=[0.7, 0.2, 0.1])
    line = draw_steps(new_figure(2, 2).subplots(), profile.curve("accuracy"), 2.0)
    x, y = line.get_xdata(), line.get_ydata()
    assert line.get_drawstyle() == "steps-post"
    assert (x[0], x[-1]) == (0, 2)
    assert y[np.searchsorted(x, strength, side="right") - 1] == profile.evaluate(
        "accuracy", strength
    )


def test_the_version_of_what_draws_is_known():
    assert drawn_with() == {"matplotlib": mpl.__version__}


def test_texts_on_each_other_are_seen():
    figure = new_figure(3, 2)
    figure.text(0.5, 0.5, "one")
    figure.text(0.5, 0.6, "two")
    assert overlapping(figure) == []
    figure.text(0.52, 0.5, "three")
    figure.text(0.99, 0.1, "out of it")
    assert overlapping(figure) == [("one", "three"), ("out of it", "the edge")]


def test_the_experiments_load_no_framework_until_they_run():
    names = [f"reprior_lab.{name}" for name in ("figures", "odds", "toy", "cifar")]
    probe = [sys.executable, "-c", PROBE]
    found = subprocess.run([*probe, *names], capture_output=True, text=True, check=True).stdout
    assert json.loads(found) == []
    seen = subprocess.run(
        [*probe, "matplotlib.figure"], capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(seen) == ["matplotlib"]
