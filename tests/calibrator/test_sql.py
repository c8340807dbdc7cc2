"""to_sql: databases decide, and give posteriors, as the calibrator does."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

import reprior as rp

ROUNDING = 1e-12
"""EXP and LN of databases may differ in the last bits, which factors between classes magnify."""

DIALECTS = ("duckdb", "postgresql", "sqlite", "bigquery", "snowflake", "spark")

EXECUTED = ["sqlite", pytest.param("duckdb", marks=pytest.mark.heavy)]

#: Names that end a literal, an identifier or a statement where they are not quoted right.
HOSTILE = [
    "plain",
    "o'neil",
    'say "so"',
    "back\\slash\\",
    "`tick`",
    "'; DROP TABLE t; --",
    "two\nlines",
    "naïve λ",
    "\\'",
    "\\",
]


def select(dialect, columns, rows, expressions):
    """Return the rows of a SELECT of expressions from a table of scores."""
    if dialect == "duckdb":
        duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
        database, kind, quote = duckdb.connect(), "DOUBLE", '"'
    else:
        database, kind, quote = sqlite3.connect(":memory:"), "REAL", "`"
    try:
        names = [quote + name.replace(quote, quote * 2) + quote for name in columns]
        declared = ", ".join(f"{name} {kind}" for name in names)
        database.execute(f"CREATE TABLE t (id INTEGER, {declared})")
        marks = ", ".join("?" * (len(columns) + 1))
        values = [[i, *row] for i, row in enumerate(np.asarray(rows, dtype=object).tolist())]
        database.executemany(f"INSERT INTO t VALUES ({marks})", values)
        return database.execute(f"SELECT {', '.join(expressions)} FROM t ORDER BY id").fetchall()
    finally:
        database.close()


def agree(dialect, calibrator, scores, columns=None):
    """Compare the labels and posteriors of a database with those of Python."""
    rows = scores[:, None] if scores.ndim == 1 else scores
    columns = columns or [f"c{k}" for k in range(rows.shape[1])]
    (label, posterior) = (
        calibrator.to_sql(columns, dialect=dialect, output=output)
        for output in ("label", "posterior")
    )
    assert list(posterior) == calibrator.classes_.tolist()
    found = select(dialect, columns, rows, [label, *posterior.values()])
    assert [row[0] for row in found] == calibrator.predict(scores).tolist()
    wanted = calibrator.predict_proba(scores)
    wanted = np.stack([1 - wanted, wanted], 1) if scores.ndim == 1 else wanted
    np.testing.assert_allclose(np.array([row[1:] for row in found]), wanted, atol=ROUNDING, rtol=0)


def drawn(n_classes, kind, n=400, spread=3.0, seed=0):
    """Scores of a kind, and labels that they mostly agree with."""
    rng = np.random.default_rng(seed)
    prior = rp.prior_from_counts(0.6 ** np.arange(n_classes) * 1000)
    labels = rng.integers(n_classes, size=n)
    logits = rng.normal(0, spread, (n, n_classes)) + np.log(prior)
    logits[np.arange(n), labels] += 2.0
    log_probs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    scores = {"logits": logits, "log_probs": log_probs, "probs": np.exp(log_probs)}[kind]
    return prior, scores, labels


@pytest.mark.parametrize("dialect", EXECUTED)
@pytest.mark.parametrize("options", [{}, {"temperature": 1.7}, {"temperature": 0.4}], ids=str)
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
@pytest.mark.parametrize("n_classes", [2, 3, 11])
def test_labels_and_posteriors(dialect, n_classes, kind, options):
    prior, scores, labels = drawn(n_classes, kind)
    calibrator = rp.PosteriorCalibrator(prior, kind=kind, **options).fit(scores, labels)
    agree(dialect, calibrator, scores)


@pytest.mark.parametrize("dialect", EXECUTED)
@pytest.mark.parametrize("temperature", [None, 2.0])
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_one_score_of_two_classes(dialect, kind, temperature):
    prior, scores, labels = drawn(2, kind)
    one = scores[:, 1] - scores[:, 0] if kind == "logits" else scores[:, 1]
    calibrator = rp.PosteriorCalibrator(prior, kind=kind, temperature=temperature)
    agree(dialect, calibrator.fit(one, labels), one)
    assert calibrator.to_sql("c0") == calibrator.to_sql(["c0"])


@pytest.mark.parametrize("dialect", EXECUTED)
@pytest.mark.parametrize(
    "options",
    [
        {"metric": "log_loss", "temperature": "bcts"},
        {"metric": "log_loss", "temperature": "vector"},
        {"tune": "per_class", "metric": "macro_f1"},
        {"separate": True},
        {"target_prior": [0.5, 0.0, 0.5]},
        {"target_prior": [0.5, 0.0, 0.5], "temperature": 1.5},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_other_maps(dialect, kind, options):
    prior, scores, labels = drawn(3, kind)
    if "target_prior" in options:  # whose samples of the class that is ruled out are left out
        scores, labels = scores[labels != 1], labels[labels != 1]
    calibrator = rp.PosteriorCalibrator(prior, kind=kind, **options).fit(scores, labels)
    agree(dialect, calibrator, scores)


@pytest.mark.parametrize("dialect", EXECUTED)
@pytest.mark.parametrize("temperature", [None, 1.5])
@pytest.mark.parametrize("kind", ["probs", "log_probs"])
def test_impossible_classes_and_extreme_scores(dialect, kind, temperature):
    prior, scores, labels = drawn(3, "probs")
    scores[::3, 1] = 0.0
    scores[1::3, [0, 2]] = 0.0
    scores[2] = [1.0, 0.0, 0.0]
    scores[5] = [1e-300, 1.0, 0.0]
    scores /= scores.sum(1, keepdims=True)
    if kind == "log_probs":
        with np.errstate(divide="ignore"):
            scores = np.log(scores)
    calibrator = rp.PosteriorCalibrator(prior, kind=kind, temperature=temperature)
    agree(dialect, calibrator.fit(scores, labels), scores)


@pytest.mark.parametrize("dialect", EXECUTED)
def test_large_logits(dialect):
    prior, scores, labels = drawn(3, "logits")
    scores[:3] = [[1e5, -1e5, 0.0], [800.0, 0.0, -800.0], [-1e290, -1e290, 1e290]]
    agree(dialect, rp.PosteriorCalibrator(prior, temperature=0.5).fit(scores, labels), scores)


@pytest.mark.parametrize("dialect", EXECUTED)
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_ties_go_to_the_lowest_index(dialect, kind):
    scores = np.array([[0.0, 0, 0, 0], [1, 3, 3, 1], [2, 0, 2, 2], [0, 0, 1, 0], [0, 0, 0, 5]])
    scores -= np.logaddexp.reduce(scores, axis=1, keepdims=True)
    scores = np.exp(scores) if kind == "probs" else scores
    uniform = rp.PosteriorCalibrator([0.25] * 4, target_prior=[0.1, 0.2, 0.3, 0.4], kind=kind)
    calibrator = uniform.fit(scores, [0, 1, 0, 2, 3]).uncorrected()
    assert calibrator.predict(scores).tolist() == [0, 1, 0, 2, 3]
    agree(dialect, calibrator, scores)


@pytest.mark.parametrize("dialect", EXECUTED)
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
@pytest.mark.parametrize("n_columns", [1, 2])
def test_what_has_no_posterior_is_null(dialect, kind, n_columns):
    """NULL in, NULL out; the same for scores that Python refuses."""
    prior, scores, labels = drawn(2, kind)
    options = {"temperature": 1.5, "kind": kind}
    calibrator = rp.PosteriorCalibrator(prior, **options).fit(scores, labels)
    good = scores[0].tolist() if n_columns == 2 else [scores[0, 1]]
    rows = [good, [None] * n_columns, [np.inf] * n_columns]
    if n_columns == 2:
        rows += [[good[0], None], [None, good[1]], [good[0], np.inf]]
    if kind == "probs":
        rows += [[-0.1, 1.1][:n_columns], [0.7, 0.7][:n_columns] if n_columns == 2 else [1.1]]
    if kind == "log_probs":
        rows += [[0.2] * n_columns]
        if n_columns == 2:
            rows += [[-np.inf, -np.inf]]
    if dialect == "duckdb":  # SQLite has no NaN: it stores NULL
        rows += [[np.nan] * n_columns, [np.nan, good[-1]][:n_columns]]
    columns = ["a", "b"][:n_columns]
    expressions = [calibrator.to_sql(columns, dialect=dialect)]
    expressions += calibrator.to_sql(columns, dialect=dialect, output="posterior").values()
    found = select(dialect, columns, rows, expressions)
    assert None not in found[0]
    assert set(found[1:]) == {(None, None, None)}
    for row in rows[1:]:
        values = np.array(row, dtype=float) if None not in row else np.full(n_columns, np.nan)
        with pytest.raises(rp.ScoresError):
            calibrator.predict(values if n_columns == 1 else values[None])


@pytest.mark.parametrize("dialect", EXECUTED)
def test_hostile_names_are_names(dialect):
    prior, scores, labels = drawn(len(HOSTILE), "probs")
    calibrator = rp.PosteriorCalibrator(prior, kind="probs", classes=HOSTILE)
    calibrator.fit(scores, np.array(HOSTILE, dtype=object)[labels])
    assert set(calibrator.predict(scores).tolist()) == set(HOSTILE)
    agree(dialect, calibrator, scores, columns=HOSTILE)


@pytest.mark.parametrize("dialect", EXECUTED)
def test_a_missing_column_is_an_error(dialect):
    """In double quotes SQLite would take the name of a missing column as a text."""
    prior, scores, labels = drawn(2, "logits")
    sql = rp.PosteriorCalibrator(prior).fit(scores, labels).to_sql(["c0", "other"], dialect=dialect)
    with pytest.raises(Exception, match="other"):
        select(dialect, ["c0", "c1"], scores, [sql])


@pytest.mark.parametrize("dialect", EXECUTED)
@pytest.mark.parametrize("classes", [[10, 20, 30], [0.5, 1.5, 2.5], [1, 0, 2]], ids=str)
def test_labels_that_are_numbers(dialect, classes):
    prior, scores, labels = drawn(3, "logits")
    calibrator = rp.PosteriorCalibrator(prior, classes=classes)
    agree(dialect, calibrator.fit(scores, np.array(classes)[labels].tolist()), scores)


@pytest.mark.parametrize("dialect", EXECUTED)
def test_truth_values(dialect):
    prior, scores, labels = drawn(2, "probs")
    calibrator = rp.PosteriorCalibrator(prior, kind="probs", classes=[False, True])
    calibrator.fit(scores, labels.astype(bool).tolist())
    agree(dialect, calibrator, scores, columns=["no", "yes"])
    mapping = {True: "yes", False: "no"}
    assert calibrator.to_sql(mapping) == calibrator.to_sql(["no", "yes"])


@pytest.mark.parametrize("dialect", EXECUTED)
@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_many_classes(dialect, kind):
    prior, scores, labels = drawn(300, kind, n=40)
    prior = rp.prior_from_counts(np.arange(300) + 1)
    calibrator = rp.PosteriorCalibrator(prior, kind=kind)
    with pytest.warns(rp.RepriorWarning):  # classes without labels
        calibrator.fit(scores, labels)
    columns = [f"c{k}" for k in range(300)]
    label = calibrator.to_sql(columns, dialect=dialect)
    assert len(label) < 70 * 300 * np.log2(300)  # not the square of the classes
    found = select(dialect, columns, scores, [label])
    assert [row[0] for row in found] == calibrator.predict(scores).tolist()


@pytest.mark.parametrize("dialect", EXECUTED)
def test_single_precision_columns_are_computed_in_double(dialect):
    prior, scores, labels = drawn(3, "probs")
    scores = scores.astype(np.float32)
    calibrator = rp.PosteriorCalibrator(prior, kind="probs").fit(scores, labels)
    sql = calibrator.to_sql(["a", "b", "c"], dialect=dialect)
    found = select(dialect, ["a", "b", "c"], scores, [sql])
    assert [row[0] for row in found] == calibrator.predict(scores).tolist()


LITERALS = {
    "duckdb": ['"a""`\\"', "'it''s \\'"],
    "postgresql": ['"a""`\\"', "E'it''s \\\\'"],
    "sqlite": ['`a"``\\`', "'it''s \\'"],
    "bigquery": ['`a"\\`\\\\`', "'it\\'s \\\\'"],
    "snowflake": ['"a""`\\"', "'it\\'s \\\\'"],
    "spark": ['`a"``\\`', "'it\\'s \\\\'"],
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_quotes_of_every_dialect(dialect):
    prior, scores, labels = drawn(2, "logits")
    names = ["it's \\", "b"]
    calibrator = rp.PosteriorCalibrator(prior, classes=names)
    calibrator.fit(scores, np.array(names, dtype=object)[labels])
    sql = calibrator.to_sql(['a"`\\', "b"], dialect=dialect)
    for literal in LITERALS[dialect]:
        assert literal in sql
    assert "--" not in sql


def fitted(**options):
    prior, scores, labels = drawn(3, "logits")
    return rp.PosteriorCalibrator(prior, **options).fit(scores, labels)


@pytest.mark.parametrize(
    "columns, words",
    [
        (["a", "b"], r"must name 3 columns, one per class\. Got 2"),
        ("abc", r"Got 1\. They are the scores of the classes 0, 1, 2, in this order"),
        (["a", "b", "a"], r"must be different names.* Got columns\[2\]='a'"),
        (["a", "", "c"], r"Got columns\[1\]=''"),
        (["a", "b\0", "c"], r"columns\[1\]"),
        (["a", 1, "c"], r"Got columns\[1\]=1"),
        ({0: "a", 1: "b", 3: "c"}, "must name a column for each of the classes 0, 1, 2"),
    ],
)
def test_wrong_columns_are_refused(columns, words):
    with pytest.raises(rp.OptionError, match=words):
        fitted().to_sql(columns)


def test_wrong_options_are_refused():
    calibrator = fitted()
    with pytest.raises(rp.OptionError, match="`dialect` must be one of 'duckdb', 'postgresql'"):
        calibrator.to_sql(["a", "b", "c"], dialect="oracle")
    with pytest.raises(rp.OptionError, match="`output` must be one of 'label', 'posterior'"):
        calibrator.to_sql(["a", "b", "c"], output="labels")
    with pytest.raises(rp.NotFittedError):
        rp.PosteriorCalibrator([0.5, 0.5]).to_sql(["a", "b"])
    mixed = rp.PosteriorCalibrator([0.8, 0.2], classes=["a", 1])
    mixed.fit([[2.0, 0.0], [0.0, 1.0]], ["a", 1])
    with pytest.raises(rp.OptionError, match="`classes` must all be texts"):
        mixed.to_sql(["a", "b"])
