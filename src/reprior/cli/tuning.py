"""What ``reprior fit`` can be asked to tune, as options collected into one object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from reprior.calibrator.options import LOG_LOSS, is_log_loss
from reprior.cli.options import PATH, Names, collected
from reprior.core.scaling import SCALINGS
from reprior.metrics.count_metrics import COUNT_METRICS, find_metric
from reprior.profile.objective import Constraint
from reprior.tuning.problem import DEFAULT_SELECTION, TUNED
from reprior.tuning.selection import RULES

__all__ = ["NumberOr", "Tuning", "check_metrics", "tuning_options"]

Command = TypeVar("Command", bound=Callable[..., Any])


class NumberOr(click.ParamType[Any]):
    """A number, or one of some words, each of which stands for a value."""

    def __init__(self, **words: Any) -> None:
        self.name, self.words = "number", words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what the word stands for, or a float."""
        if not isinstance(value, str):
            return value
        if value.lower() in self.words:
            return self.words[value.lower()]
        try:
            return float(value)
        except ValueError:
            known = " or ".join(map(repr, self.words))
            return self.fail(f"{value!r} is neither {known} nor a number.", param, ctx)


@dataclass(frozen=True)
class Tuning:
    """What is tuned, and how: options of a calibrator, but for the label prior, which is a file."""

    metric: str = "balanced_accuracy"
    subject_to: Sequence[str] = ()
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
    return [name for name in (*COUNT_METRICS, LOG_LOSS) if name.startswith(incomplete)]


_OPTIONS = (
    click.option(
        "--metric", default="balanced_accuracy", show_default=True, metavar="NAME",
        shell_complete=_complete_metric,
        help=f"What to maximise: {', '.join(COUNT_METRICS)}, or one class's, such as "
        "'recall[cat]'. log_loss instead fits strength and temperature together, for honest "
        "probabilities.",
    ),
    click.option(
        "--subject-to", multiple=True, metavar="RULE",
        help="A constraint, such as 'mean_iou >= baseline - 0.005'. Repeatable.",
    ),
    click.option(
        "--tune", type=Names(TUNED), default="strength", show_default=True,
        help="One strength for all classes; or per_class, from there on a bias for every class.",
    ),
    click.option(
        "--selection", type=Names(RULES), default=DEFAULT_SELECTION, show_default=True,
        help="How the strength is chosen: max is best on VAL; the others give up a little of it "
        "for a strength that depends less on which samples VAL has.",
    ),
    click.option(
        "--temperature", type=NumberOr(fit="fit", **{name: name for name in SCALINGS}),
        metavar="fit|bcts|vector|NUMBER",
        help="Divide the corrected log-scores by this number, or by the one that fits VAL's "
        "labels best. 1, if not given. bcts and vector fit a bias, or a scale and a bias, per "
        "class, with --metric log_loss or --separate.",
    ),
    click.option(
        "--label-prior", type=PATH, metavar="FILE",
        help="The class mix that VAL's labels follow, for fits by log-loss. Their own "
        "frequencies, if not given.",
    ),
    click.option(
        "--separate", is_flag=True,
        help="Hold two maps: one for predictions, tuned for --metric, and one for probabilities, "
        "fitted by log-loss.",
    ),
    click.option(
        "--bounds", nargs=2, type=float, default=(0.0, 2.0), show_default=True,
        metavar="LOW HIGH", help="Strengths to search.",
    ),
    click.option(
        "--cv", type=int, metavar="FOLDS",
        help="Also cross-validate: show what is reached on labels that were not tuned on.",
    ),
    click.option(
        "--bootstrap", "n_bootstrap", type=int, default=0, metavar="N",
        help="Also draw N bootstrap replicates (1000 will do): show 90 % intervals of the "
        "strength, the metric and its gain.",
    ),
    click.option(
        "--seed", "random_state", type=int, metavar="NUMBER",
        help="Of folds and replicates. [default: 0]",
    ),
)  # fmt: skip


def tuning_options(function: Command) -> Command:
    """Give a command the options of a fit, as one argument ``tuning``."""
    return collected(Tuning, "tuning", _OPTIONS)(function)


def check_metrics(tuning: Tuning, n_classes: int, names: list[Any] | None) -> None:
    """Refuse a metric or rule before any data are read."""
    rules = Constraint.parse_all(list(tuning.subject_to))
    if not is_log_loss(tuning.metric):
        find_metric(tuning.metric, n_classes=n_classes, classes=names)
    for rule in rules:
        rule.resolved(n_classes=n_classes, classes=names)
