"""What a command talks through: results on stdout, notes and progress on stderr."""

from __future__ import annotations

import functools
import json
import logging
import math
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

from reprior.cli.messages import current_face
from reprior.exceptions import RepriorWarning
from reprior.files.interrupts import raise_if_interrupted

__all__ = ["Session", "as_json", "plain", "session_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

#: Anything that takes longer than this shows a progress bar.
PATIENCE = 1.0

#: Width of tables where the output is no terminal: they must not be cut.
WIDE = 120


class Session:
    """One run of a command.

    Parameters
    ----------
    quiet : bool
        Whether to keep notes and progress to itself.
    json : bool
        Whether the result is one JSON object, with the notes in it.

    Examples
    --------
    >>> session = Session(quiet=True, json=True)
    >>> session.note("classes are taken in the order of the columns")
    >>> session.result({"strength": 0.5})
    {"strength": 0.5, "notes": ["classes are taken in the order of the columns"]}
    """

    def __init__(self, *, quiet: bool = False, json: bool = False) -> None:
        self.quiet, self.json = quiet, json
        self.notes: list[str] = []
        self._shown = 0
        self._out = _console(stderr=False)
        self._err = _console(stderr=True)
        self._bar_started = threading.Event()

    def note(self, sentence: str) -> None:
        """Keep a sentence that matters to whoever reads the result; it is shown before that.

        A command that fails shows its one error and no notes.
        """
        sentence = plain(" ".join(sentence.split()))
        if sentence not in self.notes:
            self.notes.append(sentence)

    def tell(self, sentence: str) -> None:
        """Show a note at once: it matters to whoever waits for the result, too."""
        waiting, self.notes = self.notes[self._shown :], self.notes[: self._shown]
        self.note(sentence)
        self.show_notes()
        self.notes += waiting

    def log(self, line: str) -> None:
        """Tell a log file how far the work is; on a terminal a bar does that."""
        if not self.quiet and not self._err.is_terminal:
            self._err.print(Text(plain(line)), soft_wrap=True)

    def show_notes(self) -> None:
        """Show the notes that were not shown yet."""
        fresh, self._shown = self.notes[self._shown :], len(self.notes)
        if not self.quiet:
            for sentence in fresh:
                self._err.print(Text.assemble(("note: ", "bold yellow"), sentence), soft_wrap=True)

    def say(self, *what: Any) -> None:
        """Show text or tables to a person: nothing where the result is JSON."""
        raise_if_interrupted()
        self.show_notes()
        if not self.json:
            for each in what:
                text = isinstance(each, str | Text)
                self._out.print(Text(each) if isinstance(each, str) else each, soft_wrap=text)

    def done(self, sentence: str) -> None:
        """Say what was written, unless that is not wanted."""
        if not self.quiet:
            self.say(sentence)

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
        """Show a bar on a terminal once the block has taken a second.

        Gives a function to call with the number of samples done, or of whatever is counted. It
        ends the work where Ctrl-C was pressed and its exception was swallowed.
        """
        if self.quiet or not self._err.is_terminal:
            yield lambda _: raise_if_interrupted()
            return
        bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[done]}"),
            TimeElapsedColumn(),
            console=self._err,
            transient=True,
        )
        # One more than there are: where all is done, clock and spinner would stand still, and the
        # result of what was read is still to be found.
        most = None if total is None else total + 1
        task, readings, last = bar.add_task(title, total=most, done=""), 1, 0
        timer = threading.Timer(PATIENCE, self._start, [bar])
        timer.daemon = True
        timer.start()

        def step(n: int) -> None:
            nonlocal readings, last
            raise_if_interrupted()
            if n < last:  # the same samples are read once more
                readings += 1
                bar.update(task, description=f"{title}, reading {readings}")
            last = n
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
    def telling(self, name: str) -> Iterator[None]:
        """Show at once what the library logs under a name, as information or as more."""
        logger, handler = logging.getLogger(name), _Telling(self)
        before = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.setLevel(before)
            logger.removeHandler(handler)


class _Telling(logging.Handler):
    """Passes on what is logged to a session."""

    def __init__(self, session: Session) -> None:
        super().__init__(logging.INFO)
        self._session = session

    def emit(self, record: logging.LogRecord) -> None:
        """Show it at once."""
        self._session.tell(record.getMessage())


def session_options(function: Command) -> Command:
    """Give a command ``--json`` and ``--quiet``, and a :class:`Session` as its first argument."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")
    @click.option(
        "-q", "--quiet", is_flag=True, help="Show no notes, no progress, and not what was written."
    )
    @functools.wraps(function)
    def command(*, as_json: bool, quiet: bool, **options: Any) -> Any:
        session = Session(quiet=quiet, json=as_json)
        with session.warnings_as_notes():
            result = function(session, **options)
        session.show_notes()
        return result

    return command  # type: ignore[return-value]  # click's decorators keep no signature


def as_json(document: Any) -> str:
    """Return a document as JSON on one line; what is not a number becomes null.

    Examples
    --------
    >>> import numpy as np
    >>> as_json({"a": np.float32(0.5), "b": float("nan"), "c": np.arange(2)})
    '{"a": 0.5, "b": null, "c": [0, 1]}'
    """
    return json.dumps(_simple(document), allow_nan=False, ensure_ascii=False)


def plain(text: Any) -> str:
    r"""Return a name without anything a terminal would obey.

    Examples
    --------
    >>> plain("cat\x1b[31m")
    'cat\\x1b[31m'
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))


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
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        with suppress(AttributeError):
            console.width = WIDE
    return console
