"""``reprior apply`` into a folder: a file for each file, there as soon as it is whole."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprior.cli.applying import Applying
from reprior.cli.outputs import refuse_inputs
from reprior.exceptions import OptionError
from reprior.files.atomic import output_target, remove_stale_staging
from reprior.files.chunks import UNREADABLE, LeftOut
from reprior.files.detect import is_store

if TYPE_CHECKING:
    from reprior.files.chunks import Chunk
    from reprior.files.scores import ScoreFile

__all__ = ["earlier_outputs", "is_folder", "one_by_one", "write_all"]


class _UnreadableError(Exception):
    """Where a file breaks that is to be left out."""


def is_folder(output: str) -> bool:
    """Whether an output is a folder, by its name or because it is there, and no zarr store."""
    there = Path(output)
    if not output.endswith(("/", os.sep)):
        return there.is_dir() and there.suffix != ".zarr" and not is_store(there)
    if is_store(there):
        raise OptionError(
            f"`output` must not be a zarr store where it is a folder. Got {output!r}. Name it "
            f"{str(there)!r} to write the store anew, or choose another folder."
        )
    return True


def one_by_one(
    paths: Sequence[Path], output: str, open_one: Callable[[Sequence[str]], ScoreFile]
) -> list[ScoreFile]:
    """Open every file by itself, all of them before the first is written."""
    twice = sorted(name for name, n in Counter(path.name for path in paths).items() if n > 1)
    if twice:
        raise OptionError(
            f"`output` must be a file where inputs share a name. Got the folder {output!r} and "
            f"{twice[0]!r} twice. Name an output file, or run once per folder."
        )
    return [open_one([glob.escape(str(path))]) for path in paths]


def write_all(
    applying: Applying,
    inputs: Sequence[ScoreFile],
    outputs: Sequence[str],
    read: Sequence[Any],
    *,
    skip: bool = False,
) -> list[int | LeftOut]:
    """Write an output per input into a folder: each takes its name when it is whole, and stays.

    Return how many samples each has. With ``skip`` an input that breaks has no output, not even
    of the rows before the damage: what was left out stands in its place. An error, or Ctrl-C, has
    a note of how many there are.
    """
    from reprior.files.output import output_format, output_paths
    from reprior.files.scores import none_left

    made = [
        output_paths(path, output_format(path, scores))
        for path, scores in zip(outputs, inputs, strict=True)
    ]
    targets = [path for paths in made for path in paths]
    refuse_inputs(targets, read)
    _refuse_clashes(targets)
    done: list[int | LeftOut] = []
    with _folder(targets[0].parent) as folder, _counting(done, len(inputs), folder):
        remove_stale_staging(folder)
        for scores, output in zip(inputs, outputs, strict=True):
            try:
                done.append(applying.write(scores, output, _read(scores) if skip else None))
            except _UnreadableError as error:
                done.append(LeftOut.because_of(error, scores.paths[0], scores.n_samples))
        gone = [each for each in done if isinstance(each, LeftOut)]
        if len(gone) == len(done):
            raise none_left([each.path for each in gone], gone)
    return done


@contextmanager
def _counting(done: Sequence[int | LeftOut], n: int, folder: Path) -> Iterator[None]:
    """Note on what ends the work early how many outputs there are."""
    try:
        yield
    except BaseException as error:
        written = sum(not isinstance(each, LeftOut) for each in done)
        if written:
            error.add_note(f"{written} of {n} outputs are written, and stay in {str(folder)!r}.")
        raise


def earlier_outputs(left_out: Sequence[LeftOut], folder: Path, scores: ScoreFile) -> list[str]:
    """Return the files that an earlier run wrote of inputs that this one left out."""
    from reprior.files.detect import format_of_name
    from reprior.files.output import output_paths

    targets = [folder / each.path.name for each in left_out]
    made = [output_paths(path, format_of_name(path) or scores.format) for path in targets]
    return [str(path) for paths in made for path in paths if path.exists()]


def _read(scores: ScoreFile) -> Iterator[Chunk]:
    """Give the chunks of a file; tell where it breaks from where its output does."""
    try:
        yield from scores.chunks()
    except UNREADABLE as error:
        raise _UnreadableError(str(error)) from error


def _refuse_clashes(targets: Sequence[Path]) -> None:
    """Refuse what is no file where files are to be, and two outputs of one name."""
    seen: set[Path] = set()
    for path in targets:
        output_target(path, argument="output", folder=True)
        if path.is_dir() and not is_store(path):
            raise OptionError(
                f"`output` must be free for a file per input. Got {str(path)!r}, which is a "
                f"folder. Choose another folder."
            )
        if path in seen:
            raise OptionError(
                f"`output` must have a name for every file. Got {path.name!r} twice. Name an "
                f"output file, or rename the inputs."
            )
        seen.add(path)


@contextmanager
def _folder(path: Path) -> Iterator[Path]:
    """Make a folder, unless it is there; an empty one does not stay after an error."""
    new = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield path
    except BaseException:
        if new:
            with suppress(OSError):
                path.rmdir()
        raise
