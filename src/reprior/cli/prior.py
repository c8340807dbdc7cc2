"""``reprior prior``: from counts or labels to the prior a model was trained on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
import numpy as np

from reprior.cli.inputs import (
    open_counted,
    open_to_fit,
    read_class_counts,
    read_weights,
    refuse_labels_and_weights,
    sample_labelled_rows,
    sample_rows,
    source_of,
)
from reprior.cli.messages import SentenceGroup, name_classes
from reprior.cli.options import (
    PATH,
    Names,
    PriorChoice,
    Reading,
    counts_options,
    output_option,
    reading_options,
    scores_argument,
    shows,
)
from reprior.cli.outputs import check_output
from reprior.cli.session import Session, plain, session_options
from reprior.cli.tables import Grid, whole
from reprior.core.prior import prior_from_counts
from reprior.core.shift.estimate import METHODS, estimate_target_prior_report
from reprior.core.shift.newton import MAX_CLASSES
from reprior.exceptions import OptionError
from reprior.files.atomic import atomic_write

if TYPE_CHECKING:
    from reprior.core.shift.report import TargetPriorReport
    from reprior.files.scores import ScoreFile

__all__ = ["Share", "command", "estimate_command", "shortened", "write_prior"]

OUTPUT_HELP = "Write the prior here too: JSON, or CSV by the extension; - is standard output."


class _OwnAndOthers(SentenceGroup):
    """A command that is also a group: without a subcommand, errors are about its own options."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a subcommand, or this command where none is named."""
        return super().get_command(ctx, cmd_name) if cmd_name else self


@click.group(
    "prior",
    cls=_OwnAndOthers,
    invoke_without_command=True,
    subcommand_metavar="[COMMAND [ARGS]...]",
    epilog=shows(
        """echo '{"cat": 900, "dog": 90, "owl": 10}' > counts.json""",
        "reprior prior --counts counts.json -o prior.json",
    ),
)
@counts_options(labels=True)
@click.option("--classes", type=PATH, metavar="FILE", help="Class names, in the order to use.")
@output_option(OUTPUT_HELP, required=False)
@session_options
def command(
    session: Session, counting: PriorChoice, classes: str | None, output: str | None
) -> None:
    """Show the class prior that training counts or labels amount to.

    With --weights it is the effective prior: what a model learns that was trained with these class
    weights. The file that -o writes can be given to fit as --source-prior or --target-prior.

    The prior of where a model is used can be estimated from unlabelled scores: prior estimate.
    """
    context = click.get_current_context()
    if context.invoked_subcommand is not None:
        _refuse_misplaced(context)
        return
    if output is not None:
        read = (counting.counts, counting.counts_from_labels, counting.weights, classes)
        check_output(output, read)
    names: list[Any] | None = None
    if classes is not None:
        from reprior.files.count_files import read_class_names

        names = list(read_class_names(classes))
    counts, named = read_class_counts(
        session, counting, names, None if names is None else len(names)
    )
    names = names if names is not None else named
    name_classes(names)
    weights = None
    if counting.weights is not None:
        weights = read_weights(session, counting.weights, names, len(counts))
    prior = prior_from_counts(counts, weights=weights, smoothing=counting.smoothing)
    shown = list(range(len(counts))) if names is None else [plain(name) for name in names]
    columns: dict[str, Any] = {"class": shown, "count": [whole(n) for n in counts.tolist()]}
    if weights is not None:
        columns["weight"] = weights.tolist()
    columns["prior"] = prior.tolist()
    if output is not None:
        write_prior(output, names, prior.tolist())
    _show(session, columns)
    session.result(
        {
            "classes": names if names is not None else list(range(len(counts))),
            "counts": counts,
            **({} if weights is None else {"weights": weights}),
            "prior": prior,
            **({} if output is None else {"output": output}),
        }
    )


def _refuse_misplaced(context: click.Context) -> None:
    """Refuse options in front of a subcommand's name, where they would be lost."""
    name = context.invoked_subcommand
    for param in context.command.params:
        source = context.get_parameter_source(str(param.name))
        if source is click.core.ParameterSource.COMMANDLINE:
            raise OptionError(
                f"Options of {context.command_path} {name} must come after its name. Got "
                f"{param.opts[-1]} before it. Write: {context.command_path} {name} SCORES "
                f"{param.opts[-1]} …"
            )


def _show(session: Session, columns: dict[str, Any]) -> None:
    rows: list[tuple[Any, ...]] = list(zip(*columns.values(), strict=True))
    session.say(Grid(tuple(columns), shortened(rows)).rich())
    smallest, largest = min(columns["prior"]), max(columns["prior"])
    session.say(
        f"{len(columns['prior']):,} classes; the most frequent is {largest / smallest:,.1f} times "
        f"as frequent as the rarest."
    )


#: Rows of a long table that are shown: as many from either end.
SHOWN = 40


class Share(float):
    """A class's share of a mix, shown to four decimals; what these cannot show is below 0.0001.

    Examples
    --------
    >>> [f"{Share(x):.4f}" for x in (0.117, 5e-13, 0.0)]
    ['0.1170', '< 0.0001', '0.0000']
    """

    def __format__(self, how: str) -> str:
        """Return the share as text."""
        return "< 0.0001" if 0.0 < self < 0.00005 else super().__format__(how)


def write_prior(path: str, names: Sequence[Any] | None, prior: Sequence[float]) -> None:
    """Write the prior, by name where there are names: CSV by the extension, or else JSON."""
    if Path(path).suffix.lower() == ".csv":
        first = names if names is not None else range(len(prior))
        text = Grid(("class", "prior"), list(zip(first, prior, strict=True))).csv()
    elif names is None:
        text = json.dumps(list(prior))
    else:
        text = json.dumps(dict(zip(map(str, names), prior, strict=True)), ensure_ascii=False)
    with atomic_write(path, text=True) as file:
        file.write(f"{text}\n".encode())


def shortened(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return both ends of a long table, with a row between them that counts the others.

    Examples
    --------
    >>> shortened([(k, 0.01) for k in range(100)])[20]
    ('… 60 more', None)
    """
    left_out = len(rows) - SHOWN
    if left_out <= 1:
        return list(rows)
    middle = (f"… {left_out:,} more",) + (None,) * (len(rows[0]) - 1)
    return [*rows[: SHOWN // 2], middle, *rows[-SHOWN // 2 :]]


Vector: TypeAlias = np.ndarray[Any, Any]

#: Scores that an estimate looks at, at most, and as many of validation: 32 MB of float64.
MOST_SCORES = 2**22


@click.command(
    "estimate",
    short_help="Estimate the class mix of unlabelled scores.",
    epilog=shows(
        "reprior demo -o demo      # writes the files used here",
        "reprior prior estimate demo/test.csv --counts demo/counts.json --kind logits \\",
        "    --validation demo/val.csv -o target.json",
    ),
)
@scores_argument("scores")
@counts_options(labels=False)
@click.option(
    "--source-prior",
    type=PATH,
    metavar="FILE",
    help="The prior itself, instead of counts: what the model saw in training.",
)
@click.option(
    "--method",
    type=Names(METHODS),
    default="em",
    show_default=True,
    metavar="|".join(METHODS),
    help="em needs no labels, and calibrates by --validation; the others need --validation, and "
    "no probabilities.",
)
@click.option(
    "--validation",
    type=PATH,
    multiple=True,
    metavar="FILE",
    help="Labelled scores that the model was not trained on, of every class. Repeatable.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.9,
    show_default=True,
    metavar="NUMBER",
    help="Of the intervals, which are drawn by bootstrap.",
)
@click.option(
    "--replicates",
    type=click.IntRange(min=2),
    default=200,
    show_default=True,
    metavar="NUMBER",
    help="Bootstrap replicates.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the bootstrap."
)
@reading_options(labels=True)
@output_option(OUTPUT_HELP, required=False)
@session_options
def estimate_command(
    session: Session,
    scores: Sequence[str],
    counting: PriorChoice,
    source_prior: str | None,
    validation: Sequence[str],
    reading: Reading,
    output: str | None,
    **options: Any,
) -> None:
    """Estimate the class mix of unlabelled SCORES: the prior of where a model is used.

    SCORES are score files (npy, npz, csv, parquet, zarr), or quoted patterns; labels in them are
    not looked at. The counts, or the source prior, are those of training. Only the class mix may
    have changed since: classes must look as they did in training.

    The file that -o writes can be given to fit as --target-prior.
    """
    _check(validation, reading, options["method"])

    def open_unlabelled(reading: Reading) -> ScoreFile:
        return open_to_fit(session, scores, reading, labelled=False)

    target, reading = open_counted(session, open_unlabelled, reading, counting, source_prior)
    counting = replace(
        counting,
        label_column=reading.label_column,
        labels_name=reading.labels_name,
        labels_as=reading.labels_as,
        ignore_index=reading.ignore_index,
    )
    if output is not None:
        read = (counting.counts, counting.counts_from_labels, counting.weights, source_prior)
        check_output(
            output, [*target.paths, *read, *validation, reading.classes, *(reading.labels or ())]
        )
    prior, names, _ = source_of(session, counting, source_prior, target)
    labelled = None
    if validation:
        labelled = open_to_fit(session, validation, reading, names=target.class_names)
        _refuse_another(target, labelled)
    elif options["method"] == "em":
        session.note(
            "em trusts the probabilities of SCORES: where the model is too sure, or "
            "not sure enough, the estimate is wrong, and its intervals do not show it; labelled "
            "scores of the same model, named by --validation, calibrate them first"
        )
    report = _estimated(session, target, labelled, prior, **options)
    if output is not None:
        write_prior(output, names, report.prior.tolist())
    _show_estimate(session, report, names, output)


def _check(validation: Sequence[str], reading: Reading, method: str) -> None:
    """Refuse options that have no effect, or need another."""
    if method != "em" and not validation:
        raise OptionError(
            f"--validation must be given for --method {method}, which learns from labelled scores "
            f"how the model sees each class. Got none. Name a file of them, or choose --method em."
        )
    refuse_labels_and_weights(reading, validation)


def _refuse_another(target: ScoreFile, labelled: ScoreFile) -> None:
    if target.kind != labelled.kind or target.n_classes != labelled.n_classes:
        raise OptionError(
            f"--validation must be of the kind and the classes of SCORES, {target.kind} of "
            f"{target.n_classes} classes. Got {labelled.kind} of {labelled.n_classes}. Give "
            f"scores of the same model."
        )


def _estimated(
    session: Session,
    target: ScoreFile,
    labelled: ScoreFile | None,
    prior: Vector,
    *,
    method: str,
    confidence: float,
    replicates: int,
    seed: int,
) -> TargetPriorReport:
    """Read the rows, or a bounded sample of them, and estimate."""
    most = MOST_SCORES // target.n_classes
    with session.progress("reading", target.n_samples) as progress:
        rows, n_rows = sample_rows(
            target, class_axis=target.class_axis, most=most, progress=progress
        )
    _note_sample(session, len(rows), n_rows, "scores")
    validation = None
    if labelled is not None:
        with session.progress("reading the validation", labelled.n_samples) as progress:
            *validation, n_rows = sample_labelled_rows(
                labelled,
                class_axis=labelled.class_axis,
                ignore_index=labelled.ignore_index,
                most=most,
                progress=progress,
            )
        _note_sample(session, len(validation[0]), n_rows, "validation scores")
    with session.progress("estimating", replicates, counted="replicates") as progress:
        return estimate_target_prior_report(
            rows,
            source_prior=prior,
            method=method,
            kind=str(target.kind),
            validation=validation,
            confidence=confidence,
            n_replicates=replicates,
            random_state=seed,
            progress=progress,
        )


def _note_sample(session: Session, n: int, of: int, what: str) -> None:
    if n < of:
        session.note(f"the estimate is from {n:,} rows drawn from {of:,} of the {what}")


def _show_estimate(
    session: Session, report: TargetPriorReport, names: list[Any] | None, output: str | None
) -> None:
    classes = list(range(report.prior.size)) if names is None else names
    shown = [name if names is None else plain(name) for name in classes]
    title = f"Class mix with intervals of {100 * report.confidence:g} %"
    columns = (report.source_prior, report.prior, *report.intervals.T)
    shares = [[Share(x) for x in column] for column in columns]
    rows = list(zip(shown, *shares, strict=True))
    heads = ("class", "source prior", "target prior", "from", "to")
    session.say(Grid(heads, shortened(rows), title).rich())
    session.say(*report.facts())
    if report.calibration is not None and report.prior.size > MAX_CLASSES:
        session.note(
            f"the intervals of more than {MAX_CLASSES} classes take the calibration as given: "
            f"with few validation labels they are too narrow"
        )
    condition, fitted = report.conditioning, report.calibration
    session.result(
        {
            "method": report.method,
            "classes": classes,
            "source_prior": report.source_prior,
            "prior": report.prior,
            "intervals": report.intervals,
            "confidence": report.confidence,
            "n_samples": report.n_samples,
            "n_labels": report.n_labels,
            "iterations": report.iterations,
            "last_change": report.last_change,
            "converged": report.converged,
            "negative_mass": report.negative_mass,
            "conditioning": None if condition is None else vars(condition),
            "held_back": report.held_back,
            "calibration": None if fitted is None else {"scale": fitted[0], "bias": fitted[1]},
            **({} if output is None else {"output": output}),
        }
    )


command.add_command(estimate_command)
