"""Checkpoints: written atomically, read without running code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from reprior._warnings import warn
from reprior.exceptions import FileFormatError, OptionError
from reprior.files import atomic_write, regular_file

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
    "restore",
    "write_checkpoint",
]

FORMAT_VERSION = 1

#: The folder of the checkpoints in a run folder.
CHECKPOINTS = "checkpoints"

#: The state at the end of the epochs that DRW shares with its base run.
FIRST_STAGE = "first-stage.ckpt"

KEPT = 2


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a run after some epochs.

    ``identity`` holds the settings of the run, ``history`` the metrics of each epoch.
    """

    epochs_done: int
    identity: dict[str, Any]
    model: dict[str, Any]
    optimizer: dict[str, Any]
    history: list[dict[str, Any]]


def restore(target: torch.nn.Module | torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load a checkpoint's state into a network or optimizer; refuse the state of another."""
    try:
        target.load_state_dict(state)
    except Exception as error:  # what does not fit may raise anything
        raise FileFormatError(
            f"A checkpoint must fit the network of its run. Got one that does not fit its "
            f"{type(target).__name__} ({type(error).__name__}). Remove the checkpoints of that "
            f"run, and it is trained again."
        ) from error


def check_same_settings(ours: Mapping[str, Any], theirs: Mapping[str, Any], folder: Path) -> None:
    """Refuse to resume a run of other settings.

    Examples
    --------
    >>> check_same_settings({"lr": 0.1}, {"lr": 0.2}, Path("run"))
    Traceback (most recent call last):
    ...
    reprior.exceptions.OptionError: `folder` must have a run with the same settings to resume.
    Got 'run', where lr is 0.2 and not 0.1. Take another folder.
    """
    for key in sorted({*ours, *theirs}):
        if ours.get(key) != theirs.get(key):
            raise OptionError(
                argument="folder",
                rule="must have a run with the same settings to resume",
                got=f"{str(folder)!r}, where {key} is {theirs.get(key)!r} and not "
                f"{ours.get(key)!r}",
                remedy="Take another folder.",
            )


def checkpoint_path(folder: Path, epochs_done: int) -> Path:
    """Return the path of the checkpoint after some epochs."""
    return folder / f"epoch-{epochs_done:04d}.ckpt"


def write_checkpoint(path: Path, state: Checkpoint) -> None:
    """Write a checkpoint atomically: an error or a kill leaves the earlier files unchanged."""
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
    """Read a checkpoint; anything but tensors, numbers and text in it is refused."""
    try:
        document = torch.load(regular_file(path), map_location="cpu", weights_only=True)
        if document["format_version"] != FORMAT_VERSION:
            raise FileFormatError(
                f"A checkpoint must have format_version {FORMAT_VERSION}. Got "
                f"{document['format_version']!r} in {path}. It was written by another version of "
                f"reprior: start the run again."
            )
        state = Checkpoint(
            document["epochs_done"],
            json.loads(document["identity"]),
            document["model"],
            document["optimizer"],
            json.loads(document["history"]),
        )
        _check_types(state)
        return state
    except (FileNotFoundError, FileFormatError):
        raise
    except Exception as error:  # a damaged file may raise any exception
        raise FileFormatError(
            f"A checkpoint must be a complete file that reprior wrote. Got {path}, which cannot be "
            f"read ({type(error).__name__}). Remove it."
        ) from error


def _check_types(state: Checkpoint) -> None:
    """Refuse a checkpoint of our format whose values are of other types."""
    dictionaries = [state.identity, state.model, state.optimizer]
    if not all(isinstance(value, dict) for value in [*dictionaries, *list(state.history)]):
        raise TypeError("no dictionary")
    if type(state.epochs_done) is not int or state.epochs_done < 0:
        raise TypeError("epochs_done")


def newest_path(folder: Path) -> Path | None:
    """Return the path of a run's last checkpoint, readable or not."""
    return max(folder.glob("epoch-*.ckpt"), default=None)


def newest(folder: Path) -> Checkpoint | None:
    """Return the last checkpoint of a run that can be read, or None.

    A damaged checkpoint gives a warning, and the one before it is used. Temporary files of killed
    processes are removed.
    """
    for rest in folder.glob(".*.ckpt.*"):
        rest.unlink(missing_ok=True)
    for path in sorted(folder.glob("epoch-*.ckpt"), reverse=True):
        try:
            return read_checkpoint(path)
        except FileFormatError as error:
            warn(error.with_sentence("The run resumes from the one before."))
    return None


def prune(folder: Path, kept: int = KEPT) -> None:
    """Remove all but the last checkpoints of a run; keep that of the first stage."""
    for path in sorted(folder.glob("epoch-*.ckpt"))[:-kept]:
        path.unlink(missing_ok=True)
