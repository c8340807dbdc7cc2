"""The ONNX adapter: a model file with the correction inside, proved to decide as Python does.

Importing it registers, where skl2onnx is installed, the converter of
:class:`reprior.sklearn.RebalancedClassifierCV`.
"""

from importlib.util import find_spec

from reprior.onnx.errors import FoldError
from reprior.onnx.files import calibrator_of
from reprior.onnx.folding import fold, fold_report, verify
from reprior.onnx.parity import Parity
from reprior.onnx.work import Folded

if find_spec("skl2onnx") and find_spec("sklearn"):
    from reprior.onnx.converter import register

    register()

__all__ = ["FoldError", "Folded", "Parity", "calibrator_of", "fold", "fold_report", "verify"]
