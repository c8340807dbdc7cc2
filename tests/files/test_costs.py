"""Costs in files: every form says the same, and what is no cost matrix is refused in words."""

from __future__ import annotations

import json

import numpy as np
import pytest

from reprior.exceptions import FileFormatError, OptionError
from reprior.files.costs import read_costs

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
