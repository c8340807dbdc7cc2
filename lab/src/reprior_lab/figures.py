"""Figures of the lab: one style, colours for every colour vision, reproducible files.

The colours of before, after and chosen values are those of the report's plots:
:mod:`reprior.report.plots.drawing`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reprior.files import atomic_paths
from reprior.report.plots import AFTER, CHOSEN, FAINT

__all__ = [
    "FAINT",
    "INK",
    "LARGER",
    "SMALLER",
    "TUNED",
    "draw_steps",
    "drawn_with",
    "new_figure",
    "save_figure",
    "sequence",
    "style",
]

Vector: TypeAlias = np.ndarray[Any, Any]

INK = "#222222"

#: The classes of the toy sets: the paper's larger class is red.
LARGER, SMALLER = CHOSEN, AFTER

#: The colour of the model after the tuned correction.
TUNED = CHOSEN

#: The end of the colour map for a sequence: colours beyond it are too pale for a line on white.
PALEST = 0.84

#: All settings of a drawing; the rest are matplotlib's defaults, not the user's settings for other
#: figures.
STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#8a8a8a",
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "svg.hashsalt": "reprior",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}

#: Metadata left out of files, so that two drawings of the same numbers have the same bytes.
_UNNAMED: dict[str, dict[str, None]] = {"png": {"Software": None}, "svg": {"Date": None}}


@contextmanager
def style() -> Iterator[None]:
    """Draw in the lab's style inside the block; restore the settings of matplotlib after it.

    Examples
    --------
    >>> import matplotlib as mpl
    >>> with style():
    ...     mpl.rcParams["svg.hashsalt"]
    'reprior'
    """
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)  # type: ignore[arg-type]  # its stubs list every key
        yield


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of a size in inches, without a window or global state.

    Examples
    --------
    >>> new_figure(8, 4).get_size_inches()
    array([8., 4.])
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Any, folder: Path, name: str) -> tuple[Path, ...]:
    """Write NAME.png and NAME.svg, both or neither, the same bytes for the same drawing.

    Examples
    --------
    >>> folder = getfixture("tmp_path") / "figures"
    >>> [path.name for path in save_figure(new_figure(1, 1), folder, "empty")]
    ['empty.png', 'empty.svg']
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = tuple(folder / f"{name}.{kind}" for kind in _UNNAMED)
    with style(), atomic_paths(*paths) as fresh:
        for path, (kind, metadata) in zip(fresh, _UNNAMED.items(), strict=True):
            figure.savefig(path, format=kind, metadata=metadata)
    return paths


def sequence(n: int) -> list[str]:
    """Return ``n`` colours of a sequence, from dark to light in every colour vision.

    Examples
    --------
    >>> sequence(3)
    ['#440154', '#287d8e', '#95d840']
    """
    import matplotlib as mpl
    from matplotlib import colors

    viridis = mpl.colormaps["viridis"]
    return [str(colors.to_hex(viridis(at))) for at in np.linspace(0, PALEST, n)]


def draw_steps(
    ax: Any,
    curve: tuple[Vector, Vector],
    upper: float,
    *,
    color: str = AFTER,
    linewidth: float = 1.8,
    label: str | None = None,
) -> Any:
    """Draw a step function of the strength, as :meth:`reprior.StrengthProfile.curve` gives it.

    Parameters
    ----------
    ax : matplotlib Axes
        The axes to draw on.
    curve : (strengths, values)
        ``values[i]`` holds from ``strengths[i]`` to the next strength.
    upper : float
        The end of the last step.
    color, linewidth, label
        Properties of the line.

    Returns
    -------
    matplotlib Line2D
        The line.

    Examples
    --------
    >>> import numpy as np
    >>> ax = new_figure(4, 3).subplots()
    >>> draw_steps(ax, (np.array([0.0, 0.5]), np.array([0.7, 0.8])), 2.0).get_xdata()
    array([0. , 0.5, 2. ])
    """
    strengths, values = curve
    (line,) = ax.plot(
        np.append(strengths, upper),
        np.append(values, values[-1]),
        drawstyle="steps-post",
        color=color,
        linewidth=linewidth,
        label=label,
    )
    return line


def drawn_with() -> dict[str, str]:
    """Return the version of matplotlib, for run files.

    Examples
    --------
    >>> list(drawn_with())
    ['matplotlib']
    """
    return {"matplotlib": version("matplotlib")}
