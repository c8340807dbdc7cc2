"""``reprior apply``: corrected probabilities and predictions, chunk by chunk."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from reprior.cli.inputs import class_names, few, load_calibrator, open_for
from reprior.cli.options import (
    PATH,
    GroupedCommand,
    Reading,
    output_option,
    reading_options,
    scores_argument,
    shows,
    skip_option,
)
from reprior.cli.outputs import check_output, refuse_inputs
from reprior.cli.session import Session, session_options
from reprior.core.binary import is_single_score
from reprior.exceptions import OptionError
from reprior.files.atomic import is_stdout, output_target
from reprior.files.chunks import UNREADABLE, LeftOut, describe_left_out
from reprior.files.detect import is_store
from reprior.files.formats.interface import DamagedError

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.cli.session import Session
    from reprior.files.chunks import Chunk
    from reprior.files.costs import Costs
    from reprior.files.scores import ScoreFile

__all__ = [
    "Applying",
    "command",
    "costs_of",
    "decide",
    "earlier_outputs",
    "is_folder",
    "one_by_one",
    "write_all",
]

#: Why nothing is left out of one output.
ALIGNED = "one file holds every row of the input, in its place"


@click.command(
    "apply",
    cls=GroupedCommand,
    most_used=("output",),
    epilog=shows(
        "reprior demo -o demo      # writes the files used here",
        "reprior apply demo/cal.json demo/test.csv -o corrected.csv",
    ),
)
@click.argument("cal", type=PATH)
@scores_argument("test")
@output_option(
    "Where to write: a file for all of TEST, or a folder for a file each; - is standard output, "
    "for csv."
)
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
    of TEST is written there under its own name instead. Each appears when it is complete, and
    stays when a later one fails or Ctrl-C is pressed; the message says how many are written. The
    same command writes all of them again. A killed run leaves hidden folders named .reprior-…; the
    next run into that folder removes them. With --skip-unreadable a file that cannot be read to
    its end has no output of this run, and is named; one of an earlier run stays, and is named too.
    One output for all has every row of TEST in its place, so nothing is left out of it.

    With --costs the prediction is the decision of least expected cost by the posterior. The file
    is JSON: a list of rows of numbers, one per true class in the order of the classes, or {true
    class: {decision: cost}}. Or it is CSV: such rows alone; or the names of the decisions in a
    first line above them; or, with a corner cell before these names, the name of its class in
    front of every row. Where classes are numbers, leave the corner cell empty. Decisions may be
    others than the classes, such as to ask a human; without names they are numbered from 0.
    """
    to_folder = is_folder(output)
    if reading.skip_unreadable and not to_folder:
        raise OptionError(
            f"--skip-unreadable must go with a folder as OUT. Got {output!r}: {ALIGNED}, and rows "
            f"that are left out would put the others out of step. Name a folder, which gets a file "
            f"each, such as {Path(output).stem}/."
        )
    calibrator = load_calibrator(cal)
    open_some = partial(open_for, calibrator, session, labelled=False, keep=keep)
    with _noting_how_to_continue(test, to_folder=to_folder):
        scores = open_some(test, reading)
        read = (cal, costs, reading.classes, *scores.paths)
        decided = None if costs is None else costs_of(session, calibrator, costs, scores)
        applying = Applying(calibrator, session, keep, decided)
        if not to_folder:
            check_output(output, read, store=True, text=scores.format == "csv")
            _show(session, scores, [output], [applying.write(scores, output)])
            return
        each = replace(reading, skip_unreadable=False)
        alone = partial(open_some, reading=each, names=scores.class_names)
        opened = one_by_one(scores.paths, output, alone)
        written = [str(Path(output) / path.name) for path in scores.paths]
        done = write_all(applying, opened, written, read, skip=reading.skip_unreadable)
        _show(session, scores, written, done)


@contextmanager
def _noting_how_to_continue(test: Sequence[str], *, to_folder: bool) -> Iterator[None]:
    """Note on the error of a damaged file how to continue with the others."""
    from reprior.files.scores import expand_paths

    try:
        yield
    except DamagedError as error:
        if len(expand_paths(list(test), "paths")) == 1:
            raise
        how = "pass --skip-unreadable"
        if not to_folder:
            how = f"name a folder as OUT and {how}: {ALIGNED}"
        error.add_note(f"To continue without it, {how}.")
        raise


def _show(
    session: Session, scores: ScoreFile, written: Sequence[str], done: Sequence[int | LeftOut]
) -> None:
    """Show what was written and what was left out."""
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
    """Return every file of an output, under the name the user gave."""
    from reprior.files.output import output_format, output_paths

    _, *others = output_paths(target, output_format(target, scores))
    return [target, *map(str, others)]


@dataclass(frozen=True, eq=False)
class Applying:
    """A calibrator and how to apply it: by ``costs``, with ``keep`` for the inputs' columns."""

    calibrator: PosteriorCalibrator
    session: Session
    keep: bool = False
    costs: Costs | None = None

    def write(self, scores: ScoreFile, output: str, chunks: Iterable[Chunk] | None = None) -> int:
        """Write one output of the scores, or of some of their chunks; return how many samples."""
        from reprior.files.output import open_output

        done = 0
        names = class_names(self.calibrator) or scores.class_names
        decisions = self._decisions(names)
        with (
            self.session.progress(f"writing {Path(output).name}", scores.n_samples) as progress,
            open_output(
                output, like=scores, classes=names, keep=self.keep, decisions=decisions
            ) as writer,
        ):
            for chunk in scores.chunks() if chunks is None else chunks:
                posterior = self.calibrator.predict_proba(chunk.scores)
                writer.write(chunk, posterior, self._decided(chunk.scores, posterior))
                done += len(chunk)
                progress(done)
        for sentence in writer.notes:
            self.session.note(sentence)
        return done

    def _decisions(self, names: Sequence[Any] | None) -> tuple[str, ...] | None:
        """Return the names of the decisions; None where these are the classes."""
        if self.costs is None:
            return None
        n_classes, n = self.costs.matrix.shape
        classes = range(n_classes) if names is None else names
        if self.costs.decisions is None:
            return None if n == n_classes else tuple(map(str, range(n)))
        return None if self.costs.decisions == tuple(map(str, classes)) else self.costs.decisions

    def _decided(self, scores: Any, posterior: Any) -> Any:
        from reprior.core import decision

        calibrator, axis = self.calibrator, self.calibrator.class_axis
        if self.costs is not None:
            return decision.decide(posterior, self.costs.matrix, class_axis=axis)
        return calibrator._decided(scores)


def costs_of(
    session: Session, calibrator: PosteriorCalibrator, path: str, scores: ScoreFile
) -> Costs:
    """Read costs for a calibrator's classes; note their order, and the probabilities used."""
    from reprior.calibrator.options import is_log_loss
    from reprior.calibrator.summary import metric_name
    from reprior.files.costs import read_costs

    names = class_names(calibrator) or scores.class_names
    costs = read_costs(path, calibrator.classes_.tolist() if names is None else names)
    if names is not None and not costs.by_class:
        what = "names" if costs.decisions is None else "names of classes"
        session.note(
            f"the costs of {path} have no {what}, and their rows are taken in the order of the "
            f"classes: {few(names)}"
        )
    if calibrator.probability_map_ is None and not is_log_loss(calibrator.metric):
        session.note(
            f"costs are weighed by the probabilities, which need not be calibrated: the calibrator "
            f"was tuned for {metric_name(calibrator.metric)}; fit it with --metric log_loss, or "
            f"with --separate"
        )
    return costs


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


class _UnreadableError(Exception):
    """A file that --skip-unreadable leaves out could not be read to its end, for a cause."""

    def __init__(self, cause: Exception) -> None:
        super().__init__()
        self.cause = cause


def is_folder(output: str) -> bool:
    """Whether an output is a folder, by its name or as it exists, and not a zarr store."""
    if is_stdout(output):
        return False
    path = Path(output)
    if not output.endswith(("/", os.sep)):
        return path.is_dir() and path.suffix != ".zarr" and not is_store(path)
    if is_store(path):
        raise OptionError(
            f"--output must not be a zarr store where it is a folder. Got {output!r}. Name it "
            f"{str(path)!r} to overwrite the store, or choose another folder."
        )
    return True


def one_by_one(
    paths: Sequence[Path], output: str, open_one: Callable[[Sequence[str]], ScoreFile]
) -> list[ScoreFile]:
    """Open every file as an input of its own, all before the first output is written."""
    twice = sorted(name for name, n in Counter(path.name for path in paths).items() if n > 1)
    if twice:
        raise OptionError(
            f"--output must be a file where inputs share a name. Got the folder {output!r} and "
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
    """Write one output per input into a folder; each appears when it is complete, and stays.

    Return the number of samples of each. With ``skip``, an input that cannot be read to its end
    has no output, not even of the rows before the damage, and a ``LeftOut`` instead of a number.
    An error or Ctrl-C carries a note with the number of outputs written.
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
        for scores, output in zip(inputs, outputs, strict=True):
            try:
                done.append(applying.write(scores, output, _read(scores) if skip else None))
            except _UnreadableError as error:
                done.append(LeftOut.because_of(error.cause, scores.paths[0], scores.n_samples))
        left_out = [each for each in done if isinstance(each, LeftOut)]
        if len(left_out) == len(done):
            raise none_left([each.path for each in left_out], left_out)
    return done


@contextmanager
def _counting(done: Sequence[int | LeftOut], n: int, folder: Path) -> Iterator[None]:
    """Note on an exception how many outputs are written."""
    try:
        yield
    except BaseException as error:
        written = sum(not isinstance(each, LeftOut) for each in done)
        if written:
            error.add_note(f"{written} of {n} outputs are written, and stay in {str(folder)!r}.")
        raise


def earlier_outputs(left_out: Sequence[LeftOut], folder: Path, scores: ScoreFile) -> list[str]:
    """Return outputs of an earlier run whose inputs this run left out."""
    from reprior.files.detect import format_of_name
    from reprior.files.output import output_paths

    targets = [folder / each.path.name for each in left_out]
    made = [output_paths(path, format_of_name(path) or scores.format) for path in targets]
    return [str(path) for paths in made for path in paths if path.exists()]


def _read(scores: ScoreFile) -> Iterator[Chunk]:
    """Yield the chunks of a file; distinguish errors of reading from errors of writing."""
    try:
        yield from scores.chunks()
    except UNREADABLE as error:
        raise _UnreadableError(error) from error


def _refuse_clashes(targets: Sequence[Path]) -> None:
    """Refuse targets that are no files, and two outputs of one name."""
    seen: set[Path] = set()
    for path in targets:
        output_target(path, argument="output", folder=True)
        if path.is_dir() and not is_store(path):
            raise OptionError(
                f"--output must be free for a file per input. Got {str(path)!r}, which is a "
                f"folder. Choose another folder."
            )
        if path in seen:
            raise OptionError(
                f"--output must have a name for every file. Got {path.name!r} twice. Name an "
                f"output file, or rename the inputs."
            )
        seen.add(path)


@contextmanager
def _folder(path: Path) -> Iterator[Path]:
    """Make a folder if it does not exist; remove it after an error if it is empty."""
    new = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield path
    except BaseException:
        if new:
            with suppress(OSError):
                path.rmdir()
        raise
