"""``reprior reproduce cifar``: train the cells of Table 2, correct each, print what came out."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reprior.core.prior import prior_from_counts
from reprior.exceptions import FileFormatError, OptionError, RepriorWarning
from reprior.experiments.cell_jobs import train_at_once
from reprior.experiments.cells import CellRun, chains, claimed, select_cells
from reprior.experiments.correction import Correction, correct
from reprior.experiments.other_runs import of_other_settings
from reprior.experiments.reproduction import Progress, Reproduction
from reprior.experiments.training.runfile import RUN_FILE, RunFile, write_json
from reprior.tuning.profile import StrengthProfile

__all__ = ["CellResult", "read_cells", "reproduce", "run_cell"]

CELLS, CORRECTION = "cells", "correction.json"

TRAIN_THEM = "Train them first."

#: Strengths that are searched: LDAM's networks are best above 2.
BOUNDS = (0.0, 4.0)

#: Where the curve of a cell is kept: exact values at these strengths.
CURVE = tuple(round(0.02 * i, 2) for i in range(126))


@dataclass(frozen=True)
class CellResult:
    """A finished cell: the run, and the correction by raw counts and by the effective prior.

    Parameters
    ----------
    run : RunFile
        What was trained.
    raw, effective : Correction
        With the training counts as the source prior, as the paper has it on every row; and with
        the prior that weights, samplers and losses leave in the network.
    curve : sequence of float
        Error of all test images at the strengths of :data:`CURVE`, with raw counts.
    """

    run: RunFile
    raw: Correction
    effective: Correction
    curve: Sequence[float]


def reproduce(
    folder: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] | None = None,
    cells: Sequence[str] = (),
    protocol: str = "compact",
    settings: Mapping[str, Any] | None = None,
    jobs: int = 1,
    train: bool = True,
    progress: Progress | None = None,
) -> Reproduction:
    """Train what is not trained yet, and write Table 2, the λ table and the curves.

    Parameters
    ----------
    folder : path
        Gets ``cells/`` with a run folder for each cell, and the tables and figures.
    root : path, optional
        The folder of CIFAR; needed where something is left to train.
    cells, protocol, settings
        As in :func:`~reprior.experiments.cells.select_cells`.
    jobs : int, default 1
        Cells that are trained at once, on equal shares of the CPU's threads. On a CPU two jobs of
        one thread get through more than one job of two.
    train : bool, default True
        Whether to train; otherwise tables are made of the cells that are finished.
    progress : callable, optional
        Told what is being done.
    """
    folder = Path(folder)
    chosen = select_cells(cells, protocol=protocol, root=root, settings=settings)
    left = [cell for cell in chosen if read_cell(folder, cell) is None]
    if left and train:
        _train(folder, left, jobs, progress)
    return tables_of(folder, chosen)


def tables_of(folder: Path, chosen: Sequence[CellRun]) -> Reproduction:
    """Write the tables and figures of the cells that are finished."""
    from reprior.experiments.cifar_figures import write_curves
    from reprior.experiments.cifar_tables import make_tables
    from reprior.experiments.tables import write_table

    results = read_cells(folder, chosen)
    missing = [cell.name for cell in chosen if cell.name not in results]
    if not results:
        raise OptionError(
            f"`folder` must have a finished cell to make tables of. Got {str(folder)!r}, which has "
            f"none of the {len(chosen)} asked for. {_others(folder, chosen) or TRAIN_THEM}"
        )
    tables = make_tables(results, missing)
    files = [path for table in tables for path in write_table(table, folder)]
    files += write_curves(results, folder)
    others = _others(folder, chosen) if missing else ""
    said = (f"Not all cells asked for are in {folder}. {others}",) if others else ()
    return Reproduction(tables, tuple(files), (*tables[0].notes, *said))


def _others(folder: Path, chosen: Sequence[CellRun]) -> str:
    """Say that the folder has cells that were trained by other settings; "" where it has none."""
    runs = [RunFile.read(path.parent) for path in sorted(folder.glob(f"{CELLS}/*/{RUN_FILE}"))]
    return of_other_settings(
        [run.config.identity for run in runs if run.finished],
        [cell.config.identity for cell in chosen],
        ("data", "imbalance", "ratio", "loss", "schedule", "seed"),
        "cell",
    )


def read_cells(folder: Path, chosen: Sequence[CellRun]) -> dict[str, CellResult]:
    """Return the finished ones of some cells by name."""
    found = {cell.name: read_cell(folder, cell) for cell in chosen}
    return {name: result for name, result in found.items() if result is not None}


def read_cell(folder: Path, cell: CellRun) -> CellResult | None:
    """Return a cell's result, or None where it is not finished."""
    home = folder / CELLS / cell.config.id
    path = home / CORRECTION
    try:
        run = RunFile.read(home)
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    if not run.finished:
        return None
    try:
        document = json.loads(text)
        curve = document["curve"]
        if tuple(curve["strengths"]) != CURVE:
            raise ValueError("the curve is at other strengths")
        raw, effective = (Correction.from_dict(document[name]) for name in ("raw", "effective"))
        return CellResult(run, raw, effective, tuple(curve["error"]))
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(
            f"A cell's correction must be JSON as reprior wrote it. Got {type(error).__name__}: "
            f"{error} in {path}. Delete the file: it is made anew from the cell's score files, "
            f"or by training it again where those are gone."
        ) from error


def run_cell(
    folder: Path, cell: CellRun, progress: Callable[[int], None] | None = None
) -> CellResult | None:
    """Train a cell, from its base's first epochs where there are any, and correct its scores.

    None where another process is at it.
    """
    from reprior.experiments.training.loop import train

    home = folder / CELLS / cell.config.id
    start = None if cell.base is None else folder / CELLS / cell.base.config.id
    base = start if start is not None and (start / RUN_FILE).exists() else None
    with claimed(home) as ours:
        if not ours:
            return None
        there = read_cell(folder, cell)
        if there is not None:  # another process finished it in between
            return there
        run = train(cell.config, home, resume=True, base=base, progress=progress)
        write_json(home / CORRECTION, _corrected(run, home))
    return read_cell(folder, cell)


def _corrected(run: RunFile, home: Path) -> dict[str, Any]:
    from reprior.experiments.training.scores import read_scores

    scores = read_scores(home)
    raw = prior_from_counts(run.class_counts)
    effective = np.asarray(run.effective_prior)
    all_scores, labels = scores.whole()
    profile = StrengthProfile.from_scores(
        all_scores, labels, source_prior=raw, bounds=(CURVE[0], CURVE[-1])
    )
    values = np.asarray(profile.evaluate("accuracy", np.array(CURVE)))
    with warnings.catch_warnings():
        # An effective prior is often nearly uniform: then only extreme strengths change anything,
        # and the strength that is kept says so.
        warnings.simplefilter("ignore", RepriorWarning)
        by_effective = correct(scores, effective, bounds=BOUNDS)
    return {
        "raw": correct(scores, raw, bounds=BOUNDS).to_dict(),
        "effective": by_effective.to_dict(),
        "curve": {"strengths": list(CURVE), "error": (1.0 - values).round(6).tolist()},
    }


def _train(folder: Path, left: Sequence[CellRun], jobs: int, progress: Progress | None) -> None:
    """Train cells, one after the other or several at once."""
    if jobs < 1:
        raise OptionError(f"`jobs` must be at least 1. Got {jobs}. Pass 1 for one after another.")
    if jobs > 1:
        train_at_once(folder, chains(left), jobs, progress)
        return
    for done, cell in enumerate(left, 1):
        run_cell(folder, cell, _samples_of(cell, f"cell {done} of {len(left)}", progress))


def _samples_of(
    cell: CellRun, where: str, progress: Progress | None
) -> Callable[[int], None] | None:
    if progress is None:
        return None
    from reprior.experiments.data.imbalance import imbalance_counts

    per_class = {"cifar10": (5000, 10), "cifar100": (500, 100)}[cell.config.data]
    counts = imbalance_counts(*per_class, kind=cell.config.imbalance, ratio=cell.config.ratio)
    total = int(sum(counts)) * cell.config.epochs
    return lambda done: progress(f"{where}: {cell.name}", done, total)
