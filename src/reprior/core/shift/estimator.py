"""From checked arguments to an estimated target prior, by any method.

The target's scores may be in memory, or be read in chunks: an estimate by moments needs the sum
of what is predicted on them, and one by EM a likelihood that can be asked again and again.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reprior.core.checks import (
    check_choice,
    check_kind,
    refuse_reordered,
)
from reprior.core.prior import as_prior
from reprior.core.shift import em
from reprior.core.shift.calibration import fitted_calibration
from reprior.core.shift.doubts import (
    Held,
    held_back,
    of_conditioning,
    of_few_samples,
    of_penalty,
    of_rest,
)
from reprior.core.shift.moments import Conditioning, Moments, bbse, conditioning, truncated
from reprior.core.shift.newton import most_likely
from reprior.core.shift.predictions import Predicted, predictions, read_predictions
from reprior.core.shift.rlls import rlls
from reprior.core.shift.rows import (
    Affine,
    Calibration,
    Validation,
    as_calibration,
    labelled,
    log_rows,
    names_of,
)
from reprior.exceptions import OptionError

__all__ = [
    "METHODS",
    "Estimate",
    "Known",
    "by_em",
    "by_moments",
    "know",
    "solver",
]

Vector: TypeAlias = np.ndarray[Any, Any]

METHODS = ("em", "bbse", "bbse_soft", "rlls", "rlls_soft")
"""How a target prior can be estimated."""


class Known(NamedTuple):
    """What is known before the target is looked at.

    ``labelled`` are the validation samples: for EM calibrated log-scores, for all other methods
    what is predicted on them. ``fitted`` is the calibration that was fitted to them, if any, and
    ``calibration`` the one by which the target is read.
    """

    source: NDArray[np.float64]
    method: str
    kind: str
    class_axis: int
    calibration: Calibration | None
    labelled: Validation[Any] | None = None
    fitted: Affine | None = None

    @property
    def soft(self) -> bool:
        """Whether probabilities are predicted, and not classes."""
        return self.method.endswith("soft")

    def rows(self, scores: Any) -> NDArray[Any]:
        """Return calibrated log-scores (N, K), which EM works on."""
        return log_rows(
            scores, self.source.size, kind=self.kind, class_axis=self.class_axis,
            calibration=self.calibration,
        )  # fmt: skip

    def predicted(self, scores: Any, *, summed: bool = True) -> Predicted:
        """Return what is predicted on scores, which all other methods work on."""
        return read_predictions(
            scores, self.source.size, kind=self.kind, class_axis=self.class_axis,
            calibration=self.calibration, soft=self.soft, summed=summed,
        )  # fmt: skip


def know(
    source_prior: Any,
    *,
    method: str,
    kind: str,
    validation: Any,
    calibration: Any,
    class_axis: int,
    ignore_index: int | None,
    columns: list[Any] | None = None,
) -> Known:
    """Check the arguments, read the validation samples, and fit the calibration that EM needs.

    ``columns`` are the names of the target's, where they have names.
    """
    check_choice("method", method, METHODS)
    check_kind(kind)
    if validation is None and method != "em":
        raise OptionError(
            f"`validation` must be (scores, labels) for method={method!r}, which learns from them "
            f"how the model sees each class. Got None. Pass labelled scores, or method='em'."
        )
    source = as_prior(source_prior, name="source_prior", classes=columns)
    refuse_reordered(columns, names_of(validation), name="scores", of="`validation[0]`")
    how = as_calibration(calibration, source.size)
    found = Known(source, method, kind, class_axis, how)
    if validation is None:
        return found
    read = found.rows if method == "em" else partial(found.predicted, summed=False)
    seen = labelled(validation, source.size, read, class_axis=class_axis, ignore_index=ignore_index)
    if method != "em" or how is not None:
        return found._replace(labelled=seen)
    fitted = fitted_calibration(seen, source)
    seen = seen._replace(rows=fitted(seen.rows))
    return found._replace(calibration=fitted, labelled=seen, fitted=fitted)


@dataclass(frozen=True, eq=False)
class Estimate:
    """What was found, by any method."""

    prior: NDArray[np.float64]
    conditioning: Conditioning | None
    negative_mass: float = 0.0
    iterations: int = 1
    last_change: float = 0.0
    left: float = 0.0
    held: Held | None = None
    n_samples: int | None = None

    @property
    def converged(self) -> bool:
        """Whether it has come to rest."""
        return self.left <= em.CHANGE_TOLERANCE

    def doubts(self) -> list[str]:
        """Return what the user should know."""
        rest = "" if self.converged else of_rest(self.prior.size, self.iterations, self.left)
        # Beside a singular matrix there is nothing to compare a penalised solution with.
        of_moments = of_conditioning(self.conditioning) or of_penalty(self.held)
        few = of_few_samples(self.prior.size, self.n_samples)
        return [sentence for sentence in (few, rest, of_moments) if sentence]


def by_em(known: Known, likelihood: em.Likelihood) -> Estimate:
    """Return the prior of the largest likelihood of the target's samples."""
    found = most_likely(likelihood, known.source)
    condition = None
    if known.labelled is not None:
        seen, labels = predictions(known.labelled.rows, soft=True), known.labelled.labels
        condition = conditioning(seen, labels, seen.class_means(labels))
    return Estimate(
        prior=found.priors[0],
        conditioning=condition,
        iterations=int(found.iterations[0]),
        last_change=float(found.change[0]),
        left=float(found.left[0]),
        n_samples=len(likelihood),
    )


def by_moments(known: Known, total: Vector) -> Estimate:
    """Return the prior that explains the sum (K,) of what is predicted on the target."""
    assert known.labelled is not None  # noqa: S101 - checked where the arguments are
    (seen, labels), source = known.labelled, known.source
    found = Moments(total / total.sum(), seen.class_means(labels), labels.size)
    solve = solver(known.method)
    solution = solve(found, source)
    prior = truncated(solution, source)
    return Estimate(
        prior=prior,
        conditioning=conditioning(seen, labels, found.confusion),
        negative_mass=float(-np.minimum(solution, 0.0).sum()),
        held=held_back(prior, found, source) if solve is rlls else None,
        n_samples=round(float(total.sum())),
    )


def solver(method: str) -> Any:
    """Return what solves moments for a prior."""
    return rlls if method.startswith("rlls") else bbse
