"""The stand-in's cells: a linear softmax classifier of features, at the true scale."""

from __future__ import annotations

import hashlib
import json
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reprior.core.checks import check_choice
from reprior.core.prior import prior_from_counts
from reprior.exceptions import FileFormatError, OptionError
from reprior.experiments.cells import METHODS
from reprior.experiments.config import RunConfig
from reprior.experiments.inaturalist_cells import CELLS, held, told
from reprior.experiments.inaturalist_results import MethodResult, judge, write_result
from reprior.experiments.inaturalist_stand_in import FeatureSamples, StandIn
from reprior.experiments.reproduction import Progress
from reprior.experiments.training.recipes import effective_prior
from reprior.experiments.training.runfile import installed_versions, write_json
from reprior.files.atomic import atomic_write

__all__ = ["COLUMN", "DEFAULT_ROWS", "SIMULATED_ROWS", "SimulatedCell", "simulated_cells"]

Array: TypeAlias = np.ndarray[Any, Any]

#: What the networks' place is called in table and figure.
COLUMN = "stand-in"

#: Rows that one linear layer can be trained for: BBN has two branches of a network.
SIMULATED_ROWS = ("ce", "ce-drw", "focal", "focal-drw", "ldam", "ldam-drw")

#: Those that are trained when nothing is asked for: some eight minutes of one core.
DEFAULT_ROWS = ("ce", "ce-drw", "focal", "focal-drw")

RUN, SCORES, COUNTS, CHECKPOINTS = "run.json", "validation.npz", "counts.json", "checkpoints"
FORMAT_VERSION = 1

#: How the layer is trained. The rate is high because the loss is a mean over the batch, of which a
#: class of ten images sees next to nothing.
SETTINGS: dict[str, Any] = {
    "model": "linear", "epochs": 4, "batch_size": 256, "lr": 2.0, "momentum": 0.9,
    "nesterov": True, "weight_decay": 0.0, "lr_schedule": "one_cycle", "warmup": 0.2,
    "milestones": (), "decays": (), "defer": 0.8,
}  # fmt: skip

#: Settings of a run that a linear layer's result depends on.
_ITS_OWN = (
    "loss", "schedule", "seed", "epochs", "batch_size", "lr", "momentum", "nesterov",
    "weight_decay", "lr_schedule", "warmup", "milestones", "decays", "defer", "beta", "gamma",
    "max_margin", "scale",
)  # fmt: skip


@dataclass(frozen=True)
class SimulatedCell:
    """A linear classifier to train on the stand-in: the row, the data, and how it is trained."""

    row: str
    data: StandIn
    config: RunConfig

    @property
    def column(self) -> str:
        """What stands in for the network."""
        return COLUMN

    @property
    def identity(self) -> dict[str, Any]:
        """All that the result depends on."""
        settings = self.config.identity
        own = {key: settings[key] for key in (*_ITS_OWN, "deferred_epoch") if key in settings}
        return {"stand_in": self.data.to_dict(), **own}

    @property
    def id(self) -> str:
        """The name of its folder: what it is, and a hash of all that it depends on."""
        text = json.dumps(self.identity, sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        size = f"{self.data.n_classes}x{self.data.n_features}"
        return f"{COLUMN}-{size}-{self.row}-linear-s{self.config.seed}-{digest}"

    @property
    def base(self) -> SimulatedCell | None:
        """The cell whose first epochs DRW takes over."""
        if self.config.schedule != "drw":
            return None
        return SimulatedCell(self.config.loss, self.data, self.config.differing(schedule="plain"))

    def run(self, folder: Path, data: FeatureSamples, progress: Progress | None) -> MethodResult:
        """Train the layer where it is not trained, correct its scores, and keep the result."""
        home = folder / CELLS / self.id
        with held(home):
            if not _is_finished(home):
                self._train(folder, home, data, progress)
            scores, labels = _read_scores(home / SCORES)
            if progress is not None:
                progress(f"correcting {self.row}", 0, 1)
            counts = data.class_counts
            prior = prior_from_counts(counts)
            effective = effective_prior(self.config, counts)
            result = judge(scores, labels, prior, effective, seed=self.config.seed)
            write_result(result, home)
            if progress is not None:
                progress(f"correcting {self.row}", 1, 1)
        return result

    def _train(
        self, folder: Path, home: Path, data: FeatureSamples, progress: Progress | None
    ) -> None:
        import torch

        from reprior.experiments.linear_training import fit_linear, linear_scores

        started = time.monotonic()
        total = self.config.epochs * len(data.train_labels)
        fit = fit_linear(
            self.config, data, home / CHECKPOINTS, identity=self.identity,
            base=None if self.base is None else folder / CELLS / self.base.id / CHECKPOINTS,
            progress=told(progress, f"training {COLUMN}, {self.row}", total),
        )  # fmt: skip
        scores = linear_scores(self.config, fit.head, data.validation_features)
        _write_scores(home / SCORES, scores, data.validation_labels)
        write_json(home / COUNTS, data.class_counts.tolist())
        write_json(
            home / RUN,
            {
                "format_version": FORMAT_VERSION, "id": self.id, "status": "finished",
                "settings": self.identity, "epochs": fit.history,
                "seconds": round(time.monotonic() - started, 3),
                "versions": installed_versions(torch.get_num_threads()),
            },
        )  # fmt: skip


def simulated_cells(
    rows: Sequence[str],
    data: StandIn,
    *,
    settings: Mapping[str, Any] | None = None,
) -> tuple[SimulatedCell, ...]:
    """Return what is to be trained on the stand-in, every base before its DRW.

    Examples
    --------
    >>> cells = simulated_cells(["ce-drw", "ce"], StandIn(n_classes=40))
    >>> [cell.id for cell in cells]
    ['stand-in-40x64-ce-linear-s0-...', 'stand-in-40x64-ce-drw-linear-s0-...']
    """
    for row in rows:
        if row == "bbn":
            raise OptionError(
                "`rows` must be ones that a linear layer can be trained for. Got 'bbn', which "
                "doubles the last block of a network. Leave it out, or pass `root`."
            )
        check_choice("rows", row, SIMULATED_ROWS)
    free = [name for name in _ITS_OWN if name not in ("loss", "schedule", "seed")]
    for key in settings or {}:
        check_choice("settings", key, free)
    return tuple(
        SimulatedCell(row, data, RunConfig.resolve("compact", **{
            "data": "inaturalist2018", "seed": data.seed, **SETTINGS, **METHODS[row],
            **(settings or {}),
        }))
        for row in SIMULATED_ROWS
        if row in rows
    )  # fmt: skip


def _is_finished(home: Path) -> bool:
    """Whether a cell has its scores: the run file is written after them."""
    return (home / RUN).is_file() and (home / SCORES).is_file()


def _write_scores(path: Path, scores: Array, labels: Array) -> None:
    """Write a score file as ``reprior fit`` reads it; noise does not compress, so it is not."""
    with atomic_write(path) as file:
        np.savez(file, scores=scores, labels=labels, kind=np.array("logits"))


def _read_scores(path: Path) -> tuple[Array, Array]:
    try:
        # Opened here: NumPy leaves a file open that is no archive.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as found:
            return found["scores"], found["labels"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise FileFormatError(
            f"The scores of a cell must be a whole file that reprior wrote. Got {path}: {error}. "
            f"Remove the file: the cell is scored anew."
        ) from error
