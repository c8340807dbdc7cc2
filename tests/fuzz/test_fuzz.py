"""Mutated files end in an equal content, a documented other one, or one sentence of reprior."""

from __future__ import annotations

import sys

import pytest
from tests.fuzz.corpus import SUBJECTS
from tests.fuzz.driver import run
from tests.support.child_processes import ended

CASES = 200
MANY_CASES = 2_000


@pytest.mark.parametrize("name", SUBJECTS)
def test_mutated_files(tmp_path, name):
    outcomes, failures = run(name, tmp_path, range(CASES))
    assert not failures, "\n".join(failures)
    assert outcomes["refused"] > 0


@pytest.mark.heavy
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", SUBJECTS)
def test_many_mutated_files_with_limits_of_memory(tmp_path, name):
    arguments = ["--cases", MANY_CASES, "--first", CASES, "--folder", tmp_path]
    done = ended([sys.executable, "-m", "tests.fuzz", name, *map(str, arguments)], limit=3_000)
    assert done.returncode == 0, done.stdout + done.stderr
