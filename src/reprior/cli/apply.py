"""``reprior apply``: corrected probabilities and predictions, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reprior.cli.agreement import few
from reprior.cli.apply_folder import earlier_outputs, is_folder, one_by_one, write_all
from reprior.cli.applying import Applying, costs_of
from reprior.cli.examples import shows
from reprior.cli.inputs import load_calibrator, open_for
from reprior.cli.messages import with_notes
from reprior.cli.options import (
    PATH,
    Reading,
    output_option,
    reading_options,
    scores_argument,
    skip_option,
)
from reprior.cli.outputs import check_output, refuse_stdout
from reprior.cli.session import Session, session_options
from reprior.exceptions import OptionError
from reprior.files.atomic import remove_stale_staging
from reprior.files.chunks import LeftOut, describe_left_out
from reprior.files.formats.interface import DamagedError

if TYPE_CHECKING:
    from reprior.files.scores import ScoreFile

__all__ = ["command"]

#: Why nothing is left out of one output.
ALIGNED = "one file holds every row of the input, in its place"


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
@click.option(
    "--costs",
    type=PATH,
    metavar="FILE",
    help="Predict the decision of least expected cost, by the probabilities: a row per true class, "
    "a number per decision, as JSON or CSV.",
)
@reading_options(labels=False, skip=skip_option("Only where OUT is a folder."))
@session_options
def command(
    session: Session,
    cal: str,
    test: Sequence[str],
    output: str,
    keep: bool,
    costs: str | None,
    reading: Reading,
) -> None:
    """Write the corrected probabilities and predictions of the scores TEST.

    CAL is what fit wrote. TEST is read and written in pieces, so it may be larger than memory. The
    output has the input's format unless OUT's extension says another. npz and zarr: arrays
    posterior and prediction (indices of the classes or, with --costs, of the decisions, whose
    names are then in decision_names where they are not the classes). npy: OUT has the posterior,
    and beside it OUT.prediction.npy (of out.npy: out.prediction.npy) the same indices. Tables: a
    column per class and prediction (names of classes or decisions). Where TEST has one score per
    sample, of two classes, so has the output: the posterior of the second. Of a calibrator with
    two maps (fit --separate) the posterior is that of the probabilities, and the prediction that
    of the decisions.

    Several files become one output, one after another. If OUT is a folder, or ends in /, each file
    of TEST is written there under its own name instead. Each is there as soon as it is whole, and
    stays when a later one fails or Ctrl-C is pressed, which says how many there are; the same
    command writes all of them again. What a killed run has left behind, hidden folders named
    .reprior-…, the next one into that folder removes. With --skip-unreadable a file that
    cannot be read to its end has no output of this run, and is named; one of an earlier run stays,
    and is named too. One output for all has every row of TEST in its place, so nothing is left out
    of it.

    With --costs the prediction is the decision of least expected cost by the posterior. The file
    is JSON: a list of rows of numbers, one per true class in the order of the classes, or {true
    class: {decision: cost}}. Or it is CSV: such rows alone; or the names of the decisions in a
    first line above them; or, with a corner cell before these names, the name of its class in
    front of every row. Where classes are numbers, leave the corner cell empty. Decisions may be
    others than the classes, such as to ask a human; without names they are numbered from 0.
    """
    refuse_stdout(output)
    to_folder = is_folder(output)
    if reading.skip_unreadable and not to_folder:
        raise OptionError(
            f"--skip-unreadable must go with a folder as OUT. Got {output!r}: {ALIGNED}, and rows "
            f"that are left out would put the others out of step. Name a folder, which gets a file "
            f"each, such as {Path(output).stem}/."
        )
    calibrator = load_calibrator(cal)
    open_some = partial(open_for, calibrator, session, labelled=False, keep=keep)
    with _going_on(test, to_folder=to_folder):
        scores = open_some(test, reading)
        read = (cal, costs, reading.classes, *scores.paths)
        decided = None if costs is None else costs_of(session, calibrator, costs, scores)
        applying = Applying(calibrator, session, keep, decided)
        if not to_folder:
            check_output(output, read, store=True)
            remove_stale_staging(Path(output).resolve().parent)
            _show(session, scores, [output], [applying.write(scores, output)])
            return
        each = replace(reading, skip_unreadable=False)
        alone = partial(open_some, reading=each, names=scores.class_names)
        opened = one_by_one(scores.paths, output, alone)
        written = [str(Path(output) / path.name) for path in scores.paths]
        done = write_all(applying, opened, written, read, skip=reading.skip_unreadable)
        _show(session, scores, written, done)


@contextmanager
def _going_on(test: Sequence[str], *, to_folder: bool) -> Iterator[None]:
    """Say how to go on without a file that is damaged, where there are others."""
    from reprior.files.scores import expand_paths

    try:
        yield
    except DamagedError as error:
        if len(expand_paths(list(test), "paths")) == 1:
            raise
        how = "pass --skip-unreadable"
        if not to_folder:
            how = f"name a folder as OUT and {how}: {ALIGNED}"
        raise DamagedError(
            f"{with_notes(str(error), error)} To go on without it, {how}."
        ) from error


def _show(
    session: Session, scores: ScoreFile, written: Sequence[str], done: Sequence[int | LeftOut]
) -> None:
    """Say what was written, and what was left out."""
    left_out = [*scores.left_out, *(each for each in done if isinstance(each, LeftOut))]
    if left_out:
        session.note(describe_left_out(left_out))
        stays = earlier_outputs(left_out, Path(written[0]).parent, scores)
        if stays:
            session.note(f"of what was left out, the output of an earlier run stays: {few(stays)}")
    made = [
        (_made(target, scores), n)
        for target, n in zip(written, done, strict=True)
        if not isinstance(n, LeftOut)
    ]
    for files, n in made:
        session.done(f"Written: {' and '.join(files)}, {n:,} samples")
    output = [file for files, _ in made for file in files]
    session.result({"output": output, "n_samples": sum(n for _, n in made)})


def _made(target: str, scores: ScoreFile) -> list[str]:
    """Return every file of an output, named as it was asked for."""
    from reprior.files.output import output_format, output_paths

    _, *others = output_paths(target, output_format(target, scores))
    return [target, *map(str, others)]
