"""The paper's figures: typed once, and checked by what they must add up to."""

from __future__ import annotations

from itertools import product

import pytest

from reprior.exceptions import OptionError
from reprior_lab.paper import (
    paper_columns,
    paper_note,
    paper_rows,
    paper_tables,
    paper_value,
    paper_words,
)

#: The printed average is of numbers with two decimals, and has two itself.
ROUNDING = 0.005 + 1e-9

CIFAR = paper_columns("cifar")[:-1]

#: Rows whose printed average is not the mean of the row.
WRONG = {"ce": 37.70, "focal": 38.17, "ldam": 37.91, "cb_focal": 41.40, "focal-drw": 33.9}


#: Sums over all rows of what is printed, by column, added up apart from our file.
SUMS = {
    "cifar": (307.78, 160.34, 350.3, 156.55, 787.96, 556.64, 731.03, 523.68),
    "cifar_strength": (5.9, 3.5, 4.1, 3.5, 3.5, 2.5, 3.3, 2.6),
    "inaturalist": (298.12, 317.41),
    "inaturalist_spread": (0.14, 0.79),
    "synthia_rgb": (558.39, 655.71, 0.3),
    "synthia_rgbd_miou": (326.48, 325.15, 312.58, 316.53, 292.62, 315.76, 313.62, 314.68),
    "synthia_rgbd_macc": (356.68, 358.33, 346.66, 350.28, 313.82, 344.62, 341.61, 343.14),
    "synthia_rgbd_strength": (0.8,),
}


def mean(row):
    return sum(paper_value("cifar", row, column) for column in CIFAR) / len(CIFAR)


def whole_rows():
    return [row for row in paper_rows("cifar") if row != "bbn"]


@pytest.mark.parametrize("row", whole_rows())
def test_an_average_is_the_mean_of_its_row(row):
    assert paper_value("cifar", row, "average") == pytest.approx(mean(row), abs=ROUNDING)


@pytest.mark.parametrize("row", whole_rows())
def test_a_printed_average_is_right_but_for_five(row):
    printed = paper_value("cifar", row, "average", as_printed=True)
    assert (abs(printed - mean(row)) > ROUNDING) == (row in WRONG)
    if row in WRONG:
        assert printed == WRONG[row]
        assert (
            paper_note("cifar", row, "average") == f"printed {printed:g}: not the mean of its row"
        )
    else:
        assert printed == paper_value("cifar", row, "average")
        assert paper_note("cifar", row, "average") == ""


@pytest.mark.parametrize("table", SUMS)
def test_columns_by_their_sums(table):
    columns = CIFAR if table == "cifar" else paper_columns(table)
    printed = [
        [paper_value(table, r, c, as_printed=True) for r in paper_rows(table)] for c in columns
    ]
    sums = [sum(value for value in column if value is not None) for column in printed]
    assert sums == pytest.approx(SUMS[table], abs=1e-9)


def test_tables_are_whole():
    for table in paper_tables():
        assert paper_rows(table)
        for row, column in product(paper_rows(table), paper_columns(table)):
            value = paper_value(table, row, column)
            assert value is None or value >= 0
            dash = row == "bbn" or (table == "synthia_rgb" and column == "strength")
            assert value is not None or dash, "only BBN's cells are dashes, or have no strength"


@pytest.mark.parametrize("table", ["synthia_rgbd_miou", "synthia_rgbd_macc"])
def test_averages_of_table_5_are_means_but_for_one(table):
    columns = paper_columns(table)[:-1]
    for row in paper_rows(table):
        mean = sum(paper_value(table, row, column) for column in columns) / len(columns)
        printed = paper_value(table, row, "average", as_printed=True)
        assert paper_value(table, row, "average") == pytest.approx(mean, abs=ROUNDING)
        assert (abs(printed - mean) > ROUNDING) == ((table, row) == ("synthia_rgbd_macc", "ic"))
    assert paper_note("synthia_rgbd_macc", "ic", "average") == (
        "printed 87.92: not the mean of its row"
    )


def test_a_corrected_method_is_better_or_as_good():
    """Strengths tuned on the very labels cannot be worse than none, and 0 is none."""
    for row, column in product(paper_rows("cifar_strength"), CIFAR):
        before = paper_value("cifar", row.removesuffix("-ic"), column)
        after = paper_value("cifar", row, column)
        assert after <= before
        assert (paper_value("cifar_strength", row, column) == 0.0) == (after == before)


def test_what_is_doubtful_is_said():
    rows = paper_rows("cifar")
    values = [(paper_value("cifar", r, c), r, c) for r, c in product(rows, CIFAR)]
    doubtful = {(r, c) for _, r, c in values if "doubtful" in paper_note("cifar", r, c)}
    row = "focal-drw-ic"
    assert doubtful == {(row, c) for c in ("cifar10-exp100", "cifar10-step100", "cifar100-step100")}
    for one, column in doubtful:
        value = paper_value("cifar", one, column)
        twice = [(r, c) for v, r, c in values if v == value and (r, c) != (one, column)]
        assert twice, "it is printed elsewhere, too"


def test_what_others_report_is_said():
    starred = {
        (table, row, column)
        for table in paper_tables()
        for row, column in product(paper_rows(table), paper_columns(table))
        if "BBN report" in paper_note(table, row, column)
    }
    assert starred == {
        ("cifar", "bbn", "cifar10-exp100"),
        ("cifar", "bbn", "cifar10-exp10"),
        ("cifar", "bbn", "cifar100-exp100"),
        ("inaturalist", "ldam-drw", "resnet50"),
        ("inaturalist", "bbn", "resnet50"),
    }


@pytest.mark.parametrize("column", CIFAR)
def test_table_1_knows_the_columns_of_table_2(column):
    data, imbalance = column.split("-")
    right = 5000 if data == "cifar10" else 500
    assert paper_value("datasets", column, "largest") == right
    assert paper_value("datasets", column, "largest", as_printed=True) == 5000
    assert bool(paper_note("datasets", column, "largest")) == (data == "cifar100")
    assert paper_words("datasets", column, "imbalance") == imbalance.rstrip("01")
    assert f"{paper_value('datasets', column, 'ratio'):g}" == imbalance.lstrip("expst")


@pytest.mark.parametrize(
    "table, row, column",
    [
        ("cifar", "ldam-ic", "cifar10-exp100"),
        ("cifar", "ce", "cifar10-exp50"),
        ("cifar", "bbn", "average"),
        ("cifar_strength", "ce", "cifar10-exp100"),
        ("inaturalist", "bbn", "inception_v3"),
        ("inaturalist_spread", "ce", "resnet50"),
    ],
)
def test_what_the_paper_does_not_print_is_none(table, row, column):
    assert paper_value(table, row, column) is None
    assert paper_note(table, row, column) == ""
    assert paper_words(table, row, column) is None


@pytest.mark.parametrize("ask", [paper_value, paper_note, paper_words])
def test_an_unknown_table_is_refused(ask):
    with pytest.raises(OptionError, match="`table` must be one of 'datasets', 'cifar'"):
        ask("cifa", "ce", "average")
