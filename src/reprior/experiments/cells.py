"""The cells of the paper's CIFAR table: what is trained for each, and trained once."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprior.exceptions import OptionError
from reprior.experiments.config import RunConfig

__all__ = [
    "COLUMNS",
    "METHODS",
    "SEEDS",
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
    refuse_settings(own, ("data", "imbalance", "loss", "protocol", "ratio", "root", "schedule"))
    seed = own.pop("seed", None)
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise OptionError(f"`seed` must be a whole number. Got {seed!r}. Pass for example seed=0.")
    seeds = {0, 1, 2} if seed is None else {seed}
    every = [
        CellRun(column, method, RunConfig.resolve(
            protocol, root=None if root is None else str(root), seed=seed, **of, **how, **own,
        ))
        for seed in sorted(seeds)
        for method, how in METHODS.items()
        for column, of in COLUMNS.items()
        if len(seeds) == 1 or seed in SEEDS.get(method, (0,))
    ]  # fmt: skip
    chosen: set[str] = set()
    for pattern in patterns or DEFAULT:
        whole = pattern + "/*" * (2 - min(pattern.count("/"), 2))
        found = {cell.name for cell in every if fnmatch.fnmatchcase(cell.name, whole)}
        if not found:
            raise OptionError(
                f"`cells` must match COLUMN/ROW/sSEED. Got {pattern!r}, which matches none. "
                f"Columns are {', '.join(COLUMNS)}; rows are {', '.join(METHODS)}; s0 is the seed "
                f"0. Wildcards are those of a shell."
            )
        chosen |= found if patterns else {name for name in found if f"/{EXTRA}/" not in name}
    by_name = {cell.name: cell for cell in every if cell.name in chosen}
    order = [cell.name for chain in chains(tuple(by_name.values())) for cell in chain]
    return tuple(by_name[name] for name in order)


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
    system has no such locks (Windows), every claim is granted.
    """
    try:
        import fcntl
    except ImportError:  # pragma: no cover - Windows
        yield True
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".claim").open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:  # a file system without locks
            yield True
            return
        yield True
