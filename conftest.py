"""Run the Python examples of README.md and docs/**/*.md as tests."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

# docs/ and README.md are shared with the site generator: keep its own scripts out of pytest.
collect_ignore_glob = ["docs/**/*.py", "examples/*", "benchmarks/*", "site/*"]


def _enter_scratch_directory(namespace: dict[str, Any]) -> None:
    """Let examples write files (``save("cal.json")``) without leaving them behind."""
    namespace["__scratch__"] = scratch = tempfile.TemporaryDirectory()
    namespace["__home__"] = os.getcwd()
    os.chdir(scratch.name)


def _leave_scratch_directory(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["__home__"])
    namespace["__scratch__"].cleanup()


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["README.md", "docs/*.md", "docs/**/*.md"],
    setup=_enter_scratch_directory,
    teardown=_leave_scratch_directory,
).pytest()
