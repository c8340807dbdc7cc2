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
``binomial``       exact tails of the binomial distribution

Nothing here changes its arguments.
"""

from reprior.core.affine_map import (
    AffineMap,
    affine_posterior,
    array_decisions,
    array_posterior,
    refuse_rows,
)
from reprior.core.arrays import dtype_name, namespace, to_numpy
from reprior.core.binomial import binomial_tail, certain_count, rate_bound, trials_needed
from reprior.core.checks import check_choice, check_finite_number, check_labels
from reprior.core.flatten import entropy, flattening_factor, image_entropy
from reprior.core.fuse import RULES
from reprior.core.importance import class_importance, importance_ratio, importance_weights
from reprior.core.log_loss import JointLoss, best_at_strength, best_jointly, minimise_jointly
from reprior.core.log_loss_sums import (
    log_loss_moments,
    posterior_curvature,
    posterior_sums,
    posterior_variances,
    sum_blocks,
    takes_native,
)
from reprior.core.logspace import log_softmax, sum_tolerance
from reprior.core.minimise import Box, Quadratic, minimise_in_box, minimise_smooth
from reprior.core.prior import as_prior, as_target_prior, slopes
from reprior.core.scaling import SCALINGS, ScalingLoss, best_scaling
from reprior.core.temperature import LogLoss, minimise_temperature
from reprior.core.threads import n_cores, one_thread, prefetch, shares_out
from reprior.core.weighted_rows import WeightedRows

__all__ = [
    "RULES",
    "SCALINGS",
    "AffineMap",
    "Box",
    "JointLoss",
    "LogLoss",
    "Quadratic",
    "ScalingLoss",
    "WeightedRows",
    "affine_posterior",
    "array_decisions",
    "array_posterior",
    "as_prior",
    "as_target_prior",
    "best_at_strength",
    "best_jointly",
    "best_scaling",
    "binomial_tail",
    "certain_count",
    "check_choice",
    "check_finite_number",
    "check_labels",
    "class_importance",
    "dtype_name",
    "entropy",
    "flattening_factor",
    "image_entropy",
    "importance_ratio",
    "importance_weights",
    "log_loss_moments",
    "log_softmax",
    "minimise_in_box",
    "minimise_jointly",
    "minimise_smooth",
    "minimise_temperature",
    "n_cores",
    "namespace",
    "one_thread",
    "posterior_curvature",
    "posterior_sums",
    "posterior_variances",
    "prefetch",
    "rate_bound",
    "refuse_rows",
    "shares_out",
    "slopes",
    "sum_blocks",
    "sum_tolerance",
    "takes_native",
    "to_numpy",
    "trials_needed",
]
