"""``reprior reproduce inaturalist``: Table 3 and the λ-curve, on the images or on a stand-in."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reprior import prior_from_counts
from reprior.core import check_choice
from reprior.exceptions import OptionError, Words
from reprior.report.plots import AFTER, CYCLE
from reprior_lab.config import METHODS, RunConfig
from reprior_lab.data.images import ImageData, missing_data
from reprior_lab.figures import (
    FAINT,
    INK,
    TUNED,
    draw_steps,
    drawn_with,
    new_figure,
    save_figure,
    style,
)
from reprior_lab.inaturalist_results import (
    FIXED_SETTINGS,
    FULL,
    N_FOLDS,
    ROWS,
    Corrected,
    Curve,
    MethodResult,
    judge,
    read_result,
    value_at,
    write_result,
)
from reprior_lab.inaturalist_stand_in import (
    COLUMN,
    DEFAULT_ROWS,
    SimulatedCell,
    StandIn,
    simulated_cells,
)
from reprior_lab.paper import paper_columns, paper_note, paper_rows, paper_value
from reprior_lab.reproduction import (
    CELLS,
    Progress,
    Reproduction,
    held,
    progress_of,
    refuse_settings,
)
from reprior_lab.tables import Cell, Table, write_table
from reprior_lab.training.runfile import RUN_FILE, RunFile, installed_versions, write_json

__all__ = [
    "MODELS",
    "NetworkCell",
    "Results",
    "can_split",
    "can_train",
    "draw",
    "error_table",
    "network_cells",
    "reproduce",
    "strength_table",
    "title_of",
]

DATA = "inaturalist2018"

#: Side length of the images for networks that do not expect 224 pixels.
SIDES = {"inception_v3": 299}

NAME, SIMULATED = "inaturalist", "inaturalist-simulated"
FORMAT_VERSION = 1

#: The networks of the paper.
MODELS = ("inception_v3", "resnet50")

#: The strengths of both curves in the run file; the values there are exact.
GRID = tuple(round(0.05 * i, 2) for i in range(41))


@dataclass(frozen=True)
class NetworkCell:
    """A network to train on iNaturalist 2018: its row in the table, and all settings."""

    row: str
    config: RunConfig

    @property
    def column(self) -> str:
        """The network."""
        return self.config.model

    @property
    def id(self) -> str:
        """The name of its folder."""
        return self.config.id

    @property
    def base(self) -> str | None:
        """The folder of the run whose first epochs DRW reuses."""
        return self.config.differing(schedule="plain").id if self.config.schedule == "drw" else None

    def run(
        self,
        folder: Path,
        data: ImageData,
        progress: Progress | None,
        devices: Sequence[str] = (),
    ) -> MethodResult:
        """Train the network or resume it, correct its scores, and store the result.

        Several devices share each batch, in separate processes: see
        :func:`~reprior_lab.training.loop.train_on_several`.
        """
        from reprior_lab.training.scores import read_scores

        home, config = folder / CELLS / self.id, self.config
        start = None if self.base is None else folder / CELLS / self.base
        base = start if start is not None and (start / RUN_FILE).exists() else None
        total = config.epochs * len(data.train_labels)
        with held(home):
            report = progress_of(progress, f"training {config.model}, {self.row}", total)
            run = self._trained(home, base, data, devices, report)
            scores, labels = read_scores(home).whole()
            prior = prior_from_counts(run.class_counts)
            result = judge(scores, labels, prior, run.effective_prior, seed=config.seed)
            write_result(result, home)
        return result

    def _trained(
        self,
        home: Path,
        base: Path | None,
        data: ImageData,
        devices: Sequence[str],
        progress: Callable[[int], None] | None,
    ) -> RunFile:
        from reprior_lab.training.devices import trainer_device
        from reprior_lab.training.loop import train, train_on_several

        if len(devices) > 1:
            return train_on_several(
                self.config,
                home,
                devices,
                base=base,
                n_samples=len(data.train_labels),
                progress=progress,
            )
        accelerator, number = trainer_device(devices[0] if devices else None)
        return train(
            self.config,
            home,
            resume=True,
            base=base,
            data=data,
            progress=progress,
            accelerator=accelerator,
            devices=number,
        )


def network_cells(
    rows: Sequence[str],
    models: Sequence[str],
    *,
    protocol: str = "paper",
    root: Any = None,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> tuple[NetworkCell, ...]:
    """Return the cells to train, every base before its DRW.

    Examples
    --------
    >>> cells = network_cells(["ce-drw", "ce"], ["resnet50"])
    >>> [(cell.row, cell.config.epochs, cell.base is None) for cell in cells]
    [('ce', 90, True), ('ce-drw', 90, False)]
    """
    for row in rows:
        check_choice("rows", row, ROWS)
    refuse_settings(settings or {}, FIXED_SETTINGS)
    return tuple(
        NetworkCell(
            row,
            RunConfig.resolve(
                protocol,
                **{
                    "data": DATA,
                    "root": None if root is None else str(root),
                    "model": model,
                    "image_size": SIDES.get(model),
                    "seed": seed,
                    **METHODS[row],
                    **(settings or {}),
                },
            ),
        )
        for model in models
        for row in ROWS
        if row in rows
    )


def can_split(model: str) -> bool:
    """Return whether a network has a last block that BBN can double.

    Examples
    --------
    >>> can_split("resnet8")
    True
    """
    from reprior_lab.models.registry import build_model

    try:
        build_model(model, 2, branches=2)
    except OptionError:
        build_model(model, 2)  # a name that nobody knows is an error
        return False
    return True


def can_train(cell: NetworkCell) -> bool:
    """Return whether a cell can be trained: BBN needs a network that can be split."""
    return cell.row != "bbn" or can_split(cell.column)


def reproduce(
    folder: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] | None = None,
    simulate: bool = False,
    protocol: str = "paper",
    models: Sequence[str] = MODELS,
    rows: Sequence[str] | None = None,
    seed: int = 0,
    n_classes: int | None = None,
    settings: Mapping[str, Any] | None = None,
    devices: int | str = "auto",
    progress: Progress | None = None,
) -> Reproduction:
    """Train the unfinished cells, correct them, and write Table 3 and the λ-curve.

    Parameters
    ----------
    folder : path
        Gets ``inaturalist.md``, ``.tex``, ``.json``, ``.png``, ``.svg`` and ``.run.json``, the
        same of ``inaturalist-strength`` (the strengths and top-5 errors) as a table, and
        ``cells/`` with a folder for each trained classifier. With ``simulate`` the names begin
        with ``inaturalist-simulated``. Finished cells are not trained again, stopped ones are
        resumed.
    root : path, optional
        The folder of iNaturalist 2018: JSON files and images. Needed if a network must be trained.
    simulate : bool, default False
        Train a linear classifier on the stand-in instead, which needs no data: see
        :class:`~reprior_lab.inaturalist_stand_in.StandIn`. Its score files take 0.8 GB
        for each row.
    protocol : {"paper", "compact"}, default "paper"
        How networks are trained. The stand-in has its own settings.
    models : sequence of str
        Networks: names in timm.
    rows : sequence of str, optional
        Some of "ce", "ce-drw", "focal", "focal-drw", "ldam", "ldam-drw", "bbn". By default all;
        for the stand-in the first four. BBN is left out for networks that cannot be split.
    seed : int, default 0
        The seed of the training, of the stand-in, and of the folds.
    n_classes : int, optional
        Number of classes of the stand-in, if fewer than all 8,142.
    settings : mapping, optional
        Settings of the training that differ, such as ``{"epochs": 200}``.
    devices : int or str, default "auto"
        How many devices, their numbers such as "0,1", or "auto": all GPUs, or one device without
        GPUs. They share the batches of one network after the other. Not for the stand-in.
    progress : callable, optional
        Receives the progress.
    """
    home = Path(folder)
    if n_classes is not None and not simulate:
        raise OptionError(
            argument="n_classes",
            rule="must be left out for the real data set",
            got=str(n_classes),
            remedy=[
                "It is of the stand-in: ask for that too, by ",
                Words("simulate (--simulate)", "--simulate"),
                ".",
            ],
        )
    if simulate and root is not None:
        raise OptionError(
            argument="root",
            rule="must be left out with the stand-in, which needs no data",
            got=repr(str(root)),
            remedy="Leave out one of the two.",
        )
    if simulate:
        data = StandIn(seed=seed)
        if n_classes is not None:
            data = replace(data, n_classes=n_classes)
        cells = simulated_cells(DEFAULT_ROWS if rows is None else rows, data, settings=settings)
        results = _simulate(home, cells, progress)
        return _write(home, SIMULATED, cells, results, seed, _trial(n_classes))
    from reprior_lab.training.devices import list_devices

    asked = network_cells(
        ROWS if rows is None else rows,
        models,
        protocol=protocol,
        root=root,
        seed=seed,
        settings=settings,
    )
    found, notes = _train(home, asked, root, list_devices(devices), progress)
    return _write(home, NAME, asked, found, seed, notes)


def _simulate(
    home: Path, cells: Sequence[SimulatedCell], progress: Progress | None
) -> dict[str, MethodResult]:
    """Return the result of each cell by its name; train cells that are not finished."""
    results = _there(home, cells)
    left = [cell for cell in cells if cell.id not in results]
    if left:
        if progress is not None:
            progress("drawing the stand-in", 0, 1)
        samples = left[0].data.draw()
        for cell in left:
            results[cell.id] = cell.run(home, samples, progress)
    return results


def _train(
    home: Path,
    cells: Sequence[NetworkCell],
    root: str | os.PathLike[str] | None,
    devices: Sequence[str],
    progress: Progress | None,
) -> tuple[dict[str, MethodResult], tuple[str, ...]]:
    """Return the result of each network by its name, and what was left out."""
    results = _there(home, cells)
    left = [cell for cell in cells if cell.id not in results]
    _check_data([cell for cell in left if cell.row != "bbn"], root)
    untrainable = [cell for cell in left if not can_train(cell)]
    left = [cell for cell in left if cell not in untrainable]
    _check_data(left, root)
    opened: dict[int | None, Any] = {}
    for cell in left:
        from reprior_lab.training.loop import open_for

        size = cell.config.image_size
        if size not in opened:
            opened[size] = open_for(cell.config)
        results[cell.id] = cell.run(home, opened[size], progress, devices)
    notes = tuple(
        f"BBN has no {title_of(cell.column)}: it doubles the last block of a residual network."
        for cell in untrainable
    )
    return results, notes


def _trial(n_classes: int | None) -> tuple[str, ...]:
    if n_classes is None:
        return ()
    return (f"{n_classes:,} classes of 8,142 are a trial: nothing here is to be compared.",)


def _check_data(left: Sequence[NetworkCell], root: str | os.PathLike[str] | None) -> None:
    """Refuse to train without data, and suggest the stand-in."""
    if left and root is None:
        raise missing_data(DATA, None, "and nothing is downloaded").with_sentence(
            [
                "Or take the stand-in with the true class counts, which needs no data: ",
                Words("simulate (--simulate)", "--simulate"),
                ".",
            ]
        )


def _there(
    home: Path, cells: Sequence[NetworkCell] | Sequence[SimulatedCell]
) -> dict[str, MethodResult]:
    results = {cell.id: read_result(home / CELLS / cell.id) for cell in cells}
    return {name: result for name, result in results.items() if result is not None}


def _write(
    home: Path,
    name: str,
    cells: Sequence[NetworkCell] | Sequence[SimulatedCell],
    found: Mapping[str, MethodResult],
    seed: int,
    notes: tuple[str, ...],
) -> Reproduction:
    results = {(cell.row, cell.column): found[cell.id] for cell in cells if cell.id in found}
    if not results:
        raise OptionError(
            argument="rows",
            rule="must have one that can be trained",
            got="none",
            remedy="Ask for 'ce', for example.",
        )
    tables = (error_table(name, results), strength_table(f"{name}-strength", results))
    files = [path for table in tables for path in write_table(table, home)]
    files += save_figure(draw(results), home, name)
    path = home / f"{name}.run.json"
    write_json(path, _document(name, cells, found, seed))
    return Reproduction(tables, (*files, path), (*tables[0].notes, *notes))


def _document(
    name: str,
    cells: Sequence[NetworkCell] | Sequence[SimulatedCell],
    found: Mapping[str, MethodResult],
    seed: int,
) -> dict[str, Any]:
    """Return the data behind the tables and the figure, ready for JSON."""
    import torch

    return {
        "format_version": FORMAT_VERSION,
        "experiment": name,
        "seed": seed,
        "versions": installed_versions(torch.get_num_threads()) | drawn_with(),
        "cells": [_described(cell, found[cell.id]) for cell in cells if cell.id in found],
    }


def _described(cell: NetworkCell | SimulatedCell, result: MethodResult) -> dict[str, Any]:
    settings = cell.identity if isinstance(cell, SimulatedCell) else cell.config.identity
    within = [strength for strength in GRID if result.bounds[0] <= strength <= result.bounds[1]]
    return {
        "row": cell.row,
        "column": cell.column,
        "folder": f"{CELLS}/{cell.id}",
        "settings": settings,
        **result.to_dict(),
        "curves": {
            "strengths": within,
            "top1_accuracy": [value_at(result.top1, strength) for strength in within],
            "top5_accuracy": [value_at(result.top5, strength) for strength in within],
        },
    }


PAPER, SPREAD = "inaturalist", "inaturalist_spread"

#: Results by the short names of row and column.
Results: TypeAlias = Mapping[tuple[str, str], MethodResult]

_TITLES = {
    "ce": "CE",
    "focal": "Focal",
    "ldam": "LDAM",
    "bbn": "BBN",
    "inception_v3": "Inception v3",
    "resnet50": "ResNet-50",
    COLUMN: "Stand-in",
}

#: Blocks of rows: the suffix of the method's name, and whether it uses the effective prior.
_BLOCKS = (
    ("", False),
    ("-IC", False),
    ("-IC, effective prior", True),
    (", λ = 1", False),
    (", λ = 1, effective prior", True),
)

#: One colour per loss; DRW has dashed lines.
_COLOURS = {"ce": AFTER, "focal": CYCLE[1], "ldam": CYCLE[2], "bbn": CYCLE[5]}
_BROKEN = (0, (4, 1.6))

#: Marks of the uncorrected classifier, and of the strength that is best for top-1.
_AS_IT_IS: dict[str, Any] = {"marker": "o", "markersize": 5, "linestyle": "none"}
_BEST: dict[str, Any] = {
    "marker": "D",
    "markersize": 6,
    "markeredgewidth": 1.8,
    "linestyle": "none",
    "markerfacecolor": "white",
    "markeredgecolor": TUNED,
}

#: A curve with more steps is drawn at this many strengths, with exact values: more than a print
#: resolves, without megabytes of invisible steps in the file.
MOST_STEPS = 1000

#: Margins below and above the curves, as shares of their height.
BELOW, ABOVE = 0.06, 0.1


def title_of(name: str) -> str:
    """Return the printed name of a method or network.

    Examples
    --------
    >>> title_of("ce-drw"), title_of("resnet50"), title_of("resnet101")
    ('CE-DRW', 'ResNet-50', 'resnet101')
    """
    method, _, schedule = name.partition("-")
    if schedule == "drw":
        return f"{_TITLES[method]}-DRW"
    return _TITLES.get(name, name)


def error_table(name: str, results: Results) -> Table:
    """Return Table 3: top-1 errors before and after the correction.

    The stand-in's column has no figures of the paper: these are errors on other data, and have
    their own columns.
    """
    rows, columns = _axes(results)
    simulated = COLUMN in columns
    beside = paper_columns(PAPER) if simulated else ()
    heads = [title_of(column) for column in columns]
    heads += [f"{title_of(column)} on the images" for column in beside]
    lines: list[tuple[str, tuple[Cell, ...]]] = []
    for suffix, effective in _BLOCKS:
        for row in rows:
            own = [results.get((row, column)) for column in columns]
            if effective and not any(each is not None and each.effective for each in own):
                continue
            cells = [
                _cell(row, suffix, column, each, effective)
                for column, each in zip(columns, own, strict=True)
            ]
            cells += [_of_paper(row, suffix, column) for column in beside]
            lines.append((f"{title_of(row)}{suffix}", tuple(cells)))
    title = "Top-1 validation error (%) on iNaturalist 2018: the paper's Table 3"
    if simulated:
        title = "Top-1 validation error (%) on a stand-in for iNaturalist 2018, as in Table 3"
    notes = _notes(results, simulated=simulated)
    return Table(name, title, tuple(heads), tuple(lines), notes, corner="method", best="min")


def strength_table(name: str, results: Results) -> Table:
    """Return the best strengths, and the top-1 and top-5 errors of all validation samples there."""
    rows, columns = _axes(results)
    heads = (
        "λ of each fold",
        "λ of all samples",
        "top-1",
        "top-1 at λ",
        "top-5",
        "top-5 at λ",
    )
    lines = tuple(
        (f"{title_of(row)}, {title_of(column)}", _strengths(results[row, column]))
        for column in columns
        for row in rows
        if (row, column) in results
    )
    notes = (
        "Source prior: the training counts. Errors are of all validation samples, at the strength "
        "that is best for top-1 on these same samples: tuned and judged on the same labels.",
        "Every strength is the exact optimum; both curves of the figure are exact, too.",
    )
    title = "Strengths, and errors (%) of all validation samples"
    return Table(name, title, heads, lines, notes, corner="method")


def _axes(results: Results) -> tuple[list[str], list[str]]:
    rows = [row for row in ROWS if any(row == each for each, _ in results)]
    return rows, list(dict.fromkeys(column for _, column in results))


def _cell(row: str, suffix: str, column: str, result: MethodResult | None, effective: bool) -> Cell:
    paper = _of_paper(row, suffix, column)
    corrected = None if result is None else result.effective if effective else result.raw
    if result is None or corrected is None:
        return paper
    beside, note = paper.paper, paper.note
    if not suffix:
        return Cell(100 * result.error, paper=beside, note=note)
    if "λ = 1" in suffix:
        return Cell(100 * corrected.bayes, paper=beside, note=note)
    said = "; ".join(filter(None, (f"λ {_mean(corrected):.2f}", note)))
    folds = corrected.folds
    return Cell(100 * folds.mean, beside, 100 * folds.std, len(folds.errors), said)


def _of_paper(row: str, suffix: str, column: str) -> Cell:
    """Return a cell with the paper's figure alone, and its ±."""
    key = {"": row, "-IC": f"{row}-ic"}.get(suffix)
    if key is None or key not in paper_rows(PAPER) or column not in paper_columns(PAPER):
        return Cell()
    spread = paper_value(SPREAD, key, column)
    behind = "" if spread is None else f"paper ± {spread:.2f}"
    note = "; ".join(filter(None, (behind, paper_note(PAPER, key, column))))
    return Cell(paper=paper_value(PAPER, key, column), note=note)


def _mean(found: Corrected) -> float:
    return sum(found.folds.strengths) / len(found.folds.strengths)


def _strengths(result: MethodResult) -> tuple[Cell, ...]:
    raw = result.raw
    errors = (result.error, raw.error, result.top5_error, raw.top5_error)
    return (
        Cell(text=", ".join(f"{strength:.2f}" for strength in raw.folds.strengths)),
        Cell(text=f"{raw.strength:.4f} ({raw.interval[0]:.4f} to {raw.interval[1]:.4f})"),
        *(Cell(100 * error) for error in errors),
    )


def _notes(results: Results, *, simulated: bool) -> tuple[str, ...]:
    n, n_classes = next((each.n_samples, each.n_classes) for each in results.values())
    notes = [
        f"IC: λ is tuned on two thirds of the {n:,} validation samples of {n_classes:,} classes "
        f"and tested on the rest, {N_FOLDS} folds with as many of each class; mean ± standard "
        f"deviation of the folds (n − 1), and the mean of their λ. The search is exact, from 0 to "
        f"2, up to 8 where the best lies at the bound or near it.",
        "Source prior: the training counts, as in the paper; effective prior: counts times the "
        "weights of the loss, of DRW those of its last epochs; of BBN it is uniform. Where both "
        "are the same there is one row.",
        "λ = 1 is the plain correction by the rule of Bayes: nothing is tuned.",
    ]
    if simulated:
        notes.append(
            "The stand-in has the true class counts and made-up features, and a linear softmax "
            "classifier in place of the network. Its noise was chosen for CE to err about as often "
            "as the networks do: that error is no result. The columns beside it are the paper's, "
            "on the images."
        )
    return tuple(notes)


def draw(results: Results) -> Any:
    """Return the figure: a row for each network, top-1 left and top-5 right.

    Returns
    -------
    matplotlib Figure
    """
    columns = list(dict.fromkeys(column for _, column in results))
    with style():
        figure = new_figure(9.6, 0.9 + 3.6 * len(columns))
        panels = figure.subplots(len(columns), 2, squeeze=False)
        for column, (left, right) in zip(columns, panels, strict=True):
            own = {row: results[row, column] for row in ROWS if (row, column) in results}
            _panel(left, own, "top1", f"{title_of(column)}: top-1 accuracy")
            _panel(right, own, "top5", f"{title_of(column)}: top-5 accuracy")
            left.set_ylabel("validation accuracy (%)")
        _key(figure, [row for row in ROWS if any(row == each for each, _ in results)])
    return figure


def _panel(ax: Any, own: dict[str, MethodResult], which: str, title: str) -> None:
    """Draw one curve for each method, exactly."""
    upper = max(result.bounds[1] for result in own.values())
    low, high = np.inf, -np.inf
    for row, result in own.items():
        strengths, values = getattr(result, which)
        curve: Curve = (strengths, 100 * values)
        colour, linestyle = _look(row)
        seen = _thinned(curve, result.bounds)
        draw_steps(ax, seen, result.bounds[1], color=colour).set_linestyle(linestyle)
        best = result.raw.strength
        ax.plot(0, value_at(curve, 0.0), color=colour, clip_on=False, zorder=3, **_AS_IT_IS)
        ax.plot(best, value_at(curve, best), clip_on=False, zorder=4, **_BEST)
        low, high = min(low, curve[1].min()), max(high, curve[1].max())
    ax.axvline(FULL, color=FAINT, linewidth=1.0, zorder=1)
    room = high - low if high > low else 1.0  # flat curves have no height of their own
    ax.set(
        xlim=(0, upper),
        ylim=(low - BELOW * room, high + ABOVE * room),
        xlabel="strength λ",
        xticks=np.arange(0, upper + 0.25, 0.5 if upper <= 2 else 1),
    )
    ax.grid(True)
    ax.set_title(title)


def _thinned(curve: Curve, bounds: tuple[float, float]) -> Curve:
    """Return the curve, or its values at evenly spaced strengths if it has too many steps."""
    strengths, values = curve
    if strengths.size <= MOST_STEPS:
        return curve
    at = np.linspace(*bounds, MOST_STEPS)
    return at, values[np.searchsorted(strengths, at, side="right") - 1]


def _look(row: str) -> tuple[str, Any]:
    loss, _, schedule = row.partition("-")
    return _COLOURS[loss], _BROKEN if schedule else "-"


def _key(figure: Any, rows: list[str]) -> None:
    """Draw the legend of lines and marks above all panels."""
    from matplotlib import lines

    entries = []
    for row in rows:
        colour, linestyle = _look(row)
        line = lines.Line2D([], [], color=colour, linestyle=linestyle, linewidth=1.8)
        entries.append((line, title_of(row)))
    entries.append((lines.Line2D([], [], color=INK, **_AS_IT_IS), "as trained"))
    entries.append((lines.Line2D([], [], **_BEST), "best λ for top-1"))
    figure.legend(
        *zip(*entries, strict=True),
        loc="outside upper left",
        ncols=min(len(entries), 6),
        columnspacing=1.4,
        handlelength=2.2,
    )
