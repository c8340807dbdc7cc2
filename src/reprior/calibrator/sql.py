"""SQL expressions that decide and give posteriors as a calibrator does, for several databases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

from reprior.calibrator.encoding import is_range
from reprior.core.checks import check_choice, few
from reprior.core.score_map import ScoreMap
from reprior.exceptions import Argument, Element, OptionError

__all__ = ["DIALECTS", "OUTPUTS", "Dialect", "sql_of"]

Vector: TypeAlias = np.ndarray[Any, Any]

OUTPUTS = ("label", "posterior")

#: Arguments of GREATEST in one call: SQLite takes 127 at most.
_WIDEST = 64

#: exp(±690) neither overflows nor underflows, and a million of them can be added. PostgreSQL and
#: BigQuery stop with an error where others return infinity or 0.
_REACH = "6.9E2"

#: Beyond it scores count as infinite: differences of two numbers below do not overflow.
_LARGEST = "1E300"

#: By how much probabilities may miss the sum of 1, as for scores in memory.
_SUM_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Dialect:
    """How one database writes names, texts and functions."""

    double: str
    """Its 64-bit floating-point type."""
    greatest: str = "GREATEST"
    least: str = "LEAST"
    quote: str = '"'
    """The character around identifiers."""
    escapes: tuple[bool, bool] = (False, False)
    """Whether a backslash escapes in identifiers, and in texts; doubling the quote does else."""
    marks_backslash: bool = False
    """Whether a text with a backslash is written E'…', which no setting changes."""

    def identifier(self, name: str) -> str:
        """Return a column's name, quoted."""
        if self.escapes[0]:
            return f"{self.quote}{_escaped(name, self.quote)}{self.quote}"
        return f"{self.quote}{name.replace(self.quote, self.quote * 2)}{self.quote}"

    def text(self, value: str) -> str:
        """Return a text, quoted."""
        if self.escapes[1]:
            return f"'{_escaped(value, _APOSTROPHE)}'"
        doubled = value.replace("'", "''")
        if self.marks_backslash and "\\" in value:
            escaped = doubled.replace("\\", "\\\\")
            return f"E'{escaped}'"
        return f"'{doubled}'"


_APOSTROPHE = "'"


def _escaped(value: str, quote: str) -> str:
    for character, code in (("\\", "\\\\"), (quote, f"\\{quote}"), ("\n", "\\n"), ("\r", "\\r")):
        value = value.replace(character, code)
    return value


DIALECTS = {
    "duckdb": Dialect("DOUBLE"),
    "postgresql": Dialect("DOUBLE PRECISION", marks_backslash=True),
    # A name in double quotes that is no column is a text in SQLite, without an error.
    "sqlite": Dialect("REAL", greatest="MAX", least="MIN", quote="`"),
    "bigquery": Dialect("FLOAT64", quote="`", escapes=(True, True)),
    "snowflake": Dialect("DOUBLE", escapes=(False, True)),
    "spark": Dialect("DOUBLE", quote="`", escapes=(False, True)),
}


@dataclass(frozen=True, eq=False)
class _Scores:
    """The log-scores of a row as SQL: of class k, ``logs[k]``, or NULL where it is impossible."""

    dialect: Dialect
    kind: str
    columns: list[str]
    """A number per class, of the kind."""
    valid: str
    """The condition that the row has a posterior; not true where a column is NULL."""

    def possible(self, k: int) -> str | None:
        """Return the condition that class k is possible, or None if it always is."""
        bound = {"logits": None, "probs": "> 0", "log_probs": f">= -{_LARGEST}"}[self.kind]
        return None if bound is None else f"{self.columns[k]} {bound}"

    def log(self, k: int) -> str:
        """Return the log-score of class k."""
        possible = self.possible(k)
        if possible is None:
            return self.columns[k]
        value = f"LN({self.columns[k]})" if self.kind == "probs" else self.columns[k]
        return f"CASE WHEN {possible} THEN {value} END"


def sql_of(
    score_map: ScoreMap,
    priors: tuple[Any, Any],
    classes: Vector,
    *,
    kind: str,
    columns: Any,
    dialect: str,
    output: str,
) -> str | dict[Any, str]:
    """Return the expressions of :meth:`reprior.PosteriorCalibrator.to_sql`."""
    check_choice("dialect", dialect, DIALECTS)
    spoken = DIALECTS[dialect]
    scores = _read(columns, classes, kind, spoken)
    if output == "label":
        # As `predict`: the temperature changes no decision.
        bias, scales = score_map.shifts(*priors), score_map.scales
        return _label(scores, bias, scales, _literals(classes, spoken))
    scale, bias = score_map.affine(*priors)
    posteriors = _posteriors(scores, np.broadcast_to(scale, bias.shape), bias)
    return dict(zip(classes.tolist(), posteriors, strict=True))


# ------------------------------------------------------------------------------------- columns


def _read(columns: Any, classes: Vector, kind: str, dialect: Dialect) -> _Scores:
    names = _names(columns, classes)
    read = [f"CAST({dialect.identifier(name)} AS {dialect.double})" for name in names]
    if len(read) < classes.size:  # one score of two classes, that of class 1
        (one,) = read
        if kind == "logits":
            return _Scores(dialect, kind, ["0E0", one], _is_number(one))
        if kind == "log_probs":
            inside = f"{one} <= 0"
            one = f"EXP({dialect.greatest}({one}, -{_REACH}))"
            return _Scores(dialect, "probs", [f"(1 - {one})", one], inside)
        return _Scores(dialect, kind, [f"(1 - {one})", one], f"{one} BETWEEN 0 AND 1")
    if kind == "logits":
        return _Scores(dialect, kind, read, _joined(list(map(_is_number, read)), " AND "))
    if kind == "log_probs":
        largest = _extreme(dialect.greatest, read)
        below = _joined([f"{name} <= {_number(_SUM_TOLERANCE)}" for name in read], " AND ")
        return _Scores(dialect, kind, read, f"{below} AND {largest} >= -{_LARGEST}")
    low, high = _number(1 - _SUM_TOLERANCE), _number(1 + _SUM_TOLERANCE)
    total = _joined(read, " + ")
    valid = f"{_extreme(dialect.least, read)} >= 0 AND {total} BETWEEN {low} AND {high}"
    return _Scores(dialect, kind, read, valid)


def _names(columns: Any, classes: Vector) -> list[str]:
    """Return the names of columns in the order of the classes."""
    order = classes.tolist()
    if isinstance(columns, Mapping):
        if set(columns) != set(order):
            raise OptionError(
                argument="columns",
                rule=f"must name a column for each of the classes {few(order)}",
                got=f"names for {few(list(columns))}",
                remedy="Pass {class: column}.",
            )
        columns = [columns[name] for name in order]
    if not isinstance(columns, Iterable):
        raise OptionError(
            argument="columns",
            rule="must be the names of columns",
            got=repr(columns),
            remedy=f"Pass a list, in the order of the classes {few(order)}.",
        )
    names = [columns] if isinstance(columns, str) else list(columns)
    expected = f"{len(order)} columns, one per class" + (", or 1" if len(order) == 2 else "")
    if len(names) != len(order) and not (len(order) == 2 and len(names) == 1):
        raise OptionError(
            argument="columns",
            rule=f"must name {expected}",
            got=f"{len(names)}",
            remedy=f"They are the scores of the classes {few(order)}, in this order.",
        )
    for i, name in enumerate(names):
        if not isinstance(name, str) or not name or "\0" in name or name in names[:i]:
            raise OptionError(
                argument="columns",
                rule="must be different names, without a NUL character",
                got=Element("columns", (i,), repr(name)),
                remedy="Pass the names of columns as the table has them, not quoted.",
            )
    return names


def _is_number(value: str) -> str:
    return f"{value} BETWEEN -{_LARGEST} AND {_LARGEST}"


def _literals(classes: Vector, dialect: Dialect) -> list[str]:
    """Return the labels: numbers, texts or truth values."""
    names = list(range(classes.size)) if is_range(classes) else classes.tolist()
    kinds = {type(name) for name in names}
    good = len(kinds) == 1 and kinds <= {str, int, float, bool}
    if not good or any(isinstance(name, str) and "\0" in name for name in names):
        raise OptionError(
            argument="classes",
            rule="must all be texts, all integers, all numbers or all truth values to be labels "
            "in SQL",
            got=few(names),
            remedy=["Fit it with such ", Argument("classes"), "."],
        )
    writers: dict[type, Callable[[Any], str]] = {
        str: dialect.text,
        int: str,
        float: _number,
        bool: lambda value: "TRUE" if value else "FALSE",
    }
    return [writers[type(name)](name) for name in names]


# ------------------------------------------------------------------------------------- results


def _label(scores: _Scores, bias: Vector, scales: Vector | None, labels: list[str]) -> str:
    """Return the arg max, lowest among equals.

    Halves of the classes are compared, then halves of the better half: K·log K terms.
    """
    dialect, valid = scores.dialect, scores.valid
    left = np.flatnonzero(np.isfinite(bias)).tolist()
    if scores.kind == "probs" and scales is None:  # without logarithms, which not every SQLite has
        factors = np.exp(bias - bias.max())
        values = {k: _times(scores.columns[k], factors[k]) for k in left}
        if len(left) < bias.size:
            valid += f" AND {_extreme(dialect.greatest, list(values.values()))} > 0"
    else:
        factors = np.ones(bias.size) if scales is None else scales
        values = {k: _plus(_times(scores.log(k), factors[k]), bias[k]) for k in left}
        if scores.kind != "logits":
            values = {k: f"COALESCE({value}, -{_LARGEST})" for k, value in values.items()}
            if len(left) < bias.size:
                valid += f" AND {_extreme(dialect.greatest, list(values.values()))} > -{_LARGEST}"

    def best(first: int, last: int) -> str:
        if last - first == 1:
            return labels[left[first]]
        middle = (first + last) // 2
        halves = (left[first:middle], left[middle:last])
        low, high = (_extreme(dialect.greatest, [values[k] for k in half]) for half in halves)
        return f"CASE WHEN {low} >= {high} THEN {best(first, middle)} ELSE {best(middle, last)} END"

    return f"CASE WHEN {valid} THEN {best(0, len(left))} END"


def _posteriors(scores: _Scores, scale: Vector, bias: Vector) -> list[str]:
    if scores.kind == "probs" and (scale == 1.0).all():
        factors = np.exp(bias - bias.max())
        terms = [_times(column, f) for column, f in zip(scores.columns, factors, strict=True)]
        total = _joined(terms, " + ")
        return [f"CASE WHEN {scores.valid} THEN {term} / NULLIF({total}, 0) END" for term in terms]
    left = np.flatnonzero(np.isfinite(bias)).tolist()
    logs = [_times(scores.log(k), scale[k]) for k in range(bias.size)]
    dialect, valid = scores.dialect, scores.valid
    if len(left) < bias.size and scores.kind != "logits":
        some = _joined([str(scores.possible(k)) for k in left], " OR ")
        valid += f" AND ({some})"

    def ratio(j: int, k: int) -> str:
        """P(j) / P(k)."""
        if j == k:
            return "1"
        difference = _plus(f"{logs[j]} - {logs[k]}", bias[j] - bias[k])
        term = f"EXP({dialect.least}({dialect.greatest}({difference}, -{_REACH}), {_REACH}))"
        if scores.kind == "logits":
            return term
        return f"CASE WHEN {scores.possible(j)} THEN {term} ELSE 0 END"

    def posterior(k: int) -> str:
        if k not in left:
            return f"CASE WHEN {valid} THEN 0E0 END"
        value = f"1E0 / {_joined([ratio(j, k) for j in left], ' + ')}"
        if scores.kind != "logits":
            value = f"CASE WHEN {scores.possible(k)} THEN {value} ELSE 0E0 END"
        return f"CASE WHEN {valid} THEN {value} END"

    return [posterior(k) for k in range(bias.size)]


# ------------------------------------------------------------------------------------- writing


def _number(value: float) -> str:
    """Return a number as every database reads a 64-bit one: with an exponent.

    Examples
    --------
    >>> _number(0.25), _number(-3.0)
    ('2.5E-1', '-3.0E0')
    """
    digits, _, exponent = f"{Decimal(repr(float(value))):E}".partition("E")
    return f"{digits}E{int(exponent)}"


def _plus(term: str, value: float) -> str:
    """Return term + value; two minus signs in a row would begin a comment."""
    if value == 0:
        return term
    return f"{term} {'-' if value < 0 else '+'} {_number(abs(value))}"


def _times(term: str, factor: float) -> str:
    if factor == 1:
        return term
    return f"{term} * {_number(factor)}" if factor >= 0 else f"{term} * ({_number(factor)})"


def _extreme(function: str, values: Sequence[str]) -> str:
    """Return the greatest, or least, of values by calls of a limited width."""
    if len(values) == 1:
        return values[0]
    if len(values) <= _WIDEST:
        return f"{function}({', '.join(values)})"
    parts = [values[i : i + _WIDEST] for i in range(0, len(values), _WIDEST)]
    return _extreme(function, [_extreme(function, part) for part in parts])


def _joined(terms: Sequence[str], operator: str) -> str:
    """Join terms in parentheses of logarithmic depth: SQLite allows a depth of 1,000."""
    if len(terms) <= 8:
        return f"({operator.join(terms)})"
    middle = len(terms) // 2
    return f"({_joined(terms[:middle], operator)}{operator}{_joined(terms[middle:], operator)})"
