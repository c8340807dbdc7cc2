"""The scikit-learn adapter: a classifier that tunes and applies its own prior correction."""

from reprior.sklearn.folding import fold_into
from reprior.sklearn.rebalanced import RebalancedClassifierCV

__all__ = ["RebalancedClassifierCV", "fold_into"]
