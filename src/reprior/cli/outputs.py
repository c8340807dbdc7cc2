"""Where a command may write: never over what it reads, and only where there is a folder."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reprior.exceptions import OptionError
from reprior.files.atomic import output_target
from reprior.files.detect import is_store

__all__ = ["check_output", "refuse_inputs", "refuse_stdout"]


def check_output(output: str, inputs: Sequence[Any], *, store: bool = False) -> None:
    """Refuse an output that cannot be written, or is an input, before any work is done.

    ``store`` allows a zarr store that is there, for outputs that may be one.
    """
    refuse_stdout(output)
    refuse_inputs([Path(output)], inputs)
    there = output_target(output, argument="output", folder=True)
    if output.endswith(("/", os.sep)) or (there.is_dir() and not (store and is_store(there))):
        raise OptionError(f"--output must be a file. Got the folder {output!r}. Add a file name.")
    try:
        with tempfile.TemporaryFile(dir=there.parent):
            pass
    except OSError as error:
        if error.errno == errno.ENOENT and not there.parent.exists():
            raise OptionError(
                f"--output must be in a folder that exists. Got {output!r}, and there is no "
                f"{str(there.parent)!r}. Make that folder first."
            ) from error
        raise OSError(error.errno, error.strerror, output) from error


def refuse_stdout(output: str) -> None:
    """Refuse ``-``: outputs take their names when they are whole, and a stream has none."""
    if output == "-":
        raise OptionError(
            "--output must be a file name. Got '-': outputs are not written to standard output. "
            "Name a file; for one that is called -, write ./-."
        )


def refuse_inputs(outputs: Sequence[Path], inputs: Sequence[Any]) -> None:
    """Refuse outputs that are one of the inputs or lie inside one; None is no input."""
    there = [Path(given) for given in inputs if given is not None and Path(given).exists()]
    known = {_identity(path): path for path in there}
    stores = {path.resolve(): path for path in there if path.is_dir() and is_store(path)}
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
    """Which file a path leads to, by whatever name."""
    found = path.stat()
    return found.st_dev, found.st_ino
