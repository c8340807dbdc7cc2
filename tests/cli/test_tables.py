"""Tables: the same rows for people, for Markdown and for scripts."""

from __future__ import annotations

import csv
import io

from rich.console import Console

from reprior.cli import Grid
from reprior.cli.tables import before_after, class_changes


def shown(grid: Grid) -> str:
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    console.print(grid.rich())
    return console.file.getvalue()


def coloured(grid: Grid) -> str:
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="standard")
    console.print(grid.rich())
    return console.file.getvalue()


def test_every_form_has_the_numbers():
    grid = before_after({"accuracy": (0.5, 0.625)}, title="here")
    assert "0.5000   0.6250   +0.1250" in shown(grid)
    assert "| accuracy | 0.5000 | 0.6250 | +0.1250 |" in grid.markdown()
    assert list(csv.reader(io.StringIO(grid.csv())))[1] == ["accuracy", "0.5", "0.625", "0.125"]


def test_less_is_better_for_errors():
    green, red = "\x1b[32m", "\x1b[31m"
    assert green in coloured(before_after({"accuracy": (0.5, 0.6)}))
    assert red in coloured(before_after({"accuracy": (0.6, 0.5)}))
    assert green in coloured(before_after({"log_loss": (0.6, 0.5)}))
    assert green in coloured(before_after({"mean_cost": (0.6, 0.5)}))
    assert red in coloured(before_after({"mean_cost": (-0.6, -0.5)}))
    assert red in coloured(before_after({"ece": (0.5, 0.6)}))
    neither = coloured(before_after({"accuracy": (0.5, 0.5)}))
    assert green not in neither
    assert red not in neither


def test_what_is_not_known_is_a_dash_and_an_empty_cell():
    grid = Grid(("class", "recall"), [("cat", float("nan")), ("dog", 0.5)])
    assert "–" in shown(grid)
    assert grid.csv().splitlines()[1] == "cat,"


def test_names_cannot_break_a_table():
    grid = Grid(("class", "recall"), [("a|b<script>\n", 0.5)])
    assert "| a\\|b&lt;script>\\\\n | 0.5000 |" in grid.markdown().splitlines()
    assert "[bold]" in shown(Grid(("class",), [("[bold]",)]))


def test_the_classes_that_change_most():
    before, after = [0.5, 0.5, 0.5, 0.5, 0.5], [0.6, 0.4, 0.5, 0.9, float("nan")]
    grid = class_changes(list("abcde"), [1, 2, 3, 4, 5], before, after, n=1)
    assert [row[0] for row in grid.rows] == ["d", "b"]
    both = class_changes(list("abcde"), [1, 2, 3, 4, 5], before, after, n=3)
    assert [row[0] for row in both.rows] == ["d", "a", "b"]


def test_numbers_are_whole_on_a_narrow_terminal():
    heads = ("class", "training", "labels", *(f"{r} {w}" for r in ("recall", "precision", "iou")
             for w in ("before", "after")))  # fmt: skip
    grid = Grid(heads, [("a rather long name", 100, 50, 0.1234, 0.2, 0.3, 0.4, 0.5, 0.6789)])
    console = Console(file=io.StringIO(), width=80, force_terminal=False)
    console.print(grid.rich())
    text = console.file.getvalue()
    assert "0.1234" in text
    assert "0.6789" in text
    assert "…" not in text
    assert "rather" in text
    assert max(map(len, text.splitlines())) <= 80
