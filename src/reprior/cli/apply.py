"""``reprior apply``: corrected probabilities and predictions, chunk by chunk."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from reprior.cli.examples import shows
from reprior.cli.inputs import class_names, load_calibrator, open_for
from reprior.cli.options import PATH, Reading, output_option, reading_options, scores_argument
from reprior.cli.outputs import check_output, refuse_inputs, refuse_stdout
from reprior.cli.session import Session, session_options
from reprior.core.binary import is_single_score
from reprior.exceptions import OptionError
from reprior.files.atomic import atomic_paths
from reprior.files.detect import is_store

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.files.score_file import ScoreFile

__all__ = ["command", "decide"]


@click.command(
    "apply",
    epilog=shows(
        "reprior demo -o demo      # writes the files used here",
        "reprior apply demo/cal.json demo/test.csv -o corrected.csv",
    ),
)
@click.argument("cal", type=PATH)
@scores_argument("test")
@output_option("Where to write: a file for all of TEST, or a folder for a file each.")
@click.option(
    "--keep", is_flag=True, help="Keep the input's other columns, or arrays, beside the new ones."
)
@reading_options(labels=False)
@session_options
def command(
    session: Session, cal: str, test: Sequence[str], output: str, keep: bool, reading: Reading
) -> None:
    """Write the corrected probabilities and predictions of the scores TEST.

    CAL is what fit wrote. TEST is read and written in pieces, so it may be larger than memory. The
    output has the input's format unless OUT's extension says another. npz and zarr: arrays
    posterior and prediction (class indices). npy: OUT has the posterior, and OUT.prediction.npy
    beside it the predictions. Tables: a column per class and prediction (class names). Where TEST
    has one score per sample, of two classes, so has the output: the posterior of the second. Of a
    calibrator with two maps (fit --separate) the posterior is that of the probabilities, and the
    prediction that of the decisions.

    Several files become one output, one after another. If OUT is a folder, or ends in /, each file
    of TEST is written there under its own name instead.
    """
    refuse_stdout(output)
    calibrator = load_calibrator(cal)
    scores = open_for(calibrator, session, test, reading, labelled=False, keep=keep)
    read = (cal, reading.classes, *scores.paths)
    if not _is_folder(output):
        check_output(output, read)
        done, written = [_write(calibrator, session, scores, output, keep)], [output]
    else:
        opened = _one_by_one(calibrator, session, scores, output, reading, keep)
        written = [str(Path(output) / path.name) for path in scores.paths]
        done = _write_all(calibrator, session, opened, written, keep, read)
    made = [_made(target, scores) for target in written]
    for files, n in zip(made, done, strict=True):
        session.done(f"Written: {' and '.join(files)}, {n:,} samples")
    session.result({"output": [file for files in made for file in files], "n_samples": sum(done)})


def _made(target: str, scores: ScoreFile) -> list[str]:
    """Return every file of an output, named as it was asked for."""
    from reprior.files.output import output_format, output_paths

    _, *others = output_paths(target, output_format(target, scores))
    return [target, *map(str, others)]


def decide(posterior: Any, *, n_classes: int, class_axis: int) -> Any:
    """Return the class index of the largest posterior, as the calibrator's ``predict`` does.

    Examples
    --------
    >>> import numpy as np
    >>> decide(np.array([[0.2, 0.8], [0.5, 0.5]]), n_classes=2, class_axis=-1)
    array([1, 0])
    >>> decide(np.array([0.2, 0.8]), n_classes=2, class_axis=-1)
    array([0, 1])
    """
    if not is_single_score(posterior.shape, n_classes, class_axis):
        return np.argmax(posterior, axis=class_axis)
    index = (posterior > 1 - posterior).astype(np.int64)
    return index if index.ndim == 1 else np.squeeze(index, axis=class_axis)


def _is_folder(output: str) -> bool:
    there = Path(output)
    return output.endswith(("/", os.sep)) or (there.is_dir() and there.suffix != ".zarr")


def _one_by_one(
    calibrator: PosteriorCalibrator,
    session: Session,
    scores: ScoreFile,
    output: str,
    reading: Reading,
    keep: bool,
) -> list[ScoreFile]:
    """Open every file by itself, all of them before the first is written."""
    names = [path.name for path in scores.paths]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise OptionError(
            f"`output` must be a file where inputs share a name. Got the folder {output!r} and "
            f"{twice[0]!r} twice. Name an output file, or run once per folder."
        )
    return [
        open_for(calibrator, session, [glob.escape(str(path))], reading, labelled=False, keep=keep)
        for path in scores.paths
    ]


def _write_all(
    calibrator: PosteriorCalibrator,
    session: Session,
    inputs: Sequence[ScoreFile],
    outputs: Sequence[str],
    keep: bool,
    read: Sequence[Any],
) -> list[int]:
    """Write an output per input into a folder: all of them take their names at the end, or none."""
    from reprior.files.output import output_format, output_paths

    made = [
        output_paths(path, output_format(path, scores))
        for path, scores in zip(outputs, inputs, strict=True)
    ]
    targets = [path for paths in made for path in paths]
    refuse_inputs(targets, read)
    _refuse_clashes(targets)
    done = []
    with _folder(targets[0].parent), atomic_paths(*targets) as fresh:
        rooms = iter(fresh)
        for scores, paths in zip(inputs, made, strict=True):
            first, *others = (next(rooms) for _ in paths)
            done.append(_write(calibrator, session, scores, str(first), keep))
            for other in others:  # written beside the first
                (first.parent / other.name).rename(other)
    return done


def _refuse_clashes(targets: Sequence[Path]) -> None:
    """Refuse folders where files are to be, and two outputs of one name."""
    for i, path in enumerate(targets):
        if path.is_dir() and not is_store(path):
            raise OptionError(
                f"`output` must be free for a file per input. Got {str(path)!r}, which is a "
                f"folder. Choose another folder."
            )
        if path in targets[:i]:
            raise OptionError(
                f"`output` must have a name for every file. Got {path.name!r} twice. Name an "
                f"output file, or rename the inputs."
            )


@contextmanager
def _folder(path: Path) -> Iterator[None]:
    """Make a folder, unless it is there; what was made does not stay after an error."""
    new = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        if new:
            with suppress(OSError):
                path.rmdir()
        raise


def _write(
    calibrator: PosteriorCalibrator, session: Session, scores: ScoreFile, output: str, keep: bool
) -> int:
    """Stream one output; return how many samples it has."""
    from reprior.files.output import open_output

    n_classes, axis, done = calibrator.source_prior_.size, calibrator.class_axis, 0
    names = class_names(calibrator) or scores.class_names
    with (
        session.progress(f"writing {Path(output).name}", scores.n_samples) as progress,
        open_output(output, like=scores, classes=names, keep=keep) as writer,
    ):
        for chunk in scores.chunks():
            posterior = calibrator.predict_proba(chunk.scores)
            decided = posterior
            if calibrator.probability_map_ is not None:
                decided = calibrator.predict_proba(chunk.scores, map="decision")
            writer.write(chunk, posterior, decide(decided, n_classes=n_classes, class_axis=axis))
            done += len(chunk)
            progress(done)
    for sentence in writer.notes:
        session.note(sentence)
    return done
