"""The page about boosting libraries runs as it stands."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "boosting.md"


@pytest.mark.heavy
def test_the_page_runs(tmp_path, monkeypatch):
    for library in ("lightgbm", "xgboost", "catboost"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"<!-- skip: next -->\n```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == text.count("```python") == 4
    names: dict[str, Any] = {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries, about themselves
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), names)
    assert (tmp_path / "corrected.txt").exists()
    assert (tmp_path / "corrected.json").exists()
