"""``reprior reproduce synthia-rgbd``: train and fuse the networks of Table 5, and write it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reprior import prior_from_counts
from reprior.exceptions import OptionError
from reprior.files import atomic_paths
from reprior_lab.figures import new_figure, style
from reprior_lab.reproduction import Progress, Reproduction, titled_progress
from reprior_lab.synthia.correction import STRETCH
from reprior_lab.synthia.data import CLEAR, HELD_OUT, DataSource
from reprior_lab.synthia.frames import IGNORED, Frame, FrameSource
from reprior_lab.synthia.fused import (
    MODALITIES,
    FusionResult,
    decide,
    fit_fusion,
    fuse_networks,
    fusion_home,
    read_fusion,
    read_pair,
)
from reprior_lab.synthia.network_jobs import (
    NetworkJob,
    check_frames,
    finished_run,
    run_networks,
)
from reprior_lab.synthia.rgb import no_network
from reprior_lab.synthia.runs import NetworkRun, score_path, scored_conditions
from reprior_lab.synthia.settings import NetworkSettings, home_of, rgbd_networks
from reprior_lab.synthia.tables import rgbd_tables
from reprior_lab.synthia.weather import CONDITIONS
from reprior_lab.tables import write_table

__all__ = [
    "BETTER",
    "PALETTE",
    "RULE",
    "SHOWN",
    "WORSE",
    "Example",
    "choose_examples",
    "rarer",
    "recovered",
    "reproduce",
    "write_examples",
]

NO_EXAMPLES = (
    "The figure of examples was not drawn: it needs the folder of the frames and the networks' "
    "score files."
)


def reproduce(
    folder: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] | None = None,
    protocol: str = "compact",
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    devices: int | str = "auto",
    train: bool = True,
    skip_unreadable: bool = False,
    progress: Progress | None = None,
) -> Reproduction:
    """Train the unfinished networks, and write Table 5 and the figure of examples.

    Parameters
    ----------
    folder : path
        Gets ``networks/`` with a folder for each, ``fusions/``, the tables and the figure. It may
        be the folder of ``synthia-rgb``: the network of colour is the same.
    root : path, optional
        The folder of SYNTHIA; needed if a network must be trained or scored, and for the figure.
    protocol, seed, settings
        As in :func:`~reprior_lab.synthia.settings.rgbd_networks`.
    jobs : int, optional
        How many networks to train at once, on equal shares of the CPU's threads. By default one
        for each device.
    devices : int or str, default "auto"
        How many devices, their numbers such as "0,1", or "auto": all GPUs, or one device without
        GPUs. Each network is trained on one of them.
    train : bool, default True
        Whether to train; otherwise both networks must be finished.
    skip_unreadable : bool, default False
        Whether frames that lack a file, or have a damaged one, are left out.
    progress : callable, optional
        Receives the progress.
    """
    folder = Path(folder)
    chosen = rgbd_networks(protocol=protocol, seed=seed, settings=settings)
    source = DataSource.of_settings(root, chosen[0], skip_unreadable=skip_unreadable)
    homes = {each.modality: home_of(folder, each) for each in chosen}
    if root is not None:
        check_frames(folder, chosen, source)
    place = fusion_home(folder, [each.id for each in chosen])
    result = _kept(place, homes, source)
    if result is None and (train or root is not None):
        waiting = [NetworkJob(each, source, weather=True, train=train) for each in chosen]
        run_networks(folder, waiting, jobs, progress, devices=devices)
    runs = {each.modality: finished_run(folder, each) for each in chosen}
    known = {name: run for name, run in runs.items() if run is not None}
    if len(known) < len(runs):
        raise _unfinished(folder, chosen, [name for name in runs if name not in known])
    partial: tuple[str, ...] = ()
    if result is None:
        result = fuse_networks(known, homes, _scored(homes), titled_progress(progress, "fusing"))
        partial = _partial(result, source)
        if not partial:
            result.write(place)
    tables = rgbd_tables(result, [known[name] for name in MODALITIES])
    files = [path for table in tables for path in write_table(table, folder)]
    drawn, notes = _examples(folder, result, known, homes, source)
    return Reproduction(tables, (*files, *drawn), (*partial, *notes))


def _kept(place: Path, homes: Mapping[str, Path], source: DataSource) -> FusionResult | None:
    """Return the stored fusion, unless the scores or conditions have changed."""
    result = read_fusion(place)
    if result is None:
        return None
    if source.root is not None:
        conditions = _conditions(source)
    else:
        # Without the frames, the score files tell the conditions; results may exist without scores.
        conditions = list(
            {*result.n_test, *scored_conditions(homes.values(), (CLEAR, *CONDITIONS))}
        )
    return result if result.is_of(homes, conditions) else None


def _conditions(source: DataSource) -> list[str]:
    """Return the conditions of a fusion: those of the frames, or all possible ones if unknown."""
    if source.root is None:
        return [CLEAR, *CONDITIONS]
    return [name for name in source.open().frame_names() if name != HELD_OUT]


def _partial(result: FusionResult, source: DataSource) -> tuple[str, ...]:
    """Return a note on the conditions that a fusion lacks; such a fusion is not stored."""
    lacking = [name for name in _conditions(source) if name not in result.n_test]
    if not lacking:
        return ()
    words = ", ".join(name.replace("_", " ") for name in lacking)
    return (
        f"The tables are without {words}: not both networks are scored there. The fusion is not "
        f"kept, and is computed again the next time.",
    )


def _unfinished(folder: Path, chosen: Sequence[NetworkSettings], lacking: list[str]) -> OptionError:
    if len(lacking) == len(MODALITIES):
        return no_network(folder, chosen)
    return OptionError(
        argument="folder",
        rule="must have both networks finished",
        got=f"{str(folder)!r}, which lacks that of {lacking[0]}",
        remedy="Train it first.",
    )


def _scored(homes: Mapping[str, Path]) -> list[str]:
    """Return the conditions under which all networks are scored."""
    conditions = scored_conditions(homes.values(), (HELD_OUT, CLEAR, *CONDITIONS))
    if conditions[:2] != [HELD_OUT, CLEAR] or len(conditions) < 3:
        raise OptionError(
            argument="root",
            rule="must be given for the networks to be scored",
            got="none, and no score files of the held-out frames, the clear ones and "
            "an unseen condition",
            remedy="Pass the folder of SYNTHIA.",
        )
    return conditions[1:]


def _examples(
    folder: Path,
    result: FusionResult,
    runs: Mapping[str, NetworkRun],
    homes: Mapping[str, Path],
    source: DataSource,
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Write the figure of examples if the frames and scores exist; else return a note."""
    wanted = (HELD_OUT, *result.conditions)
    scored = all(score_path(home, name).exists() for home in homes.values() for name in wanted)
    if source.root is None or not scored:
        return (), (NO_EXAMPLES,)
    run = next(iter(runs.values()))
    examples = choose_examples(result, runs, homes)
    drawn = write_examples(
        examples, source.open().conditions(), run.classes, run.class_counts, folder
    )
    return drawn, (f"The figure of examples: {RULE}",)


Array: TypeAlias = np.ndarray[Any, Any]

#: The decisions that are shown, and the two that are compared.
SHOWN = ("softave", "uno", "uno-ic-rebalanced/tuned")
WORSE, BETTER = SHOWN[0], SHOWN[-1]

#: The least size of a region in pixels of the scores, and the shares found and missed in it.
LEAST_PIXELS, FOUND, MISSED = 8, 0.5, 0.1

#: How many conditions are shown, and how many regions are marked in each.
N_CONDITIONS, N_REGIONS = 4, 3

RULE = (
    f"The {N_CONDITIONS} conditions are those under which UNO-IC, which rebalances first here, "
    f"gains most mean accuracy over SoftAve; of each, that frame is shown in which regions of the "
    f"rarer half of the classes that UNO-IC finds (half of their pixels or more) and SoftAve "
    f"misses (a tenth or less) have most pixels, {STRETCH} frames at least from those shown above "
    f"it. The boxes are the largest of these regions; a row without a box has none. So the frames "
    f"show what the gain looks like, not how often it is there."
)

#: Colours of classes by name, after Cityscapes; rare classes are brighter, so that small objects
#: are visible.
PALETTE = {
    "road": "#804080",
    "sidewalk": "#f423e8",
    "building": "#585858",
    "wall": "#9c9ccf",
    "fence": "#ff8c42",
    "pole": "#e8d9b0",
    "trafficlight": "#ffb000",
    "traffic light": "#ffb000",
    "trafficsign": "#f7ff00",
    "sign": "#f7ff00",
    "vegetation": "#4f8f1f",
    "terrain": "#98fb98",
    "sky": "#9cc9ef",
    "person": "#ff2020",
    "pedestrian": "#ff2020",
    "rider": "#b3003c",
    "car": "#1030c0",
    "truck": "#00004f",
    "bus": "#007a8a",
    "train": "#00c2a8",
    "motorcycle": "#6a5cff",
    "bicycle": "#b5651d",
    "roadlines": "#ffffff",
    "lane marking": "#ffffff",
    "other": "#303838",
    "roadworks": "#c06000",
}
UNKNOWN, NOTHING = "#00ffd0", "#000000"

#: UNO-IC is that of :data:`BETTER`.
HEADS = ("RGB", "depth", "ground truth", "SoftAve", "UNO", "UNO-IC, rebalance first")

#: Dots per inch, so that a panel has about as many dots as a frame has pixels.
DOTS = 130

#: Margin around a box, in pixels of the scores.
ROOM = 2


@dataclass(frozen=True, eq=False)
class Example:
    """A frame of the figure of examples.

    Parameters
    ----------
    condition : str
        The weather.
    index : int
        The index among the test frames.
    labels : uint8 (h, w)
        The labels at the pixels of the scores.
    decided : mapping of str to integer (h, w)
        The decisions of each of :data:`SHOWN`.
    boxes : sequence of (int, int, int, int)
        Top, left, bottom and right of the marked regions, ends excluded.
    """

    condition: str
    index: int
    labels: Array
    decided: Mapping[str, Array]
    boxes: Sequence[tuple[int, int, int, int]]


def choose_examples(
    result: FusionResult, runs: Mapping[str, NetworkRun], homes: Mapping[str, Path]
) -> list[Example]:
    """Return the frames of :data:`RULE`, from the score files of both networks."""
    counts = np.asarray(next(iter(runs.values())).class_counts)
    held_out, prior = read_pair(homes, HELD_OUT), prior_from_counts(counts)
    fusions = {
        row: fit_fusion(row, held_out, prior, strength=result.strengths.get(row)) for row in SHOWN
    }
    small = rarer(counts)
    examples: list[Example] = []
    for condition in _most_gained(result):
        pair = read_pair(homes, condition)
        decided = {row: decide(fusions[row], pair) for row in SHOWN}
        labels = pair["rgb"].labels
        regions = [
            recovered(labels[i], decided[WORSE][i], decided[BETTER][i], small)
            for i in range(len(labels))
        ]
        taken = [each.index for each in examples]
        index = _best(regions, taken)
        boxes = [box for _, box in regions[index][:N_REGIONS]]
        own = {row: each[index] for row, each in decided.items()}
        examples.append(Example(condition, index, labels[index], own, boxes))
    return examples


def rarer(counts: Array) -> Array:
    """Return the rarer half of the classes.

    Examples
    --------
    >>> rarer(np.array([50, 3, 9, 70]))
    array([1, 2])
    """
    return np.sort(np.argsort(counts, kind="stable")[: len(counts) // 2])


def recovered(
    labels: Array, before: Array, after: Array, small: Array
) -> list[tuple[int, tuple[int, int, int, int]]]:
    """Return size and box of the regions of rare classes that are found after and not before.

    Parameters
    ----------
    labels, before, after : integer (h, w)
        The labels, and two decisions.
    small : sequence of int
        Classes.

    Returns
    -------
    list of (int, (int, int, int, int))
        Pixels, and top, left, bottom and right, the largest region first.
    """
    from scipy import ndimage

    regions = []
    for k in small:
        marks, _ = ndimage.label((labels == k) & (labels != IGNORED), structure=np.ones((3, 3)))
        for number, (rows, columns) in enumerate(ndimage.find_objects(marks), 1):
            region = marks[rows, columns] == number
            size = int(region.sum())
            was, is_now = (
                float((each[rows, columns][region] == k).mean()) for each in (before, after)
            )
            if size >= LEAST_PIXELS and was <= MISSED and is_now >= FOUND:
                regions.append((size, (rows.start, columns.start, rows.stop, columns.stop)))
    return sorted(regions, key=lambda each: -each[0])


def _most_gained(result: FusionResult) -> list[str]:
    def gained(condition: str) -> float:
        better, worse = (
            result.judged[row][condition]["balanced_accuracy"] for row in (BETTER, WORSE)
        )
        return worse - better

    return sorted(result.averaged, key=gained)[:N_CONDITIONS]


def _best(regions: Sequence[Sequence[tuple[int, Any]]], taken: Sequence[int]) -> int:
    """Return the frame with most pixels in its regions, away from the chosen ones."""
    free = [i for i in range(len(regions)) if all(abs(i - j) >= STRETCH for j in taken)]
    return max(free or range(len(regions)), key=lambda i: sum(size for size, _ in regions[i]))


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
        The examples.
    conditions : mapping of str to FrameSource
        The test frames under each condition.
    classes, counts : sequence
        Names and training pixels of the classes; the rarer half is marked in the legend.
    folder : path
        The output folder.
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
    # Pixels without a label are not judged, so they are black everywhere.
    pictures = [example.labels, *(example.decided[name] for name in SHOWN)]
    shown = [np.where(example.labels == IGNORED, len(colours) - 1, each) for each in pictures]
    depth = np.log(np.clip(frame.depth, 1.0, 1000.0)) if frame.depth is not None else frame.labels
    images: list[tuple[Array, dict[str, Any]]] = [
        (frame.rgb, {}),
        (depth, {"cmap": "magma_r"}),
        *((colours[each], {}) for each in shown),
    ]
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
    """Draw a box that is visible on every background: white on black."""
    from matplotlib import patches

    top, left = (max(at - ROOM, 0) for at in box[:2])
    bottom, right = (min(at + ROOM, end) for at, end in zip(box[2:], shape, strict=True))
    for colour, thick in (("black", 2.4), ("white", 1.1)):
        panel.add_patch(
            patches.Rectangle(
                (left, top),
                right - left,
                bottom - top,
                fill=False,
                edgecolor=colour,
                linewidth=thick,
            )
        )


def _colours(classes: Sequence[str]) -> Array:
    """Return the colour of every class, and last that of pixels without a class."""
    from matplotlib import colors

    names = [PALETTE.get(name, UNKNOWN) for name in classes]
    return np.array([colors.to_rgb(name) for name in (*names, NOTHING)])


def _key(figure: Any, classes: Sequence[str], counts: Sequence[int]) -> None:
    from matplotlib import patches

    small = set(rarer(np.asarray(counts)).tolist())
    entries = [
        patches.Patch(
            facecolor=PALETTE.get(name, UNKNOWN),
            edgecolor="#8a8a8a",
            label=f"{name} *" if k in small else name,
        )
        for k, name in enumerate(classes)
    ]
    figure.legend(
        handles=entries,
        loc="outside lower center",
        ncols=min(len(entries), 7),
        handlelength=1.2,
        columnspacing=1.4,
        title="* the rarer half of the classes",
        title_fontsize=9,
    )
