"""The cells of the paper's CIFAR table: what is trained for each, and trained once."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprior.exceptions import OptionError
from reprior.experiments.config import RunConfig
from reprior.experiments.model_names import check_model

__all__ = [
    "COLUMNS",
    "METHODS",
    "SEEDS",
    "TABLE_SETTINGS",
    "CellRun",
    "chains",
    "claimed",
    "refuse_settings",
    "select_cells",
]

#: Columns of the table, in its order.
COLUMNS: dict[str, dict[str, Any]] = {
    f"{data}-{kind}{ratio}": {"data": data, "imbalance": kind, "ratio": ratio}
    for data in ("cifar10", "cifar100")
    for kind in ("exp", "step")
    for ratio in (100, 10)
}

#: Rows of the table, in its order; the last is a modern comparison that the paper does not have.
METHODS: dict[str, dict[str, Any]] = {
    "ce": {"loss": "ce"},
    "focal": {"loss": "focal"},
    "ldam": {"loss": "ldam"},
    "cb_ce": {"loss": "cb_ce"},
    "cb_focal": {"loss": "cb_focal"},
    "ce-drw": {"loss": "ce", "schedule": "drw"},
    "focal-drw": {"loss": "focal", "schedule": "drw"},
    "ldam-drw": {"loss": "ldam", "schedule": "drw"},
    "bbn": {"loss": "ce", "schedule": "bbn"},
    "logit_adjusted": {"loss": "logit_adjusted"},
}

#: Methods that are trained from more than one seed: what the paper's claim rests on.
SEEDS: dict[str, tuple[int, ...]] = {"ce": (0, 1, 2), "ce-drw": (0, 1, 2)}

#: What is trained when nothing is asked for: the columns of ratio 100, the paper's rows.
DEFAULT = tuple(f"{name}/*" for name in COLUMNS if name.endswith("100"))
EXTRA = "logit_adjusted"

#: Settings that rows, columns and options say.
TABLE_SETTINGS = ("data", "imbalance", "loss", "protocol", "ratio", "root", "schedule")

#: The file that a process holds while it trains what the folder is for.
CLAIM = ".claim"


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
        What is not said otherwise, see :mod:`reprior.experiments.protocols`.
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


def refuse_settings(settings: Mapping[str, Any], taken: Sequence[str]) -> None:
    """Refuse settings that the rows and columns of a table have said already.

    Examples
    --------
    >>> refuse_settings({"loss": "focal"}, ("loss", "schedule"))
    Traceback (most recent call last):
    ...
    reprior.exceptions.OptionError: `settings` must be what the table leaves open. Got 'loss',
    which its rows and columns say. Leave it out, and choose rows and columns instead.
    """
    for key in settings:
        if key in taken:
            raise OptionError(
                f"`settings` must be what the table leaves open. Got {key!r}, which its rows and "
                f"columns say. Leave it out, and choose rows and columns instead."
            )


def chains(cells: Sequence[CellRun]) -> tuple[tuple[CellRun, ...], ...]:
    """Group cells that must be trained one after the other: a base, then what starts from it."""
    groups: dict[tuple[str, str, int], list[CellRun]] = {}
    for cell in cells:
        start = cell if cell.base is None else cell.base
        groups.setdefault((start.column, start.method, start.config.seed), []).append(cell)
    return tuple(
        tuple(sorted(group, key=lambda cell: cell.base is not None)) for group in groups.values()
    )


@contextmanager
def claimed(folder: Path) -> Iterator[bool]:
    """Hold a cell's folder while it is trained, so that two processes do not train it at once.

    Gives whether it could be had. The claim ends with the process, however that ends. Where the
    system has no such locks (Windows), every claim is granted. Where the work fails before it has
    left a file, the folder goes too.
    """
    try:
        import fcntl
    except ImportError:  # pragma: no cover - Windows
        yield True
        return
    fresh = _missing(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / CLAIM).open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:  # a file system without locks
            yield True
            return
        try:
            yield True
        except BaseException:
            _leave_nothing(folder, fresh)
            raise


def _missing(folder: Path) -> list[Path]:
    """Return the folders that have to be made for one to be there, the innermost first."""
    return [each for each in (folder, *folder.parents) if not each.exists()]


def _leave_nothing(folder: Path, fresh: Sequence[Path]) -> None:
    """Remove the folders that a run made which failed before it had anything to keep."""
    if [path.name for path in folder.iterdir()] == [CLAIM]:
        (folder / CLAIM).unlink()
        with suppress(OSError):  # somebody else is at work there
            for each in fresh:
                each.rmdir()
