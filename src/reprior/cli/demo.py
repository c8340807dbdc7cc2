"""``reprior demo``: the whole job on real data, by the same commands a user types."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.text import Text

from reprior.cli import digits
from reprior.cli.examples import PROMPT, shows
from reprior.cli.options import folder_option
from reprior.cli.outputs import refuse_stdout
from reprior.cli.session import Session, session_options
from reprior.exceptions import OptionError
from reprior.files.atomic import atomic_write

__all__ = ["command"]

#: What a demo writes.
FILES = ("val.csv", "test.csv", "counts.json", "cal.json", "report.html")


@click.command("demo", epilog=shows("reprior demo -o demo"))
@folder_option("The folder to write to. It is made if it is not there.", required=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of the split.")
@session_options
def command(session: Session, output: str, seed: int) -> None:
    """Do the whole job on real data, in under a minute.

    Trains a logistic regression on scikit-learn's handwritten digits, made long-tailed: 100 images
    of digit 0 down to 2 of digit 9. Then it runs fit, evaluate and report as you would by hand, and
    shows the commands. The folder keeps the score files, the calibrator and the page.
    """
    refuse_stdout(output)
    folder = Path(output)
    _refuse_others(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with session.progress("training a model"):
        scored = digits.train(seed)
    _write(folder, scored)
    _set_the_scene(session, scored, folder)
    results = {name: _run(session, arguments) for name, *arguments in _commands(folder)}
    session.say(
        "",
        f"The page to look at: {folder / 'report.html'}",
        "Lines that begin with $ are commands. Repeat them, or change them.",
    )
    session.result({"folder": output, **results})


def _refuse_others(folder: Path) -> None:
    """Refuse a folder with files of these names that no demo wrote."""
    there = [name for name in FILES if (folder / name).exists()]
    try:
        mine = "digit 0" in json.loads((folder / "counts.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        mine = False
    if there and not mine:
        raise OptionError(
            f"`output` must be a new folder, or one that a demo wrote. Got {str(folder)!r}, which "
            f"has a file {there[0]!r} of its own. Choose another folder."
        )


def _commands(folder: Path) -> list[list[str]]:
    """Return what is run, under a name each."""
    val, test, counts, cal, page = (str(folder / name) for name in FILES)
    low, high = map(str, digits.GROUPS)
    return [
        ["fit", "fit", val, "--counts", counts, "--kind", "logits", "--temperature", "fit",
         "-o", cal],
        ["evaluate", "evaluate", cal, test, "--counts", counts, "--groups", low, high],
        ["report", "report", cal, val, "--test", test, "--counts", counts, "--groups", low, high,
         "-o", page],
    ]  # fmt: skip


def _run(session: Session, arguments: list[str]) -> Any:
    """Run a command as it is typed; return its result where JSON is wanted."""
    from reprior.cli.app import app

    line = Text(f"{PROMPT}{_program()} {shlex.join(arguments)}", style="bold")
    session.say("", line, "")
    more = [*(["--quiet"] if session.quiet else []), *(["--json"] if session.json else [])]
    stream = contextlib.redirect_stdout(io.StringIO()) if session.json else contextlib.nullcontext()
    with stream as caught:
        app.main([*arguments, *more], prog_name="reprior", standalone_mode=False)
    return json.loads(caught.getvalue()) if caught is not None else None


def _program() -> str:
    """Return how to call this program again: by its name, or as it was called."""
    if shutil.which("reprior") is not None:
        return "reprior"
    started = Path(sys.argv[0])
    if started.stem == "reprior" and started.is_file():
        return shlex.quote(str(started))
    return f"{shlex.quote(sys.executable)} -m reprior"


def _write(folder: Path, scored: digits.Scored) -> None:
    """Write what a user would have: validation scores, test scores, training counts."""
    for name, scores, labels in (
        ("val.csv", scored.tuning_scores, scored.tuning_labels),
        ("test.csv", scored.test_scores, scored.test_labels),
    ):
        heads = ",".join([*(f"digit {k}" for k in range(digits.N_CLASSES)), "label"])
        text = io.StringIO()
        table = np.column_stack([scores, labels])
        np.savetxt(
            text, table, fmt=["%.6f"] * digits.N_CLASSES + ["%d"], delimiter=",",
            header=heads, comments="",
        )  # fmt: skip
        with atomic_write(folder / name) as file:
            file.write(text.getvalue().encode())
    named = {f"digit {k}": int(n) for k, n in enumerate(scored.train_counts)}
    with atomic_write(folder / "counts.json") as file:
        file.write(json.dumps(named, indent=1).encode())


def _set_the_scene(session: Session, scored: digits.Scored, folder: Path) -> None:
    """Say which images do what."""
    session.say(
        "Handwritten digits, made long-tailed. Training images of the digits 0 to 9:",
        "  " + " ".join(map(str, scored.train_counts)),
        f"  training  {scored.train_counts.sum()} images: a logistic regression learns from them",
        f"  tuning    {scored.tuning_labels.size} other images, {digits.TUNING} of each digit: "
        f"the strength is chosen here",
        f"  test      {scored.test_labels.size} other images, {digits.TEST} of each digit: "
        f"the result is judged here",
        f"Written to {folder}: val.csv, test.csv (the model's scores), counts.json",
    )
