"""Colours that can be read: contrasts by WCAG 2.2, in light, in dark and in print."""

from __future__ import annotations

import re
from importlib import resources

import pytest

ASSETS = resources.files("reprior.report") / "assets"

#: Level AA: of text, and of marks and edges.
TEXT, MARKS = 4.5, 3.0


def asset(name):
    return (ASSETS / name).read_text(encoding="utf-8")


def palette(block):
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]+)", block))


def palettes():
    """By theme; a dark system's is the chosen dark one."""
    light, dark, system, *_ = re.findall(r":root[^{]*\{[^}]*\}", asset("css/page.css"))
    assert palette(dark) == palette(system)
    paper = {**palette(light), **palette(asset("css/print.css"))}
    return {"light": palette(light), "dark": palette(dark), "print": paper}


def luminance(color):
    digits = color[1:] if len(color) == 7 else "".join(2 * digit for digit in color[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_text_and_marks(theme):
    colors = palettes()[theme]
    for ground in ("paper", "card", "wash"):
        for text in ("ink", "soft", "good", "bad"):
            assert contrast(colors[text], colors[ground]) >= TEXT, (text, ground)
        for mark in ("before", "accent"):
            assert contrast(colors[mark], colors[ground]) >= MARKS or ground == "wash"
    assert contrast(colors["on-accent"], colors["accent"]) >= TEXT


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_figures(theme):
    colors = palettes()[theme]
    lines, scales = asset("js/theme.js").split("const SCALES")
    drawn = re.findall("#[0-9a-f]{6}", re.search(rf"{theme}: (\[.*\])", lines)[1])
    assert len(drawn) == 6
    assert min(contrast(line, colors["card"]) for line in drawn) >= MARKS
    cells = re.findall("#[0-9a-f]{6}", re.search(rf"{theme}: (\[.*\])", scales)[1])
    assert len(cells) == 4
    assert min(contrast(colors["ink"], cell) for cell in cells) >= TEXT
