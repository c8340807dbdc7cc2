"""Costs in files: every form says the same, and what is no cost matrix is refused in words."""

from __future__ import annotations

import json

import numpy as np
import pytest

from reprior.exceptions import FileFormatError, OptionError
from reprior.files import read_costs

NAMES = ["cat", "dog", "owl"]
COSTS = np.array([[0.0, 1.0, -2.0], [3.0, 0.0, 4.0], [5.5, 6.0, 0.0]])


@pytest.fixture
def reading(tmp_path):
    """Write costs, and read them."""

    def read(given, classes=NAMES):
        path = tmp_path / "costs.txt"
        path.write_text(given if isinstance(given, str) else json.dumps(given))
        return read_costs(path, classes)

    return read


def named(rows, columns, matrix=COSTS):
    cost = {a: dict(zip(NAMES, row, strict=True)) for a, row in zip(NAMES, matrix, strict=True)}
    return {a: {b: cost[a][b] for b in columns} for a in rows}


def as_csv(costs, delimiter=",", corner=""):
    columns = list(next(iter(costs.values())))
    lines = [[corner, *columns], *([a, *(row[b] for b in columns)] for a, row in costs.items())]
    return "\n".join(delimiter.join(map(str, line)) for line in lines)


TURNED = named(["owl", "cat", "dog"], ["dog", "owl", "cat"])


@pytest.mark.parametrize(
    "given, has_names",
    [
        (COSTS.tolist(), False),
        (TURNED, True),
        (as_csv(TURNED), True),
        (as_csv(TURNED, ";", "true class"), True),
        ("0\t1\t-2\n3\t0\t4\n\n5.5\t6\t0\n", False),
    ],
)
def test_every_form(reading, given, has_names):
    found = reading(given)
    np.testing.assert_array_equal(found.matrix, COSTS)
    assert found.decisions == (tuple(NAMES) if has_names else None)


HEADED = "cat,ask,owl,dog\n0,0.5,-2,1\n3,0.5,4,0\n5.5,0.5,0,6\n"


def test_decisions_above_rows_without_classes(reading):
    found = reading(HEADED)
    assert found.decisions == (*NAMES, "ask")
    assert not found.by_class
    np.testing.assert_array_equal(found.matrix, np.column_stack([COSTS, [0.5] * 3]))


def test_whether_numbers_in_the_first_column_are_classes(reading):
    costs = "0,1,0.5\n1,0,0.5\n"
    with pytest.raises(FileFormatError, match=r"'0', '1' there, under 'leave', which may be eith"):
        reading(f"leave,treat,ask\n{costs}", [0, 1])
    classes = reading(f",treat,ask\n{costs}", [0, 1])
    assert (classes.decisions, classes.by_class) == (("treat", "ask"), True)
    np.testing.assert_array_equal(classes.matrix, [[1, 0.5], [0, 0.5]])
    for given in (
        reading(",leave,treat,ask\n0,0,1,0.5\n1,1,0,0.5\n", [0, 1]),
        reading(f"leave,treat,ask\n{costs}", ["a", "b"]),
        reading("leave,treat,ask\n0,1,0.5\n1.0,0,0.5\n", [0, 1]),  # 1.0 names no class
    ):
        assert given.decisions == ("leave", "treat", "ask")
        np.testing.assert_array_equal(given.matrix, [[0, 1, 0.5], [1, 0, 0.5]])
    two = reading("leave,treat\n0,1\n1,0\n", [0, 1])  # classes there would leave one decision
    np.testing.assert_array_equal(two.matrix, [[0, 1], [1, 0]])


def test_names_that_are_numbers(reading):
    costs = as_csv(TURNED)
    for k, name in enumerate(NAMES):
        costs = costs.replace(name, str(k))
    found = reading(costs, [0, 1, 2])
    np.testing.assert_array_equal(found.matrix, COSTS)
    assert found.decisions == ("0", "1", "2")


def test_other_decisions_follow_the_classes(reading):
    costs = {a: {"ask": 0.5, **row, "wait": 9} for a, row in TURNED.items()}
    found = reading(costs)
    assert found.decisions == (*NAMES, "ask", "wait")
    np.testing.assert_array_equal(found.matrix[:, :3], COSTS)
    np.testing.assert_array_equal(found.matrix[:, 3:], [[0.5, 9]] * 3)


def test_decisions_without_some_class_stay_as_they_stand(reading):
    found = reading({a: {"pass": 0, "dog": k, "stop": 1} for k, a in enumerate(NAMES)})
    assert found.decisions == ("pass", "dog", "stop")
    np.testing.assert_array_equal(found.matrix[:, 1], [0, 1, 2])


@pytest.mark.parametrize(
    "given, error, words",
    [
        (
            [[0, 1, 2], [1, 0, 2]],
            OptionError,
            "3 classes 'cat', 'dog', 'owl'. Got 2 in .*costs.txt",
        ),
        ([[0, 1, 2]] * 4, OptionError, "Got 4 .* turn it round if its rows are decisions"),
        ([[0, 1]] * 4, OptionError, r"Got 4 in '[^']*'\. Rows are the true classes"),
        ([[0, 1], [1, 0], [1]], OptionError, "in every row. Got 1 and 2 in"),
        ([[0], [1], [1]], OptionError, "at least two decisions in every row. Got 1 in"),
        (
            [[0, 1], [1, float("inf")], [1, 0]],
            OptionError,
            "finite numbers. Got inf .* 'dog' is true",
        ),
        ([[0, 1], [1, None], [1, 0]], OptionError, "Got None .* 'dog' is true and decision 1"),
        ([[0, 1], [1, True], [1, 0]], OptionError, "finite numbers. Got True"),
        ("0,1\n1,x\n1,0\n", OptionError, "finite numbers. Got 'x'"),
        ("true,cat,dog\ncat,0,1\ndog,1\nowl,1,1\n", OptionError, "Got 1 and 2 in"),
        ("a,b\n0,1\n1,0\n", OptionError, "3 classes 'cat', 'dog', 'owl'. Got 2 in"),
        ("a,b,c\n0,1\n1,0\n1,0\n", OptionError, "in every row. Got 2 and 3 in"),
        ("a,b\n0,1\n1,x\n1,0\n", OptionError, "Got 'x' .* 'dog' is true and decision 1"),
        ("", OptionError, "Got 0 in"),
        ("true,cat,dog\n", OptionError, "Got 0 in"),
        ([], OptionError, "Got 0 in"),
        ({}, OptionError, "Got 0 in"),
        ([1, 2, 3], FileFormatError, "Got JSON that is no table. Write a JSON list of rows"),
        ({"cat": [1, 2]}, FileFormatError, "Got JSON that is no table"),
        ("[[0, 1", FileFormatError, "truncated or damaged"),
        (named(["cat", "dog"], NAMES), FileFormatError, "missing: 'owl'"),
        ({**TURNED, "cow": TURNED["cat"]}, FileFormatError, "unknown: 'cow'"),
        (
            {**TURNED, "owl": {"cat": 1, "dog": 1}},
            FileFormatError,
            "same decisions for every class",
        ),
        (
            "x,a,a\ncat,0,1\ndog,1,0\nowl,1,0\n",
            FileFormatError,
            "every decision once. Got 'a' twice",
        ),
        (
            "x,a,b\ncat,0,1\ncat,1,0\nowl,1,0\n",
            FileFormatError,
            "every class once. Got 'cat' twice",
        ),
        ('{"cat": {"a": 1, "a": 2}}', FileFormatError, "decision of 'cat' once. Got 'a' twice"),
    ],
)
def test_what_is_refused(reading, given, error, words):
    with pytest.raises(error, match=words):
        reading(given)


def test_binary_data(tmp_path):
    np.save(tmp_path / "costs.npy", COSTS)
    with pytest.raises(FileFormatError, match=r"must hold costs: .* Got binary data"):
        read_costs(tmp_path / "costs.npy", NAMES)


def test_many_classes_are_read_at_once(tmp_path, monkeypatch):
    """The names are made a set once, not once for every name."""
    from reprior.files import costs, text_files

    made = []

    def counted(values):
        made.append(1)
        return set(values)

    for module in (costs, text_files):
        monkeypatch.setattr(module, "set", counted, raising=False)
    names = [f"c{k}" for k in range(50)]
    lines = [["", *names, "ask"], *([a, *("1" for _ in names), "0"] for a in names)]
    (tmp_path / "costs.csv").write_text("\n".join(map(",".join, lines)))
    assert read_costs(tmp_path / "costs.csv", names).decisions == (*names, "ask")
    assert len(made) < len(names) / 2
