"""``reprior fit``: from validation scores to a calibrator file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from reprior.calibrator import PosteriorCalibrator
from reprior.calibrator.options import check_options
from reprior.cli.caveats import note_counts_of_tuning_labels
from reprior.cli.examples import shows
from reprior.cli.fit_dask import Place, first_shard, fit_on_dask, place_options
from reprior.cli.fit_output import show_fit
from reprior.cli.inputs import open_to_fit, read_prior_file, source_of
from reprior.cli.options import (
    PATH,
    PriorChoice,
    Reading,
    counts_options,
    output_option,
    reading_options,
    scores_argument,
)
from reprior.cli.outputs import check_output
from reprior.cli.session import Session, session_options
from reprior.cli.target import target_prior_of
from reprior.cli.tuning import NumberOr, Tuning, check_metrics, tuning_options
from reprior.exceptions import OptionError

if TYPE_CHECKING:
    from reprior.files.scores import ScoreFile

__all__ = ["command"]


@click.command(
    "fit",
    epilog=shows(
        "reprior demo -o demo      # writes the files used here",
        "reprior fit demo/val.csv --counts demo/counts.json --kind logits \\",
        "    --metric balanced_accuracy -o cal.json",
        "reprior fit demo/val.csv --counts demo/counts.json --kind logits \\",
        "    --tune per_class --metric macro_f1 --cv 5 --separate -o cal.json",
    ),
)
@scores_argument("val")
@counts_options(labels=False)
@click.option(
    "--source-prior",
    type=PATH,
    metavar="FILE",
    help="The prior itself, instead of counts: what the model saw in training.",
)
@click.option(
    "--target-prior",
    default="uniform",
    show_default=True,
    metavar="uniform|FILE|estimate",
    help="The class mix that the correction aims at; the metric is measured on VAL's own. "
    "estimate: from --target-scores.",
)
@click.option(
    "--target-scores",
    type=PATH,
    multiple=True,
    metavar="FILE",
    help="Unlabelled scores of the target, for --target-prior estimate. Repeatable.",
)
@tuning_options
@click.option(
    "--resolution",
    type=NumberOr(auto="auto", refine="refine", none=None),
    default="auto",
    show_default=True,
    metavar="auto|refine|NUMBER|none",
    help="Sum switches in bins of this width. none keeps each; auto does, up to ten million; "
    "refine too, and then reads VAL once more for the exact best.",
)
@click.option(
    "--checkpoint",
    type=PATH,
    metavar="DIR",
    help="Save there what is counted, twice a minute at most: the same command goes on after a "
    "kill. Removed once OUT is written.",
)
@place_options
@reading_options(labels=True)
@output_option("The calibrator, as JSON.")
@session_options
def command(
    session: Session,
    val: Sequence[str],
    counting: PriorChoice,
    source_prior: str | None,
    target_prior: str,
    target_scores: Sequence[str],
    tuning: Tuning,
    reading: Reading,
    place: Place,
    output: str,
    resolution: Any,
    checkpoint: str | None,
) -> None:
    """Tune the correction on labelled validation scores VAL.

    VAL are score files (npy, npz, csv, parquet, zarr), or quoted patterns such as 'val-*.parquet',
    of data that the model was not trained on. The class counts are those of the training data.
    What is printed is measured on VAL itself: judge the result on other data, with evaluate.

    The corrected posterior is softmax((z + strength * w) / temperature), with the log-scores z of
    the model and w = log(target prior) - log(source prior). The temperature leaves every decision
    as it is. With --tune per_class a bias per class takes the place of strength * w.

    VAL is read in pieces, so it may be larger than memory; --tune per_class, --cv, --bootstrap,
    --temperature bcts and vector, and --selection balanced_log_loss hold all of it in memory.
    """
    from reprior import engines
    from reprior.engines.checkpoints import Checkpoint

    place.check()
    _refuse_on_dask(place, checkpoint, resolution)
    skip = place.skip_unreadable
    if place.on_dask:
        shard = first_shard(session, val, reading, skip=skip)
        scores = click.get_current_context().with_resource(shard)
    else:
        scores = open_to_fit(session, val, replace(reading, skip_unreadable=skip))
    counting = replace(
        counting, label_column=reading.label_column, labels_name=reading.labels_name,
        labels_as=reading.labels_as, ignore_index=reading.ignore_index,
    )  # fmt: skip
    read = (counting.counts, counting.counts_from_labels, counting.weights, source_prior)
    more = (target_prior, *target_scores, tuning.label_prior, reading.classes, *scores.label_paths)
    check_output(output, [*scores.paths, *read, *more])
    note_counts_of_tuning_labels(session, counting.counts_from_labels, scores)
    prior, names, _ = source_of(session, counting, source_prior, scores)
    target = target_prior_of(session, target_prior, target_scores, prior, names, scores, reading)
    calibrator = _calibrator(session, scores, (prior, target), names, tuning)
    with session.progress("tuning", scores.n_samples) as progress:
        if place.on_dask:
            fit_on_dask(calibrator, val, reading, place, resolution=resolution, output=output)
        else:
            with session.telling("reprior.engines.resuming"), _telling_of_savings(checkpoint):
                engines.fit(
                    calibrator, scores, resolution=resolution, checkpoint=checkpoint,
                    progress=progress,
                )  # fmt: skip
    calibrator.save(output)
    if checkpoint is not None:
        Checkpoint(checkpoint).remove()
    show_fit(session, calibrator, output)


@contextmanager
def _telling_of_savings(checkpoint: str | None) -> Iterator[None]:
    """Where Ctrl-C ends the block, note that a fit goes on from what is saved, if anything is."""
    from reprior.engines.checkpoints import Checkpoint

    try:
        yield
    except KeyboardInterrupt as error:
        if checkpoint is not None and not Checkpoint(checkpoint).is_empty:
            error.add_note(
                f"What was counted until the last saving is in {checkpoint!r}: the same command "
                f"goes on from there."
            )
        raise


def _refuse_on_dask(place: Place, checkpoint: str | None, resolution: Any) -> None:
    """Refuse what only a fit in this process does."""
    given = {"--checkpoint": checkpoint is not None, "--resolution refine": resolution == "refine"}
    for name, there in given.items():
        if place.on_dask and there:
            raise OptionError(
                f"{name} must go with --engine local. Got --engine dask. Leave one of them out."
            )


def _calibrator(
    session: Session,
    scores: ScoreFile,
    priors: tuple[Any, Any],
    names: list[Any] | None,
    tuning: Tuning,
) -> PosteriorCalibrator:
    """Return the calibrator to fit; refuse a metric or rule before any data are read."""
    check_metrics(tuning, scores.n_classes, names)
    label_prior = None
    if tuning.label_prior is not None:
        label_prior, _ = read_prior_file(
            session, tuning.label_prior, "label prior", names, scores.n_classes
        )
    calibrator = PosteriorCalibrator(
        priors[0],
        target_prior=priors[1],
        metric=tuning.metric,
        subject_to=list(tuning.subject_to) or None,
        tune=tuning.tune,
        selection=tuning.selection,
        temperature=tuning.temperature,
        label_prior=label_prior,
        separate=tuning.separate,
        bounds=tuning.bounds,
        kind=str(scores.kind),
        class_axis=scores.class_axis,
        ignore_index=scores.ignore_index,
        classes=names,
        cv=tuning.cv,
        n_bootstrap=tuning.n_bootstrap,
        random_state=tuning.random_state,
    )
    check_options(calibrator)
    return calibrator
