"""The notebooks: they run, and the site shows what is stored in them."""

from __future__ import annotations

import json

import pytest
from docs.scripts.notebooks import FOLDER, executed, page

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def stored(path):
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_was_run_without_an_error(path):
    cells = [cell for cell in stored(path)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output["output_type"] for cell in cells for output in cell["outputs"]}
    assert "error" not in kinds
    streams = [o for cell in cells for o in cell["outputs"] if o["output_type"] == "stream"]
    assert all(
        stream["name"] == "stdout" or "note:" in "".join(stream["text"]) for stream in streams
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_page_has_the_code_and_ends_in_what_to_deploy(path):
    text = page(stored(path), path.name)
    assert text.startswith("# ")
    assert f"]({path.name})" in text.split("##")[0]
    assert "<script" not in text
    assert "/tmp/" not in text
    assert "What to deploy, and what it costs" in text


@pytest.mark.heavy
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path):
    pytest.importorskip("nbclient")
    again = executed(path, str(tmp_path))
    said = [
        "".join(output["text"])
        for cell in again.cells
        for output in cell.get("outputs", [])
        if output["output_type"] == "stream"
    ]
    assert any("Deploy" in text or "found before" in text for text in said)
