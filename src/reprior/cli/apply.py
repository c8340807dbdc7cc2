"""``reprior apply``: corrected probabilities and predictions, chunk by chunk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from reprior.cli.examples import shows
from reprior.cli.inputs import class_names, open_for
from reprior.cli.options import PATH, Reading, output_option, reading_options, scores_argument
from reprior.cli.session import Session, session_options
from reprior.core.binary import is_single_score
from reprior.exceptions import OptionError

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
    output has the input's format unless OUT's extension says another. Arrays: posterior and
    prediction (class indices). Tables: a column per class and prediction (class names).

    Several files become one output, one after another. If OUT is a folder, or ends in /, each file
    of TEST is written there under its own name instead.
    """
    from reprior.loading import load

    calibrator = load(cal)
    scores = open_for(calibrator, session, test, reading, labelled=False, keep=keep)
    jobs = [(scores, output)]
    if _is_folder(output):
        jobs = _one_by_one(calibrator, session, scores, output, reading, keep)
    done = [_write(calibrator, session, *job, keep) for job in jobs]
    for (_, target), n in zip(jobs, done, strict=True):
        session.say(f"Written: {target}, {n:,} samples")
    session.result({"output": [target for _, target in jobs], "n_samples": sum(done)})


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
) -> list[tuple[ScoreFile, str]]:
    """Open every file by itself, all of them before the first is written."""
    names = [Path(path).name for path in scores.paths]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise OptionError(
            f"`output` must be a file where inputs share a name. Got the folder {output!r} and "
            f"{twice[0]!r} twice. Name an output file, or run once per folder."
        )
    Path(output).mkdir(parents=True, exist_ok=True)
    return [
        (
            open_for(calibrator, session, [str(path)], reading, labelled=False, keep=keep),
            str(Path(output) / name),
        )
        for path, name in zip(scores.paths, names, strict=True)
    ]


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
            writer.write(chunk, posterior, decide(posterior, n_classes=n_classes, class_axis=axis))
            done += len(chunk)
            if progress is not None:
                progress(done)
    for sentence in writer.notes:
        session.note(sentence)
    return done
