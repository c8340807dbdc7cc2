"""``reprior fit``: from validation scores to a calibrator file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reprior.calibrator import PosteriorCalibrator
from reprior.calibrator.options import LOG_LOSS, check_options, is_log_loss
from reprior.calibrator.summary import (
    counted_metrics,
    found_metric,
    map_lines,
    metric_name,
    promise_lines,
    trust_lines,
    tuned_for,
)
from reprior.cli.caveats import (
    note_costs_to_other_metrics,
    note_counts_of_tuning_labels,
    note_mix_of_the_metric,
    note_no_strength,
)
from reprior.cli.inputs import (
    open_counted,
    open_to_fit,
    read_prior_file,
    source_of,
    target_prior_of,
)
from reprior.cli.options import (
    PATH,
    GroupedCommand,
    Names,
    PriorChoice,
    Reading,
    collected,
    counts_options,
    output_option,
    reading_options,
    scores_argument,
    shows,
    skip_option,
)
from reprior.cli.outputs import check_output, refuse_inputs
from reprior.cli.session import Session, plain, session_options
from reprior.cli.tables import Grid, before_after, class_changes
from reprior.core.scaling import SCALINGS
from reprior.exceptions import FileFormatError, NotFittedError, OptionError
from reprior.files.text_files import json_of, refuse_twice, text_of
from reprior.metrics import COUNT_METRICS, METRIC_NAMES, PAIR_METRIC_NAMES, Cost, find_metric
from reprior.metrics.count_metrics import group_indices
from reprior.profile.objective import Constraint
from reprior.tuning.problem import DEFAULT_SELECTION, TUNED
from reprior.tuning.selection import RULES

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.cli.session import Session
    from reprior.core.score_map import ScoreMap
    from reprior.engines.dask_shards import ShardOptions
    from reprior.files.scores import ScoreFile

__all__ = [
    "MARK",
    "NumberOr",
    "Place",
    "Tuning",
    "check_metrics",
    "command",
    "first_shard",
    "fit_on_dask",
    "place_options",
    "show_fit",
    "tuning_options",
]


Command = TypeVar("Command", bound=Callable[..., Any])


if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:  # generic since click 8.4
    _ParamType = click.ParamType


class NumberOr(_ParamType):
    """A number, or one of some words that name a value."""

    def __init__(self, **words: Any) -> None:
        self.name, self.words = "number", words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of the word, or a float."""
        if not isinstance(value, str):
            return value
        if value.lower() in self.words:
            return self.words[value.lower()]
        try:
            return float(value)
        except ValueError:
            known = " or ".join(map(repr, self.words))
            return self.fail(f"{value!r} is neither {known} nor a number.", param, ctx)


#: The metric of --costs.
COST = "cost"


@dataclass(frozen=True)
class Tuning:
    """The options of a calibrator, but ``label_prior`` is a file."""

    metric: str = "balanced_accuracy"
    cost_file: str | None = None
    class_groups: str | None = None
    subject_to: Sequence[str] = ()
    certify: float | None = None
    tune: str = "strength"
    selection: str = DEFAULT_SELECTION
    temperature: Any = None
    label_prior: str | None = None
    separate: bool = False
    bounds: tuple[float, float] = (0.0, 2.0)
    cv: int | None = None
    n_bootstrap: int = 0
    random_state: int | None = None


def _complete_metric(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [
        name
        for name in (*METRIC_NAMES, *PAIR_METRIC_NAMES, COST, LOG_LOSS)
        if name.startswith(incomplete)
    ]


_OPTIONS = (
    click.option(
        "--metric",
        default="balanced_accuracy",
        show_default=True,
        metavar="NAME",
        shell_complete=_complete_metric,
        help=f"What to maximise: {', '.join(COUNT_METRICS)}, mcc, gmean, worst_recall, "
        "macro_fbeta(2), cost and others (see the guide Which metric?), or one class's, such as "
        "'recall[cat]'. log_loss instead fits strength and temperature together, for "
        "calibrated probabilities.",
    ),
    click.option(
        "--costs",
        "cost_file",
        type=PATH,
        metavar="FILE",
        help="With --metric cost: what each decision costs, a row per true class and a number per "
        "class, as JSON or CSV. The mean cost is minimised.",
    ),
    click.option(
        "--class-groups",
        type=PATH,
        metavar="FILE",
        help="Groups of classes that --metric and --subject-to may name, such as 'recall[few]', as "
        "JSON {group: [class, ...]}.",
    ),
    click.option(
        "--subject-to",
        multiple=True,
        metavar="RULE",
        help="A constraint, such as 'mean_iou >= baseline - 0.005'. Repeatable.",
    ),
    click.option(
        "--certify",
        type=float,
        metavar="NUMBER",
        help="Promise each --subject-to on new data of VAL's mix with this probability, such as "
        "0.95: for accuracy, worst_recall, and recall, specificity, precision, iou and f1 of a "
        "class, where samples are drawn independently.",
    ),
    click.option(
        "--tune",
        type=Names(TUNED),
        default="strength",
        show_default=True,
        help="One strength for all classes; per_class: from it, a bias for every class.",
    ),
    click.option(
        "--selection",
        type=Names(RULES),
        default=DEFAULT_SELECTION,
        show_default=True,
        help="How the strength is chosen: max is best on VAL; the others trade a little of "
        "it for a strength that varies less with the samples in VAL.",
    ),
    click.option(
        "--temperature",
        type=NumberOr(fit="fit", **{name: name for name in SCALINGS}),
        metavar="fit|bcts|vector|NUMBER",
        help="Divide the corrected log-scores by this number; fit: by the one that fits VAL's "
        "labels best. Default: 1. bcts and vector fit a bias, or a scale and a bias, per "
        "class, with --metric log_loss or --separate.",
    ),
    click.option(
        "--label-prior",
        type=PATH,
        metavar="FILE",
        help="The class mix that VAL's labels follow, for fits by log-loss. Default: their "
        "own frequencies.",
    ),
    click.option(
        "--separate",
        is_flag=True,
        help="Hold two maps: one for predictions, tuned for --metric, and one for probabilities, "
        "fitted by log-loss.",
    ),
    click.option(
        "--bounds",
        nargs=2,
        type=float,
        default=(0.0, 2.0),
        show_default=True,
        metavar="LOW HIGH",
        help="Strengths to search.",
    ),
    click.option(
        "--cv",
        type=int,
        metavar="FOLDS",
        help="Also cross-validate: show what is reached on labels that were not tuned on.",
    ),
    click.option(
        "--bootstrap",
        "n_bootstrap",
        type=int,
        default=0,
        metavar="N",
        help="Also draw N bootstrap replicates (1000 will do): show 90 % intervals of the "
        "strength, the metric and its gain.",
    ),
    click.option(
        "--seed",
        "random_state",
        type=int,
        metavar="NUMBER",
        help="Random seed of folds and replicates. [default: 0]",
    ),
)


def tuning_options(function: Command) -> Command:
    """Give a command the options of a fit, as one argument ``tuning``."""
    return collected(Tuning, "tuning", _OPTIONS)(function)


def tuned_metric(tuning: Tuning, n_classes: int, names: list[Any] | None) -> Any:
    """Return the metric: its name, or the costs of a file; refuse one without the other."""
    if tuning.cost_file is None and tuning.metric != COST:
        return tuning.metric
    if tuning.cost_file is None or tuning.metric != COST:
        without = "--costs" if tuning.cost_file is None else f"--metric {COST}"
        raise OptionError(
            f"--metric {COST} and --costs must go together. Got one without {without}.",
            remedy=f"Add {without}: a file with a row of costs per true class.",
        )
    from reprior.files.costs import read_costs

    costs = read_costs(tuning.cost_file, list(range(n_classes)) if names is None else names)
    return Cost(costs.matrix, name=COST)


def read_groups(path: str | None) -> dict[str, Any] | None:
    """Read groups of classes: JSON ``{group: [class, …]}``."""
    if path is None:
        return None
    must = 'hold groups of classes, as JSON {"group": ["class", …]}'
    document = json_of(Path(path), text_of(Path(path), must), "groups of classes")
    groups = dict(document) if isinstance(document, tuple) else {}
    if not groups or not all(isinstance(members, list) for members in groups.values()):
        raise FileFormatError(
            f"{path!r} must {must}.",
            got="JSON that is no such object",
            remedy='Write for example {"few": ["cat", "dog"]}.',
        )
    refuse_twice(Path(path), [name for name, _ in document], "group")
    return groups


def check_metrics(
    tuning: Tuning, metric: Any, groups: Any, n_classes: int, names: list[Any] | None
) -> None:
    """Refuse a metric or rule before any data are read."""
    rules = Constraint.parse_all(list(tuning.subject_to), metric)
    groups = group_indices(groups, n_classes, names)
    if not is_log_loss(metric):
        find_metric(metric, n_classes=n_classes, classes=names, class_groups=groups)
    for rule in rules:
        rule.resolved(n_classes=n_classes, classes=names, class_groups=groups)


@dataclass(frozen=True)
class Place:
    """Where a fit runs."""

    engine: str = "local"
    scheduler: str | None = None
    workers: int | None = None
    skip_unreadable: bool = False

    @property
    def on_dask(self) -> bool:
        """Whether Dask's workers read the files."""
        return self.engine == "dask"

    def check(self) -> None:
        """Refuse options of Dask without it."""
        given = {
            "--scheduler": self.scheduler,
            "--workers": self.workers,
        }
        for name, value in given.items():
            if value is not None and not self.on_dask:
                raise OptionError(
                    f"{name} must go with --engine dask. Got it without. Add --engine dask, or "
                    f"leave it out."
                )


place_options = collected(
    Place,
    "place",
    (
        click.option(
            "--engine",
            type=Names(("local", "dask")),
            default="local",
            show_default=True,
            help="What reads VAL: this process, or Dask workers, one file each. With dask, "
            "VAL may be URLs, such as 's3://bucket/val-*.parquet'.",
        ),
        click.option(
            "--scheduler",
            metavar="ADDRESS",
            help="With --engine dask: a cluster, such as tcp://10.0.0.1:8786. Threads of this "
            "process, if not given.",
        ),
        click.option(
            "--workers",
            type=int,
            metavar="N",
            help="With --engine dask: start N worker processes on this machine.",
        ),
        skip_option(),
    ),
)


@click.command(
    "fit",
    cls=GroupedCommand,
    most_used=("kind", "counts", "metric", "subject_to", "output"),
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
    help="The class mix that the correction aims at. The metric is measured on VAL's own mix. "
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
    help="Save there what is counted, twice a minute at most: the same command continues after a "
    "kill. Removed once OUT is written.",
)
@place_options
@reading_options(labels=True)
@output_option("The calibrator, as JSON; - is standard output.")
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
    The printed metrics are measured on VAL itself: use evaluate to judge the result on other data.

    The corrected posterior is softmax((z + strength * w) / temperature), with the log-scores z of
    the model and w = log(target prior) - log(source prior). The temperature does
    not change any prediction. With --tune per_class, a bias per class replaces strength * w.

    VAL is read in blocks, so it may be larger than memory; --tune per_class, --cv, --bootstrap,
    --temperature bcts and vector, and --selection balanced_log_loss hold all of it in memory.
    """
    from reprior import engines
    from reprior.engines.checkpoints import Checkpoint

    place.check()
    _refuse_on_dask(place, checkpoint, resolution)
    skip = place.skip_unreadable

    def open_val(reading: Reading) -> ScoreFile:
        if place.on_dask:
            shard = first_shard(session, val, reading, skip=skip)
            return click.get_current_context().with_resource(shard)
        return open_to_fit(session, val, replace(reading, skip_unreadable=skip))

    scores, reading = open_counted(session, open_val, reading, counting, source_prior)
    counting = replace(
        counting,
        label_column=reading.label_column,
        labels_name=reading.labels_name,
        labels_as=reading.labels_as,
        ignore_index=reading.ignore_index,
    )
    read = (counting.counts, counting.counts_from_labels, counting.weights, source_prior)
    beside = (tuning.label_prior, tuning.cost_file, tuning.class_groups)
    more = (target_prior, *target_scores, *beside, reading.classes, *scores.label_paths)
    check_output(output, [*scores.paths, *read, *more])
    note_counts_of_tuning_labels(session, counting.counts_from_labels, scores)
    prior, names, _ = source_of(session, counting, source_prior, scores)
    target = target_prior_of(session, target_prior, target_scores, prior, names, scores, reading)
    calibrator = _calibrator(session, scores, (prior, target), names, tuning)
    saved = None if checkpoint is None else Checkpoint(checkpoint)
    if saved is not None:
        click.get_current_context().with_resource(saved)  # locked until its files are removed
    with session.progress("tuning", scores.n_samples) as progress:
        if place.on_dask:
            fit_on_dask(calibrator, val, reading, place, resolution=resolution, output=output)
        else:
            with (
                session.log_as_notes("reprior.engines.resuming"),
                _noting_the_checkpoint(checkpoint),
            ):
                engines.fit(
                    calibrator,
                    scores,
                    resolution=resolution,
                    checkpoint=saved,
                    progress=progress,
                )
    calibrator.save(output)
    if saved is not None:
        saved.remove()
    show_fit(session, calibrator, output)


@contextmanager
def _noting_the_checkpoint(checkpoint: str | None) -> Iterator[None]:
    """On Ctrl-C, note that the same command continues from the checkpoint, if it has anything."""
    from reprior.engines.checkpoints import Checkpoint

    try:
        yield
    except KeyboardInterrupt as error:
        if checkpoint is not None and not Checkpoint(checkpoint).is_empty:
            error.add_note(
                f"What was counted until the last save is in {checkpoint!r}: the same command "
                f"continues from there."
            )
        raise


def _refuse_on_dask(place: Place, checkpoint: str | None, resolution: Any) -> None:
    """Refuse options that only a fit in this process has."""
    given = {"--checkpoint": checkpoint is not None, "--resolution refine": resolution == "refine"}
    for name, is_given in given.items():
        if place.on_dask and is_given:
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
    metric = tuned_metric(tuning, scores.n_classes, names)
    groups = read_groups(tuning.class_groups)
    check_metrics(tuning, metric, groups, scores.n_classes, names)
    label_prior = None
    if tuning.label_prior is not None:
        label_prior, _ = read_prior_file(
            session, tuning.label_prior, "label prior", names, scores.n_classes
        )
    calibrator = PosteriorCalibrator(
        priors[0],
        target_prior=priors[1],
        metric=metric,
        class_groups=groups,
        subject_to=list(tuning.subject_to) or None,
        certify=tuning.certify,
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


@contextmanager
def first_shard(
    session: Session, val: Sequence[str], reading: Reading, *, skip: bool = False
) -> Iterator[ScoreFile]:
    """Open the first file that has rows, for the kind, classes and columns of all.

    ``skip`` skips files that cannot be read. A remote file is copied for as long as the block
    lasts.
    """
    from reprior.engines.dask_shards import expand_urls, nearby
    from reprior.files.chunks import UNREADABLE
    from reprior.files.formats.interface import NoRowsError

    urls = expand_urls(list(val), "val", {})
    labels: Sequence[str | None] = [None] * len(urls)
    if reading.labels is not None:
        labels = expand_urls(reading.labels, "labels", {})
    passed_by = UNREADABLE if skip else (NoRowsError,)
    pairs = list(zip(urls, labels, strict=False))
    for i, (url, label_url) in enumerate(pairs):
        with ExitStack() as copies:
            try:
                path, label_path = (copies.enter_context(nearby(each)) for each in (url, label_url))
                scores = open_to_fit(session, [str(path)], _with_labels(reading, label_path))
            except passed_by:
                if i == len(pairs) - 1:
                    raise
                continue
            yield scores
            return


def fit_on_dask(
    calibrator: PosteriorCalibrator,
    val: Sequence[str],
    reading: Reading,
    place: Place,
    *,
    resolution: Any,
    output: str,
) -> None:
    """Fit the calibrator on all files."""
    from reprior.engines.dask_engine import dask_fit
    from reprior.engines.dask_shards import expand_urls

    urls = expand_urls(list(val), "val", {})
    refuse_inputs([Path(output)], urls)
    dask_fit(
        calibrator,
        urls,
        labels=reading.labels,
        reading=_shard_options(reading, calibrator.kind),
        resolution=resolution,
        scheduler=place.scheduler,
        n_workers=place.workers,
        on_error="skip" if place.skip_unreadable else "raise",
    )


def _shard_options(reading: Reading, kind: str) -> ShardOptions:
    from reprior.engines.dask_shards import ShardOptions
    from reprior.files.text_files import as_class_names

    return ShardOptions(
        kind=kind,
        # Read in this process: the workers may not have the file.
        classes=reading.class_columns
        if reading.classes is None
        else as_class_names(reading.classes),
        label_column=reading.label_column,
        weight_column=reading.weight_column,
        ignore_index=reading.ignore_index,
        scores_name=reading.scores_name,
        labels_name=reading.labels_name,
        labels_as=reading.labels_as,
        class_axis=reading.class_axis,
    )


def _with_labels(reading: Reading, labels: Path | None) -> Reading:
    return replace(reading, labels=None if labels is None else (str(labels),))


MARK = "measured on the tuning data"

#: The log-loss of a fit is that to expect on the target's mix.
LOG_LOSS_ROW = "log_loss (target mix)"


def show_fit(session: Session, calibrator: PosteriorCalibrator, output: str) -> None:
    """Show the fitted maps and every metric before and after, or print them as JSON."""
    if calibrator.profile_ is None or calibrator.counts_ is None:
        raise NotFittedError("The calibrator must be fitted to be shown. It is not. Call fit.")
    before, after = calibrator.profile_.baseline, calibrator.counts_
    names = calibrator.classes_.tolist()
    note_no_strength(session, calibrator)
    if not is_log_loss(calibrator.metric):
        tuned = found_metric(calibrator)
        note_mix_of_the_metric(session, calibrator, tuned, before)
    note_costs_to_other_metrics(session, calibrator, before, after)
    metrics = counted_metrics(calibrator, before, after)
    if calibrator.log_loss_ is not None:
        metrics[LOG_LOSS_ROW] = calibrator.log_loss_
    recall = COUNT_METRICS["macro_recall"]
    changes = class_changes(
        names,
        before.support,
        recall.per_class(before),
        recall.per_class(after),
        title=f"recall of the classes that change most, {MARK}",
    )
    n_samples = int(
        before.n_labelled.sum() if before.n_labelled is not None else before.support.sum()
    )
    rules = calibrator.subject_to or ()
    session.say(
        *map_lines(calibrator, ", ties from {low} to {high}"),
        f"tuned for    {plain(tuned_for(calibrator))}",
        *(f"subject to   {plain(rule)}" for rule in rules),
        *map(plain, promise_lines(calibrator)),
        f"tuned on     {n_samples:,} samples of {before.n_classes:,} classes",
        *map(plain, trust_lines(calibrator)),
        "",
        before_after(metrics, title=MARK).rich(),
        "",
        changes.rich() if changes.rows else "No class's recall changes.",
    )
    session.done("", f"Written: {output}. Judge it on other data: reprior evaluate {output} TEST")
    session.result(_document(calibrator, metrics, changes, n_samples, output))


def _document(
    calibrator: PosteriorCalibrator,
    metrics: dict[str, tuple[float, float]],
    changes: Grid,
    n_samples: int,
    output: str,
) -> dict[str, Any]:
    named = {name.partition(" ")[0]: values for name, values in metrics.items()}
    return {
        "strength": calibrator.strength_,
        "interval": calibrator.strength_interval_,
        "temperature": calibrator.temperature_,
        **_vectors(calibrator._decision),
        **_beside(calibrator),
        "metric": metric_name(calibrator.metric),
        "subject_to": calibrator.subject_to or [],
        "certified": calibrator.certify if calibrator.certified_ else None,
        "best_score": calibrator.best_score_,
        "target_prior": calibrator.target_prior_,
        "n_samples": n_samples,
        "measured_on": "tuning data",
        "metrics": {name: {"before": a, "after": b} for name, (a, b) in named.items()},
        "recall_changes": [dict(zip(changes.columns, row, strict=True)) for row in changes.rows],
        "output": output,
    }


def _beside(calibrator: PosteriorCalibrator) -> dict[str, Any]:
    """Return the results of optional parts of the fit."""
    fields: dict[str, Any] = {}
    if calibrator.shrinkage_ is not None:
        fields["shrinkage"] = calibrator.shrinkage_
    other, folds = calibrator.probability_map_, calibrator.cross_validation_
    if other is not None:
        fields["probability_map"] = {
            "strength": other.strength,
            "temperature": other.temperature,
            **_vectors(other),
        }
    if folds is not None:
        fields["cross_validation"] = {
            "score": folds.score,
            "before": folds.baseline_score,
            "folds": folds.scores,
            "strengths": folds.strengths,
        }
    known = calibrator.uncertainty_
    if known is not None:
        fields["uncertainty"] = {
            "confidence": known.confidence,
            "strength": known.strength_interval,
            "value": known.value_interval,
            "gain": known.gain_interval,
        }
    return fields


def _vectors(score_map: ScoreMap) -> dict[str, Any]:
    vectors = {"biases": score_map.biases, "scales": score_map.scales}
    return {name: vector for name, vector in vectors.items() if vector is not None}
