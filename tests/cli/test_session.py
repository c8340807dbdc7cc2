"""What a command says, and where it says it."""

from __future__ import annotations

import io
import json
import logging
import warnings

import numpy as np
from rich.console import Console
from rich.progress import Progress

from reprior.cli.session import Session, as_json, plain
from reprior.exceptions import RepriorWarning


def test_notes_go_to_stderr_once(capsys):
    session = Session()
    for _ in range(2):
        session.note("the counts have\n no names")
    assert capsys.readouterr().err == ""  # an error may still come, and then stands alone
    session.show_notes()
    session.show_notes()
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "note: the counts have no names\n"


def test_long_notes_stay_on_one_line_where_there_is_no_terminal(capsys):
    session = Session()
    session.note("word " * 100)
    session.show_notes()
    assert capsys.readouterr().err.count("\n") == 1


def test_quiet_keeps_notes_for_the_json(capsys):
    session = Session(quiet=True, json=True)
    session.note("something")
    session.say("for people")
    session.result({"a": 1})
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out) == {"a": 1, "notes": ["something"]}


def test_warnings_become_notes(capsys):
    session = Session()
    with session.warnings_as_notes():
        warnings.warn("bounds were widened", RepriorWarning, stacklevel=1)
    session.show_notes()
    assert capsys.readouterr().err == "note: bounds were widened\n"


def test_markup_in_names_is_text(capsys):
    Session().say("[bold]cat[/bold] :smile:")
    assert capsys.readouterr().out == "[bold]cat[/bold] :smile:\n"


def test_no_bar_without_a_terminal(capsys):
    session = Session()
    with session.progress("working", 10) as tell:
        tell(7)
    assert not session._bar_started.is_set()
    assert capsys.readouterr().err == ""


def on_a_terminal(session: Session) -> io.StringIO:
    stream = io.StringIO()
    session._err = Console(file=stream, force_terminal=True, width=80, legacy_windows=False)
    return stream


def test_a_bar_appears_after_a_while(monkeypatch):
    monkeypatch.setattr("reprior.cli.session.PATIENCE", 0.0)
    session = Session()
    stream = on_a_terminal(session)
    with session.progress("working", 10) as tell:
        assert session._bar_started.wait(timeout=600)  # ends a hang, measures nothing
        tell(7)
    assert "working" in stream.getvalue()


def test_what_is_read_once_more_is_told_so_and_the_clock_goes_on(monkeypatch):
    monkeypatch.setattr("reprior.cli.session.PATIENCE", 0.0)
    session_bars, start = [], Progress.start

    def noted(bar):
        session_bars.append(bar)
        start(bar)

    monkeypatch.setattr(Progress, "start", noted)
    session = Session()
    stream = on_a_terminal(session)
    with session.progress("working", 10) as tell:
        assert session._bar_started.wait(timeout=600)  # ends a hang, measures nothing
        for n in (4, 10, 4, 10, 3):
            tell(n)
            assert not session_bars[0].finished
    shown = stream.getvalue()
    assert "working, reading 3" in shown
    assert "3 samples" in shown


def test_no_bar_for_what_is_quick(monkeypatch):
    monkeypatch.setattr("reprior.cli.session.PATIENCE", 3600.0)
    session = Session()
    stream = on_a_terminal(session)
    with session.progress("working", 10) as tell:
        tell(7)
    assert stream.getvalue() == ""


def test_quiet_shows_no_bar():
    session = Session(quiet=True)
    stream = on_a_terminal(session)
    with session.progress("working", 10) as tell:
        tell(7)
    assert not session._bar_started.is_set()
    assert stream.getvalue() == ""


def test_json_of_arrays_and_what_is_no_number():
    document = {"a": np.array([1.5, np.nan]), "b": (np.int64(3),), "c": float("inf"), 4: "é"}
    assert json.loads(as_json(document)) == {"a": [1.5, None], "b": [3], "c": None, "4": "é"}


def test_plain_shows_control_characters():
    assert plain("a\tb\x1b]0;x\x07") == "a\\tb\\x1b]0;x\\x07"
    assert plain("Übung 猫") == "Übung 猫"


def test_what_is_told_is_shown_at_once_and_other_notes_wait(capsys):
    session = Session()
    session.note("first")
    session.tell("the fit goes on")
    assert capsys.readouterr().err == "note: the fit goes on\n"
    session.note("second")
    session.show_notes()
    assert capsys.readouterr().err == "note: first\nnote: second\n"
    assert session.notes == ["the fit goes on", "first", "second"]


def test_what_the_library_logs_is_told_as_long_as_the_block_lasts(capsys):
    logger = logging.getLogger("reprior.example")
    session, before = Session(), logger.level
    with session.telling("reprior.example"):
        logger.info("%d rows", 7)
        logger.debug("no")
    logger.info("later")
    assert capsys.readouterr().err == "note: 7 rows\n"
    assert (logger.level, logger.handlers) == (before, [])
    quiet = Session(quiet=True)
    with quiet.telling("reprior.example"):
        logger.info("kept for the JSON")
    assert capsys.readouterr().err == ""
    assert quiet.notes == ["kept for the JSON"]
