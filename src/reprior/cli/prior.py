"""``reprior prior``: from counts or labels to the prior a model was trained on."""

from __future__ import annotations

from typing import Any

import click

from reprior.cli import estimate
from reprior.cli.examples import shows
from reprior.cli.inputs import read_class_counts, read_weights
from reprior.cli.messages import SentenceGroup, name_classes
from reprior.cli.options import PATH, PriorChoice, counts_options, output_option
from reprior.cli.outputs import check_output
from reprior.cli.prior_output import shortened, write_prior
from reprior.cli.session import Session, plain, session_options
from reprior.cli.tables import Grid, whole
from reprior.core.prior import prior_from_counts
from reprior.exceptions import OptionError

__all__ = ["command"]


class _OwnAndOthers(SentenceGroup):
    """A command of its own that has others below it: an error without one is about its options."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command below, or this one where none is named."""
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
@output_option("Write the prior here too: JSON, or CSV by the extension.", required=False)
@session_options
def command(
    session: Session, counting: PriorChoice, classes: str | None, output: str | None
) -> None:
    """Show the class prior that training counts or labels amount to.

    With --weights it is the effective prior: what a model learns that was trained with these class
    weights. The file that -o writes can be given to fit as --source-prior or --target-prior.

    The prior of where a model is used can be estimated from unlabelled scores: prior estimate.
    """
    here = click.get_current_context()
    if here.invoked_subcommand is not None:
        _refuse_misplaced(here)
        return
    if output is not None:
        read = (counting.counts, counting.counts_from_labels, counting.weights, classes)
        check_output(output, read)
    names: list[Any] | None = None
    if classes is not None:
        from reprior.files.counts import read_class_names

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


command.add_command(estimate.command)


def _refuse_misplaced(here: click.Context) -> None:
    """Refuse options in front of the name of a command below, where they would be lost."""
    name = here.invoked_subcommand
    for param in here.command.params:
        source = here.get_parameter_source(str(param.name))
        if source is click.core.ParameterSource.COMMANDLINE:
            raise OptionError(
                f"Options of {here.command_path} {name} must come after its name. Got "
                f"{param.opts[-1]} before it. Write: {here.command_path} {name} SCORES "
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
