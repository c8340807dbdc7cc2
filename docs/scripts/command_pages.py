"""Write a page per command, from the commands themselves: ``python -m docs.scripts.command_pages``.

A test compares the committed pages with what this writes.
"""

from __future__ import annotations

import html
import inspect
import re
from collections.abc import Iterable
from pathlib import Path

import click

from reprior.cli.app import COMMANDS, LAB, app
from reprior.cli.options import GroupedCommand

FOLDER = Path(__file__).parent.parent / "commands"

NOTE = "<!-- Written by docs/scripts/command_pages.py from the command itself. -->"

INDEX = """\
# Command line

From score files to a corrected model's output, without writing Python.

```console
$ pip install 'reprior[cli]'
$ reprior demo -o demo
```

| command | what it does |
|---|---|
{rows}

Every command has `--help`, which ends with an example to run. `--json` prints one JSON object on
stdout; its field `notes` has the notes, but for `evaluate`, whose object has metrics alone and,
with `--per-class`, the classes. `--quiet` shows no notes, no progress, and not what was written.
Notes, progress and errors go to stderr. With `-o -` an output that is text (JSON, CSV, the page)
goes to stdout, and all messages to stderr.

| exit code | meaning |
|---:|---|
| 0 | done |
| 2 | one sentence on stderr says what was wrong |
| 130 | interrupted by Ctrl-C; no file is half-written |

`python -m reprior` is the same program. `reprior completion bash` prints a script that completes
commands and options.

## Commands of your own

Another distribution can add a command to `reprior`. Its `pyproject.toml` names a click command:

```toml
[project.entry-points."reprior.commands"]
hello = "my_package.hello:command"
```

`reprior.cli` has what such a command is made of. It then takes `--json` and `--quiet`, and fails in
one sentence, as the others do:

```python
import click
from reprior.cli import Session, session_options, shows


@click.command("hello", epilog=shows("reprior hello"), short_help="Say hello.")
@session_options
def command(session: Session) -> None:
    session.say("hello")
    session.result({{"said": "hello"}})
```

`reprior --help` then lists it. It cannot replace a command of ours.

## Files

| what | formats |
|---|---|
{files}

What the scores are (`logits`, `probs` or `log_probs`) is given by `--kind` or written in the file,
as an array `kind` or as metadata `reprior.kind`. It is never guessed. Pickled data are never read.
Outputs appear whole or not at all.

Scores in npy, zarr or npz without `class_names` have no class names. Counts, weights and priors
that are by name then need `--classes`, the names in the order of the scores; the names `0` to
`K-1` are indices.

Score files are read and written in pieces. `fit`, `apply` and `evaluate` on a million rows of 50
classes in a parquet file each stay below 1 GiB of memory, and `fit` from npy files whose switches
are binned below 600 MB, which tests hold them to; just under ten million switches that are kept one
by one can take 1 GB ([scale](../scale.md#what-it-costs)).

`reprior --version` shows the version and what computes: the compiled kernels with their instruction
set, or array code.
"""


FILES = {
    "scores": "npy, npz (array `scores`), csv (also `.tsv`; between numbers a comma, a tab or a "
    "semicolon) and parquet (a column per class; in parquet also a list column), zarr; several by "
    "a quoted pattern such as `'val-*.parquet'`",
    "labels": "array `labels`, column `label`, or a file of their own by `--labels`; class "
    "indices or names",
    "counts, weights, priors": 'JSON list or `{"class": number}`; CSV with a number per line or '
    "`class,number`, named in any order where the scores have class names",
    "costs": 'JSON list of rows, one per true class, or `{"class": {"decision": number}}`; CSV of '
    "such rows, with or without decisions in the first line and classes in the first column",
    "class names": "columns of a table, array `class_names`, or `--classes` with a name per line "
    "or a JSON list",
}


def pages() -> dict[str, str]:
    """Return the text of every page, by file name."""
    root = click.Context(app, info_name="reprior", **app.context_settings)
    commands = {name: app.get_command(root, name) for name in (*COMMANDS, *LAB)}
    rows = "\n".join(
        f"| [`{name}`]({name}.md) | {COMMANDS.get(name) or _of_the_lab(command)} |"
        for name, command in commands.items()
    )
    files = "\n".join(f"| {what} | {forms} |" for what, forms in FILES.items())
    found = {"index.md": f"{NOTE}\n\n{INDEX.format(rows=rows, files=files)}"}
    for name, command in commands.items():
        assert command is not None
        found[f"{name}.md"] = page(command, click.Context(command, info_name=name, parent=root))
    return found


def _of_the_lab(command: click.Command | None) -> str:
    assert command is not None
    return f"{command.get_short_help_str(limit=100)} (needs [the lab](../reproduce.md))"


def page(command: click.Command, ctx: click.Context, level: int = 1) -> str:
    """Return the page of one command: what it does, how it is called, an example, its options.

    The commands of a group follow on the same page.
    """
    usage = " ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])
    help_text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    example = re.sub(r"^  ", "", (command.epilog or "").replace("\b\n", ""), flags=re.MULTILINE)
    heading, _, lines = example.partition("\n")
    mark = "#" * level
    note = f"{NOTE}\n\n" if level == 1 else ""
    return (
        f"{note}{mark} {ctx.command_path}\n\n{_text(help_text)}\n\n```text\n{usage}\n```\n\n"
        f"{mark}# {heading.rstrip(':') or 'Example'}\n\n```console\n{lines.strip()}\n```\n\n"
        f"{mark}# Options\n\n{_options(command, ctx)}\n"
        f"{_members(command, ctx, level)}"
    )


def _options(command: click.Command, ctx: click.Context) -> str:
    """Return a table of the options, or one for each group of them."""
    if isinstance(command, GroupedCommand):
        groups = command.option_groups(ctx).items()
        return "\n\n".join(f"**{heading}**\n\n{_table(records)}" for heading, records in groups)
    options = (param for param in command.params if isinstance(param, click.Option))
    records = [record for param in options if (record := param.get_help_record(ctx))]
    return _table([*records, ("-h, --help", "Show this message and exit.")])


def _table(records: Iterable[tuple[str, str]]) -> str:
    rows = [f"| {_code(name)} | {_cell(meaning)} |" for name, meaning in records]
    return "\n".join(["| option | meaning |", "|---|---|", *rows])


def _members(command: click.Command, ctx: click.Context, level: int) -> str:
    """Return what a group has, one command after the other."""
    if not isinstance(command, click.Group):
        return ""
    found = [(name, command.get_command(ctx, name)) for name in command.list_commands(ctx)]
    return "".join(
        f"\n{page(each, click.Context(each, info_name=name, parent=ctx), level + 1)}"
        for name, each in found
        if each is not None
    )


def _text(text: str) -> str:
    return re.sub(r"(\{.*\})", r"`\1`", text).replace("<", "&lt;")


def _code(text: str) -> str:
    """Return code for a cell; a pipe as an entity, which every reader of tables shows as a pipe."""
    if "|" not in text:
        return f"`{text}`"
    return f"<code>{html.escape(text, quote=False).replace('|', '&#124;')}</code>"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "&#124;").replace("<", "&lt;")


def main() -> None:
    """Write the pages that differ."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
