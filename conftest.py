"""What the tests of the library, the lab and the pages share.

How hard Hypothesis looks, a torchvision that can be imported, the signals that tests send, and the
Python examples of README.md and docs/**/*.md as tests.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import tempfile
from typing import Any

from hypothesis import HealthCheck, settings
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

# A compiled kernel's first call takes seconds, so no deadline; the same examples on every run, so a
# red build can be repeated.
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# Where torchvision lies beside a PyTorch it was not built for, Lightning cannot be imported until
# its operators are declared: the lab does that for itself, other tests have it from here.
if all(map(importlib.util.find_spec, ("torchvision", "reprior_lab"))):
    from reprior_lab.models.torchvision_operators import import_torchvision

    import_torchvision()

# A shell without job control starts commands in the background (`make test &` in a script) with
# these signals ignored, and children inherit that. Tests of interrupts send them to themselves and
# to processes that they start; workers of xdist load this file too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGQUIT") and signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)

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
