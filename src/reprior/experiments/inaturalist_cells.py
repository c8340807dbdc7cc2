"""The cells of the paper's iNaturalist table: one trained network each, trained once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from reprior.core.checks import check_choice
from reprior.core.prior import prior_from_counts
from reprior.exceptions import OptionError
from reprior.experiments.cells import METHODS, claimed, refuse_settings
from reprior.experiments.config import RunConfig
from reprior.experiments.inaturalist_results import MethodResult, judge, write_result
from reprior.experiments.reproduction import Progress

if TYPE_CHECKING:
    from reprior.experiments.data.images import ImageData

__all__ = ["CELLS", "ROWS", "Cell", "NetworkCell", "can_split", "held", "network_cells", "told"]

CELLS = "cells"

#: Rows of the table that are trained, in the paper's order; each is corrected, too.
ROWS = ("ce", "ce-drw", "focal", "focal-drw", "ldam", "ldam-drw", "bbn")

DATA = "inaturalist2018"

#: Side of the images where a network is not made for 224 pixels.
SIDES = {"inception_v3": 299}


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

    def run(self, folder: Path, data: ImageData, progress: Progress | None) -> MethodResult:
        """Train the network, or go on with it, correct its scores, and keep the result."""
        from reprior.experiments.training.loop import train
        from reprior.experiments.training.scores import read_scores

        home, config = folder / CELLS / self.id, self.config
        base = None if self.base is None else folder / CELLS / self.base
        total = config.epochs * len(data.train_labels)
        with held(home):
            # One device: of several processes each would go on to the tables.
            run = train(
                config, home, resume=True, base=base, data=data, devices=1,
                progress=told(progress, f"training {config.model}, {self.row}", total),
            )  # fmt: skip
            scores, labels = read_scores(home).whole()
            prior = prior_from_counts(run.class_counts)
            result = judge(scores, labels, prior, run.effective_prior, seed=config.seed)
            write_result(result, home)
        return result


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
    refuse_settings(
        settings or {}, ("data", "loss", "model", "protocol", "root", "schedule", "seed")
    )
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
    from reprior.experiments.models.registry import build_model

    try:
        build_model(model, 2, branches=2)
    except OptionError:
        build_model(model, 2)  # a name that nobody knows is an error
        return False
    return True


@contextmanager
def held(home: Path) -> Iterator[None]:
    """Hold a cell's folder, so that no other process trains it at the same time."""
    with claimed(home) as ours:
        if not ours:
            raise OptionError(
                f"A cell must be trained by one process at a time. Got {str(home)!r}, which "
                f"another one is at. Wait for it, or ask for other rows."
            )
        yield


def told(progress: Progress | None, what: str, total: int) -> Callable[[int], None] | None:
    """Return progress of one thing, of which so much is to be done.

    Examples
    --------
    >>> told(print, "training", 100)(50)
    training 50 100
    """
    if progress is None:
        return None
    return lambda done: progress(what, done, total)
