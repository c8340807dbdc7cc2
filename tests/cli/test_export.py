"""reprior export sql: a database decides as the calibrator does."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest
from tests.support.command_line import NAMES, data, is_one_sentence

import reprior as rp

COLUMNS = [word for name in NAMES for word in ("--column", name)]


def selected(sql):
    """The rows of a SELECT from the scores of test.csv."""
    database = sqlite3.connect(":memory:")
    try:
        database.execute("CREATE TABLE t (cat REAL, dog REAL, owl REAL)")
        database.executemany("INSERT INTO t VALUES (?, ?, ?)", data(1).scores.tolist())
        return database.execute(f"SELECT {sql} FROM t").fetchall()
    finally:
        database.close()


def test_the_label(fitted, run):
    done = run("export", "sql", fitted / "cal.json", *COLUMNS, "--dialect", "sqlite", "-o", "-")
    assert done.code == 0, done.err
    calibrator = rp.load(fitted / "cal.json")
    assert [row[0] for row in selected(done.out)] == calibrator.predict(data(1).scores).tolist()


def test_the_posterior_of_every_class(fitted, run):
    out = fitted / "posterior.sql"
    options = ["--dialect", "sqlite", "--posterior", "--json", "-o", out]
    done = run("export", "sql", fitted / "cal.json", *COLUMNS, *options)
    assert done.code == 0, done.err
    sql = out.read_text(encoding="utf-8")
    names = [line.rpartition(" AS ")[2] for line in sql.splitlines()]
    assert names == ["`cat`,", "`dog`,", "`owl`"]
    wanted = rp.load(fitted / "cal.json").predict_proba(data(1).scores)
    np.testing.assert_allclose(np.array(selected(sql)), wanted, atol=1e-12)
    assert list(done.json["posterior"]) == NAMES
    assert (done.json["output"], done.json["dialect"]) == (str(out), "sqlite")


def test_the_example_of_the_help_runs(fitted, run, monkeypatch):
    monkeypatch.chdir(fitted)
    example = run("export", "sql", "--help").out.partition("$ reprior ")[2].split()
    assert run(*example).code == 0
    text = (fitted / "label.sql").read_text(encoding="utf-8")
    calibrator = rp.load("cal.json")
    assert text == calibrator.to_sql(NAMES) + "\n"


@pytest.mark.parametrize(
    "options, words",
    [
        (["--column", "cat", "--column", "dog"], "--column must name 3 columns"),
        ([*COLUMNS, "--dialect", "duckdbb"], "Did you mean 'duckdb'?"),
        ([], "--column"),
    ],
)
def test_wrong_options_are_one_sentence(fitted, run, options, words):
    done = run("export", "sql", fitted / "cal.json", *options, "-o", fitted / "new.sql")
    assert is_one_sentence(done)
    assert words in done.err
    assert not (fitted / "new.sql").exists()


def test_export_alone_shows_what_it_can(run):
    done = run("export")
    assert done.code == 2
    assert "sql" in done.out + done.err
