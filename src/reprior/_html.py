"""HTML views of objects in notebooks: facts, tables and small curves.

No scripts, no files, and no more than one element. Text takes the notebook's colour; gains and
losses have two colours that every kind of colour vision distinguishes, with lighter ones on dark
grounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Change", "curve", "facts", "metric_rows", "table", "view"]

Vector: TypeAlias = np.ndarray[Any, Any]

_DARK = "--gain:#7fb0ff;--loss:#ffab66"
_LIGHT = "--gain:#00619a;--loss:#a84300"

#: Notebooks say by themselves whether they are light or dark; elsewhere the system does.
_STYLE = (
    f".reprior-view{{{_LIGHT};font-size:13px;line-height:1.45;max-width:46em;padding:.6em .9em;"
    "border:1px solid color-mix(in srgb,currentColor 25%,transparent);border-radius:8px}"
    f"@media(prefers-color-scheme:dark){{.reprior-view{{{_DARK}}}}}"
    '[data-jp-theme-light="true"] .reprior-view,[data-md-color-scheme="default"] .reprior-view,'
    f".vscode-light .reprior-view{{{_LIGHT}}}"
    '[data-jp-theme-light="false"] .reprior-view,[data-md-color-scheme="slate"] .reprior-view,'
    f".vscode-dark .reprior-view{{{_DARK}}}"
    ".reprior-view table{border-collapse:collapse;margin:.5em 0;background:none;"
    "font-variant-numeric:tabular-nums}"
    ".reprior-view th,.reprior-view td{padding:.15em .8em .15em 0;text-align:right;border:0;"
    "background:none;color:inherit;font-size:13px}"
    ".reprior-view th{font-weight:600}"
    ".reprior-view tbody th{font-weight:400}.reprior-view .words th{white-space:nowrap}"
    ".reprior-view th:first-child,.reprior-view .words td{text-align:left;overflow-wrap:anywhere}"
    ".reprior-view .gain{color:var(--gain)}.reprior-view .loss{color:var(--loss)}"
    ".reprior-view svg{display:block;max-width:100%;height:auto;margin:.4em 0}"
    ".reprior-view p{margin:.3em 0}"
)

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 420, 130, 46, 30, 8

#: Points of a curve that are drawn.
MOST_POINTS = 400


@dataclass(frozen=True)
class Change:
    """A change, coloured: a gain if positive, a loss if negative, by the rule of the metric."""

    value: float
    larger_is_better: bool = True


def view(title: str, *parts: str) -> str:
    """Return the view of one object.

    Examples
    --------
    >>> view("<Title>", "<p>part</p>").endswith("&lt;Title&gt;</strong><p>part</p></div>")
    True
    """
    inside = "".join(parts)
    return (
        f'<div class="reprior-view"><style>{_STYLE}</style>'
        f"<strong>{escape(title)}</strong>{inside}</div>"
    )


def facts(pairs: Mapping[str, str]) -> str:
    """Return names and values, one pair in a line; empty values are left out."""
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>'
        for name, value in pairs.items()
        if value
    )
    return f'<table class="words"><tbody>{rows}</tbody></table>'


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table. The first cell of a row is its head; a :class:`Change` is coloured."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(str(first))}</th>{"".join(map(_cell, rest))}</tr>'
        for first, *rest in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def metric_rows(
    metrics: Mapping[str, tuple[float, float]], errors: Iterable[str] = ()
) -> list[Any]:
    """Return rows of metrics before and after; of ``errors`` less is better."""
    return [
        (name, f"{old:.4f}", f"{new:.4f}", Change(new - old, name.split()[0] not in errors))
        for name, (old, new) in metrics.items()
    ]


def curve(
    x: Any,
    y: Any,
    *,
    labels: tuple[str, str],
    steps: bool = True,
    band: tuple[float, float] | None = None,
    mark: tuple[float, float] | None = None,
) -> str:
    """Return a small figure of y over x, as steps or as a line, with a band and a mark."""
    x, y = _thinned(np.asarray(x, np.float64), np.asarray(y, np.float64))
    low, high = float(x[0]), float(x[-1])
    bottom, top = float(y.min()), float(y.max())
    if mark is not None:
        bottom, top = min(bottom, mark[1]), max(top, mark[1])
    wide, tall = high - low or 1.0, top - bottom or 1.0

    def across(value: float) -> str:
        return f"{LEFT + (WIDTH - LEFT - 8) * (value - low) / wide:.1f}"

    def up(value: float) -> str:
        return f"{HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - bottom) / tall:.1f}"

    path = [f"M{across(x[0])} {up(y[0])}"]
    for at, value in zip(x[1:], y[1:], strict=True):
        path.append(f"H{across(at)}V{up(value)}" if steps else f"L{across(at)} {up(value)}")
    floor = HEIGHT - BOTTOM
    drawn = [
        f'<path d="M{LEFT} {TOP}V{floor}H{WIDTH - 8}" fill="none" stroke="currentColor" '
        'stroke-opacity=".35"/>',
        f'<path d="{"".join(path)}" fill="none" stroke="var(--gain)" stroke-width="1.8"/>',
        _text(LEFT - 5, TOP + 6, f"{top:.3f}", "end"),
        _text(LEFT - 5, floor, f"{bottom:.3f}", "end"),
        _text(LEFT, floor + 13, f"{low:.4g}", "middle"),
        _text(WIDTH - 10, floor + 13, f"{high:.4g}", "end"),
        _text((LEFT + WIDTH) / 2, floor + 24, labels[0], "middle"),
    ]
    if band is not None and band[1] > band[0]:
        ends = [min(max(end, low), high) for end in band]
        start, end = (float(across(each)) for each in ends)
        drawn.insert(
            0,
            f'<rect x="{start:.1f}" y="{TOP}" width="{max(end - start, 1.0):.1f}" '
            f'height="{floor - TOP}" fill="var(--loss)" fill-opacity=".22"/>',
        )
    if mark is not None:
        drawn.append(
            f'<circle cx="{across(mark[0])}" cy="{up(mark[1])}" r="4" fill="var(--loss)"/>'
        )
    name = escape(f"{labels[1]} over {labels[0]}")
    return (
        f'<svg role="img" aria-label="{name}" width="{WIDTH}" viewBox="0 0 {WIDTH} {HEIGHT}">'
        f"<title>{name}</title>{''.join(drawn)}</svg>"
    )


def _cell(value: Any) -> str:
    if not isinstance(value, Change):
        return f"<td>{escape(str(value))}</td>"
    if not math.isfinite(value.value) or round(value.value, 4) == 0.0:
        return "<td>±0.0000</td>"
    name = "gain" if (value.value > 0) is value.larger_is_better else "loss"
    return f'<td class="{name}">{f"{value.value:+.4f}".replace("-", "−")}</td>'


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-size="10" text-anchor="{anchor}" '
        f'fill="currentColor">{escape(words)}</text>'
    )


def _thinned(x: Vector, y: Vector) -> tuple[Vector, Vector]:
    """Return at most so many points, the largest value among them."""
    if x.size <= MOST_POINTS:
        return x, y
    kept = np.unique([*np.linspace(0, x.size - 1, MOST_POINTS).astype(int), int(np.argmax(y))])
    return x[kept], y[kept]
