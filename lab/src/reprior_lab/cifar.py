"""``reprior reproduce cifar``: the cells of Table 2, trained once, corrected and printed."""

from __future__ import annotations

import fnmatch
import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reprior import StrengthProfile, prior_from_counts
from reprior.exceptions import FileFormatError, OptionError, RepriorWarning
from reprior_lab.config import METHODS, RunConfig
from reprior_lab.correction import Correction, correct
from reprior_lab.data.imbalance import imbalance_counts
from reprior_lab.models.registry import check_model
from reprior_lab.reproduction import (
    CELLS,
    Progress,
    Reproduction,
    check_jobs,
    claimed,
    of_other_settings,
    progress_of,
    refuse_settings,
    train_at_once,
)
from reprior_lab.training.runfile import RUN_FILE, RunFile, write_json

__all__ = [
    "COLUMNS",
    "SEEDS",
    "TABLE_SETTINGS",
    "CellResult",
    "CellRun",
    "chains",
    "read_cells",
    "reproduce",
    "run_cell",
    "select_cells",
]

#: Columns of the table, in its order.
COLUMNS: dict[str, dict[str, Any]] = {
    f"{data}-{kind}{ratio}": {"data": data, "imbalance": kind, "ratio": ratio}
    for data in ("cifar10", "cifar100")
    for kind in ("exp", "step")
    for ratio in (100, 10)
}

#: Methods that are trained from more than one seed: what the paper's claim rests on.
SEEDS: dict[str, tuple[int, ...]] = {"ce": (0, 1, 2), "ce-drw": (0, 1, 2)}

#: What is trained when nothing is asked for: the columns of ratio 100, the paper's rows.
DEFAULT = tuple(f"{name}/*" for name in COLUMNS if name.endswith("100"))
EXTRA = "logit_adjusted"

#: Settings that rows, columns and options say.
TABLE_SETTINGS = ("data", "imbalance", "loss", "protocol", "ratio", "root", "schedule")

CORRECTION = "correction.json"

TRAIN_THEM = "Train them first."

#: Strengths that are searched: LDAM's networks are best above 2.
BOUNDS = (0.0, 4.0)

#: Where the curve of a cell is kept: exact values at these strengths.
CURVE = tuple(round(0.02 * i, 2) for i in range(126))


@dataclass(frozen=True)
class CellRun:
    """One trained network of the table.

    Parameters
    ----------
    column, method : str
        Of :data:`COLUMNS` and :data:`METHODS`.
    config : RunConfig
        What to train.
    """

    column: str
    method: str
    config: RunConfig

    @property
    def name(self) -> str:
        """Column, row and seed, as patterns match them."""
        return f"{self.column}/{self.method}/s{self.config.seed}"

    @property
    def base(self) -> CellRun | None:
        """The cell whose first epochs this one shares."""
        if self.config.schedule != "drw":
            return None
        return CellRun(self.column, self.config.loss, self.config.differing(schedule="plain"))


def select_cells(
    patterns: Sequence[str] = (),
    *,
    protocol: str = "compact",
    root: str | os.PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> tuple[CellRun, ...]:
    """Return the cells that patterns ask for, in the order they should be trained in.

    Parameters
    ----------
    patterns : sequence of str
        COLUMN, COLUMN/ROW or COLUMN/ROW/sSEED, with the wildcards of a shell. By default the four
        columns of ratio 100 with the paper's rows: three seeds of CE and CE-DRW, one of the rest.
    protocol : str
        What is not said otherwise, see :mod:`reprior_lab.config`.
    root : path, optional
        The folder of the data.
    settings : mapping, optional
        Settings of the runs that differ from the protocol.

    Examples
    --------
    >>> [cell.name for cell in select_cells(["cifar10-exp100/ce*"])][:2]
    ['cifar10-exp100/ce/s0', 'cifar10-exp100/ce-drw/s0']
    >>> len(select_cells())
    52
    >>> select_cells(["cifar10-exp50"])
    Traceback (most recent call last):
    ...
    reprior.exceptions.OptionError: `cells` must match COLUMN/ROW/sSEED. Got 'cifar10-exp50', which
    matches none. Columns are cifar10-exp100, ...
    """
    own = dict(settings or {})
    refuse_settings(own, TABLE_SETTINGS)
    seed = own.pop("seed", None)
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise OptionError(f"`seed` must be a whole number. Got {seed!r}. Pass for example seed=0.")
    if own.get("model") is not None:
        check_model(str(own["model"]))
    seeds = {0, 1, 2} if seed is None else {seed}
    every = {
        f"{column}/{method}/s{each}": (column, method, each)
        for each in sorted(seeds)
        for method in METHODS
        for column in COLUMNS
        if len(seeds) == 1 or each in SEEDS.get(method, (0,))
    }
    chosen: set[str] = set()
    for pattern in patterns or DEFAULT:
        found = _matching(every, pattern)
        if not found:
            raise OptionError(
                f"`cells` must match COLUMN/ROW/sSEED. Got {pattern!r}, which matches none. "
                f"Columns are {', '.join(COLUMNS)}; rows are {', '.join(METHODS)}; s0 is the seed "
                f"0. Wildcards are those of a shell."
            )
        chosen |= found if patterns else {name for name in found if f"/{EXTRA}/" not in name}
    where = None if root is None else str(root)
    cells = [
        CellRun(column, method, RunConfig.resolve(
            protocol, root=where, seed=each, **COLUMNS[column], **METHODS[method], **own,
        ))
        for name, (column, method, each) in every.items()
        if name in chosen
    ]  # fmt: skip
    return tuple(cell for chain in chains(cells) for cell in chain)


def _matching(names: Iterable[str], pattern: str) -> set[str]:
    """Return the cells that a pattern asks for; cb-ce is cb_ce, where that is what there is."""
    whole = pattern + "/*" * (2 - min(pattern.count("/"), 2))
    column, row, seed = whole.split("/", 2)
    for spelt in (whole, f"{column}/{row.replace('-', '_')}/{seed}"):
        found = {name for name in names if fnmatch.fnmatchcase(name, spelt)}
        if found:
            return found
    return set()


def chains(cells: Sequence[CellRun]) -> tuple[tuple[CellRun, ...], ...]:
    """Group cells that must be trained one after the other: a base, then what starts from it."""
    groups: dict[tuple[str, str, int], list[CellRun]] = {}
    for cell in cells:
        start = cell if cell.base is None else cell.base
        groups.setdefault((start.column, start.method, start.config.seed), []).append(cell)
    return tuple(
        tuple(sorted(group, key=lambda cell: cell.base is not None)) for group in groups.values()
    )


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
    jobs: int | None = None,
    devices: int | str = "auto",
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
        As in :func:`~reprior_lab.cifar.select_cells`.
    jobs : int, optional
        Cells that are trained at once, on equal shares of the CPU's threads. By default one for
        each device. On a CPU two jobs of one thread get through more than one job of two.
    devices : int or str, default "auto"
        How many devices, their numbers such as "0,1", or "auto": all GPUs, otherwise one. A cell
        is trained on one device, and cells are spread over them. On the CPU a device is a process.
    train : bool, default True
        Whether to train; otherwise tables are made of the cells that are finished.
    progress : callable, optional
        Told what is being done.
    """
    folder = Path(folder)
    chosen = select_cells(cells, protocol=protocol, root=root, settings=settings)
    left = [cell for cell in chosen if read_cell(folder, cell) is None]
    if left and train:
        _train(folder, left, jobs, devices, progress)
    return tables_of(folder, chosen)


def tables_of(folder: Path, chosen: Sequence[CellRun]) -> Reproduction:
    """Write the tables and figures of the cells that are finished."""
    from reprior_lab.cifar_tables import make_tables, write_curves
    from reprior_lab.tables import write_table

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
    folder: Path,
    cell: CellRun,
    progress: Callable[[int], None] | None = None,
    *,
    device: str | None = None,
) -> CellResult | None:
    """Train a cell, from its base's first epochs where there are any, and correct its scores.

    It is trained in this process and on one device: several processes would claim the same cell.
    None where another process is at it.
    """
    from reprior_lab.training.devices import trainer_device
    from reprior_lab.training.loop import train

    home = folder / CELLS / cell.config.id
    start = None if cell.base is None else folder / CELLS / cell.base.config.id
    base = start if start is not None and (start / RUN_FILE).exists() else None
    with claimed(home) as ours:
        if not ours:
            return None
        there = read_cell(folder, cell)
        if there is not None:  # another process finished it in between
            return there
        accelerator, number = trainer_device(device)
        run = train(
            cell.config, home, resume=True, base=base, progress=progress,
            accelerator=accelerator, devices=number,
        )  # fmt: skip
        write_json(home / CORRECTION, _corrected(run, home))
    return read_cell(folder, cell)


def _corrected(run: RunFile, home: Path) -> dict[str, Any]:
    from reprior_lab.training.scores import read_scores

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


def _train(
    folder: Path,
    left: Sequence[CellRun],
    jobs: int | None,
    devices: int | str,
    progress: Progress | None,
) -> None:
    """Train cells, one after the other or several at once."""
    from reprior_lab.training.devices import list_devices

    names = list_devices(devices)
    jobs = check_jobs(jobs, names)
    if jobs > 1:
        train_at_once(folder, chains(left), jobs, progress, run=run_cell, devices=names)
        return
    for done, cell in enumerate(left, 1):
        title = f"cell {done} of {len(left)}: {cell.name}"
        samples = progress_of(progress, title, _n_samples(cell.config))
        run_cell(folder, cell, samples, device=names[0])


def _n_samples(config: RunConfig) -> int:
    """Return the training samples of all epochs, without opening the data."""
    per_class = {"cifar10": (5000, 10), "cifar100": (500, 100)}[config.data]
    counts = imbalance_counts(*per_class, kind=config.imbalance, ratio=config.ratio)
    return int(sum(counts)) * config.epochs
