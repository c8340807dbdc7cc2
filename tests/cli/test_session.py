"""What a command prints, and to which stream."""

from __future__ import annotations

import io
import json
import logging
import warnings

import numpy as np
from rich.console import Console

import reprior as rp
from reprior.cli import Session


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


def test_on_a_terminal_long_notes_are_broken_between_words():
    session, stream = Session(), io.StringIO()
    session._err = Console(file=stream, force_terminal=True, width=80, color_system=None)
    words = [f"word-{i}" for i in range(40)]
    path = "/a/very/long/path" * 6
    session.note(" ".join([*words, path]))
    session.show_notes()
    lines = stream.getvalue().splitlines()
    assert " ".join(lines).split() == ["note:", *words, path]
    assert max(len(line) for line in lines if path not in line) <= 80
    assert all(line.startswith("      ") for line in lines[1:])


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
        warnings.warn("bounds were widened", rp.RepriorWarning, stacklevel=1)
    session.show_notes()
    assert capsys.readouterr().err == "note: bounds were widened\n"


def test_markup_and_control_characters_in_names_are_text(capsys):
    Session().say("[bold]cat[/bold] :smile:", "a\x1b]0;x\x07", "Übung 猫")
    shown = capsys.readouterr().out
    assert shown == "[bold]cat[/bold] :smile:\na\\x1b]0;x\\x07\nÜbung 猫\n"


def test_no_bar_without_a_terminal(capsys):
    session = Session()
    with session.progress("working", 10) as step:
        step(7)
    assert capsys.readouterr().err == ""


def on_a_terminal(session: Session) -> io.StringIO:
    stream = io.StringIO()
    session._err = Console(file=stream, force_terminal=True, width=80, legacy_windows=False)
    return stream


def test_a_bar_appears_and_counts_readings():
    session = Session(patience=0.0)
    stream = on_a_terminal(session)
    with session.progress("working", 10) as step:
        assert session._bar_started.wait(timeout=600)  # ends a hang, measures nothing
        for n in (4, 10, 4, 10, 3):
            step(n)
    shown = stream.getvalue()
    assert "working, reading 3" in shown
    assert "3 samples" in shown


def test_no_bar_for_what_is_quick():
    session = Session(patience=3600.0)
    stream = on_a_terminal(session)
    with session.progress("working", 10) as step:
        step(7)
    assert stream.getvalue() == ""


def test_quiet_shows_no_bar():
    session = Session(quiet=True, patience=0.0)
    stream = on_a_terminal(session)
    with session.progress("working", 10) as step:
        step(7)
    assert stream.getvalue() == ""


def test_json_of_arrays_and_what_is_no_number(capsys):
    document = {"a": np.array([1.5, np.nan]), "b": (np.int64(3),), "c": float("inf"), 4: "é"}
    Session(json=True).result(document, notes=False)
    expected = {"a": [1.5, None], "b": [3], "c": None, "4": "é"}
    assert json.loads(capsys.readouterr().out) == expected


def test_an_urgent_note_is_shown_at_once_and_other_notes_wait(capsys):
    session = Session()
    session.note("first")
    session.note_now("the fit goes on")
    assert capsys.readouterr().err == "note: the fit goes on\n"
    session.note("second")
    session.show_notes()
    assert capsys.readouterr().err == "note: first\nnote: second\n"
    assert session.notes == ["the fit goes on", "first", "second"]


def test_what_the_library_logs_is_a_note_as_long_as_the_block_lasts(capsys):
    logger = logging.getLogger("reprior.example")
    session, before = Session(), logger.level
    with session.log_as_notes("reprior.example"):
        logger.info("%d rows", 7)
        logger.debug("no")
    logger.info("later")
    assert capsys.readouterr().err == "note: 7 rows\n"
    assert (logger.level, logger.handlers) == (before, [])
    quiet = Session(quiet=True)
    with quiet.log_as_notes("reprior.example"):
        logger.info("kept for the JSON")
    assert capsys.readouterr().err == ""
    assert quiet.notes == ["kept for the JSON"]
