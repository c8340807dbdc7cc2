"""What folding into an ONNX model refuses with; and the libraries without which nothing goes."""

from __future__ import annotations

from reprior.exceptions import RepriorError, require

__all__ = ["FoldError"]

# Imported before every other module of the package, so that its absence is a sentence.
for _module in ("onnx", "onnxruntime"):
    require(_module, extra="onnx", purpose="To work with ONNX models")


class FoldError(RepriorError):
    """A model that the correction does not go into, or that disagrees once it is in."""
