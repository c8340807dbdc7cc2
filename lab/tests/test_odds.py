"""The ratio of two priors to the power of the strength, drawn and in numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab.tests.support.drawings import overlapping

import reprior as rp
from reprior_lab import odds
from reprior_lab.odds import LEFT, RIGHT, factor, reproduce
from reprior_lab.tables import Table

#: Powers are taken in two ways.
ROUNDING = 1e-12


@pytest.fixture(scope="module")
def panels():
    figure = odds._draw()
    return figure, figure.axes[:2]


@given(st.floats(0.01, 0.99), st.floats(0, 2), st.floats(-3, 3))
def test_the_factor_is_what_rebalancing_does_to_odds(share, strength, logit):
    """Oracle: two classes through the correction itself."""
    before, after = (
        rp.rebalance([[logit - 1.0, -1.0]], [share, 1 - share], strength=each)[0]
        for each in (0.0, strength)
    )
    done = (after[0] / after[1]) / (before[0] / before[1])
    np.testing.assert_allclose(factor((1 - share) / share, strength), done, rtol=1e-9)


@pytest.mark.parametrize("panel, strengths", [(0, LEFT), (1, RIGHT)])
def test_a_panel_has_a_line_for_every_strength(panels, panel, strengths):
    ax = panels[1][panel]
    assert ax.get_xscale() == ax.get_yscale() == "log"
    lines = {line.get_label(): line for line in ax.get_lines() if line.get_label()[0] == "λ"}
    assert len(lines) == len(strengths)
    for strength, line in zip(strengths, lines.values(), strict=True):
        x, y = line.get_data()
        np.testing.assert_allclose(y, x**strength, rtol=ROUNDING)
        slope = np.polyfit(np.log(x), np.log(y), 1)[0]
        assert slope == pytest.approx(strength, abs=1e-9)


def test_the_panels_are_up_to_one_and_beyond_with_the_ratio_itself_in_both(panels):
    assert max(LEFT) == min(RIGHT) == 1
    for ax in panels[1]:
        (identity,) = (line for line in ax.get_lines() if line.get_linestyle() == "--")
        np.testing.assert_allclose(*identity.get_data(), rtol=ROUNDING)
        assert "the ratio itself" in identity.get_label()


def test_linear_scales_show_growth_below_and_above_linear(panels):
    for ax, sign in zip(panels[1], (-1, 1), strict=True):
        (inset,) = ax.child_axes
        assert inset.get_xscale() == inset.get_yscale() == "linear"
        for line in inset.get_lines():
            x, y = line.get_data()
            assert np.all(sign * np.diff(y, 2) > -ROUNDING)
            assert np.all(sign * (y - x)[x > 1] > -ROUNDING)
            assert np.all(sign * (y - x)[x < 1] < ROUNDING)


def test_no_text_lies_on_another(panels):
    assert overlapping(panels[0]) == []


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder, what was given back, and what was told."""
    folder, told = tmp_path_factory.mktemp("odds") / "new", []
    return folder, reproduce(folder, progress=lambda *given: told.append(given)), told


def test_everything_is_written(whole):
    folder, found, told = whole
    names = {f"odds-ratio.{end}" for end in ("png", "svg", "md", "tex", "json", "run.json")}
    assert {path.name for path in found.files} == names
    assert {path.name for path in folder.iterdir()} == names
    assert told[-1] == ("drawing", 1, 1)


def test_the_table_is_the_factors(whole):
    folder, found, _ = whole
    (table,) = found.tables
    assert Table.from_dict(json.loads((folder / "odds-ratio.json").read_text())) == table
    assert found.notes == table.notes
    for label, cells in table.rows:
        strength = float(label.removeprefix("λ = "))
        expected = [0.01**strength, 0.1**strength, 1, 10**strength, 100**strength]
        assert [cell.value for cell in cells] == pytest.approx(expected)
        shown = [float(cell.shown().replace(",", "")) for cell in cells]
        assert shown == pytest.approx(expected, rel=5e-4)  # four digits


def test_the_run_file_has_the_numbers(whole):
    run = json.loads((whole[0] / "odds-ratio.run.json").read_text())
    assert run["panels"] == {"left": list(LEFT), "right": list(RIGHT)}
    for strength, factors in run["factors"].items():
        for ratio, value in factors.items():
            # The ratio is printed with six digits, and a strength of 2 doubles its error.
            assert value == pytest.approx(float(ratio) ** float(strength), rel=1e-5)
    assert "1" in run["factors"]["2"]
    assert set(run["versions"]) >= {"reprior", "python", "numpy", "matplotlib"}


def test_twice_gives_the_same_bytes(whole, tmp_path):
    for first, second in zip(whole[1].files, reproduce(tmp_path).files, strict=True):
        assert first.read_bytes() == second.read_bytes(), first.name
