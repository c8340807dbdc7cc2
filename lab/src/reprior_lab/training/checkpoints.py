"""Checkpoints that are there whole or not at all, and the newest that can be read."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from reprior.exceptions import FileFormatError, OptionError, RepriorWarning
from reprior.files import atomic_write

__all__ = [
    "CHECKPOINTS",
    "FIRST_STAGE",
    "Checkpoint",
    "check_same_settings",
    "checkpoint_path",
    "newest",
    "newest_path",
    "prune",
    "read_checkpoint",
    "write_checkpoint",
]

FORMAT_VERSION = 1

#: The folder of the checkpoints in that of a run.
CHECKPOINTS = "checkpoints"

#: The state at the end of the epochs that DRW shares with its base run.
FIRST_STAGE = "first-stage.ckpt"

KEPT = 2


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a run after some epochs.

    ``identity`` are the settings it belongs to, ``history`` the metrics of each epoch.
    """

    epochs_done: int
    identity: dict[str, Any]
    model: dict[str, Any]
    optimizer: dict[str, Any]
    history: list[dict[str, Any]]


def check_same_settings(ours: Mapping[str, Any], theirs: Mapping[str, Any], folder: Path) -> None:
    """Refuse to go on with a run of other settings.

    Examples
    --------
    >>> check_same_settings({"lr": 0.1}, {"lr": 0.2}, Path("run"))
    Traceback (most recent call last):
    ...
    reprior.exceptions.OptionError: `folder` must have a run of the same settings to go on with.
    Got 'run', where lr is 0.2 and not 0.1. Take another folder.
    """
    for key in sorted({*ours, *theirs}):
        if ours.get(key) != theirs.get(key):
            raise OptionError(
                argument="folder",
                rule="must have a run of the same settings to go on with",
                got=f"{str(folder)!r}, where {key} is {theirs.get(key)!r} and not "
                f"{ours.get(key)!r}",
                remedy="Take another folder.",
            )


def checkpoint_path(folder: Path, epochs_done: int) -> Path:
    """Return where the checkpoint after some epochs is kept."""
    return folder / f"epoch-{epochs_done:04d}.ckpt"


def write_checkpoint(path: Path, state: Checkpoint) -> None:
    """Write a checkpoint; after an error, or a kill, the files before are as they were."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "format_version": FORMAT_VERSION,
        "epochs_done": state.epochs_done,
        "identity": json.dumps(state.identity),
        "history": json.dumps(state.history),
        "model": state.model,
        "optimizer": state.optimizer,
    }
    with atomic_write(path) as file:
        torch.save(document, file)


def read_checkpoint(path: Path) -> Checkpoint:
    """Return the checkpoint in a file; nothing but tensors, numbers and text is read from it."""
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
        if found["format_version"] != FORMAT_VERSION:
            raise FileFormatError(
                f"A checkpoint must have format_version {FORMAT_VERSION}. Got "
                f"{found['format_version']!r} in {path}. It was written by another version of "
                f"reprior: start the run anew."
            )
        return Checkpoint(
            found["epochs_done"],
            json.loads(found["identity"]),
            found["model"],
            found["optimizer"],
            json.loads(found["history"]),
        )
    except (FileNotFoundError, FileFormatError):
        raise
    except Exception as error:  # a damaged file may raise anything
        raise FileFormatError(
            f"A checkpoint must be a whole file that reprior wrote. Got {path}, which cannot be "
            f"read ({type(error).__name__}). Remove it."
        ) from error


def newest_path(folder: Path) -> Path | None:
    """Return where the last checkpoint of a run is, readable or not."""
    return max(folder.glob("epoch-*.ckpt"), default=None)


def newest(folder: Path) -> Checkpoint | None:
    """Return the last checkpoint of a run that can be read, or None.

    A damaged one brings a warning, and the one before it is taken. Temporary files that a killed
    process left are removed.
    """
    for rest in folder.glob(".*.ckpt.*"):
        rest.unlink(missing_ok=True)
    for path in sorted(folder.glob("epoch-*.ckpt"), reverse=True):
        try:
            return read_checkpoint(path)
        except FileFormatError as error:
            warnings.warn(f"{error} The run goes on from the one before.", RepriorWarning, 2)
    return None


def prune(folder: Path, kept: int = KEPT) -> None:
    """Remove all but the last checkpoints of a run, and never that of the first stage."""
    for path in sorted(folder.glob("epoch-*.ckpt"))[:-kept]:
        path.unlink(missing_ok=True)
