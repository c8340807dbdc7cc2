"""Options that several commands share, collected into one object each."""

from __future__ import annotations

import difflib
import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from reprior.core.checks import KINDS
from reprior.exceptions import OptionError
from reprior.files.atomic import is_stdout, output_target

__all__ = [
    "PROMPT",
    "GroupedCommand",
    "Names",
    "PriorChoice",
    "Reading",
    "collected",
    "counts_options",
    "folder_option",
    "groups_option",
    "output_option",
    "reading_options",
    "refuse_groups_alone",
    "scores_argument",
    "shows",
    "skip_option",
]

Command = TypeVar("Command", bound=Callable[..., Any])

PATH = click.Path(path_type=str)


class Names(click.Choice[str]):
    """A choice that suggests the nearest name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or say which one is nearest."""
        names = [str(name) for name in self.choices]
        if value in names:
            return str(value)
        near = difflib.get_close_matches(str(value), names, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return self.fail(f"{value!r} is not one of {', '.join(names)}.{hint}", param, ctx)


#: Headings of a long help text, each with the options below it; the rest is under "Other".
_GROUPS = {
    "Class mixes": (
        "counts counts_from_labels weights smoothing source_prior target_prior target_scores "
        "label_prior groups"
    ),
    "Tuning": (
        "metric cost_file class_groups subject_to certify tune selection temperature separate "
        "bounds cv n_bootstrap random_state"
    ),
    "Reading scores and labels": (
        "kind classes scores_name class_axis labels label_column labels_name labels_as "
        "weight_column ignore_index skip_unreadable test test_labels"
    ),
    "Large data": "resolution checkpoint engine scheduler workers",
    "Output": "output as_json quiet",
}


class GroupedCommand(click.Command):
    """A command whose help lists its options in groups, those that are used most first."""

    def __init__(self, *args: Any, most_used: tuple[str, ...] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.most_used = most_used

    def option_groups(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """Return the help records of the options by heading."""
        heading_of = {name: head for head, names in _GROUPS.items() for name in names.split()}
        groups: dict[str, list[tuple[str, str]]] = {"Used most": []}
        groups |= {heading: [] for heading in ("Other", *_GROUPS)}
        params = {p.name: p for p in self.get_params(ctx) if isinstance(p, click.Option)}
        order = [*self.most_used, *(name for name in params if name not in self.most_used)]
        for name in order:
            record = params[name].get_help_record(ctx)
            if record is not None:
                first = name in self.most_used
                heading = "Used most" if first else heading_of.get(str(name), "Other")
                if "--help" in params[name].opts:
                    heading = "Output"
                groups[heading].append(record)
        return {heading: records for heading, records in groups.items() if records}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the groups."""
        for heading, records in self.option_groups(ctx).items():
            with formatter.section(heading):
                formatter.write_dl(records)


@dataclass(frozen=True)
class Reading:
    """How to read score files.

    ``class_columns`` is no option: it names the classes where :func:`open_counted` finds others.
    """

    kind: str | None = None
    labels: tuple[str, ...] | None = None
    classes: str | None = None
    label_column: str = "label"
    labels_as: str | None = None
    weight_column: str | None = None
    ignore_index: str | None = None
    scores_name: str | None = None
    labels_name: str = "labels"
    class_axis: int | None = None
    skip_unreadable: bool = False
    class_columns: tuple[str, ...] | None = None


@dataclass(frozen=True)
class PriorChoice:
    """Where class counts come from, and how they become a prior."""

    counts: str | None = None
    counts_from_labels: str | None = None
    weights: str | None = None
    smoothing: float = 0.0
    label_column: str = "label"
    labels_name: str = "labels"
    labels_as: str | None = None
    ignore_index: str | None = None


def scores_argument(name: str, *, required: bool = True) -> Callable[[Command], Command]:
    """Return an argument of one or several score files."""
    return click.argument(
        name, nargs=-1, required=required, type=PATH, metavar=f"{name.upper()}..."
    )


def output_option(
    help_text: str, *, required: bool = True, text: bool = True
) -> Callable[[Command], Command]:
    """Return ``-o``. A pipe or a device is refused here, before any command opens its inputs.

    ``text`` allows ``-``, standard output, for outputs that are, or may be, text.
    """

    def checked(_: click.Context, __: click.Parameter, output: str | None) -> str | None:
        if output is not None:
            output_target(output, argument="output", folder=True, text=text)
        return output

    return click.option(
        "-o",
        "--output",
        type=PATH,
        required=required,
        metavar="OUT",
        help=help_text,
        callback=checked,
    )


def folder_option(help_text: str, *, required: bool = False) -> Callable[[Command], Command]:
    """Return ``-o`` of a command that writes into a folder; a file is refused at once."""

    def checked(_: click.Context, __: click.Parameter, output: str | None) -> str | None:
        if output is None:
            return output
        reason = None
        if is_stdout(output):
            reason = "and standard output is no folder"
        elif os.path.lexists(output) and not os.path.isdir(output):
            reason = "which is no folder"
        if reason is not None:
            raise OptionError(
                f"--output must be a new name or a folder. Got {output!r}, {reason}. "
                f"Choose another name."
            )
        return output

    return click.option(
        "-o",
        "--output",
        type=PATH,
        required=required,
        metavar="DIR",
        help=help_text,
        callback=checked,
    )


_KIND = click.option(
    "--kind",
    type=Names(KINDS),
    help="What the scores are: logits (unnormalised), probs (rows sum to 1) or log_probs. "
    "Never guessed.",
)
_CLASSES = click.option(
    "--classes",
    type=PATH,
    metavar="FILE",
    help="Class names in the order of the scores: a line each, or a JSON list.",
)
_ARRAYS = (
    click.option(
        "--scores-name",
        metavar="NAME",
        help="Array of the scores in npz and zarr files, or list column in parquet.",
    ),
    click.option(
        "--class-axis",
        type=int,
        metavar="AXIS",
        help="Axis of the classes in maps: 1 for (N, K, H, W), -1 for (N, H, W, K). By default "
        "what the shape of the labels, the calibrator or the number of classes says.",
    ),
)
_NAMES_OF_LABELS = (
    click.option(
        "--label-column",
        default="label",
        show_default=True,
        metavar="NAME",
        help="Column of the labels in csv and parquet files.",
    ),
    click.option(
        "--labels-name",
        default="labels",
        show_default=True,
        metavar="NAME",
        help="Array of the labels in npz and zarr files.",
    ),
)
_IGNORE = click.option(
    "--ignore-index", metavar="LABEL", help="A label that marks samples to leave out."
)
_LABELS_AS = click.option(
    "--labels-as",
    type=Names(("indices", "names")),
    help="How to read integer labels where the class names are integers too. [default: indices]",
)
_LABELS = (
    click.option(
        "--labels",
        type=PATH,
        metavar="FILE",
        multiple=True,
        callback=lambda _, __, given: tuple(given) or None,
        help="Labels in a file of their own, in the order of the scores; one for each file of "
        "scores, or a pattern.",
    ),
    *_NAMES_OF_LABELS,
    _LABELS_AS,
    click.option(
        "--weight-column",
        metavar="NAME",
        help="Column or array with a weight per sample.",
    ),
    _IGNORE,
)


def skip_option(more: str = "") -> Callable[[Command], Command]:
    """Return ``--skip-unreadable``, with ``more`` help text."""
    words = "Leave out files that cannot be read, and list them."
    return click.option("--skip-unreadable", is_flag=True, help=f"{words} {more}".rstrip())


def reading_options(
    *, labels: bool, skip: Callable[[Any], Any] | None = None
) -> Callable[[Command], Command]:
    """Give a command the options of score files, as one argument ``reading``.

    ``skip`` is what :func:`skip_option` gives, where files may be left out.
    """
    skip_options = () if skip is None else (skip,)
    options = (_KIND, *(_LABELS if labels else ()), _CLASSES, *_ARRAYS, *skip_options)
    return collected(Reading, "reading", options)


_COUNTS = (
    click.option(
        "--counts",
        type=PATH,
        metavar="FILE",
        help="Training samples of each class: JSON (a list, or {class: count}) or CSV.",
    ),
    click.option(
        "--counts-from-labels",
        type=PATH,
        metavar="FILE",
        help="Count the training labels in this file instead.",
    ),
    click.option(
        "--weights",
        type=PATH,
        metavar="FILE",
        help="Class weights the model was trained with, in a file like --counts.",
    ),
    click.option(
        "--smoothing",
        type=click.FloatRange(min=0),
        default=0.0,
        metavar="NUMBER",
        help="Add this to every count, for classes without training samples.",
    ),
)


def counts_options(*, labels: bool) -> Callable[[Command], Command]:
    """Give a command the options of class counts, as one argument ``counting``.

    With ``labels`` also those of a labels file, where :func:`reading_options` does not bring them.
    """
    more = (*_NAMES_OF_LABELS, _LABELS_AS, _IGNORE) if labels else ()
    return collected(PriorChoice, "counting", (*_COUNTS, *more))


groups_option = click.option(
    "--groups",
    nargs=2,
    type=float,
    default=(20.0, 100.0),
    show_default=True,
    metavar="LOW HIGH",
    help="With --counts: few have less than LOW training samples, many more than HIGH.",
)


def refuse_groups_alone(counts: str | None) -> None:
    """Refuse --groups without --counts, by which classes are grouped."""
    source = click.get_current_context().get_parameter_source("groups")
    if counts is None and source is click.core.ParameterSource.COMMANDLINE:
        raise OptionError(
            "--groups must come with --counts, the training samples to group the classes by. Got "
            "no --counts. Pass --counts FILE, or drop --groups."
        )


def collected(
    kind: type[Any], name: str, options: tuple[Callable[[Any], Any], ...]
) -> Callable[[Command], Command]:
    """Give a command several options, as one argument ``name`` of a dataclass with their names."""
    fields = set(kind.__dataclass_fields__)

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def command(*args: Any, **given: Any) -> Any:
            values = {key: given.pop(key) for key in list(given) if key in fields & option_names}
            return function(*args, **{name: kind(**values)}, **given)

        before = len(getattr(function, "__click_params__", []))
        decorated: Any = command
        for option in reversed(options):
            decorated = option(decorated)
        option_names = {p.name for p in decorated.__click_params__[before:]}
        result: Command = decorated
        return result

    return decorate


PROMPT = "$ "


def shows(*lines: str, first: str = "Example:") -> str:
    r"""Return the end of a help text: lines to run, with their line breaks.

    Examples
    --------
    >>> print(shows("reprior demo -o demo").replace("\b", "(kept)"))
    (kept)
    Example:
      $ reprior demo -o demo
    """
    shown, begins = ["\b", first], True
    for line in lines:
        shown.append(f"  {PROMPT if begins else ' ' * len(PROMPT)}{line}")
        begins = not line.endswith("\\")
    return "\n".join(shown)
