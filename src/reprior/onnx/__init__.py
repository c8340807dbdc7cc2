"""The ONNX adapter: fold the correction into a model file, and verify that it decides the same.

If skl2onnx is installed, the import registers the converter of
:class:`reprior.sklearn.RebalancedClassifierCV`.
"""

from importlib.util import find_spec

from reprior.exceptions import FoldError, require

for _module in ("onnx", "onnxruntime"):
    require(_module, extra="onnx", purpose="To work with ONNX models")

# The libraries above are looked for first, so that the sentence is ours and not an ImportError.
from reprior.onnx.files import calibrator_of  # noqa: E402 - after the check that the library is there
from reprior.onnx.folding import (  # noqa: E402 - after the check that the library is there
    Folded,
    fold,
    fold_report,
    verify,
)
from reprior.onnx.parity import Parity  # noqa: E402 - after the check that the library is there

if find_spec("skl2onnx") and find_spec("sklearn"):
    from reprior.onnx.converter import register

    register()

__all__ = ["FoldError", "Folded", "Parity", "calibrator_of", "fold", "fold_report", "verify"]
