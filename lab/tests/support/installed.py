"""Run the command as a user does, in the environment that ``REPRIOR_PYTHON`` names."""

from __future__ import annotations

import json
import os
import sys

from tests.support.child_processes import ended

__all__ = ["run_installed"]

#: ``make test-all`` sets the Python of an environment that has what ``pip install . ./lab`` brings,
#: and nothing else.
COMMAND = [os.environ.get("REPRIOR_PYTHON", sys.executable), "-m", "reprior"]

#: Seconds after which a command hangs: two processes that wait for each other never end.
HANGS = 900


def run_installed(*arguments):
    """Run a command, and return the object that it prints."""
    done = ended([*COMMAND, *map(str, arguments), "--json"], limit=HANGS)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
