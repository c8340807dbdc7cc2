"""What every test shares: how hard Hypothesis looks."""

from __future__ import annotations

import importlib.util
import os

from hypothesis import HealthCheck, settings

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
# it is mended: the library does that for itself, tests that import Lightning have it from here.
if importlib.util.find_spec("torchvision") is not None:
    from reprior.experiments.models.torchvision_operators import import_torchvision

    import_torchvision()
