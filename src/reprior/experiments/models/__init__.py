"""Networks of the experiments."""

from __future__ import annotations

from reprior.exceptions import require

require("torch", extra="experiments", purpose="For reprior.experiments")

# Looked for first, so that the sentence is ours and not an ImportError.
from reprior.experiments.models.bbn import BilateralBranch  # noqa: E402 - after the check that the library is there
from reprior.experiments.models.classifier import Classifier  # noqa: E402 - after the check that the library is there
from reprior.experiments.models.registry import build_model  # noqa: E402 - after the check that the library is there

__all__ = ["BilateralBranch", "Classifier", "build_model"]
