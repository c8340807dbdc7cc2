"""``reprior reproduce inaturalist``: Table 3 and the λ-curve, on the images or on a stand-in."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from reprior import prior_from_counts
from reprior.core import check_choice
from reprior.exceptions import FileFormatError, OptionError
from reprior_lab.config import METHODS, RunConfig
from reprior_lab.data.images import ImageData, missing_data
from reprior_lab.figures import drawn_with, save_figure
from reprior_lab.inaturalist_results import (
    FIXED_SETTINGS,
    ROWS,
    MethodResult,
    judge,
    read_result,
    value_at,
    write_result,
)
from reprior_lab.inaturalist_stand_in import DEFAULT_ROWS, SimulatedCell, StandIn, simulated_cells
from reprior_lab.inaturalist_tables import draw, error_table, strength_table, title_of
from reprior_lab.reproduction import (
    CELLS,
    Progress,
    Reproduction,
    held,
    progress_of,
    refuse_settings,
)
from reprior_lab.tables import write_table
from reprior_lab.training.runfile import RUN_FILE, RunFile, installed_versions, write_json

__all__ = [
    "MODELS",
    "Cell",
    "NetworkCell",
    "can_split",
    "can_train",
    "network_cells",
    "reproduce",
]

DATA = "inaturalist2018"

#: Side of the images where a network is not made for 224 pixels.
SIDES = {"inception_v3": 299}

NAME, SIMULATED = "inaturalist", "inaturalist-simulated"
FORMAT_VERSION = 1

#: The networks of the paper.
MODELS = ("inception_v3", "resnet50")

#: Strengths at which the run file has the exact values of both curves.
GRID = tuple(round(0.05 * i, 2) for i in range(41))


class Cell(Protocol):
    """One entry of the table: a classifier that is trained, scored and corrected."""

    @property
    def row(self) -> str:
        """One of :data:`ROWS`."""

    @property
    def column(self) -> str:
        """The network, or what stands in for it."""

    @property
    def id(self) -> str:
        """The name of the cell's folder."""

    def run(self, folder: Path, data: Any, progress: Progress | None) -> MethodResult:
        """Train what is not trained yet, correct the scores, and keep the result."""


@dataclass(frozen=True)
class NetworkCell:
    """A network to train on iNaturalist 2018: the row of the table, and all settings."""

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
        """The folder of the run whose first epochs DRW takes over."""
        return self.config.differing(schedule="plain").id if self.config.schedule == "drw" else None

    def run(
        self,
        folder: Path,
        data: ImageData,
        progress: Progress | None,
        devices: Sequence[str] = (),
    ) -> MethodResult:
        """Train the network, or go on with it, correct its scores, and keep the result.

        Several devices share each batch, in processes of their own: see
        :func:`~reprior_lab.training.loop.train_on_several`.
        """
        from reprior_lab.training.scores import read_scores

        home, config = folder / CELLS / self.id, self.config
        start = None if self.base is None else folder / CELLS / self.base
        base = start if start is not None and (start / RUN_FILE).exists() else None
        total = config.epochs * len(data.train_labels)
        with held(home):
            told = progress_of(progress, f"training {config.model}, {self.row}", total)
            run = self._trained(home, base, data, devices, told)
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
                self.config, home, devices, base=base, n_samples=len(data.train_labels),
                progress=progress,
            )  # fmt: skip
        accelerator, number = trainer_device(devices[0] if devices else None)
        return train(
            self.config, home, resume=True, base=base, data=data, progress=progress,
            accelerator=accelerator, devices=number,
        )  # fmt: skip


def network_cells(
    rows: Sequence[str],
    models: Sequence[str],
    *,
    protocol: str = "paper",
    root: Any = None,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> tuple[NetworkCell, ...]:
    """Return what is to be trained, every base before its DRW.

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
        NetworkCell(row, RunConfig.resolve(protocol, **{
            "data": DATA, "root": None if root is None else str(root), "model": model,
            "image_size": SIDES.get(model), "seed": seed, **METHODS[row], **(settings or {}),
        }))
        for model in models
        for row in ROWS
        if row in rows
    )  # fmt: skip


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
    """Return whether there is such a network: BBN needs one that it can split."""
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
        :class:`~reprior_lab.inaturalist_stand_in.StandIn`. Its score files take 0.8 GB
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
    devices : int or str, default "auto"
        How many devices, their numbers such as "0,1", or "auto": all GPUs, otherwise one. They
        share the batches of one network after the other. The stand-in takes none.
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
    from reprior_lab.training.devices import list_devices

    asked = network_cells(
        ROWS if rows is None else rows, models, protocol=protocol, root=root, seed=seed,
        settings=settings,
    )  # fmt: skip
    found, notes = _train(home, asked, root, list_devices(devices), progress)
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
    devices: Sequence[str],
    progress: Progress | None,
) -> tuple[dict[str, MethodResult], tuple[str, ...]]:
    """Return the result of each network by its name, and what was left out."""
    there = _there(home, cells)
    left = [cell for cell in cells if cell.id not in there]
    _check_data([cell for cell in left if cell.row != "bbn"], root)
    whole = [cell for cell in left if not can_train(cell)]
    left = [cell for cell in left if cell not in whole]
    _check_data(left, root)
    opened: dict[int | None, Any] = {}
    for cell in left:
        from reprior_lab.training.loop import open_for

        size = cell.config.image_size
        if size not in opened:
            opened[size] = open_for(cell.config)
        there[cell.id] = cell.run(home, opened[size], progress, devices)
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
