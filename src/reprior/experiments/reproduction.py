"""What ``reprior reproduce`` gives back, whichever experiment it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from reprior.experiments.tables import Table

__all__ = ["Progress", "Reproduction"]

#: Told what is being done, how much of it is done, and of how much.
Progress: TypeAlias = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Reproduction:
    """The tables and figures of one experiment, and where they were written.

    Parameters
    ----------
    tables : tuple of Table
        What a person is shown.
    files : tuple of Path
        Everything that was written, figures included.
    notes : tuple of str
        Sentences that whoever reads the tables must know.
    """

    tables: tuple[Table, ...] = ()
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
