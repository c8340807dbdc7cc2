"""What the Displays share: axes, colours, options of artists, names of classes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from reprior.exceptions import OptionError, Setting, require

__all__ = [
    "AFTER",
    "BEFORE",
    "CHOSEN",
    "CYCLE",
    "FAINT",
    "LEGEND",
    "LEGEND_ABOVE",
    "artist_options",
    "axes",
    "axis_label",
    "class_names",
    "groups",
]

Vector: TypeAlias = np.ndarray[Any, Any]

# Okabe and Ito's colours, which every kind of colour vision distinguishes; two are darker, to be
# seen on white. Report pages have the same.
BEFORE, AFTER, CHOSEN, FAINT = "#7a7a7a", "#0072B2", "#D55E00", "#b5b5b5"
CYCLE = (AFTER, "#009E73", "#CC79A7", "#8A6100", CHOSEN, "#1A1A1A")

#: Letters of a class name; longer ones lose their middle, so that the axes keep their room.
MOST_LETTERS = 26

#: Lines that pass below a legend do not disturb its words.
LEGEND = {"frameon": True, "framealpha": 0.85, "edgecolor": "none", "facecolor": "white"}

#: A legend above the axes, where lines and points may be anywhere inside.
LEGEND_ABOVE = {"loc": "lower right", "bbox_to_anchor": (1, 1), "frameon": False}


_DOLLAR = re.compile(r"(?<!\\)\$")

#: Short names of options, which would stand beside the defaults' long ones.
_ALIASES = {
    "c": "color",
    "lw": "linewidth",
    "ls": "linestyle",
    "ds": "drawstyle",
    "ms": "markersize",
    "mec": "markeredgecolor",
    "mew": "markeredgewidth",
    "mfc": "markerfacecolor",
    "ec": "edgecolor",
    "fc": "facecolor",
}


def axes(ax: Any, n: int = 1, *, figsize: tuple[float, float] | None = None) -> list[Any]:
    """The ``n`` axes to draw on: those given, or those of a new figure."""
    if ax is None:
        pyplot = require("matplotlib.pyplot", extra="plots", purpose="To draw a figure")
        _, made = pyplot.subplots(1, n, figsize=figsize, squeeze=False, layout="compressed")
        return list(made[0])
    given = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(given) != n or not all(hasattr(one, "plot") for one in given):
        what = "axes of matplotlib" if n == 1 else f"{n} axes of matplotlib"
        raise OptionError(
            argument="ax",
            rule=f"must be {what}, or None",
            got=f"{_described(given, ax)}",
            remedy=f"Pass what matplotlib.pyplot.subplots(1, {n}) gives, or leave it out.",
        )
    return given


def _described(given: list[Any], ax: Any) -> str:
    strange = next((one for one in given if not hasattr(one, "plot")), None)
    if strange is not None or not given:
        return repr(ax if len(given) < 2 else strange)
    return f"{len(given)} of them"


def artist_options(name: str, given: Any, **defaults: Any) -> dict[str, Any]:
    """Options of an artist: the defaults, and what the caller gave in their place.

    Examples
    --------
    >>> artist_options("line_kw", {"color": "red"}, color="blue", linewidth=2)
    {'color': 'red', 'linewidth': 2}
    >>> artist_options("line_kw", {"lw": 1}, linewidth=2)
    {'linewidth': 1}
    """
    if given is None:
        return defaults
    if not isinstance(given, Mapping):
        raise OptionError(
            argument=name,
            rule="must be a dictionary of options for matplotlib",
            got=repr(given),
            remedy=["Pass for example ", Setting(name, {"color": "black"}), "."],
        )
    return {**defaults, **{_ALIASES.get(str(key), str(key)): value for key, value in given.items()}}


def class_names(classes: Any, n_classes: int) -> list[str]:
    """The names of all classes as text; their numbers where there are no names.

    Long names lose their middle.

    Examples
    --------
    >>> class_names(None, 3)
    ['0', '1', '2']
    >>> class_names(["cat", "an exceedingly verbose name of a class"], 2)
    ['cat', 'an exceedingly ve…a class']
    """
    if classes is None:
        return [str(k) for k in range(n_classes)]
    names = [str(name) for name in classes]
    if len(names) != n_classes:
        raise OptionError(
            argument="classes",
            rule=f"must name the {n_classes} classes",
            got=f"{len(names)} names",
            remedy="Pass one name per class, in the order of the scores.",
        )
    return [_shown(name) for name in names]


def _shown(name: str) -> str:
    """Return a name of at most so many letters, as matplotlib draws it."""
    if len(name) > MOST_LETTERS:
        tail = MOST_LETTERS // 3
        name = f"{name[: MOST_LETTERS - tail - 1].rstrip()}…{name[-tail:].lstrip()}"
    # A dollar would begin a formula; names that were shown before have theirs escaped.
    return _DOLLAR.sub(r"\$", name)


def groups(order: Vector, at_most: int) -> Sequence[Vector]:
    """``order`` in ``at_most`` runs of about equal length.

    Examples
    --------
    >>> groups(np.array([2, 0, 1]), 2)
    [array([2, 0]), array([1])]
    """
    return np.array_split(order, min(at_most, order.size))


def axis_label(metric: str) -> str:
    """What a metric is called on an axis.

    Examples
    --------
    >>> axis_label("mean_iou"), axis_label("recall[traffic_light]")
    ('mean IoU', 'recall of traffic_light')
    """
    name, bracket, rest = metric.partition("[")
    name = " ".join("IoU" if part == "iou" else part for part in name.split("_"))
    name = name.replace("f1", "F1")
    return f"{name} of {rest.removesuffix(']')}" if bracket else name
