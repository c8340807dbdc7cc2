"""The boosting adapter: the correction inside a LightGBM, XGBoost or CatBoost model.

It imports the library of the model that it is given, and no other.
"""

from reprior.boosting.folding import fold_into
from reprior.exceptions import FoldError

__all__ = ["FoldError", "fold_into"]
