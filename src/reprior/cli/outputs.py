"""Where a command may write: never over what it reads, and only where there is a folder."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reprior.exceptions import OptionError
from reprior.files.detect import is_store

__all__ = ["check_output", "refuse_inputs", "refuse_stdout"]


def check_output(output: str, inputs: Sequence[Any]) -> None:
    """Refuse an output that cannot be written, or is an input, before any work is done."""
    refuse_stdout(output)
    there = Path(output)
    refuse_inputs([there], inputs)
    if output.endswith(("/", os.sep)) or (there.is_dir() and not is_store(there)):
        raise OptionError(f"`output` must be a file. Got the folder {output!r}. Add a file name.")
    try:
        with tempfile.TemporaryFile(dir=there.parent):
            pass
    except OSError as error:
        if error.errno == errno.ENOENT and not there.parent.exists():
            raise OptionError(
                f"`output` must be in a folder that exists. Got {output!r}, and there is no "
                f"{str(there.parent)!r}. Make that folder first."
            ) from error
        raise OSError(error.errno, error.strerror, output) from error


def refuse_stdout(output: str) -> None:
    """Refuse ``-``: outputs take their names when they are whole, and a stream has none."""
    if output == "-":
        raise OptionError(
            "`output` must be a file name. Got '-': outputs are not written to standard output. "
            "Name a file; for one that is called -, write ./-."
        )


def refuse_inputs(outputs: Sequence[Path], inputs: Sequence[Any]) -> None:
    """Refuse outputs that are one of the inputs or lie inside one; None is no input."""
    for output in outputs:
        for given in inputs:
            if given is None or not Path(given).exists():
                continue
            path = Path(given)
            same = output.exists() and output.samefile(path)
            inside = is_store(path) and path.resolve() in output.resolve().parents
            if same or inside:
                raise OptionError(
                    f"`output` must not be an input. Got {str(output)!r}, which is "
                    f"{'inside ' if inside else ''}{str(path)!r}. Choose another name."
                )
