"""``reprior export``: a calibrator as the code of another system."""

from __future__ import annotations

from typing import Any

import click

from reprior.calibrator.sql import DIALECTS, OUTPUTS
from reprior.cli.messages import SentenceGroup
from reprior.cli.options import PATH, Names, output_option, shows
from reprior.cli.outputs import check_output
from reprior.cli.session import Session, session_options
from reprior.files.atomic import atomic_write

__all__ = ["command", "sql_command"]

EXAMPLE = "reprior export sql cal.json --column cat --column dog --column owl -o label.sql"


@click.group("export", cls=SentenceGroup, epilog=shows(EXAMPLE))
def command() -> None:
    """Write a calibrator as code of another system.

    As SQL: export sql.
    """


@command.command("sql", epilog=shows(EXAMPLE))
@click.argument("cal", type=PATH)
@click.option(
    "--column",
    "columns",
    multiple=True,
    required=True,
    metavar="NAME",
    help="A column of scores, as the table names it. Once per class, in the order of the classes; "
    "for two classes also one alone, the score of the second.",
)
@click.option(
    "--dialect",
    type=Names(tuple(DIALECTS)),
    default="duckdb",
    show_default=True,
    help="The database.",
)
@click.option(
    "--posterior",
    is_flag=True,
    help="Write the posterior of every class, as a list for SELECT, instead of the label.",
)
@output_option("Where to write the SQL; - is standard output.")
@session_options
def sql_command(
    session: Session,
    cal: str,
    columns: tuple[str, ...],
    dialect: str,
    posterior: bool,
    output: str,
) -> None:
    """Write the calibrator CAL as SQL that decides from columns of scores.

    CAL is what fit wrote. The SQL is one expression, to be put after SELECT: the label that the
    calibrator predicts. It is NULL where a score is. The kind of the scores in the columns is that
    of the scores that CAL was fitted on.
    """
    from reprior.calibrator.load import load_calibrator

    check_output(output, [cal])
    calibrator = load_calibrator(cal)
    which = OUTPUTS[int(posterior)]
    found: Any = calibrator.to_sql(list(columns), dialect=dialect, output=which)
    text = found
    if posterior:
        quoted = DIALECTS[dialect].identifier
        text = ",\n".join(f"{value} AS {quoted(str(name))}" for name, value in found.items())
    with atomic_write(output, text=True) as file:
        file.write(f"{text}\n".encode())
    session.done(f"Written: {output}")
    expressions = {str(k): v for k, v in found.items()} if posterior else found
    session.result({"output": output, "dialect": dialect, which: expressions})
