"""``reprior report``: the page is written, by what the files say."""

from __future__ import annotations

from tests.support.command_line import is_one_sentence


def test_a_page_with_test_data_and_counts(fitted, run):
    result = run(
        "report", fitted / "cal.json", fitted / "val.csv", "--test", fitted / "test.csv",
        "--counts", fitted / "counts.json", "--title", "Cats & owls", "-o", fitted / "page.html",
    )  # fmt: skip
    assert result.code == 0, result.err
    text = (fitted / "page.html").read_text(encoding="utf-8")
    assert "Cats &amp; owls" in text
    assert "owl" in text
    assert "page.html" in result.out


def test_json(fitted, run):
    result = run(
        "report", fitted / "cal.json", fitted / "val.csv", "-o", fitted / "page.html", "--json"
    )
    assert result.json["output"] == str(fitted / "page.html")
    assert result.json["judged_on_test"] is False


def test_labels_are_needed(fitted, run):
    (fitted / "u.csv").write_text("cat,dog,owl\n1,2,3\n")
    result = run("report", fitted / "cal.json", fitted / "u.csv", "-o", fitted / "page.html")
    assert is_one_sentence(result)
    assert not (fitted / "page.html").exists()
