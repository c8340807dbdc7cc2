"""``reprior reproduce toy``: decision boundaries and accuracy over the strength, in the plane.

A network of three fully connected layers learns two circles and two moons, nine samples of one
class to each of the other. The strength is tuned on validation samples and judged on test samples;
both have as many of each class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import reprior as rp
from reprior.exceptions import FileFormatError
from reprior.experiments.config import RunConfig
from reprior.experiments.data.images import ImageData
from reprior.experiments.data.registry import open_data
from reprior.experiments.figures import drawn_with, save_figure
from reprior.experiments.reproduction import Progress, Reproduction
from reprior.experiments.tables import Cell, Table, write_table
from reprior.experiments.training.runfile import RunFile, installed_versions, write_json
from reprior.report.plots.judged import profile_of

if TYPE_CHECKING:
    from torch import nn

    from reprior.experiments.training.scores import RunScores

__all__ = ["SETS", "STRENGTHS", "Judgement", "Plane", "ToySet", "plane_of", "reproduce"]

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
    from reprior.experiments.toy_figure import draw

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
    from reprior.experiments.training import read_scores, train

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
    validation = profile_of(tuned, "Fit it here.")
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
    from reprior.experiments.training.scores import score

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

    from reprior.experiments.models import build_model
    from reprior.experiments.training.checkpoints import newest

    state = newest(home / "checkpoints")
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
