"""The mathematics: pure functions on arrays, one module per equation of the paper.

``prior``        the source and target priors P_s and P_t
``rebalance``    prior rebalancing (Eqs. 5-8, Theorem 1)
``temperature``  one scalar temperature by log-loss
``flatten``      likelihood flattening δ(x) (Algorithm 1, line 3)
``fuse``         fusion of several posteriors (Algorithm 1, line 6)

``decision``     decisions of least expected cost
``log_loss``     temperature and strength together by log-loss
``scaling``      a scale and a bias per class by log-loss
``shift``        priors estimated from unlabelled scores

The rest serves these:

``arrays``         array libraries
``checks``         arguments that many functions share
``logspace``       log-sum-exp, and scores of the three kinds
``binary``         one score per sample of two classes
``affine_map``     softmax(a·z + b), its logarithm and its arg max
``score_map``      what a calibrator does to scores
``kernels``        the door to the compiled kernels, and passes over rows of scores
``weighted_rows``  labelled log-scores; ``log_loss_sums`` their log-loss and its derivatives
``importance``     weights that make labels stand for another prior
``minimise``       Newton's method in a box, and L-BFGS
``threads``        work shared among the cores

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
