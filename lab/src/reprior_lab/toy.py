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

#: From top to bottom of the figure.
SETS = ("circles", "moons")

#: Whose decision boundaries are drawn.
STRENGTHS = (0.0, 0.5, 1.0, 1.5, 2.0)

#: What the strength is tuned for.
METRIC = "balanced_accuracy"

#: Width over height of the part of the plane that is drawn, and the share left around the samples.
ASPECT, MARGIN = 1.4, 0.04

#: Points of the grid along the width: more than a line needs to look smooth in print.
GRID = 561

#: Titles of the rows.
TITLES = {"circles": "Circles", "moons": "Two moons"}

#: How samples are drawn: size, and how much of them covers what is below. There are nine times as
#: many of the larger class.
LARGER_POINTS, SMALLER_POINTS = (5.0, 0.32), (9.0, 0.75)

BOUNDARY: dict[str, Any] = {"linewidth": 1.9}

#: Room for the legend below the curves, and for marks above, in heights of the curves.
BELOW, ABOVE = 0.8, 0.1


@dataclass(frozen=True)
class Judgement:
    """What a strength is worth on the test samples.

    ``name`` is "before" (the model as it is), "λ = 1" or "tuned"; ``larger`` and ``smaller`` are
    the shares of the classes' samples that are found.
    """

    name: str
    strength: float
    balanced_accuracy: float
    accuracy: float
    larger: float
    smaller: float


@dataclass(frozen=True, eq=False)
class Plane:
    """For every point of a grid, the strength from which on it is taken for the smaller class.

    ``x`` (n,) and ``y`` (m,) are the grid's lines, ``strengths`` is (m, n): the decision boundary
    at strength λ is its contour at λ.
    """

    x: Array
    y: Array
    strengths: Array


@dataclass(frozen=True, eq=False)
class ToySet:
    """One set: its samples, its run, the exact curves, and the plane.

    ``strength`` is the best on the validation samples, ``interval`` what is as good there.
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
        """What the set is called."""
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
        ``runs/``. Runs that it has are not run again, and those that were stopped go on.
    protocol : {"compact", "paper"}, default "compact"
        What is not given.
    seed : int, default 0
        Of the network's first weights and of the order of the samples.
    epochs : int, optional
        As the protocol has it.
    progress : callable, optional
        Told what is being done.
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
    """Train, where it is not done yet, and judge."""
    from reprior_lab.training import read_scores, train

    data = open_data(config.data)
    total = config.epochs * len(data.train_labels)

    def told(done: int) -> None:
        if progress is not None:
            progress(f"training on {data.name}", done, total)

    home = folder / "runs" / config.id
    run = train(config, home, resume=True, data=data, progress=told, accelerator="cpu")
    told(total)  # a run that was there says nothing
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
        data, run, validation.bounds, float(tuned.strength_), tuned.strength_interval_,
        validation.curve(METRIC), test.curve(METRIC),
        tuple(_judgement(test, name, strength) for name, strength in wanted.items()), plane,
    )  # fmt: skip


def _judgement(profile: rp.StrengthProfile, name: str, strength: float) -> Judgement:
    metrics = (METRIC, "accuracy", "recall[0]", "recall[1]")
    return Judgement(name, strength, *(profile.evaluate(each, strength) for each in metrics))


def plane_of(home: Path, data: ImageData, run: RunFile) -> Plane:
    r"""Return where the boundaries of a finished run lie, at all strengths.

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
    """Lines of a grid around all points: as wide as the figure, in squares."""
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
    from reprior_lab.training.checkpoints import CHECKPOINTS, newest

    state = newest(home / CHECKPOINTS)
    if state is None or state.epochs_done < run.config.epochs:
        raise FileFormatError(
            f"A finished run must have its last checkpoint, for its boundaries to be drawn. Got "
            f"none in {str(home)!r}. Remove that folder, and it is trained again."
        )
    with torch.random.fork_rng(devices=[]):  # first weights are drawn, and replaced
        model = build_model(run.config.model, data.n_classes, data.n_channels, flat=data.flat)
    model.load_state_dict(state.model)
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
    """Everything behind the figure and the table, ready for JSON."""
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
        From top to bottom.
    strengths : sequence of float
        Whose boundaries are drawn, ascending.

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
                plane.x, plane.y, plane.strengths, levels=[strength], colors=[colour],
                linewidths=BOUNDARY["linewidth"],
            )  # fmt: skip
    ax.set(
        xlim=(plane.x[0], plane.x[-1]), ylim=(plane.y[0], plane.y[-1]), aspect="equal",
        xticks=[], yticks=[],
    )  # fmt: skip
    ax.spines[:].set_visible(True)
    ax.set_title(f"{TITLES[one.name]}: decision boundaries")


def _curves(ax: Any, one: ToySet, strengths: Sequence[float]) -> None:
    """Draw accuracy over the strength, exactly, and mark what it is without and with tuning."""
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
        xlim=one.bounds, ylim=(low - BELOW * room, high + ABOVE * room),
        xticks=np.arange(0, upper + 0.25, 0.5 if upper <= 2 else 1),
        xlabel="strength λ", ylabel="accuracy (%)",
    )  # fmt: skip
    ax.grid(True)
    ax.legend(loc="lower center", **LEGEND)
    ax.set_title(f"{TITLES[one.name]}: accuracy on balanced samples")


def _marks(ax: Any, one: ToySet, colours: Mapping[float, str], low: float) -> None:
    """Mark the strengths on the test curve: all small, those of the table large and in words."""
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
            each.strength, value, "D" if tuned else "o", markersize=4.5 if tuned else 10,
            markerfacecolor=colour if tuned else "white", markeredgecolor=colour,
            markeredgewidth=0 if tuned else 2, linestyle="none", clip_on=False,
            label=f"{what}: {value:.2f} %", zorder=5 if tuned else 4,
        )  # fmt: skip


def _key(figure: Any, one: ToySet, strengths: Sequence[float]) -> None:
    """Say above all panels what points and boundaries are."""
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
        *zip(*entries, strict=True), loc="outside upper left", ncols=len(entries),
        columnspacing=1.4, handlelength=1.6,
    )  # fmt: skip


def _per_cent(curve: Any) -> Any:
    return curve[0], 100 * curve[1]
