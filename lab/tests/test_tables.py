"""Tables: what a cell prints, what is bold, what three formats make of it."""

from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprior.exceptions import FileFormatError, OptionError
from reprior_lab.tables import Cell, Table, write_table


def table(*rows, **differing):
    options = {"name": "errors", "title": "Errors", "columns": ("a", "b"), "rows": rows}
    return Table(**options | differing)


@pytest.mark.parametrize(
    "cell, shown",
    [
        (
            Cell(20.136, paper=20.14, spread=0.118, note="λ 1.3"),
            "20.14 ± 0.12 (paper 20.14), λ 1.3",
        ),
        (Cell(20.136, spread=0.118, n=3), "20.14 ± 0.12"),
        (Cell(20.136), "20.14"),
        (Cell(paper=20.14), "– (paper 20.14)"),
        (Cell(paper=20.14, note="not run"), "– (paper 20.14), not run"),
        (Cell(), "–"),
        (Cell(spread=1.0), "–"),
        (Cell(text="Step"), "Step"),
        (Cell(7.0, text="many", paper=9), "many (paper 9.00)"),
        (Cell(437513.0), "437,513.00"),
        (Cell(-0.001), "0.00"),
        (Cell(-0.006), "-0.01"),
    ],
)
def test_what_a_cell_prints(cell, shown):
    assert cell.shown() == shown


def test_digits_are_the_tables():
    made = table(("CE", (Cell(28.478, paper=28.48), Cell(5.0))), digits=0)
    assert "| CE | 28 (paper 28) | 5 |" in made.markdown()


@pytest.mark.parametrize("name", ["value", "paper", "spread"])
@pytest.mark.parametrize("number", [math.nan, math.inf, "1", True])
def test_a_number_must_be_one(name, number):
    with pytest.raises(OptionError, match=f"`{name}` must be a finite number"):
        Cell(**{name: number})


@pytest.mark.parametrize("best, bold", [("min", "**1.00**"), ("max", "**2.00**")])
def test_the_best_of_ours_is_bold(best, bold):
    # The paper's are better on either side, and words have no value: neither is in the running.
    rows = (
        ("x", (Cell(1.0, paper=0.5), Cell(3.0))),
        ("y", (Cell(2.0, paper=9.0), Cell(paper=1.0))),
        ("z", (Cell(99.0, text="-"), Cell())),
    )
    found = re.findall(r"\*\*[\d.]+\*\*", table(*rows, best=best).markdown())
    assert found == [bold], "and the second column has one number only"
    assert "**1.00" not in table(*rows).markdown()


def test_what_prints_alike_is_bold_alike():
    rows = [(name, (Cell(value), Cell())) for name, value in (("x", 1.001), ("y", 1.004))]
    assert table(*rows, best="min").markdown().count("**1.00**") == 2


def test_only_our_number_is_bold():
    rows = [(n, (Cell(v, paper=v, spread=v, note="λ 1"), Cell())) for n, v in (("x", 1), ("y", 2))]
    made = table(*rows, best="min")
    assert "| x | **1.00** ± 1.00 (paper 1.00), λ 1 | – |" in made.markdown()
    assert r"x & \textbf{1.00} $\pm$ 1.00 (paper 1.00), $\lambda$ 1 & -- \\" in made.latex()


def test_markdown_whole():
    made = table(("CE", (Cell(1.0), Cell())), corner="method", notes=("First.", "Second."))
    assert made.markdown() == (
        "**Errors**\n\n| method | a | b |\n|---|---:|---:|\n| CE | 1.00 | – |\n\n"
        "- First.\n- Second.\n"
    )


def test_latex_whole():
    made = table(("CE", (Cell(1.0), Cell())), notes=("First.",))
    assert made.latex().splitlines() == [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        r"\caption{Errors}",
        r"\label{tab:errors}",
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r" & a & b \\",
        r"\midrule",
        r"CE & 1.00 & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\par\smallskip {\footnotesize First.}",
        r"\end{table}",
    ]


@pytest.mark.parametrize(
    "text, markdown, latex",
    [
        ("a|b", r"a\|b", "a$|$b"),
        ("50 %", "50 %", r"50 \%"),
        ("cb_ce & x", "cb_ce & x", r"cb\_ce \& x"),
        ("*", r"\*", "*"),
        ("a\nb", "a b", "a b"),
        ("a < b", "a &lt; b", "a $<$ b"),
        (r"\x{1}", r"\\x{1}", r"\textbackslash{}x\{1\}"),
        ("$2^3 ~#", "$2^3 ~#", r"\$2\textasciicircum{}3 \textasciitilde{}\#"),
        ("λ → 32×32", "λ → 32×32", r"$\lambda$ $\to$ 32$\times$32"),
    ],
)
def test_marks_of_a_format_are_escaped(text, markdown, latex):
    row = (text, (Cell(text=text), Cell(1.0, note=text)))
    made = table(row, title=text, corner=text, columns=(text, text), notes=(text,))
    assert made.markdown().count(markdown) == 8
    assert made.latex().count(latex) == 8


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
numbers = st.none() | st.floats(-1e6, 1e6)
cells = st.builds(
    Cell,
    value=numbers,
    paper=numbers,
    spread=numbers,
    n=st.integers(1, 5),
    note=texts,
    text=st.none() | texts,
)
tables = st.integers(1, 3).flatmap(
    lambda k: st.builds(
        Table,
        name=st.just("any"),
        title=texts,
        corner=texts,
        notes=st.lists(texts).map(tuple),
        columns=st.lists(texts, min_size=k, max_size=k).map(tuple),
        rows=st.lists(
            st.tuples(texts, st.lists(cells, min_size=k, max_size=k).map(tuple)), max_size=3
        ).map(tuple),
        digits=st.integers(0, 4),
        best=st.sampled_from([None, "min", "max"]),
    )
)


@given(tables)
def test_json_and_back_is_the_same(made):
    document = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert Table.from_dict(document) == made


@given(tables)
def test_any_table_keeps_its_shape(made):
    n = len(made.columns) + 2
    lines = [line for line in made.markdown().split("\n") if line.startswith("|")]
    assert len(lines) == 2 + len(made.rows)
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in lines} == {n}
    body = made.latex().split("\\toprule\n")[1].split("\\bottomrule")[0].split("\n")
    rows = [line for line in body if line.endswith(r" \\")]
    assert len(rows) == 1 + len(made.rows)
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {n - 2}


@pytest.mark.parametrize(
    "differing, sentence",
    [
        ({"rows": (("CE", (Cell(),)),)}, "a cell for each of the 2 columns. Got 1 in row 'CE'"),
        ({"name": "a/b"}, "`name` must be letters, digits.* Got 'a/b'"),
        ({"name": ""}, "Got ''"),
        ({"name": ".hidden"}, "Got '.hidden'"),
        ({"best": "least"}, "`best` must be one of 'min', 'max'. Got 'least'"),
        ({"digits": -1}, "`digits` must be a finite number of at least 0. Got -1"),
    ],
)
def test_a_table_that_is_none_is_refused(differing, sentence):
    with pytest.raises(OptionError, match=sentence):
        table(**differing)


@pytest.mark.parametrize(
    "change, found",
    [
        (lambda d: d.pop("rows"), "KeyError: 'rows'"),
        (lambda d: d.update(colour="red"), "colour"),
        (lambda d: d["rows"][0]["cells"][0].update(value="x"), "`value` must be"),
        (lambda d: d["rows"][0]["cells"].pop(), "Got 1 in row 'CE'"),
    ],
)
def test_a_document_that_is_none_is_refused(change, found):
    document = table(("CE", (Cell(1.0), Cell()))).to_dict()
    change(document)
    with pytest.raises(FileFormatError, match="A table must be what its JSON file holds") as caught:
        Table.from_dict(document)
    assert found in str(caught.value)


def test_three_files_say_the_same(tmp_path):
    made = table(("CE – λ", (Cell(1 / 3, paper=0.3), Cell())), notes=("A note.",))
    paths = write_table(made, tmp_path / "new" / "folder")
    md, tex, document = (path.read_text(encoding="utf-8") for path in paths)
    assert (md, tex) == (made.markdown(), made.latex())
    assert Table.from_dict(json.loads(document)) == made
    assert sorted(p.name for p in paths[0].parent.iterdir()) == [
        "errors.json",
        "errors.md",
        "errors.tex",
    ]


def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch):
    old = write_table(table(("old", (Cell(1.0), Cell()))), tmp_path)
    before = [path.read_bytes() for path in old]
    new = table(("new", (Cell(2.0), Cell())))
    monkeypatch.setattr(Table, "latex", lambda self: "\ud800")  # cannot be written
    with pytest.raises(UnicodeEncodeError):
        write_table(new, tmp_path)
    assert [path.read_bytes() for path in old] == before
    assert len(list(tmp_path.iterdir())) == 3


def test_a_short_cell_leaves_the_word_out():
    assert Cell(20.138, paper=20.14, note="λ 1.3").shown(short=True) == "20.14 (20.14), λ 1.3"
    assert Cell(text="exp (paper exp)").shown(short=True) == "exp (exp)"
