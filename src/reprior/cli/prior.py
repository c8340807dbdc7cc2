"""``reprior prior``: from counts or labels to the prior a model was trained on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from reprior.cli.examples import shows
from reprior.cli.inputs import read_class_counts, read_weights
from reprior.cli.options import PATH, PriorChoice, counts_options, output_option
from reprior.cli.outputs import check_output
from reprior.cli.session import Session, plain, session_options
from reprior.cli.tables import Grid, whole
from reprior.cli.words import name_classes
from reprior.core.prior import prior_from_counts
from reprior.files.atomic import atomic_write

__all__ = ["command"]

#: Rows of a long table that are shown: as many from either end.
SHOWN = 40


@click.command(
    "prior",
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
    """
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
        _write(output, names, prior.tolist())
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


def _show(session: Session, columns: dict[str, Any]) -> None:
    rows: list[tuple[Any, ...]] = list(zip(*columns.values(), strict=True))
    left_out = len(rows) - SHOWN
    if left_out > 1:
        middle = (f"… {left_out:,} more",) + (None,) * (len(columns) - 1)
        rows = [*rows[: SHOWN // 2], middle, *rows[-SHOWN // 2 :]]
    session.say(Grid(tuple(columns), rows).rich())
    smallest, largest = min(columns["prior"]), max(columns["prior"])
    session.say(
        f"{len(columns['prior']):,} classes; the most frequent is {largest / smallest:,.1f} times "
        f"as frequent as the rarest."
    )


def _write(path: str, names: list[Any] | None, prior: list[float]) -> None:
    """Write the prior: by name where there are names."""
    if Path(path).suffix.lower() == ".csv":
        first = names if names is not None else range(len(prior))
        text = Grid(("class", "prior"), list(zip(first, prior, strict=True))).csv()
    elif names is None:
        text = json.dumps(prior)
    else:
        text = json.dumps(dict(zip(map(str, names), prior, strict=True)), ensure_ascii=False)
    with atomic_write(path) as file:
        file.write(f"{text}\n".encode())
