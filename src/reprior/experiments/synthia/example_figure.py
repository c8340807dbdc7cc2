"""Degraded frames side by side: what is seen, what is there, and what each fusion makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reprior.exceptions import require
from reprior.experiments.figures import new_figure, style
from reprior.experiments.synthia.examples import SHOWN, Example, rarer
from reprior.experiments.synthia.frames import IGNORED, Frame, FrameSource
from reprior.files.atomic import atomic_paths

__all__ = ["PALETTE", "write_examples"]

Array: TypeAlias = np.ndarray[Any, Any]

#: Colours of classes by name, after Cityscapes; rare ones brighter, for small things to be seen.
PALETTE = {
    "road": "#804080", "sidewalk": "#f423e8", "building": "#585858", "wall": "#9c9ccf",
    "fence": "#ff8c42", "pole": "#e8d9b0", "trafficlight": "#ffb000", "traffic light": "#ffb000",
    "trafficsign": "#f7ff00", "sign": "#f7ff00", "vegetation": "#4f8f1f", "terrain": "#98fb98",
    "sky": "#9cc9ef", "person": "#ff2020", "pedestrian": "#ff2020", "rider": "#b3003c",
    "car": "#1030c0", "truck": "#00004f", "bus": "#007a8a", "train": "#00c2a8",
    "motorcycle": "#6a5cff", "bicycle": "#b5651d", "roadlines": "#ffffff",
    "lane marking": "#ffffff", "other": "#303838", "roadworks": "#c06000",
}  # fmt: skip
UNKNOWN, NOTHING = "#00ffd0", "#000000"

#: UNO-IC is that of :data:`~reprior.experiments.synthia.examples.BETTER`.
HEADS = ("RGB", "depth", "ground truth", "SoftAve", "UNO", "UNO-IC, rebalance first")

#: Dots to the inch: a panel has then about as many as a frame.
DOTS = 130

#: Room around a box, in pixels of the scores.
ROOM = 2


def write_examples(
    examples: Sequence[Example],
    conditions: Mapping[str, FrameSource],
    classes: Sequence[str],
    counts: Sequence[int],
    folder: Path,
) -> tuple[Path, ...]:
    """Write ``synthia-examples.png``: a row for each example, and the classes below.

    Parameters
    ----------
    examples : sequence of Example
        What to show.
    conditions : mapping of str to FrameSource
        The test frames under each condition.
    classes, counts : sequence
        Names and training pixels of the classes; the rarer half is marked in the legend.
    folder : path
        Where to write.
    """
    first = conditions[examples[0].condition][examples[0].index]
    height, width = first.labels.shape
    panel_width = 2.05
    with style():
        tall = panel_width * height / width * len(examples)
        figure = new_figure(panel_width * len(HEADS) + 0.5, tall + 1.25)
        panels = figure.subplots(len(examples), len(HEADS), squeeze=False)
        for i, (row, example) in enumerate(zip(panels, examples, strict=True)):
            frame = first if not i else conditions[example.condition][example.index]
            _draw(row, example, frame, _colours(classes))
        for panel, head in zip(panels[0], HEADS, strict=True):
            panel.set_title(head, loc="center")
        _key(figure, classes, counts)
        figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0.01, hspace=0.01)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "synthia-examples.png"
        with atomic_paths(path) as (fresh,):
            figure.savefig(fresh, format="png", dpi=DOTS, metadata={"Software": None})
    return (path,)


def _draw(row: Any, example: Example, frame: Frame, colours: Array) -> None:
    # What has no truth is judged nowhere, so it is black everywhere.
    pictures = [example.labels, *(example.decided[name] for name in SHOWN)]
    shown = [np.where(example.labels == IGNORED, len(colours) - 1, each) for each in pictures]
    depth = np.log(np.clip(frame.depth, 1.0, 1000.0)) if frame.depth is not None else frame.labels
    images: list[tuple[Array, dict[str, Any]]] = [
        (frame.rgb, {}), (depth, {"cmap": "magma_r"}), *((colours[each], {}) for each in shown),
    ]  # fmt: skip
    height, width = example.labels.shape
    for panel, (image, how) in zip(row, images, strict=True):
        panel.imshow(image, extent=(0, width, height, 0), interpolation="nearest", **how)
        panel.set(xticks=[], yticks=[])
        for spine in panel.spines.values():
            spine.set_visible(False)
        for box in example.boxes:
            _point_at(panel, box, example.labels.shape)
    row[0].set_ylabel(example.condition.replace("_", " "))


def _point_at(panel: Any, box: tuple[int, int, int, int], shape: tuple[int, ...]) -> None:
    """Draw a box that is seen on every ground: white on black."""
    patches: Any = require("matplotlib.patches", extra="plots", purpose="To draw a figure")
    top, left = (max(at - ROOM, 0) for at in box[:2])
    bottom, right = (min(at + ROOM, end) for at, end in zip(box[2:], shape, strict=True))
    for colour, thick in (("black", 2.4), ("white", 1.1)):
        panel.add_patch(
            patches.Rectangle(
                (left, top), right - left, bottom - top, fill=False, edgecolor=colour,
                linewidth=thick,
            )
        )  # fmt: skip


def _colours(classes: Sequence[str]) -> Array:
    """Return the colour of every class, and last that of what has none."""
    colours: Any = require("matplotlib.colors", extra="plots", purpose="To draw a figure")
    names = [PALETTE.get(name, UNKNOWN) for name in classes]
    return np.array([colours.to_rgb(name) for name in (*names, NOTHING)])


def _key(figure: Any, classes: Sequence[str], counts: Sequence[int]) -> None:
    patches: Any = require("matplotlib.patches", extra="plots", purpose="To draw a figure")
    small = set(rarer(np.asarray(counts)).tolist())
    entries = [
        patches.Patch(
            facecolor=PALETTE.get(name, UNKNOWN), edgecolor="#8a8a8a",
            label=f"{name} *" if k in small else name,
        )
        for k, name in enumerate(classes)
    ]  # fmt: skip
    figure.legend(
        handles=entries, loc="outside lower center", ncols=min(len(entries), 7),
        handlelength=1.2, columnspacing=1.4, title="* the rarer half of the classes",
        title_fontsize=9,
    )  # fmt: skip
