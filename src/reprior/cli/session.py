"""What a command prints through: results on stdout, notes and progress on stderr.

With ``-o -`` the output of a command goes to stdout, and everything else to stderr.
"""

from __future__ import annotations

import functools
import json
import logging
import math
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from reprior.cli.messages import current_face, plain, plain_lines
from reprior.exceptions import OptionError, RepriorWarning
from reprior.files.atomic import is_stdout
from reprior.files.interrupts import raise_if_interrupted

__all__ = ["Session", "as_json", "plain", "session_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

#: Work of more seconds than this shows a progress bar.
PATIENCE = 1.0

#: Width of tables where the output is no terminal: they must not be cut.
WIDE = 120


class Session:
    """One run of a command.

    Parameters
    ----------
    quiet : bool
        Whether to show no notes and no progress.
    json : bool
        Whether the result is one JSON object, with the notes in it.
    stdout_is_output : bool, default False
        Whether the command writes its output to stdout. Text for a person goes to stderr then.
    patience : float, default 1
        Seconds of work after which a progress bar appears.

    Examples
    --------
    >>> session = Session(quiet=True, json=True)
    >>> session.note("classes are taken in the order of the columns")
    >>> session.result({"strength": 0.5})
    {"strength": 0.5, "notes": ["classes are taken in the order of the columns"]}
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        json: bool = False,
        stdout_is_output: bool = False,
        patience: float = PATIENCE,
    ) -> None:
        self.quiet, self.json = quiet, json
        self.stdout_is_output = stdout_is_output
        self.patience = patience
        self.notes: list[str] = []
        self._shown = 0
        self._out = _console(stderr=stdout_is_output)
        self._err = _console(stderr=True)
        self._bar_started = threading.Event()

    def note(self, sentence: str) -> None:
        """Keep a sentence that the reader of the result needs; it is shown before the result.

        A command that fails shows its one error and no notes.
        """
        sentence = plain(" ".join(sentence.split()))
        if sentence not in self.notes:
            self.notes.append(sentence)

    def note_now(self, sentence: str) -> None:
        """Show a note at once, for a user who waits for the result."""
        waiting, self.notes = self.notes[self._shown :], self.notes[: self._shown]
        self.note(sentence)
        self.show_notes()
        self.notes += waiting

    def log(self, line: str) -> None:
        """Print progress as a line where stderr is no terminal, which has a bar."""
        if not self.quiet and not self._err.is_terminal:
            self._err.print(Text(plain(line)), soft_wrap=True)

    def show_notes(self) -> None:
        """Show the notes that were not shown yet."""
        fresh, self._shown = self.notes[self._shown :], len(self.notes)
        if not self.quiet:
            for sentence in fresh:
                text = self._wrapped(self._err, f"note: {sentence}", "      ")
                words = text.removeprefix("note: ")
                self._err.print(Text.assemble(("note: ", "bold yellow"), words), soft_wrap=True)

    def say(self, *what: Any) -> None:
        """Print text or tables; print nothing where the result is JSON."""
        raise_if_interrupted()
        self.show_notes()
        if not self.json:
            for each in what:
                text = isinstance(each, str | Text)
                shown = each
                if isinstance(each, str):
                    shown = Text(plain_lines(each))
                self._out.print(shown, soft_wrap=text)

    @staticmethod
    def _wrapped(console: Console, text: str, indent: str = "") -> str:
        """Break a sentence between words where the output is a terminal, which breaks anywhere."""
        if not console.is_terminal:
            return text
        lines = [
            textwrap.wrap(
                line,
                console.width,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
                drop_whitespace=True,
                replace_whitespace=False,
            )
            if len(line) > console.width
            else [line]
            for line in text.split("\n")
        ]
        return "\n".join(each for group in lines for each in group)

    def done(self, *sentences: str) -> None:
        """Print what was written, and where, unless quiet or the output is stdout."""
        if not self.quiet and not self.stdout_is_output:
            self.say(*(self._wrapped(self._out, plain_lines(each)) for each in sentences))

    def result(self, document: Mapping[str, Any], *, notes: bool = True) -> None:
        """Print the JSON object, where one is wanted."""
        raise_if_interrupted()
        self.show_notes()
        if self.json:
            more = {"notes": self.notes} if notes else {}
            click.echo(as_json({**document, **more}))

    @contextmanager
    def progress(
        self, title: str, total: int | None = None, *, counted: str = "samples"
    ) -> Iterator[Callable[[int], None]]:
        """Show a bar on a terminal once the block has taken ``patience`` seconds.

        Gives a function to call with the number of samples done, or of whatever is counted. It
        ends the work if a library caught the exception of Ctrl-C.
        """
        if self.quiet or not self._err.is_terminal:
            yield lambda _: raise_if_interrupted()
            return
        bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[done]}"),
            TimeElapsedColumn(),
            console=self._err,
            transient=True,
        )
        # One more than there are: a finished task stops clock and spinner, but after the last
        # sample the result must still be computed.
        most = None if total is None else total + 1
        title = plain(title)
        task = bar.add_task(title, total=most, done="")
        n_readings = 1
        n_before = 0
        timer = threading.Timer(self.patience, self._start, [bar])
        timer.daemon = True
        timer.start()

        def step(n: int) -> None:
            nonlocal n_readings, n_before
            raise_if_interrupted()
            if n < n_before:  # the same samples are read once more
                n_readings += 1
                bar.update(task, description=f"{title}, reading {n_readings}")
            n_before = n
            bar.update(task, completed=n, done=f"{n:,} {counted}".rstrip())

        try:
            yield step
        finally:
            timer.cancel()
            timer.join()
            bar.stop()

    def _start(self, bar: Progress) -> None:
        bar.start()
        self._bar_started.set()

    @contextmanager
    def warnings_as_notes(self) -> Iterator[None]:
        """Show the library's warnings as notes, not as Python shows them."""

        def show(message: Warning | str, *_: Any, **__: Any) -> None:
            if isinstance(message, RepriorWarning):
                message = current_face().sentence(message)
            self.note(str(message))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("always", RepriorWarning)
            warnings.showwarning = show
            yield

    @contextmanager
    def log_as_notes(self, name: str) -> Iterator[None]:
        """Show log records of a name, at level INFO and above, at once."""
        logger, handler = logging.getLogger(name), _NoteHandler(self)
        before = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.setLevel(before)
            logger.removeHandler(handler)


class _NoteHandler(logging.Handler):
    """Shows log records in a session."""

    def __init__(self, session: Session) -> None:
        super().__init__(logging.INFO)
        self._session = session

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record at once."""
        self._session.note_now(record.getMessage())


def session_options(function: Command) -> Command:
    """Give a command ``--json`` and ``--quiet``, and a :class:`Session` as its first argument."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")
    @click.option(
        "-q", "--quiet", is_flag=True, help="Show no notes, no progress and no output paths."
    )
    @functools.wraps(function)
    def command(*, as_json: bool, quiet: bool, **options: Any) -> Any:
        output = options.get("output")
        stdout_is_output = output is not None and is_stdout(output)
        if as_json and stdout_is_output:
            raise OptionError(
                "--json must go with an output that is a file: both would be on standard output. "
                "Got -o -. Name a file, or drop --json."
            )
        session = Session(quiet=quiet, json=as_json, stdout_is_output=stdout_is_output)
        with session.warnings_as_notes():
            result = function(session, **options)
        session.show_notes()
        return result

    return command  # type: ignore[return-value]  # click's decorators keep no signature


def as_json(document: Any) -> str:
    """Return a document as JSON on one line; what is not a number becomes null.

    Characters that a terminal would obey are escaped.

    Examples
    --------
    >>> import numpy as np
    >>> as_json({"a": np.float32(0.5), "b": float("nan"), "c": np.arange(2)})
    '{"a": 0.5, "b": null, "c": [0, 1]}'
    """
    text = json.dumps(_simple(document), allow_nan=False, ensure_ascii=False)
    # Inside strings only, as JSON on one line has no control characters elsewhere.
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _simple(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _simple(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_simple(each) for each in value]
    if isinstance(value, np.ndarray | np.generic):
        return _simple(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _console(*, stderr: bool) -> Console:
    """Return a console that is a terminal only where its stream is: notebooks force colours."""
    stream = sys.stderr if stderr else sys.stdout
    console = Console(
        stderr=stderr,
        highlight=False,
        markup=False,
        emoji=False,
        force_terminal=None if stream is not None and stream.isatty() else False,
    )
    if not console.is_terminal:
        with suppress(AttributeError):
            console.width = WIDE
    return console
