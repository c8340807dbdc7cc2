"""Checks of output paths: never an input, and in a folder that exists."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reprior.exceptions import OptionError
from reprior.files.atomic import is_stdout, output_target
from reprior.files.detect import is_store

__all__ = ["check_output", "refuse_inputs"]


def check_output(
    output: str, inputs: Sequence[Any], *, store: bool = False, text: bool = True
) -> None:
    """Refuse an output that cannot be written, or is an input, before any work is done.

    Parameters
    ----------
    output : str
        A file name, or ``"-"`` for standard output.
    inputs : sequence of path or None
        What the command reads.
    store : bool, default False
        Whether the output may be a zarr store, and replace one.
    text : bool, default True
        Whether the output is text, which standard output takes.
    """
    path = output_target(output, argument="output", folder=True, text=text)
    if is_stdout(output):
        return
    refuse_inputs([Path(output)], inputs)
    if output.endswith(("/", os.sep)) or (path.is_dir() and not (store and is_store(path))):
        raise OptionError(f"--output must be a file. Got the folder {output!r}. Add a file name.")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        if error.errno == errno.ENOENT and not path.parent.exists():
            raise OptionError(
                f"--output must be in a folder that exists. Got {output!r}, and there is no "
                f"{str(path.parent)!r}. Make that folder first."
            ) from error
        raise OSError(error.errno, error.strerror, output) from error


def refuse_inputs(outputs: Sequence[Path], inputs: Sequence[Any]) -> None:
    """Refuse outputs that are one of the inputs or lie inside one; None is no input."""
    existing_inputs = [
        Path(given) for given in inputs if given is not None and Path(given).exists()
    ]
    known = {_identity(path): path for path in existing_inputs}
    stores = {path.resolve(): path for path in existing_inputs if path.is_dir() and is_store(path)}
    for output in outputs:
        same = known.get(_identity(output)) if output.exists() else None
        around = output.resolve().parents if stores else ()
        inside = next((stores[path] for path in around if path in stores), None)
        path = same or inside
        if path is not None:
            raise OptionError(
                f"--output must not be an input. Got {str(output)!r}, which is "
                f"{'inside ' if same is None else ''}{str(path)!r}. Choose another name."
            )


def _identity(path: Path) -> tuple[int, int]:
    """Return the device and inode of the file behind a path."""
    status = path.stat()
    return status.st_dev, status.st_ino
