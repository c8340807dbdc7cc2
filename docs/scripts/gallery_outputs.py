"""Renew the outputs on the gallery's pages: ``python -m docs.scripts.gallery_outputs``.

The commands of a page stand in its ``console`` blocks. They are run in order in a copy of
docs/gallery/data, and what they print is put below them. A test does the same and compares.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parent.parent
GALLERY = DOCS / "gallery"
PAGES = ("tabular.md", "images.md", "segmentation.md")
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ .*(?:\n> .*)*", re.MULTILINE)

#: So that outputs do not depend on the terminal that they are made in.
TERMINAL = {"COLUMNS": "88", "NO_COLOR": "1", "TERM": "dumb", "PYTHONIOENCODING": "utf-8"}


def run(command: str, folder: Path) -> str:
    """What a command prints on standard output, without spaces at the ends of lines."""
    words = shlex.split(command)
    if words[0] == "reprior":
        words[:1] = [sys.executable, "-m", "reprior"]
    unset = {"FORCE_COLOR", "CLICOLOR_FORCE"}
    environment = {k: v for k, v in os.environ.items() if k not in unset} | TERMINAL
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command!r} ended with {done.returncode}: {done.stderr.strip()}")
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def written(shown: str) -> str:
    """The command of its lines on the page: "$ " before the first, "> " before the others."""
    first, *more = shown.split("\n")
    lines = [first.removeprefix("$ "), *(line.removeprefix("> ") for line in more)]
    return " ".join(line.removesuffix("\\").strip() for line in lines)


def renewed(text: str, folder: Path) -> str:
    """The page with the outputs that its commands have now, run in ``folder``."""

    def block(match: re.Match[str]) -> str:
        parts = []
        for command in COMMAND.findall(match.group()):
            output = run(written(command), folder)
            parts.append(f"{command}\n{output}")
        return "\n".join(parts)

    return BLOCK.sub(block, text)


def scratch_copy(folder: Path) -> Path:
    """A copy of the gallery's score files, in which commands may write."""
    copy = folder / "data"
    shutil.copytree(GALLERY / "data", copy)
    return copy


def main() -> None:
    for name in PAGES:
        page = GALLERY / name
        with tempfile.TemporaryDirectory() as scratch:
            text = renewed(page.read_text(encoding="utf-8"), scratch_copy(Path(scratch)))
        page.write_text(text, encoding="utf-8")
        print("renewed", name)


if __name__ == "__main__":
    main()
