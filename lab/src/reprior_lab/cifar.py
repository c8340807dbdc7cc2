"""``reprior reproduce cifar``: train and correct the cells of Table 2, and write its tables.

The tables and figures are Table 2, the strengths, the gains, and all ways to correct.
"""

from __future__ import annotations

import fnmatch
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, TypeAlias

import numpy as np

from reprior import StrengthProfile, prior_from_counts
from reprior.exceptions import FileFormatError, OptionError, RepriorWarning, Setting
from reprior.report.plots import AFTER, CYCLE
from reprior_lab.config import METHODS, RunConfig
from reprior_lab.correction import Correction, Judged, correct
from reprior_lab.data.imbalance import imbalance_counts
from reprior_lab.figures import new_figure, save_figure, style
from reprior_lab.models.registry import check_model
from reprior_lab.paper import paper_note, paper_value
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
from reprior_lab.tables import Cell, Table, write_table
from reprior_lab.training.runfile import RUN_FILE, RunFile, read_json, write_json

__all__ = [
    "COLUMNS",
    "LABELS",
    "SEEDS",
    "TABLE_SETTINGS",
    "CellResult",
    "CellRun",
    "chains",
    "make_tables",
    "read_cells",
    "reproduce",
    "run_cell",
    "select_cells",
    "write_curves",
]

#: Columns of Table 2, in the paper's order.
COLUMNS: dict[str, dict[str, Any]] = {
    f"{data}-{kind}{ratio}": {"data": data, "imbalance": kind, "ratio": ratio}
    for data in ("cifar10", "cifar100")
    for kind in ("exp", "step")
    for ratio in (100, 10)
}

#: Methods trained from several seeds: the paper's claim depends on them.
SEEDS: dict[str, tuple[int, ...]] = {"ce": (0, 1, 2), "ce-drw": (0, 1, 2)}

#: The default cells: the columns of ratio 100, the paper's rows.
DEFAULT = tuple(f"{name}/*" for name in COLUMNS if name.endswith("100"))
EXTRA = "logit_adjusted"

#: Settings that rows, columns and options determine.
TABLE_SETTINGS = ("data", "imbalance", "loss", "protocol", "ratio", "root", "schedule")

CORRECTION = "correction.json"

TRAIN_THEM = "Train them first."

#: Bounds of the search: the best strengths of LDAM's networks are above 2.
BOUNDS = (0.0, 4.0)

#: The strengths of a cell's curve; its values there are exact.
CURVE = tuple(round(0.02 * i, 2) for i in range(126))


@dataclass(frozen=True)
class CellRun:
    """One trained network of the table.

    Parameters
    ----------
    column, method : str
        Names in :data:`COLUMNS` and :data:`METHODS`.
    config : RunConfig
        The settings of the run.
    """

    column: str
    method: str
    config: RunConfig

    @property
    def name(self) -> str:
        """Column, row and seed, as matched by patterns."""
        return f"{self.column}/{self.method}/s{self.config.seed}"

    @property
    def base(self) -> CellRun | None:
        """The cell whose first epochs this cell shares."""
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
    """Return the cells that match patterns, in the order of training.

    Parameters
    ----------
    patterns : sequence of str
        COLUMN, COLUMN/ROW or COLUMN/ROW/sSEED, with the wildcards of a shell. By default the four
        columns of ratio 100 with the paper's rows: three seeds of CE and CE-DRW, one of the rest.
    protocol : str
        The defaults of all settings, see :mod:`reprior_lab.config`.
    root : path, optional
        The folder of the data.
    settings : mapping, optional
        Settings that differ from the protocol.

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
    changed = dict(settings or {})
    refuse_settings(changed, TABLE_SETTINGS)
    seed = changed.pop("seed", None)
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise OptionError(
            argument="seed",
            rule="must be a whole number",
            got=repr(seed),
            remedy=["Pass for example ", Setting("seed", 0), "."],
        )
    if changed.get("model") is not None:
        check_model(str(changed["model"]))
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
                argument="cells",
                rule="must match COLUMN/ROW/sSEED",
                got=f"{pattern!r}, which matches none",
                remedy=f"Columns are {', '.join(COLUMNS)}; rows are "
                f"{', '.join(METHODS)}; s0 is the seed 0. Wildcards are those "
                "of a shell.",
            )
        chosen |= found if patterns else {name for name in found if f"/{EXTRA}/" not in name}
    where = None if root is None else str(root)
    cells = [
        CellRun(
            column,
            method,
            RunConfig.resolve(
                protocol,
                root=where,
                seed=each,
                **COLUMNS[column],
                **METHODS[method],
                **changed,
            ),
        )
        for name, (column, method, each) in every.items()
        if name in chosen
    ]
    return tuple(cell for chain in chains(cells) for cell in chain)


def _matching(names: Iterable[str], pattern: str) -> set[str]:
    """Return the cells that match a pattern; cb-ce stands for cb_ce if only that exists."""
    full_pattern = pattern + "/*" * (2 - min(pattern.count("/"), 2))
    column, row, seed = full_pattern.split("/", 2)
    for spelt in (full_pattern, f"{column}/{row.replace('-', '_')}/{seed}"):
        found = {name for name in names if fnmatch.fnmatchcase(name, spelt)}
        if found:
            return found
    return set()


def chains(cells: Sequence[CellRun]) -> tuple[tuple[CellRun, ...], ...]:
    """Group cells that must be trained in sequence: a base, then the cells that start from it."""
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
        The run file.
    raw, effective : Correction
        With the training counts as the source prior, as in the paper on every row; and with the
        prior that the network has learnt from weights, samplers and losses.
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
    """Train the unfinished cells, and write Table 2, the λ table and the curves.

    Parameters
    ----------
    folder : path
        Gets ``cells/`` with a run folder for each cell, and the tables and figures.
    root : path, optional
        The folder of CIFAR; needed if a cell must be trained.
    cells, protocol, settings
        As in :func:`~reprior_lab.cifar.select_cells`.
    jobs : int, optional
        How many cells to train at once, on equal shares of the CPU's threads. By default one for
        each device. On a CPU two jobs of one thread are faster than one job of two.
    devices : int or str, default "auto"
        How many devices, their numbers such as "0,1", or "auto": all GPUs, or one device without
        GPUs. Each cell is trained on one of them. On the CPU a device is a process.
    train : bool, default True
        Whether to train; otherwise only the finished cells are in the tables.
    progress : callable, optional
        Receives the progress.
    """
    folder = Path(folder)
    chosen = select_cells(cells, protocol=protocol, root=root, settings=settings)
    left = [cell for cell in chosen if read_cell(folder, cell) is None]
    if left and train:
        _train(folder, left, jobs, devices, progress)
    return tables_of(folder, chosen)


def tables_of(folder: Path, chosen: Sequence[CellRun]) -> Reproduction:
    """Write the tables and figures of the finished cells."""
    results = read_cells(folder, chosen)
    missing = [cell.name for cell in chosen if cell.name not in results]
    if not results:
        raise OptionError(
            argument="folder",
            rule="must have a finished cell to make tables of",
            got=f"{str(folder)!r}, which has none of the {len(chosen)} asked for",
            remedy=_others(folder, chosen) or TRAIN_THEM,
        )
    tables = make_tables(results, missing)
    files = [path for table in tables for path in write_table(table, folder)]
    files += write_curves(results, folder)
    others = _others(folder, chosen) if missing else ""
    said = (f"Not all cells asked for are in {folder}. {others}",) if others else ()
    return Reproduction(tables, tuple(files), (*tables[0].notes, *said))


def _others(folder: Path, chosen: Sequence[CellRun]) -> str:
    """Describe cells in the folder that were trained with other settings; "" if there are none."""
    runs = [RunFile.read(path.parent) for path in sorted(folder.glob(f"{CELLS}/*/{RUN_FILE}"))]
    return of_other_settings(
        [run.config.identity for run in runs if run.finished],
        [cell.config.identity for cell in chosen],
        ("data", "imbalance", "ratio", "loss", "schedule", "seed"),
        "cell",
    )


def read_cells(folder: Path, chosen: Sequence[CellRun]) -> dict[str, CellResult]:
    """Return the finished cells by name."""
    results = {cell.name: read_cell(folder, cell) for cell in chosen}
    return {name: result for name, result in results.items() if result is not None}


def read_cell(folder: Path, cell: CellRun) -> CellResult | None:
    """Return a cell's result, or None if it is not finished."""
    home = folder / CELLS / cell.config.id
    path = home / CORRECTION
    try:
        run = RunFile.read(home)
    except FileNotFoundError:
        return None
    if not run.finished or not path.exists():
        return None
    try:
        document = read_json(path)
        curve = document["curve"]
        if tuple(curve["strengths"]) != CURVE:
            raise ValueError("the curve is at other strengths")
        raw, effective = (Correction.from_dict(document[name]) for name in ("raw", "effective"))
        return CellResult(run, raw, effective, tuple(curve["error"]))
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(
            f"A cell's correction must be JSON as reprior wrote it. Got {type(error).__name__}: "
            f"{error} in {path}. Delete the file: it is computed again from the cell's score "
            f"files, or by training the cell again if those are gone."
        ) from error


def run_cell(
    folder: Path,
    cell: CellRun,
    progress: Callable[[int], None] | None = None,
    *,
    device: str | None = None,
) -> CellResult | None:
    """Train a cell, starting from its base's first epochs if there are any; correct its scores.

    It is trained in this process and on one device: several processes would claim the same cell.
    Returns None if another process trains it.
    """
    from reprior_lab.training.devices import trainer_device
    from reprior_lab.training.loop import train

    home = folder / CELLS / cell.config.id
    start = None if cell.base is None else folder / CELLS / cell.base.config.id
    base = start if start is not None and (start / RUN_FILE).exists() else None
    with claimed(home) as ours:
        if not ours:
            return None
        finished = read_cell(folder, cell)
        if finished is not None:  # another process finished it in between
            return finished
        accelerator, number = trainer_device(device)
        run = train(
            cell.config,
            home,
            resume=True,
            base=base,
            progress=progress,
            accelerator=accelerator,
            devices=number,
        )
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
        # An effective prior is often nearly uniform: then only extreme strengths change a
        # prediction, as the recorded strength shows.
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


#: Printed names of rows.
LABELS = {
    "ce": "CE",
    "focal": "Focal",
    "ldam": "LDAM",
    "cb_ce": "CB CE",
    "cb_focal": "CB Focal",
    "ce-drw": "CE-DRW",
    "focal-drw": "Focal-DRW",
    "ldam-drw": "LDAM-DRW",
    "bbn": "BBN",
    "logit_adjusted": "Logit-adjusted",
}

Results: TypeAlias = Mapping[str, "CellResult"]
Reading: TypeAlias = Callable[["CellResult"], float]

#: All ways to correct a row: the column head, and the error.
WAYS: dict[str, Reading] = {
    "as trained": lambda cell: cell.raw.error,
    "IC, honest split": lambda cell: cell.raw.honest.error,
    "IC, tuned on the test labels": lambda cell: cell.raw.paper.error,
    "λ = 1": lambda cell: cell.raw.bayes.error,
    "IC, honest split, effective prior": lambda cell: cell.effective.honest.error,
    "λ = 1, effective prior": lambda cell: cell.effective.bayes.error,
}

HONEST = (
    "IC rows are judged honestly: the strength is tuned on one half of the test images and judged "
    "on the other, both ways. The paper tuned and reported on the same images."
)
SPREAD = "± is the standard deviation over seeds, where there are several."
CHOSEN_ON = (
    "The compact protocol was chosen among five by the test error of CE, not corrected, on "
    "cifar10-exp100; nothing was chosen by what the correction does."
)

#: How many panels are side by side.
PER_ROW = 2

#: One colour per loss; class-balanced losses have dotted lines, DRW dashed ones.
_COLOURS = {
    "ce": AFTER,
    "focal": CYCLE[1],
    "ldam": CYCLE[2],
    "bbn": CYCLE[5],
    "logit_adjusted": CYCLE[3],
}


def make_tables(results: Results, missing: Sequence[str] = ()) -> tuple[Table, ...]:
    """Return all tables of finished cells, given by name COLUMN/ROW/sSEED.

    Rows and columns of missing cells are included, and Table 2 names these.
    """
    columns, methods = _there([*results, *missing])
    made = [
        _table_two(results, columns, methods, missing),
        _gains(results, columns, methods),
        _strengths(results, columns, methods),
    ]
    made += [_ways(results, column, methods) for column in columns]
    return tuple(made)


def _there(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the columns and rows of cells, in the table's order."""
    columns, methods = ({name.split("/")[i] for name in names} for i in (0, 1))
    return [c for c in COLUMNS if c in columns], [m for m in METHODS if m in methods]


def _of(results: Results, column: str, method: str) -> list[CellResult]:
    """Return the cells of one column and method, with all seeds."""
    return [cell for name, cell in results.items() if name.startswith(f"{column}/{method}/")]


def _percent(cells: Sequence[CellResult], reading: Reading, paper: float | None = None) -> Cell:
    """Return the mean over seeds in per cent."""
    values = [100.0 * reading(cell) for cell in cells]
    if not values:
        return Cell(paper=paper)
    spread = stdev(values) if len(values) > 1 else None
    return Cell(fmean(values), paper=paper, spread=spread, n=len(values))


def _table_two(
    results: Results, columns: list[str], methods: list[str], missing: Sequence[str]
) -> Table:
    rows = [
        _row(results, columns, method, suffix, reading)
        for suffix, reading in (("", WAYS["as trained"]), ("-ic", WAYS["IC, honest split"]))
        for method in methods
    ]
    ran = _protocol_of(results)
    return Table(
        "cifar-table2",
        f"Top-1 error (%) on imbalanced CIFAR, {ran}",
        (*columns, "average"),
        tuple(rows),
        notes=(
            HONEST,
            *_spread_note(results),
            _average_note(columns),
            *_protocol_notes(results),
            *_paper_notes(columns, methods),
            *_missing_note(missing, len(results) + len(missing)),
        ),
        corner="method",
        best="min",
    )


def _row(
    results: Results, columns: list[str], method: str, suffix: str, reading: Reading
) -> tuple[str, tuple[Cell, ...]]:
    row = f"{method}{suffix}"
    cells = [
        _percent(_of(results, column, method), reading, paper_value("cifar", row, column))
        for column in columns
    ]
    return f"{LABELS[method]}{suffix.upper()}", (*cells, _average(cells))


def _average(cells: Sequence[Cell]) -> Cell:
    """Return the mean over columns, ours and the paper's, if all columns have a value."""
    ours = [cell.value for cell in cells if cell.value is not None]
    theirs = [cell.paper for cell in cells if cell.paper is not None]
    n_cells = len(cells)
    return Cell(
        fmean(ours) if len(ours) == n_cells else None,
        paper=fmean(theirs) if len(theirs) == n_cells else None,
    )


def _average_note(columns: Sequence[str]) -> str:
    if len(columns) == len(COLUMNS):
        return "Averages of the paper's figures are recomputed: some are misprinted."
    over = f"the {len(columns)} columns" if len(columns) > 1 else "the one column"
    return (
        f"Averages are over {over} shown, the paper's too. Columns without a "
        f"cell are left out: {', '.join(c for c in COLUMNS if c not in columns)}."
    )


def _spread_note(results: Results) -> list[str]:
    several = any(not name.endswith("/s0") for name in results)
    return [SPREAD] if several else []


def _protocol_notes(results: Results) -> list[str]:
    configs = [cell.run.config for cell in results.values()]
    compact = any(each.protocol == "compact" and not _changed(each) for each in configs)
    return [CHOSEN_ON] if compact else []


def _changed(config: RunConfig) -> dict[str, object]:
    """Return the settings that differ from the protocol, except those of rows and columns."""
    taken = {key: getattr(config, key) for key in (*TABLE_SETTINGS, "seed")}
    as_it_is = RunConfig.resolve(**taken).identity
    return {key: value for key, value in config.identity.items() if as_it_is.get(key) != value}


def _paper_notes(columns: Sequence[str], methods: Sequence[str]) -> list[str]:
    """Return notes on figures of the paper that need a remark."""
    found: dict[str, list[str]] = {}
    for row in (f"{method}{suffix}" for suffix in ("", "-ic") for method in methods):
        for column in columns:
            note = paper_note("cifar", row, column)
            if note:
                label = LABELS[row.removesuffix("-ic")] + ("-IC" if row.endswith("-ic") else "")
                found.setdefault(note, []).append(f"{label} on {column}")
    return [f"The paper's {', '.join(where)}: {note}." for note, where in found.items()]


def _missing_note(missing: Sequence[str], n: int) -> list[str]:
    if not missing:
        return []
    return [f"{len(missing)} of {n} cells are not finished: {', '.join(missing)}."]


def _protocol_of(results: Results) -> str:
    """Describe the trained networks by their run files."""
    configs = [cell.run.config for cell in results.values()]
    models = sorted({config.model for config in configs})
    epochs = sorted({config.epochs for config in configs})
    protocols = sorted({_protocol_words(config) for config in configs})
    return (
        f"protocol {' and '.join(protocols)}: {' and '.join(models)}, "
        f"{' or '.join(map(str, epochs))} epochs"
    )


def _protocol_words(config: RunConfig) -> str:
    changed = _changed(config)
    changes = ", ".join(
        f"{key}={value}" for key, value in changed.items() if key != "deferred_epoch"
    )
    return f"{config.protocol}, changed by {changes}" if changes else config.protocol


def _strengths(results: Results, columns: list[str], methods: list[str]) -> Table:
    rows = []
    for method in methods:
        cells = []
        for column in columns:
            there = _of(results, column, method)
            paper = paper_value("cifar_strength", f"{method}-ic", column)
            if not there:
                cells.append(Cell(paper=paper))
                continue
            honest = [s for cell in there for s in cell.raw.honest.strengths]
            cells.append(
                Cell(
                    fmean(cell.raw.paper.strengths[0] for cell in there),
                    paper=paper,
                    n=len(there),
                    note=f"halves {min(honest):.2f} to {max(honest):.2f}",
                )
            )
        rows.append((f"{LABELS[method]}-IC", tuple(cells)))
    return Table(
        "cifar-strengths",
        "Strengths λ that were chosen, with raw counts as the source prior",
        tuple(columns),
        tuple(rows),
        notes=(
            "The number is tuned on all test images, as the paper's; after it the smallest and "
            "the largest that a half of them chose.",
        ),
        corner="method",
    )


def _gains(results: Results, columns: list[str], methods: list[str]) -> Table:
    rows = tuple(
        (
            LABELS[method],
            tuple(
                _gain([c.raw.honest for c in _of(results, column, method)]) for column in columns
            ),
        )
        for method in methods
    )
    return Table(
        "cifar-gains",
        "Error reduction by IC (points), on images that it was not tuned on",
        tuple(columns),
        rows,
        notes=(
            "In brackets the 95 % interval, exact in the share of better ones among the images "
            "whose decision became right or wrong, the strengths taken as given; of several seeds "
            "the mean, and the least and the largest bound.",
            *_verdicts(results, columns, methods),
        ),
        corner="method",
    )


def _gain(judged: Sequence[Judged]) -> Cell:
    if not judged:
        return Cell()
    gain, low, high = _mean_gain(judged)
    return Cell(text=f"{gain:+.2f} [{low:+.2f}, {high:+.2f}]")


def _mean_gain(judged: Sequence[Judged]) -> tuple[float, float, float]:
    return (
        100.0 * fmean(each.gain for each in judged),
        100.0 * min(each.interval[0] for each in judged),
        100.0 * max(each.interval[1] for each in judged),
    )


def _verdicts(results: Results, columns: list[str], methods: list[str]) -> list[str]:
    """Return sentences on where IC helps, where it is undecided, and where it harms."""
    sentences = []
    for method in methods:
        verdicts: dict[str, list[str]] = {"helps on": [], "is inconclusive on": [], "harms on": []}
        for column in columns:
            cells = _of(results, column, method)
            if cells:
                _, low, high = _mean_gain([cell.raw.honest for cell in cells])
                word = "helps on" if low > 0 else "harms on" if high < 0 else "is inconclusive on"
                verdicts[word].append(column)
        parts = [f"{word} {_all_or(of, columns)}" for word, of in verdicts.items() if of]
        sentences.append(f"{LABELS[method]}: IC {'; '.join(parts)}.")
    return sentences


def _all_or(some: Sequence[str], columns: Sequence[str]) -> str:
    return "every column" if len(some) == len(columns) > 1 else ", ".join(some)


def _ways(results: Results, column: str, methods: list[str]) -> Table:
    """Return the table of all ways to correct the rows of one column."""
    rows = []
    for method in methods:
        there = _of(results, column, method)
        if there:
            rows.append((LABELS[method], tuple(_percent(there, way) for way in WAYS.values())))
    return Table(
        f"cifar-ways-{column}",
        f"Top-1 error (%) on {column}, by the way it is corrected",
        tuple(WAYS),
        tuple(rows),
        notes=(
            "Raw counts are the source prior but where it says effective prior: counts times "
            "what weights, samplers and losses make of them. λ = 1 is the plain rule of Bayes: "
            "nothing is tuned. What was tuned on the test labels was also judged on them. The "
            "margins of LDAM are left out of its effective prior.",
            *_spread_note(results),
        ),
        corner="method",
        best="min",
    )


def write_curves(results: Mapping[str, CellResult], folder: Path) -> tuple[Path, ...]:
    """Write ``cifar-curves``: a panel for each column, a line for each method."""
    columns = [c for c in COLUMNS if any(name.startswith(f"{c}/") for name in results)]
    rows = -(-len(columns) // PER_ROW)
    wide = min(PER_ROW, len(columns))
    with style():
        figure = new_figure(5.4 * wide + 1.6, 3.6 * rows)
        panels = np.atleast_1d(figure.subplots(rows, wide, sharex=True)).ravel()
        for panel, column in zip(panels, columns, strict=False):
            _panel(panel, results, column, np.asarray(CURVE))
        for unused in panels[len(columns) :]:
            unused.set_axis_off()
        for panel in panels[max(0, len(columns) - wide) : len(columns)]:
            panel.set_xlabel("strength λ")
        lines = {
            line.get_label(): line
            for panel in panels
            for line in panel.get_lines()
            if not line.get_label().startswith("_")
        }
        figure.legend(lines.values(), lines.keys(), loc="outside right center")
        return save_figure(figure, folder, "cifar-curves")


def _panel(panel: Any, results: Mapping[str, CellResult], column: str, strengths: Any) -> None:
    for method in METHODS:
        cells = [c for name, c in results.items() if name.startswith(f"{column}/{method}/")]
        if not cells:
            continue
        error = 100.0 * np.mean([cell.curve for cell in cells], axis=0)
        colour = _COLOURS[method.removeprefix("cb_").removesuffix("-drw")]
        dashes = "--" if method.endswith("-drw") else ":" if method.startswith("cb_") else "-"
        panel.plot(strengths, error, dashes, color=colour, label=LABELS[method])
        tuned = [cell.raw.paper for cell in cells]
        best = fmean(each.strengths[0] for each in tuned), 100.0 * fmean(e.error for e in tuned)
        panel.plot(*best, "o", color=colour, markersize=4)
    panel.plot([], [], "o", color="black", markersize=4, label="best on these\nsame images")
    panel.axvline(1.0, color="#bbbbbb", linewidth=0.8, zorder=0)
    panel.set_title(column)
    panel.set_ylabel("top-1 error (%)")
    panel.grid(axis="y")
