"""Draw the pictures of docs/plots.md: ``python -m docs.scripts.plots_figures`` from the root.

It runs the page's own examples in a scratch directory and keeps the pictures that they save.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl

DOCS = Path(__file__).parent.parent
PAGE, PICTURES = DOCS / "plots.md", DOCS / "figures" / "plots"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(text: str) -> str:
    """The page's Python, without the blocks that show what comes out."""
    blocks = [block for block in BLOCK.findall(text) if not block.startswith(">>>")]
    return "\n".join(blocks)


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    mpl.use("Agg")
    code, home, namespace = examples(PAGE.read_text(encoding="utf-8")), Path.cwd(), {}
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        try:
            run(code, namespace)
        finally:
            os.chdir(home)
        for picture in sorted(Path(scratch).glob("*.png")):
            shutil.copyfile(picture, PICTURES / picture.name)
            print("drew", picture.name)


def run(code: str, namespace: dict[str, Any]) -> None:
    exec(compile(code, str(PAGE), "exec"), namespace)


if __name__ == "__main__":
    main()
