"""Label shift: the class mix of unlabelled scores, and how far an estimate of it can be trusted.

Everything assumes that classes look the same where a model is used as in training: P(x|y) is
unchanged, and P(y) alone has shifted.
"""

from reprior.core.shift.estimate import (
    METHODS,
    estimate_target_prior,
    estimate_target_prior_report,
)
from reprior.core.shift.report import TargetPriorReport

__all__ = [
    "METHODS",
    "TargetPriorReport",
    "estimate_target_prior",
    "estimate_target_prior_report",
]
