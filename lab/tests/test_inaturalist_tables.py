"""Table 3 and the table of strengths, of results that are stated here."""

from __future__ import annotations

import numpy as np
import pytest

from reprior_lab.correction import Folded
from reprior_lab.inaturalist import error_table, strength_table, title_of
from reprior_lab.inaturalist_results import Corrected, MethodResult

CURVE = np.array([0.0, 1.0]), np.array([0.6, 0.7])


def corrected(error, strengths=(1.1, 1.2, 1.3), bayes=0.35):
    folds = Folded((error - 0.01, error, error + 0.01), strengths, (0.4, 0.4, 0.4))
    return Corrected(folds, bayes, 1.25, (1.24, 1.26), error - 0.002, 0.12)


def result(error=0.4, raw=0.33, effective=None):
    other = None if effective is None else corrected(effective, (4.0, 5.0, 6.0), 0.36)
    return MethodResult(
        24_426, 8142, 17_000, error, 0.15, corrected(raw), other, (0.0, 2.0), CURVE, CURVE
    )


@pytest.fixture
def real():
    return error_table(
        "inaturalist",
        {
            ("ce", "inception_v3"): result(0.41),
            ("ce", "resnet50"): result(0.39),
            ("ce-drw", "resnet50"): result(0.34, 0.32, effective=0.338),
            ("bbn", "resnet50"): result(0.35, 0.345, effective=0.346),
        },
    )


@pytest.fixture
def simulated():
    results = {("ce", "stand-in"): result(), ("ce-drw", "stand-in"): result(effective=0.34)}
    return error_table("inaturalist-simulated", results)


def test_rows_in_blocks(real):
    assert [label for label, _ in real.rows] == [
        "CE",
        "CE-DRW",
        "BBN",
        "CE-IC",
        "CE-DRW-IC",
        "BBN-IC",
        "CE-DRW-IC, effective prior",
        "BBN-IC, effective prior",
        "CE, λ = 1",
        "CE-DRW, λ = 1",
        "BBN, λ = 1",
        "CE-DRW, λ = 1, effective prior",
        "BBN, λ = 1, effective prior",
    ]
    assert real.columns == ("Inception v3", "ResNet-50")


@pytest.mark.parametrize(
    "row, shown",
    [
        ("CE", ["41.00 (paper 40.08)", "39.00 (paper 38.00)"]),
        (
            "CE-IC",
            [
                "33.00 ± 1.00 (paper 34.16), λ 1.20; paper ± 0.03",
                "33.00 ± 1.00 (paper 32.16), λ 1.20; paper ± 0.41",
            ],
        ),
        ("CE-DRW", ["– (paper 35.35)", "34.00 (paper 33.73)"]),
        ("CE-DRW-IC, effective prior", ["–", "33.80 ± 1.00, λ 5.00"]),
        ("CE-DRW, λ = 1", ["–", "35.00"]),
        ("CE-DRW, λ = 1, effective prior", ["–", "36.00"]),
        ("BBN", ["–", "35.00 (paper 33.71), as the authors of BBN report it"]),
    ],
)
def test_cells_of_the_images(real, row, shown):
    assert [cell.shown() for cell in dict(real.rows)[row]] == shown


def test_the_papers_figures_have_columns_of_their_own_beside_the_stand_in(simulated):
    assert simulated.columns == (
        "Stand-in",
        "Inception v3 on the images",
        "ResNet-50 on the images",
    )
    rows = {label: [cell.shown() for cell in cells] for label, cells in simulated.rows}
    assert rows["CE"] == ["40.00", "– (paper 40.08)", "– (paper 38.00)"]
    assert rows["CE-IC"][0] == "33.00 ± 1.00, λ 1.20"
    assert rows["CE, λ = 1"] == ["35.00", "–", "–"]


def test_what_the_stand_in_is_is_said(real, simulated):
    assert "stand-in" in simulated.title
    assert any("that error is no result" in note for note in simulated.notes)
    assert not any("stand-in" in text for text in (real.title, *real.notes))
    assert "24,426 validation samples of 8,142 classes" in real.notes[0]


def test_the_best_is_bold(real):
    markdown = real.markdown()
    assert "**32.00** ± 1.00 (paper 32.06)" in markdown
    assert markdown.count("**") == 2 * 3  # the title, and the best of two columns


def test_strengths():
    table = strength_table("inaturalist-strength", {("ce-drw", "resnet50"): result()})
    ((label, cells),) = table.rows
    assert label == "CE-DRW, ResNet-50"
    assert [cell.shown() for cell in cells] == [
        "1.10, 1.20, 1.30",
        "1.2500 (1.2400 to 1.2600)",
        "40.00",
        "32.80",
        "15.00",
        "12.00",
    ]
    assert "tuned and judged on the same labels" in table.notes[0]


def test_titles():
    assert [title_of(name) for name in ("ldam-drw", "stand-in", "inception_v3", "vit_tiny-x")] == [
        "LDAM-DRW",
        "Stand-in",
        "Inception v3",
        "vit_tiny-x",
    ]
