"""``reprior fuse fit``: from the validation scores of several modalities to a fusion file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from reprior.calibrator.summary import counted_metrics, metric_name
from reprior.cli.caveats import (
    SOURCE_PRIOR_PAGE,
    note_costs_to_other_metrics,
    note_counts_of_tuning_labels,
    note_mix_of_the_metric,
)
from reprior.cli.fuse_inputs import (
    Modalities,
    as_calibrator,
    modalities_argument,
    named_files,
    open_to_tune,
)
from reprior.cli.inputs import source_of, target_prior_of
from reprior.cli.options import (
    PATH,
    Names,
    PriorChoice,
    Reading,
    collected,
    counts_options,
    output_option,
    reading_options,
    shows,
)
from reprior.cli.outputs import check_output
from reprior.cli.session import Session, plain, session_options
from reprior.cli.tables import Grid, before_after, class_changes
from reprior.core.fuse import RULES
from reprior.exceptions import OptionError
from reprior.fusion import ModalityFusion
from reprior.fusion.modality import FLATTEN_BY, MISSING, ORDERS, STRENGTHS
from reprior.metrics import COUNT_METRICS, find_metric
from reprior.profile.objective import Constraint

if TYPE_CHECKING:
    from reprior.metrics.counts import ClassCounts

__all__ = ["command"]

MARK = "measured on the tuning data; before is the fusion without a correction"

SEARCHED = {
    "exact": "exactly, over the continuum",
    "grid": "on a grid, refined at its best",
    "fixed": "not at all: the strength was given",
}


@dataclass(frozen=True)
class Fusing:
    """How modalities are fused, and what is tuned."""

    metric: str
    subject_to: tuple[str, ...]
    rule: str
    flatten: bool
    order: str
    flatten_by: str
    strengths: str
    strength: tuple[str, ...]
    bounds: tuple[float, float]
    missing: str


_FUSING = (
    click.option(
        "--metric",
        default="balanced_accuracy",
        show_default=True,
        metavar="NAME",
        help=f"What to maximise: {', '.join(COUNT_METRICS)}, mcc, gmean, worst_recall, "
        "macro_fbeta(2) and others (see the guide Which metric?), or one class's, such as "
        "'recall[cat]'.",
    ),
    click.option(
        "--subject-to",
        multiple=True,
        metavar="RULE",
        help="A constraint, such as 'mean_iou >= baseline - 0.005'. Repeatable.",
    ),
    click.option(
        "--rule", type=Names(RULES), default="noisy_or", show_default=True, help="How to fuse."
    ),
    click.option(
        "--flatten/--no-flatten",
        default=True,
        show_default=True,
        help="Whether to flatten a modality where it is less sure than on these samples.",
    ),
    click.option(
        "--order",
        type=Names(ORDERS),
        default="rebalance_first",
        show_default=True,
        help="What is done first. flatten_first is the paper's: there a flattened modality is "
        "corrected the more.",
    ),
    click.option(
        "--flatten-by",
        type=Names(FLATTEN_BY),
        default="image",
        show_default=True,
        help="Whether a map is flattened as a whole, or each pixel by itself.",
    ),
    click.option(
        "--strengths",
        type=Names(STRENGTHS),
        default="shared",
        show_default=True,
        help="Tune one strength for all, or one per modality.",
    ),
    click.option(
        "--strength",
        multiple=True,
        metavar="NUMBER|NAME=NUMBER",
        help="Do not tune: one number for all, or one per modality, repeated. Needs no labels.",
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
        "--missing",
        type=Names(MISSING),
        default="error",
        show_default=True,
        help="What apply does about a modality that is not given.",
    ),
)

_fusing_options = collected(Fusing, "fusing", _FUSING)


@click.command(
    "fit",
    short_help="Tune a fusion on labelled scores.",
    epilog=shows(
        "reprior demo -o demo      # writes the files used here; one model stands for two",
        "reprior fuse fit rgb=demo/val.csv depth=demo/val.csv --counts demo/counts.json \\",
        "    --kind logits -o fusion.json",
    ),
)
@modalities_argument
@counts_options(labels=False)
@click.option(
    "--source-prior",
    type=PATH,
    metavar="FILE",
    help="The prior itself, instead of counts: what the models saw in training.",
)
@click.option(
    "--target-prior",
    default="uniform",
    show_default=True,
    metavar="uniform|FILE",
    help="The class mix that the correction aims at.",
)
@_fusing_options
@reading_options(labels=True)
@output_option("The fusion, as JSON; - is standard output.")
@session_options
def command(
    session: Session,
    modalities: Sequence[str],
    counting: PriorChoice,
    source_prior: str | None,
    target_prior: str,
    reading: Reading,
    fusing: Fusing,
    output: str,
) -> None:
    """Tune a fusion on labelled validation scores, a file per modality.

    NAME=FILE names a modality and its score file, or a quoted pattern such as 'rgb=val-*.npz'; the
    name ends at the first =. The rows of all files are the same samples in the same order. Labels
    are read from the first file that has some, or from --labels. The class counts are those of the
    training data.

    Rows of tables, and maps of arrays, are images. A modality is flattened where its posteriors
    have more entropy than on these; the correction is tuned on the fused decision. What is printed
    is measured on the same samples: judge the result on others, with fuse evaluate.
    """
    named = named_files(modalities)
    fixed = _strengths(fusing.strength, named)
    inputs = open_to_tune(session, named, reading, counting, source_prior, needed=fixed is None)
    scores = inputs.first
    counting = replace(
        counting,
        label_column=reading.label_column,
        labels_name=reading.labels_name,
        labels_as=reading.labels_as,
        ignore_index=reading.ignore_index,
    )
    read = (counting.counts, counting.counts_from_labels, counting.weights, source_prior)
    check_output(output, [*inputs.paths, *read, target_prior, reading.classes])
    note_counts_of_tuning_labels(session, counting.counts_from_labels, scores)
    prior, names, _ = source_of(session, counting, source_prior, scores)
    _refuse_estimate(target_prior)
    target = target_prior_of(session, target_prior, (), prior, names, scores, reading)
    _refuse_metrics(fusing.metric, fusing.subject_to, scores.n_classes, names)
    fusion = ModalityFusion(
        prior,
        target_prior=target,
        metric=fusing.metric,
        subject_to=list(fusing.subject_to) or None,
        rule=fusing.rule,
        flatten=fusing.flatten,
        order=fusing.order,
        flatten_by=fusing.flatten_by,
        strengths=fusing.strengths,
        strength=fixed,
        bounds=fusing.bounds,
        missing=fusing.missing,
        classes=names,
        kind=str(scores.kind),
        class_axis=scores.class_axis,
        ignore_index=scores.ignore_index,
    )
    _fit(session, fusion, inputs)
    fusion.save(output)
    _show(session, fusion, output)


def _fit(session: Session, fusion: ModalityFusion, inputs: Modalities) -> None:
    """Fit on as many passes over the files as needed; keep the digest of the data."""
    seen: list[dict[str, Any]] = []
    with session.progress("tuning", inputs.first.n_samples) as progress:
        fusion.fit_stream(lambda: _pass(inputs, progress, seen))
    fusion.provenance_ = seen[0]


def _pass(
    inputs: Modalities, progress: Callable[[int], None], seen: list[dict[str, Any]]
) -> Iterator[tuple[dict[str, Any], Any, Any]]:
    """Yield one pass; the first complete one keeps its fingerprint."""
    fingerprint = None if seen else inputs.fingerprint()
    for chunks, labels, weight in inputs.chunks():
        if fingerprint is not None:
            fingerprint(chunks, labels)
        progress(next(iter(chunks.values())).stop)
        yield {name: chunk.scores for name, chunk in chunks.items()}, labels, weight
    if fingerprint is not None:
        seen.append({"digest": fingerprint.value, "n_samples": fingerprint.n_samples})


def _strengths(given: Sequence[str], named: dict[str, str]) -> Any:
    """Return the strength that --strength gives: a number, a number per modality, or None."""
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return _number(given[0])
    strengths: dict[str, float] = {}
    for word in given:
        name, sign, number = word.partition("=")
        if not sign or name not in named or name in strengths:
            raise OptionError(
                f"--strength must be one number, or NAME=NUMBER once for every modality, "
                f"{', '.join(named)}. Got {word!r}. Write for example "
                f"--strength {next(iter(named))}=0.5."
            )
        strengths[name] = _number(number)
    absent = [name for name in named if name not in strengths]
    if absent:
        raise OptionError(
            f"--strength must give a number for every modality. Got none for {absent[0]!r}. Add "
            f"--strength {absent[0]}=0.5."
        )
    return strengths


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise OptionError(
            f"--strength must be a number. Got {text!r}. Write for example --strength 0.5."
        ) from error


def _refuse_estimate(choice: str) -> None:
    if choice == "estimate":
        raise OptionError(
            "--target-prior must be uniform or a file. Got estimate, which is for one model. "
            "Estimate it from one modality: reprior prior estimate SCORES -o target.json."
        )


def _refuse_metrics(
    metric: str, rules: Sequence[str], n_classes: int, names: list[Any] | None
) -> None:
    """Refuse a metric or rule before any data are read."""
    find_metric(metric, n_classes=n_classes, classes=names)
    for rule in Constraint.parse_all(list(rules)):
        rule.resolved(n_classes=n_classes, classes=names)


def _show(session: Session, fusion: ModalityFusion, output: str) -> None:
    measured = fusion._counts
    if measured is None:  # a strength that is given needs no labels
        session.say(f"fused by     {_how(fusion)}", f"searched     {SEARCHED[fusion.search_]}", "")
        session.say(_modality_grid(fusion).rich())
        session.note("the files have no labels: the references were taken and nothing measured")
    metrics, n = _show_measured(session, fusion, *measured) if measured else ({}, 0)
    example = " ".join(f"{plain(name)}=TEST" for name in fusion.modalities_)
    session.done(
        "", f"Written: {output}. Judge it on other data: reprior fuse evaluate {output} {example}"
    )
    session.result(_document(fusion, metrics, n, output))


def _show_measured(
    session: Session, fusion: ModalityFusion, before: ClassCounts, after: ClassCounts
) -> tuple[dict[str, tuple[float, float]], int]:
    """Show every metric before and after; return them with the number of labels."""
    names = fusion.classes_.tolist()
    tuned = find_metric(fusion.metric, n_classes=len(names), classes=names)
    note_mix_of_the_metric(session, as_calibrator(fusion), tuned, before)
    if fusion.search_ != "fixed" and not tuned(after) > tuned(before):
        session.note(
            f"no strength does better than 0, the models as they are: check that the counts are in "
            f"the order of the scores; see {SOURCE_PRIOR_PAGE}"
        )
    if fusion.search_ != "fixed":
        note_costs_to_other_metrics(session, fusion, before, after)
    metrics = counted_metrics(fusion, before, after)
    recall = COUNT_METRICS["macro_recall"]
    changes = class_changes(
        names,
        before.support,
        recall.per_class(before),
        recall.per_class(after),
        title="recall of the classes that change most, measured on the tuning data",
    )
    n = int(before.n_labelled.sum() if before.n_labelled is not None else before.support.sum())
    session.say(
        f"fused by     {_how(fusion)}",
        f"tuned for    {plain(metric_name(fusion.metric))}",
        *(f"subject to   {plain(rule)}" for rule in fusion.subject_to or ()),
        f"searched     {SEARCHED[fusion.search_]}",
        f"tuned on     {n:,} labels of {before.n_classes:,} classes",
        "",
        _modality_grid(fusion).rich(),
        "",
        before_after(metrics, title=MARK).rich(),
        "",
        changes.rich() if changes.rows else "No class's recall changes.",
    )
    return metrics, n


def _how(fusion: ModalityFusion) -> str:
    if not fusion.flatten:
        return f"{fusion.rule}, not flattened"
    return f"{fusion.rule}, flattened by {fusion.flatten_by}, {fusion.order.replace('_', ' ')}"


def _modality_grid(fusion: ModalityFusion) -> Grid:
    """Return a row per modality: its strength and its entropy reference."""
    known = fusion.references_
    rows: list[tuple[Any, ...]] = [
        (
            plain(name),
            fusion.strengths_[name],
            *((known[name].mean, known[name].std) if name in known else ()),
        )
        for name in fusion.modalities_
    ]
    heads = ("modality", "strength", "entropy mean", "entropy std")
    return Grid(heads if known else heads[:2], rows, "entropy in nats" if known else "")


def _document(
    fusion: ModalityFusion, metrics: dict[str, tuple[float, float]], n: int, output: str
) -> dict[str, Any]:
    return {
        "strengths": fusion.strengths_,
        "search": fusion.search_,
        "metric": metric_name(fusion.metric),
        "subject_to": fusion.subject_to or [],
        "best_score": fusion.best_score_,
        "rule": fusion.rule,
        "order": fusion.order,
        "flatten": fusion.flatten,
        "flatten_by": fusion.flatten_by,
        "entropy": {
            name: {"mean": known.mean, "std": known.std}
            for name, known in fusion.references_.items()
        },
        "n_samples": n,
        "measured_on": "tuning data",
        "metrics": {name: {"before": a, "after": b} for name, (a, b) in metrics.items()},
        "output": output,
    }
