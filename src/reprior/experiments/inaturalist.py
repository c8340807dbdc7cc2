"""``reprior reproduce inaturalist``: Table 3 and the λ-curve, on the images or on a stand-in."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reprior.exceptions import FileFormatError, OptionError
from reprior.experiments.data.missing import missing_data
from reprior.experiments.figures import drawn_with, save_figure
from reprior.experiments.inaturalist_cells import (
    CELLS,
    DATA,
    ROWS,
    Cell,
    NetworkCell,
    can_split,
    network_cells,
)
from reprior.experiments.inaturalist_results import MethodResult, read_result, value_at
from reprior.experiments.inaturalist_simulation import DEFAULT_ROWS, SimulatedCell, simulated_cells
from reprior.experiments.inaturalist_stand_in import StandIn
from reprior.experiments.inaturalist_tables import error_table, strength_table, title_of
from reprior.experiments.reproduction import Progress, Reproduction
from reprior.experiments.tables import write_table
from reprior.experiments.training.runfile import installed_versions, write_json

__all__ = ["MODELS", "reproduce"]

NAME, SIMULATED = "inaturalist", "inaturalist-simulated"
FORMAT_VERSION = 1

#: The networks of the paper.
MODELS = ("inception_v3", "resnet50")

#: Strengths at which the run file has the exact values of both curves.
GRID = tuple(round(0.05 * i, 2) for i in range(41))


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
    progress: Progress | None = None,
) -> Reproduction:
    """Train what is not trained yet, correct it, and write Table 3 and the λ-curve.

    Parameters
    ----------
    folder : path
        Gets ``inaturalist.md``, ``.tex``, ``.json``, ``.png``, ``.svg`` and ``.run.json``, the
        same of ``inaturalist-strength`` (the strengths and top-5 errors) as a table, and
        ``cells/`` with a folder for each trained classifier. With ``simulate`` the names begin
        with ``inaturalist-simulated``. Cells that are finished are not trained again, those that
        were stopped go on.
    root : path, optional
        The folder of iNaturalist 2018: JSON files and images. Needed where a network is left to
        train.
    simulate : bool, default False
        Train a linear classifier on the stand-in instead, which needs no data: see
        :class:`~reprior.experiments.inaturalist_stand_in.StandIn`. Its score files take 0.8 GB
        for each row.
    protocol : {"paper", "compact"}, default "paper"
        How networks are trained. The stand-in has settings of its own.
    models : sequence of str
        Networks: names of timm.
    rows : sequence of str, optional
        Some of "ce", "ce-drw", "focal", "focal-drw", "ldam", "ldam-drw", "bbn". By default all; of
        the stand-in the first four. BBN is left out for networks that cannot be split.
    seed : int, default 0
        Of the training, of the stand-in, and of the folds.
    n_classes : int, optional
        Classes of the stand-in, where fewer than all 8,142 are wanted.
    settings : mapping, optional
        Settings of the training that differ, such as ``{"epochs": 200}``.
    progress : callable, optional
        Told what is being done.
    """
    home = Path(folder)
    if n_classes is not None and not simulate:
        raise OptionError(
            f"`n_classes` must be left out for the real data set. Got {n_classes}. It is of the "
            f"stand-in: ask for that too, by simulate (--simulate)."
        )
    if simulate and root is not None:
        raise OptionError(
            f"`root` must be left out with the stand-in, which needs no data. Got {str(root)!r}. "
            f"Leave out one of the two."
        )
    if simulate:
        data = StandIn(seed=seed)
        if n_classes is not None:
            data = replace(data, n_classes=n_classes)
        cells = simulated_cells(DEFAULT_ROWS if rows is None else rows, data, settings=settings)
        results = _simulate(home, cells, progress)
        return _write(home, SIMULATED, cells, results, seed, _trial(n_classes))
    asked = network_cells(
        ROWS if rows is None else rows, models, protocol=protocol, root=root, seed=seed,
        settings=settings,
    )  # fmt: skip
    found, notes = _train(home, asked, root, progress)
    return _write(home, NAME, asked, found, seed, notes)


def _simulate(
    home: Path, cells: Sequence[SimulatedCell], progress: Progress | None
) -> dict[str, MethodResult]:
    """Return the result of each cell by its name, trained where it is not there."""
    there = _there(home, cells)
    left = [cell for cell in cells if cell.id not in there]
    if left:
        if progress is not None:
            progress("drawing the stand-in", 0, 1)
        samples = left[0].data.draw()
        for cell in left:
            there[cell.id] = cell.run(home, samples, progress)
    return there


def _train(
    home: Path,
    cells: Sequence[NetworkCell],
    root: str | os.PathLike[str] | None,
    progress: Progress | None,
) -> tuple[dict[str, MethodResult], tuple[str, ...]]:
    """Return the result of each network by its name, and what was left out."""
    there = _there(home, cells)
    left = [cell for cell in cells if cell.id not in there]
    _check_data([cell for cell in left if cell.row != "bbn"], root)
    whole = [cell for cell in left if cell.row == "bbn" and not can_split(cell.column)]
    left = [cell for cell in left if cell not in whole]
    _check_data(left, root)
    opened: dict[int | None, Any] = {}
    for cell in left:
        size = cell.config.image_size
        if size not in opened:
            from reprior.experiments.training.loop import open_for

            opened[size] = open_for(cell.config)
        there[cell.id] = cell.run(home, opened[size], progress)
    notes = tuple(
        f"BBN has no {title_of(cell.column)}: it doubles the last block of a residual network."
        for cell in whole
    )
    return there, notes


def _trial(n_classes: int | None) -> tuple[str, ...]:
    if n_classes is None:
        return ()
    return (f"{n_classes:,} classes of 8,142 are a trial: nothing here is to be compared.",)


def _check_data(left: Sequence[NetworkCell], root: str | os.PathLike[str] | None) -> None:
    """Refuse to train without data, and say what needs none."""
    if left and root is None:
        error = missing_data(DATA, None, "and nothing is downloaded")
        raise FileFormatError(
            f"{error} Or take the stand-in with the true class counts, which needs no data: "
            f"simulate (--simulate)."
        )


def _there(home: Path, cells: Sequence[Cell]) -> dict[str, MethodResult]:
    found = {cell.id: read_result(home / CELLS / cell.id) for cell in cells}
    return {name: result for name, result in found.items() if result is not None}


def _write(
    home: Path,
    name: str,
    cells: Sequence[NetworkCell] | Sequence[SimulatedCell],
    found: Mapping[str, MethodResult],
    seed: int,
    notes: tuple[str, ...],
) -> Reproduction:
    from reprior.experiments.inaturalist_figure import draw

    results = {(cell.row, cell.column): found[cell.id] for cell in cells if cell.id in found}
    if not results:
        raise OptionError(
            "`rows` must have one that can be trained. Got none. Ask for 'ce', for example."
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
    """Everything behind the tables and the figure, ready for JSON."""
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
    within = [at for at in GRID if result.bounds[0] <= at <= result.bounds[1]]
    return {
        "row": cell.row,
        "column": cell.column,
        "folder": f"{CELLS}/{cell.id}",
        "settings": settings,
        **result.to_dict(),
        "curves": {
            "strengths": within,
            "top1_accuracy": [value_at(result.top1, at) for at in within],
            "top5_accuracy": [value_at(result.top5, at) for at in within],
        },
    }
