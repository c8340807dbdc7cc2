"""``reprior reproduce toy``: moons and circles, boundaries for several strengths, exact curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import reprior as rp
from reprior.exceptions import FileFormatError
from reprior.report.plots import LEGEND
from reprior_lab.config import RunConfig
from reprior_lab.data.images import ImageData
from reprior_lab.data.registry import open_data
from reprior_lab.figures import (
    FAINT,
    INK,
    LARGER,
    SMALLER,
    TUNED,
    draw_steps,
    drawn_with,
    new_figure,
    save_figure,
    sequence,
    style,
)
from reprior_lab.reproduction import Progress, Reproduction
from reprior_lab.tables import Cell, Table, write_table
from reprior_lab.training.runfile import RunFile, installed_versions, write_json

if TYPE_CHECKING:
    from torch import nn

    from reprior_lab.training.scores import RunScores

__all__ = ["SETS", "STRENGTHS", "Judgement", "Plane", "ToySet", "draw", "plane_of", "reproduce"]

Array: TypeAlias = np.ndarray[Any, Any]
Curve: TypeAlias = tuple[Array, Array]

NAME, FORMAT_VERSION = "toy", 1

#: The sets, from top to bottom of the figure.
SETS = ("circles", "moons")

#: The strengths whose decision boundaries are drawn.
STRENGTHS = (0.0, 0.5, 1.0, 1.5, 2.0)

#: The metric that the strength is tuned for.
METRIC = "balanced_accuracy"

#: Aspect ratio of the drawn part of the plane, and the margin around the samples as a share.
ASPECT, MARGIN = 1.4, 0.04

#: Points of the grid along the width: more than a smooth line in print needs.
GRID = 561

#: Titles of the rows.
TITLES = {"circles": "Circles", "moons": "Two moons"}

#: Marker size and opacity of samples. The larger class has nine times as many.
LARGER_POINTS, SMALLER_POINTS = (5.0, 0.32), (9.0, 0.75)

BOUNDARY: dict[str, Any] = {"linewidth": 1.9}

#: Space for the legend below the curves, and for marks above, as shares of their height.
BELOW, ABOVE = 0.8, 0.1


@dataclass(frozen=True)
class Judgement:
    """The result of a strength on the test samples.

    ``name`` is "before" (the uncorrected model), "λ = 1" or "tuned"; ``larger`` and ``smaller``
    are the recalls of the two classes.
    """

    name: str
    strength: float
    balanced_accuracy: float
    accuracy: float
    larger: float
    smaller: float


@dataclass(frozen=True, eq=False)
class Plane:
    """For every point of a grid, the strength from which it is assigned to the smaller class.

    ``x`` (n,) and ``y`` (m,) are the grid's lines, ``strengths`` is (m, n): the decision boundary
    at strength λ is its contour at λ.
    """

    x: Array
    y: Array
    strengths: Array


@dataclass(frozen=True, eq=False)
class ToySet:
    """One set: its samples, its run, the exact curves, and the plane.

    ``strength`` is the best on the validation samples, ``interval`` that of equally good ones.
    """

    data: ImageData
    run: RunFile
    bounds: tuple[float, float]
    strength: float
    interval: tuple[float, float]
    validation: Curve
    test: Curve
    judgements: tuple[Judgement, ...]
    plane: Plane

    @property
    def name(self) -> str:
        """The name of the set."""
        return self.data.name


def reproduce(
    folder: Path,
    *,
    protocol: str = "compact",
    seed: int = 0,
    epochs: int | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Train on both toy sets, and write the figure, the table and the run file.

    Parameters
    ----------
    folder : path
        Gets ``toy.png``, ``toy.svg``, ``toy.md``, ``toy.tex``, ``toy.json``, ``toy.run.json`` and
        ``runs/``. Finished runs are not run again, stopped ones are resumed.
    protocol : {"compact", "paper"}, default "compact"
        The defaults of all settings.
    seed : int, default 0
        The seed of the network's initial weights and of the order of the samples.
    epochs : int, optional
        By default that of the protocol.
    progress : callable, optional
        Receives the progress.
    """
    folder = Path(folder)
    configs = [RunConfig.resolve(protocol, data=n, seed=seed, epochs=epochs) for n in SETS]
    sets = [_made(folder, config, progress) for config in configs]
    table = _table(sets)
    files = (*save_figure(draw(sets, STRENGTHS), folder, NAME), *write_table(table, folder))
    path = folder / f"{NAME}.run.json"
    write_json(path, _document(sets, protocol, seed))
    return Reproduction((table,), (*files, path), table.notes)


def _made(folder: Path, config: RunConfig, progress: Progress | None) -> ToySet:
    """Train unless the run is finished, and judge."""
    from reprior_lab.training import read_scores, train

    data = open_data(config.data)
    total = config.epochs * len(data.train_labels)

    def report_progress(done: int) -> None:
        if progress is not None:
            progress(f"training on {data.name}", done, total)

    home = folder / "runs" / config.id
    run = train(config, home, resume=True, data=data, progress=report_progress, accelerator="cpu")
    report_progress(total)  # a finished run does not report progress
    return _judged(data, run, read_scores(home), plane_of(home, data, run))


def _judged(data: ImageData, run: RunFile, scores: RunScores, plane: Plane) -> ToySet:
    """Tune on the validation samples, judge on the test samples."""
    prior = rp.prior_from_counts(run.class_counts)
    tuned = rp.PosteriorCalibrator(prior, metric=METRIC)
    tuned.fit(scores.validation_scores, scores.validation_labels)
    validation: Any = tuned.profile_
    test = rp.StrengthProfile.from_scores(
        scores.test_scores, scores.test_labels, source_prior=prior, bounds=validation.bounds
    )
    wanted = {"before": 0.0, "λ = 1": 1.0, "tuned": float(tuned.strength_)}
    return ToySet(
        data,
        run,
        validation.bounds,
        float(tuned.strength_),
        tuned.strength_interval_,
        validation.curve(METRIC),
        test.curve(METRIC),
        tuple(_judgement(test, name, strength) for name, strength in wanted.items()),
        plane,
    )


def _judgement(profile: rp.StrengthProfile, name: str, strength: float) -> Judgement:
    metrics = (METRIC, "accuracy", "recall[0]", "recall[1]")
    return Judgement(name, strength, *(profile.evaluate(each, strength) for each in metrics))


def plane_of(home: Path, data: ImageData, run: RunFile) -> Plane:
    r"""Return the decision boundaries of a finished run at all strengths.

    .. math:: λ(x) = -m_0(x) / (m_1(x) - m_0(x))

    where m_λ is the log-posterior of the smaller class minus that of the larger after the
    correction with strength λ: a straight line in λ, zero on the decision boundary.
    """
    from reprior_lab.training.scores import score

    x, y = _grid(data.train_images)
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2).astype(np.float32)
    scores = score(_network(home, data, run), points, data).astype(np.float64)
    prior = rp.prior_from_counts(run.class_counts)
    at_0, at_1 = (
        np.diff(rp.log_rebalance(scores, prior, strength=strength), axis=1)[:, 0]
        for strength in (0.0, 1.0)
    )
    return Plane(x, y, (-at_0 / (at_1 - at_0)).reshape(y.size, x.size))


def _grid(points: Array) -> Curve:
    """Return the lines of a square grid around all points, in the figure's aspect ratio."""
    low, high = points.min(axis=0).astype(np.float64), points.max(axis=0).astype(np.float64)
    width, height = (high - low) * (1 + 2 * MARGIN)
    height = max(height, width / ASPECT)
    half = np.array([height * ASPECT, height]) / 2
    middle = (low + high) / 2
    (left, bottom), (right, top) = middle - half, middle + half
    return np.linspace(left, right, GRID), np.linspace(bottom, top, round(GRID / ASPECT))


def _network(home: Path, data: ImageData, run: RunFile) -> nn.Module:
    """Return the trained network of a finished run."""
    import torch

    from reprior_lab.models.registry import build_model
    from reprior_lab.training.checkpoints import CHECKPOINTS, newest, restore

    state = newest(home / CHECKPOINTS)
    if state is None or state.epochs_done < run.config.epochs:
        raise FileFormatError(
            f"A finished run must have its last checkpoint, for its boundaries to be drawn. Got "
            f"none in {str(home)!r}. Remove that folder, and it is trained again."
        )
    with torch.random.fork_rng(devices=[]):  # first weights are drawn, and replaced
        model = build_model(run.config.model, data.n_classes, data.n_channels, flat=data.flat)
    restore(model, state.model)
    return model


def _table(sets: Sequence[ToySet]) -> Table:
    rows = tuple(
        (f"{one.name}, {each.name}", _cells(each)) for one in sets for each in one.judgements
    )
    larger, smaller = sets[0].run.class_counts
    tuned, judged = len(sets[0].data.validation_images), len(sets[0].data.test_images)
    return Table(
        NAME,
        "Toy sets: test samples classified rightly, before and after the correction (%)",
        ("strength λ", "balanced accuracy", "accuracy", "larger class", "smaller class"),
        rows,
        (
            f"Trained on {larger:,} samples of the larger class and {smaller:,} of the smaller, "
            f"with cross-entropy; the source prior is these counts.",
            f"Tuned: the exact optimum of balanced accuracy on {tuned:,} validation samples. All "
            f"figures are of {judged:,} other samples, the test samples.",
            "Validation and test samples are as many of each class, so accuracy is balanced "
            "accuracy. At the mix of the training samples it would be another.",
            "The paper prints no numbers for its toy sets, so none stand beside ours.",
        ),
        corner="set, correction",
    )


def _cells(each: Judgement) -> tuple[Cell, ...]:
    strength = f"{each.strength:.3f}" if each.name == "tuned" else f"{each.strength:g}"
    shares = (each.balanced_accuracy, each.accuracy, each.larger, each.smaller)
    return (Cell(text=strength), *(Cell(100 * share) for share in shares))


def _document(sets: Sequence[ToySet], protocol: str, seed: int) -> dict[str, Any]:
    """Return the data behind the figure and the table, ready for JSON."""
    import torch

    return {
        "format_version": FORMAT_VERSION,
        "experiment": NAME,
        "protocol": protocol,
        "seed": seed,
        "metric": METRIC,
        "strengths": list(STRENGTHS),
        "versions": installed_versions(torch.get_num_threads()) | drawn_with(),
        "sets": {one.name: _described(one) for one in sets},
    }


def _described(one: ToySet) -> dict[str, Any]:
    parts = {"validation": one.validation, "test": one.test}
    return {
        "run": f"runs/{one.run.config.id}",
        "config": one.run.config.to_dict(),
        "class_counts": list(one.run.class_counts),
        "samples": {
            "validation": len(one.data.validation_images),
            "test": len(one.data.test_images),
        },
        "bounds": list(one.bounds),
        "strength": one.strength,
        "strength_interval": list(one.interval),
        "judged_on_test": [asdict(each) for each in one.judgements],
        "curves": {
            part: {"strengths": curve[0].tolist(), "values": curve[1].tolist()}
            for part, curve in parts.items()
        },
    }


def draw(sets: Sequence[ToySet], strengths: Sequence[float]) -> Any:
    """Return the figure: a row for each set, boundaries left and curves right.

    Parameters
    ----------
    sets : sequence of ToySet
        The sets, from top to bottom.
    strengths : sequence of float
        The strengths whose boundaries are drawn, ascending.

    Returns
    -------
    matplotlib Figure
    """
    with style():
        figure = new_figure(9.6, 7.2)
        rows = figure.subplots(len(sets), 2, squeeze=False, width_ratios=[1, 1.06])
        for one, (left, right) in zip(sets, rows, strict=True):
            _boundaries(left, one, strengths)
            _curves(right, one, strengths)
        _key(figure, sets[0], strengths)
    return figure


def _boundaries(ax: Any, one: ToySet, strengths: Sequence[float]) -> None:
    """Draw the training samples, and the decision boundary of every strength."""
    data, plane = one.data, one.plane
    kinds = ((LARGER, LARGER_POINTS), (SMALLER, SMALLER_POINTS))
    for label, (colour, (size, alpha)) in enumerate(kinds):
        points = data.train_images[data.train_labels == label]
        ax.scatter(*points.T, s=size, color=colour, alpha=alpha, linewidths=0, rasterized=True)
    for strength, colour in zip(strengths, sequence(len(strengths)), strict=True):
        if plane.strengths.min() < strength < plane.strengths.max():  # else one class has it all
            ax.contour(
                plane.x,
                plane.y,
                plane.strengths,
                levels=[strength],
                colors=[colour],
                linewidths=BOUNDARY["linewidth"],
            )
    ax.set(
        xlim=(plane.x[0], plane.x[-1]),
        ylim=(plane.y[0], plane.y[-1]),
        aspect="equal",
        xticks=[],
        yticks=[],
    )
    ax.spines[:].set_visible(True)
    ax.set_title(f"{TITLES[one.name]}: decision boundaries")


def _curves(ax: Any, one: ToySet, strengths: Sequence[float]) -> None:
    """Draw the exact accuracy over the strength, and mark its values before and after tuning."""
    upper = one.bounds[1]
    validation, test = _per_cent(one.validation), _per_cent(one.test)
    draw_steps(ax, test, upper, color=INK, label="test samples: judged")
    draw_steps(
        ax, validation, upper, color=FAINT, linewidth=1.3, label="validation samples: tuned on"
    ).set_zorder(1.9)
    low, high = (
        pick([pick(values) for _, values in (validation, test)]) for pick in (np.min, np.max)
    )
    _marks(ax, one, dict(zip(strengths, sequence(len(strengths)), strict=True)), low)
    room = high - low
    ax.set(
        xlim=one.bounds,
        ylim=(low - BELOW * room, high + ABOVE * room),
        xticks=np.arange(0, upper + 0.25, 0.5 if upper <= 2 else 1),
        xlabel="strength λ",
        ylabel="accuracy (%)",
    )
    ax.grid(True)
    ax.legend(loc="lower center", **LEGEND)
    ax.set_title(f"{TITLES[one.name]}: accuracy on balanced samples")


def _marks(ax: Any, one: ToySet, colours: Mapping[float, str], low: float) -> None:
    """Mark all strengths on the test curve; those of the table larger, with a label."""
    strengths, values = _per_cent(one.test)
    for strength, colour in colours.items():
        value = values[np.searchsorted(strengths, strength, side="right") - 1]
        ax.plot(strength, value, "o", color=colour, markersize=5, clip_on=False, zorder=3)
    for each in one.judgements:
        tuned, value = each.name == "tuned", 100 * each.balanced_accuracy
        what = f"λ = {each.strength:.3f}, tuned" if tuned else f"λ = {each.strength:g}"
        colour = TUNED if tuned else colours.get(each.strength, INK)
        if tuned:
            ax.vlines(each.strength, low, value, color=colour, linewidth=1.2, linestyle="--")
        # The tuned mark fits into the ring at 1, where it often lies.
        ax.plot(
            each.strength,
            value,
            "D" if tuned else "o",
            markersize=4.5 if tuned else 10,
            markerfacecolor=colour if tuned else "white",
            markeredgecolor=colour,
            markeredgewidth=0 if tuned else 2,
            linestyle="none",
            clip_on=False,
            label=f"{what}: {value:.2f} %",
            zorder=5 if tuned else 4,
        )


def _key(figure: Any, one: ToySet, strengths: Sequence[float]) -> None:
    """Draw the legend of points and boundaries above all panels."""
    from matplotlib import lines

    classes = zip(("larger", "smaller"), one.run.class_counts, (LARGER, SMALLER), strict=True)
    entries = [
        (
            lines.Line2D([], [], marker="o", markersize=5, linestyle="none", color=colour),
            f"{name} class ({count:,})",
        )
        for name, count, colour in classes
    ]
    entries += [
        (lines.Line2D([], [], color=colour, **BOUNDARY), f"{'' if i else 'boundary at '}λ = {at:g}")
        for i, (at, colour) in enumerate(zip(strengths, sequence(len(strengths)), strict=True))
    ]
    figure.legend(
        *zip(*entries, strict=True),
        loc="outside upper left",
        ncols=len(entries),
        columnspacing=1.4,
        handlelength=1.6,
    )


def _per_cent(curve: Any) -> Any:
    return curve[0], 100 * curve[1]
