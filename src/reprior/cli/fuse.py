"""``reprior fuse``: one posterior from those of several models, row by row."""

from __future__ import annotations

import copy
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.measure import Measurement

from reprior.calibrator import PosteriorCalibrator
from reprior.calibrator.encoding import is_range
from reprior.cli import fuse_fit
from reprior.cli.apply import decide
from reprior.cli.evaluate import FORMATS, SAID, SAME
from reprior.cli.fuse_inputs import (
    Modalities,
    aligned,
    load_fusion,
    modalities_argument,
    named_files,
    open_known,
    refuse_other_rows,
)
from reprior.cli.inputs import few, load_calibrator, open_for, open_to_fit, shown_paths
from reprior.cli.messages import Failure, SentenceGroup, sentence_of
from reprior.cli.options import (
    PATH,
    Names,
    Reading,
    output_option,
    reading_options,
    scores_argument,
    shows,
)
from reprior.cli.outputs import check_output
from reprior.cli.session import Session, plain, session_options
from reprior.cli.tables import CHANGE, Grid
from reprior.core.arrays import namespace
from reprior.core.binary import is_single_score, log_columns
from reprior.core.flatten import EntropyReference, flatten, flattening_factor, image_entropy
from reprior.core.fuse import RULES, fuse
from reprior.core.score_map import ScoreMap
from reprior.exceptions import OptionError, RepriorError, ScoresError
from reprior.fusion.modality import MISSING, ORDERS
from reprior.metrics.count_metrics import COUNT_METRICS, CountMetric, find_metric
from reprior.metrics.counts import ClassCounts

if TYPE_CHECKING:
    from reprior.files.chunks import Chunk
    from reprior.files.scores import ScoreFile
    from reprior.fusion import ModalityFusion

__all__ = ["aligned", "command", "missing_option"]

NONE = "none"

#: What to do about files of other classes.
SAME_CLASSES = "Score the same classes with each model."
SAME_NAMES = "Name them alike with --classes."


class _FilesOrCommand(SentenceGroup):
    """A command on files that is also a group: the first word may name a subcommand."""

    allow_interspersed_args = True
    allow_extra_args = False

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a subcommand, or this command where none is named."""
        return super().get_command(ctx, cmd_name) if cmd_name else self

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the arguments and options of this command; a subcommand has others."""
        return super().get_params(ctx) if ctx.command is self else []

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return what the command itself takes."""
        return click.Command.collect_usage_pieces(self, ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave everything to a subcommand, if one is named first."""
        if args and args[0] in self.commands:
            ctx.args = list(args)
            return ctx.args
        return click.Command.parse_args(self, ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand, or this command; an error becomes a sentence."""
        if not ctx.args:
            return super().invoke(ctx)
        name, *args = ctx.args
        command = self.commands[name]
        with ctx:
            ctx.invoked_subcommand = name
            try:
                with command.make_context(name, args, parent=ctx) as context:
                    return command.invoke(context)
            except BrokenPipeError:
                raise
            except (RepriorError, OSError, MemoryError) as error:
                raise Failure(sentence_of(error, command)) from error


@click.group(
    "fuse",
    cls=_FilesOrCommand,
    invoke_without_command=True,
    epilog=shows(
        "reprior demo -o demo      # writes the files used here",
        "reprior fuse demo/test.csv demo/test.csv --kind logits --rule mean -o fused.csv",
    ),
)
@scores_argument("scores")
@click.option(
    "--rule", type=Names(RULES), default="noisy_or", show_default=True, help="How to fuse."
)
@click.option(
    "--calibrator",
    "calibrators",
    type=PATH,
    multiple=True,
    metavar="CAL",
    help="Correct an input by what fit wrote: once per input and in their order, or 'none'.",
)
@click.option(
    "--flatten",
    "references",
    type=PATH,
    multiple=True,
    metavar="VAL",
    help="Flatten an input where its model is less sure than on these scores of known data: once "
    "per input and in their order, or 'none'.",
)
@click.option(
    "--order",
    type=Names(ORDERS),
    default="rebalance_first",
    show_default=True,
    help="What is done first to an input that is flattened and corrected. flatten_first is the "
    "paper's: the correction then weighs more in a flattened input.",
)
@reading_options(labels=False)
@output_option(
    "Where to write: arrays posterior and prediction, or columns; - is standard output, for csv."
)
@session_options
def command(
    session: Session,
    scores: Sequence[str],
    rule: str,
    calibrators: Sequence[str],
    references: Sequence[str],
    order: str,
    reading: Reading,
    output: str,
) -> None:
    """Fuse the posteriors of several models on the same samples.

    SCORES are two or more files, one per model or modality, whose rows are the same samples in the
    same order. Labels, or ids under one name, that differ are an error. Each input is corrected
    (--calibrator) and flattened (--flatten) by how unsure its model is without a correction, and
    then fused with the others. Files are read in pieces, so they may be larger than memory.

    The commands below do more: fuse fit tunes one correction on the fused decision, and fuse apply
    and fuse evaluate use it. A file that has the name of one of them is written with its folder,
    ./fit.
    """
    from reprior.files.output import open_output

    _refuse_words(scores)
    if len(scores) < 2:
        raise OptionError(
            f"SCORES must be two files or more, one per model. Got {len(scores)}. Name the others."
        )
    maps = _per_input("--calibrator", calibrators, len(scores))
    known = _per_input("--flatten", references, len(scores))
    inputs = _open(session, scores, maps, known, reading)
    first = inputs[0].file
    check_output(
        output, [*scores, *maps, *known, reading.classes], store=True, text=first.format == "csv"
    )
    refuse_other_rows([each.file for each in inputs])
    done = 0
    with (
        session.progress("fusing", first.n_samples) as progress,
        open_output(output, like=first, classes=first.class_names) as writer,
    ):
        for chunks in aligned([each.file for each in inputs]):
            posteriors = [each.posterior(c, order) for each, c in zip(inputs, chunks, strict=True)]
            fused = fuse(posteriors, rule=rule, class_axis=_axis(posteriors[0], first))
            index = decide(fused, n_classes=first.n_classes, class_axis=_axis(fused, first))
            writer.write(chunks[0], fused, index)
            done += len(chunks[0])
            progress(done)
    for sentence in writer.notes:
        session.note(sentence)
    session.done(f"Written: {output}, {done:,} samples of {len(inputs)} inputs")
    session.result({"output": output, "n_samples": done, "rule": rule})


def _refuse_words(scores: Sequence[str]) -> None:
    """Refuse arguments of subcommands where files must be."""
    for word in scores:
        if Path(word).exists():
            continue
        if word in command.commands:
            raise OptionError(
                f"The name of a command must come first. Got {word!r} behind options or files, and "
                f"there is no such file. Write: reprior fuse {word} …"
            )
        if "=" in word:
            raise OptionError(
                f"SCORES must be files. Got {word!r}, which does not exist. Files have names in "
                f"fuse fit, fuse apply and fuse evaluate: write one of these first, or the files "
                f"alone."
            )


class _Input:
    """One model's scores, its calibrator and its entropy reference."""

    def __init__(
        self,
        file: ScoreFile,
        calibrator: PosteriorCalibrator | None,
        reference: EntropyReference | None,
    ) -> None:
        self.file, self.calibrator, self.reference = file, calibrator, reference

    def posterior(self, chunk: Chunk, order: str) -> Any:
        """Flatten and correct in the given order; the entropy is that of the uncorrected model."""
        scores, kind, axis = chunk.scores, str(self.file.kind), self.file.class_axis
        if scores.ndim == 1:
            scores, axis = scores[:, None], -1
        if self.reference is None:
            return self._corrected(scores, kind, axis)
        if self.calibrator is None or order == "flatten_first":
            flat = flatten(scores, self.reference, kind=kind, class_axis=axis)
            return self._corrected(flat, "logits", axis)
        delta = flattening_factor(scores, self.reference, kind=kind, class_axis=axis)
        return _flattened(self._corrected(scores, kind, axis, log=True), delta, axis)

    def _corrected(self, scores: Any, kind: str, axis: int, *, log: bool = False) -> Any:
        """Return the calibrator's posterior or its logarithm; without one, the model's own."""
        cal = self.calibrator
        if cal is None:
            return ScoreMap(0.0).posterior(
                scores, *_uniform(self.file.n_classes), kind=kind, class_axis=axis, log=log
            )
        decision = ScoreMap(cal.strength_, cal.temperature_, cal.biases_, cal.scales_)
        score_map = decision if cal.probability_map_ is None else cal.probability_map_
        return score_map.posterior(
            scores, cal.source_prior_, cal.target_prior_, kind=kind, class_axis=axis, log=log
        )


def _flattened(log_p: Any, delta: Any, axis: int) -> Any:
    """softmax(δ·log p), with a δ per image; one score of two classes stays one."""
    axis %= log_p.ndim
    columns = log_columns(log_p, "log_probs", axis=axis, xp=namespace(log_p))
    shape = [1] * columns.ndim
    shape[1 if axis == 0 else 0] = -1
    scaled = columns * delta.astype(columns.dtype).reshape(shape)
    posterior = ScoreMap(0.0).posterior(
        scaled, *_uniform(columns.shape[axis]), kind="logits", class_axis=axis
    )
    return posterior if log_p.shape[axis] > 1 else np.take(posterior, [1], axis=axis)


def _uniform(n: int) -> tuple[Any, Any]:
    """Return uniform source and target priors, which correct nothing."""
    return np.full(n, 1 / n), np.full(n, 1 / n)


def _per_input(option: str, given: Sequence[str], n: int) -> list[str | None]:
    if given and len(given) != n:
        raise OptionError(
            f"{option} must be given once per input, {n} times, or not at all. Got {len(given)}. "
            f"Write {option} none for an input without."
        )
    return [None if path == NONE else path for path in given] or [None] * n


def _open(
    session: Session,
    paths: Sequence[str],
    calibrators: Sequence[str | None],
    references: Sequence[str | None],
    reading: Reading,
) -> list[_Input]:
    """Open every input with the classes of the first."""
    inputs: list[_Input] = []
    for path, cal, known in zip(paths, calibrators, references, strict=True):
        file, calibrator = _open_one(session, path, cal, reading, inputs)
        reference = None
        if known is not None:
            reference = _reference(session, known, file, reading)
        inputs.append(_Input(file, calibrator, reference))
    counts = {each.file.n_samples for each in inputs} - {None}
    if len(counts) > 1:
        shown = ", ".join(f"{e.file.n_samples} in {str(e.file.paths[0])!r}" for e in inputs)
        raise ScoresError(
            f"SCORES must have the same rows. Got {shown}. Score the same samples with every model."
        )
    return inputs


def _open_one(
    session: Session, path: str, cal: str | None, reading: Reading, before: Sequence[_Input]
) -> tuple[ScoreFile, PosteriorCalibrator | None]:
    """Open an input, with the classes of its calibrator, or else of the first input."""
    calibrator = None if cal is None else load_calibrator(cal)
    first = before[0].file if before else None
    names = None if first is None else first.class_names
    if calibrator is not None:
        file = open_for(calibrator, session, [path], reading, labelled=False)
    else:
        file = open_to_fit(session, [path], reading, labelled=False, names=names)
    if first is not None and (
        file.n_classes != first.n_classes
        or (names is not None and file.class_names not in (None, names))
    ):
        raise ScoresError(
            f"SCORES must be of the same classes in the same order. Got {_classes(file)} in "
            f"{shown_paths(file)} and {_classes(first)} in {shown_paths(first)}. "
            f"{SAME_CLASSES if file.n_classes != first.n_classes else SAME_NAMES}"
        )
    return file, calibrator


def _classes(file: ScoreFile) -> str:
    """Return the number of classes of a file, and their names where it has names."""
    names = "" if not file.class_names else f" ({few(file.class_names)})"
    return f"{file.n_classes} classes{names}"


def _reference(session: Session, path: str, like: ScoreFile, reading: Reading) -> EntropyReference:
    """Return a model's entropy reference on known data, from one pass over a file."""
    known = open_to_fit(
        session, [path], replace(reading, kind=like.kind), labelled=False, names=like.class_names
    )
    if known.n_classes != like.n_classes:
        raise ScoresError(
            f"--flatten must name scores of the input's {like.n_classes} classes. "
            f"Got {known.n_classes} in {path!r}. Give validation scores of the same model."
        )
    with session.progress("reading what is known", known.n_samples) as progress:
        entropies = []
        for chunk in known.chunks():
            scores = chunk.scores if chunk.scores.ndim > 1 else chunk.scores[:, None]
            entropies.append(
                image_entropy(scores, kind=str(known.kind), class_axis=known.class_axis)
            )
            progress(chunk.stop)
    entropy = np.concatenate(entropies)
    return EntropyReference(mean=float(entropy.mean()), std=float(entropy.std()))


def _axis(posterior: Any, file: ScoreFile) -> int:
    return file.class_axis if posterior.ndim > 2 else -1


missing_option = click.option(
    "--missing",
    type=Names(MISSING),
    help="What to do about a modality that is not given: refuse, or fuse the others without it. By "
    "default what fuse fit was given.",
)


@click.command(
    "apply",
    short_help="Write fused probabilities and predictions.",
    epilog=shows(
        "reprior demo -o demo      # writes the files used here; one model stands for two",
        "reprior fuse fit rgb=demo/val.csv depth=demo/val.csv --counts demo/counts.json \\",
        "    --kind logits -o fusion.json",
        "reprior fuse apply fusion.json rgb=demo/test.csv depth=demo/test.csv -o fused.csv",
    ),
)
@click.argument("fusion", type=PATH)
@modalities_argument
@missing_option
@reading_options(labels=False)
@output_option(
    "Where to write: arrays posterior and prediction, or columns; - is standard output, for csv."
)
@session_options
def apply_command(
    session: Session,
    fusion: str,
    modalities: Sequence[str],
    missing: str | None,
    reading: Reading,
    output: str,
) -> None:
    """Write the fused probabilities and predictions of several modalities.

    FUSION is what fuse fit wrote, and NAME=FILE a score file for each of its modalities, whose rows
    are the same samples in the same order: labels, or ids under one name, that differ are an error.
    Files are read and written in pieces, so they may be larger than memory. The output is as that
    of apply, in the format of the first file unless OUT's extension says another.
    """
    from reprior.files.output import open_output

    named = named_files(modalities)
    model = load_fusion(fusion, missing)
    modality_files = open_known(session, model, named, reading, labelled=False)
    inputs = [fusion, reading.classes, *modality_files.paths]
    check_output(output, inputs, store=True, text=modality_files.first.format == "csv")
    first, n_classes, done = modality_files.first, model.source_prior_.size, 0
    names = None if is_range(model.classes_) else model.classes_.tolist()
    with (
        session.progress("fusing", first.n_samples) as progress,
        open_output(output, like=first, classes=names or first.class_names) as writer,
    ):
        for chunks, _, _ in modality_files.chunks():
            posterior = model.predict_proba({name: c.scores for name, c in chunks.items()})
            index = decide(posterior, n_classes=n_classes, class_axis=model.class_axis)
            chunk = next(iter(chunks.values()))
            writer.write(chunk, posterior, index)
            done += len(chunk)
            progress(done)
    for sentence in writer.notes:
        session.note(sentence)
    absent = [name for name in model.modalities_ if name not in named]
    if absent:
        session.note(f"fused without {', '.join(absent)}, of which no file was given")
    several = "modality" if len(named) == 1 else "modalities"
    session.done(f"Written: {output}, {done:,} samples of {len(named)} {several}")
    session.result({"output": output, "n_samples": done, "modalities": list(named)})


SHOWN = ("accuracy", "balanced_accuracy", "mean_iou", "macro_precision", "macro_f1")
"""Count metrics that are always shown."""

BEFORE, AFTER = "before", "after"

UNBOUNDED = 10_000
"""A width at which no table is cut."""

HEAD = 10
"""Characters in a line of a transposed table's heads."""


@click.command(
    "evaluate",
    short_help="Compare modalities, fusion and correction.",
    epilog=shows(
        "reprior demo -o demo      # writes the files used here; one model stands for two",
        "reprior fuse fit rgb=demo/val.csv depth=demo/val.csv --counts demo/counts.json \\",
        "    --kind logits -o fusion.json",
        "reprior fuse evaluate fusion.json rgb=demo/test.csv depth=demo/test.csv",
    ),
)
@click.argument("fusion", type=PATH)
@modalities_argument
@click.option(
    "--format",
    "style",
    type=Names(FORMATS),
    default="table",
    show_default=True,
    help="How to print the result.",
)
@missing_option
@reading_options(labels=True)
@session_options
def evaluate_command(
    session: Session,
    fusion: str,
    modalities: Sequence[str],
    style: str,
    missing: str | None,
    reading: Reading,
) -> None:
    """Compare each modality alone, their fusion, and its correction on labelled scores.

    FUSION is what fuse fit wrote, and NAME=FILE a score file for each of its modalities; labels are
    read from the first that has some, or from --labels. They should be other data than the fusion
    was tuned on. Where they are the same, the result says so.

    A modality's column is its model as it is; before is the fusion without a correction, after the
    one with it. On a narrow terminal the table is turned, with a row for each of them. JSON is
    {metric: {NAME: …, "before": …, "after": …}}.
    """
    session.json = session.json or style == "json"
    named = named_files(modalities)
    model = load_fusion(fusion, missing)
    modality_files = open_known(session, model, named, reading, labelled=True)
    with session.progress("evaluating", modality_files.first.n_samples) as progress:
        counts, tuned_on = _counts(model, modality_files, progress)
    if tuned_on:
        session.note(SAME.replace("calibrator", "fusion"))
    metrics = _metrics(model)
    values = {
        name: {side: metric(each) for side, each in counts.items()}
        for name, metric in metrics.items()
    }
    if session.json:
        session.result(values, notes=False)
        return
    n_samples = int(_labels(counts[AFTER]).sum())
    grid = _grid(values, f"measured on {n_samples:,} labels: {SAID[tuned_on]}")
    if style == "csv":
        session.say(grid.csv())
    else:
        session.say(grid.markdown() if style == "markdown" else _Fitting(grid))


def _counts(
    model: ModalityFusion, modalities: Modalities, progress: Any
) -> tuple[dict[str, ClassCounts], bool | None]:
    """Count decisions in one pass; return also whether these are the tuning data."""
    plain_model = copy.copy(model)
    plain_model.strengths_ = dict.fromkeys(model.strengths_, 0.0)
    n_classes = model.source_prior_.size
    mark = modalities.fingerprint()
    total: dict[str, ClassCounts] = {}
    for chunks, labels, weight in modalities.chunks():
        mark(chunks, labels)
        scores = {name: chunk.scores for name, chunk in chunks.items()}
        decided = {_column(n): _alone(z, model) for n, z in scores.items()}
        decided |= {BEFORE: _index(plain_model, scores), AFTER: _index(model, scores)}
        keep = (
            np.ones(labels.shape, bool)
            if model.ignore_index is None
            else (labels != model.ignore_index)
        )
        if weight is not None:
            keep &= weight > 0
        progress(next(iter(chunks.values())).stop)
        if not keep.any():
            continue
        kept_weight = None if weight is None else weight[keep]
        for side, index in decided.items():
            new = ClassCounts.from_predictions(
                labels[keep],
                index.reshape(labels.shape)[keep],
                n_classes=n_classes,
                sample_weight=kept_weight,
            )
            total[side] = total[side] + new if side in total else new
    if not total:
        raise OptionError(
            "Some labels must be left to count. Got labels that are all ignored, or of weight 0. "
            "Check --ignore-index and --weight-column."
        )
    known = model.provenance_
    return total, None if not known else mark.recognised(str(known.get("digest")))


def _column(name: str) -> str:
    """Return a unique head for a modality's column."""
    return f"{name} alone" if name in (BEFORE, AFTER, CHANGE, "metric") else plain(name)


def _alone(scores: Any, model: ModalityFusion) -> Any:
    """Return the decisions of one uncorrected model; flattening does not change them."""
    if not is_single_score(scores.shape, model.source_prior_.size, model.class_axis):
        return np.argmax(scores, axis=model.class_axis)
    middle = {"logits": 0.0, "probs": 0.5, "log_probs": np.log(0.5)}[model.kind]
    return (scores > middle).astype(np.int64)


def _index(model: ModalityFusion, scores: dict[str, Any]) -> Any:
    """Return the fused decisions as class indices."""
    indexed_model = copy.copy(model)
    indexed_model.classes_ = np.arange(model.source_prior_.size)
    return indexed_model.predict(scores)


def _labels(counts: ClassCounts) -> Any:
    return counts.support if counts.n_labelled is None else counts.n_labelled


def _metrics(model: ModalityFusion) -> dict[str, CountMetric]:
    names = model.classes_.tolist()
    metrics = {name: COUNT_METRICS[name] for name in SHOWN}
    tuned = find_metric(model.metric, n_classes=len(names), classes=names)
    metrics.setdefault(tuned.name, tuned)
    if tuned.name in ("mean_accuracy", "macro_recall"):  # balanced_accuracy by another name
        del metrics[tuned.name]
    return metrics


def _grid(values: dict[str, dict[str, float]], title: str) -> Grid:
    sides = list(next(iter(values.values())))
    rows = [
        (name, *(of[side] for side in sides), of[AFTER] - of[BEFORE]) for name, of in values.items()
    ]
    return Grid(("metric", *sides, CHANGE), rows, title)


@dataclass(frozen=True)
class _Fitting:
    """A table of metrics that is transposed, and split, where the terminal is narrow."""

    grid: Grid

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Return the tables that fit the width of the console."""
        unbounded = options.update_width(UNBOUNDED)

        def fits(grid: Grid) -> bool:
            table = replace(grid, title="").rich()
            return Measurement.get(console, unbounded, table).maximum <= options.max_width

        if fits(self.grid):
            yield self.grid.rich()
            return
        for n in range(len(self.grid.rows), 0, -1):
            tables = _turned(self.grid, n)
            if all(map(fits, tables)):
                break
        yield Group(*(part for table in tables for part in (table.rich(), "")))


def _turned(grid: Grid, n: int) -> list[Grid]:
    """Tables of ``n`` metrics, a row for every model, the fusion and the change.

    Heads of several lines keep them narrow.
    """
    tables = []
    for start in range(0, len(grid.rows), n):
        part = grid.rows[start : start + n]
        heads = (str(row[0]).replace("_", " ").replace("[", " [") for row in part)
        rows: list[tuple[Any, ...]] = []
        for i, side in enumerate(grid.columns[1:], start=1):
            values = [row[i] for row in part]
            rows.append((side, *(map(_signed, values) if side == CHANGE else values)))
        columns = (" ".join(textwrap.wrap(head, HEAD)) for head in heads)
        tables.append(Grid(("model", *columns), rows, "" if start else grid.title))
    return tables


def _signed(value: float) -> str:
    """Return a change, formatted as in the table that is not transposed."""
    if value != value:
        return "–"
    return f"{value:+.4f}" if round(value, 4) else f"{0:.4f}"


command.add_command(fuse_fit.command)
command.add_command(apply_command)
command.add_command(evaluate_command)
