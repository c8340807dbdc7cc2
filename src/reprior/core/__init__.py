"""The mathematics: pure functions on arrays, one module per equation of the paper.

``prior``        the source and target priors P_s and P_t
``rebalance``    prior rebalancing (Eqs. 5-8, Theorem 1)
``temperature``  one scalar temperature by log-loss
``flatten``      likelihood flattening δ(x) (Algorithm 1, line 3)
``fuse``         fusion of several posteriors (Algorithm 1, line 6)

The rest serves these: ``arrays`` (array libraries), ``checks`` (error sentences),
``logspace`` (log-sum-exp and the three kinds of scores), ``binary`` (one score per sample).
Nothing here changes its arguments.
"""

from reprior.core.checks import check_choice, check_finite_number, check_labels
from reprior.core.flatten import flattening_factor
from reprior.core.prior import as_prior, as_target_prior, slopes

__all__ = [
    "as_prior",
    "as_target_prior",
    "check_choice",
    "check_finite_number",
    "check_labels",
    "flattening_factor",
    "slopes",
]
