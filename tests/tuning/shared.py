"""What the tests of tuning share: labelled scores of every awkward sort."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import array_api_compat.numpy as np_compat
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from reprior.core import slopes as slopes_of
from reprior.profile import AFTER_ZERO, Priors, Samples, StrengthProfile

ROUNDING = 1e-12
"""Values are means of ratios in float64 and 2**-50 fixed point: off by some 1e-15."""

MARGIN = 1e-9
"""Two float64 lines of size 10 cross within 1e-15 of the true place: far inside of this."""

BESIDE = 2.0**-20
"""A step off a switch that keeps lines of small multiples of 3/16 exact in float64."""

BOUNDS = [(0.0, 2.0), (-1.0, 1.5), (0.5, 3.0), (-2.0, -0.5), (-1.0, 0.0), (0.0, 0.125)]


@dataclass(frozen=True)
class Case:
    """Labelled scores (N, K) with what a profile needs."""

    scores: Any
    labels: Any
    source: Any
    target: Any
    bounds: tuple[float, float] = (0.0, 2.0)
    weights: Any = None

    @property
    def slopes(self) -> Any:
        return slopes_of(self.source, self.target)

    @property
    def n(self) -> int:
        return len(self.labels)

    def rows(self, index: Any) -> Case:
        weights = None if self.weights is None else self.weights[index]
        return Case(
            self.scores[index], self.labels[index], self.source, self.target, self.bounds, weights
        )

    def profile(self, **options: Any) -> StrengthProfile:
        settings = {
            "source_prior": self.source,
            "target_prior": self.target,
            "bounds": self.bounds,
            "sample_weight": self.weights,
        }
        return StrengthProfile.from_scores(self.scores, self.labels, **(settings | options))


@dataclass(frozen=True)
class ExactCase:
    """Scores and slopes whose lines, and the places where they cross, are exact in float64.

    Scores are multiples of 3/4 and slopes integers from −2 to 2: every crossing is a multiple
    of 3/16 or of 1/4. No prior has such slopes, so these go to the pass directly.
    """

    scores: Any
    labels: Any
    slopes: Any
    bounds: tuple[float, float]
    weights: Any = None

    def profile(self, resolution: float | None = None) -> StrengthProfile:
        return profile_of(
            self.scores, self.labels, self.slopes, self.bounds, self.weights, resolution
        )

    def strengths(self) -> Any:
        """Return every strength where something may change, and one on either side of it."""
        low, high = self.bounds
        grid = np.arange(np.ceil(low * 16), np.floor(high * 16) + 1) / 16
        beside = np.concatenate([grid, grid - BESIDE, grid + BESIDE, [AFTER_ZERO]])
        return np.unique(beside[(beside >= low) & (beside <= high)])


def rows_of(scores: Any, labels: Any, weights: Any = None, **options: Any) -> Samples:
    settings: dict[str, Any] = {
        "kind": "logits",
        "ignore_index": None,
        "n_classes": scores.shape[-1],
        "xp": np_compat,
    }
    return Samples(
        scores=scores,
        labels=np.asarray(labels, np.int64),
        weights=None if weights is None else np.asarray(weights, np.float64),
        **(settings | options),
    )


def checked(
    scores: Any,
    labels: Any,
    weights: Any = None,
    *,
    source_prior: Any,
    target_prior: Any = "uniform",
    bounds: tuple[float, float] = (0.0, 2.0),
    **options: Any,
) -> tuple[Samples, Priors]:
    """Return samples and priors as ``from_scores`` makes them."""
    priors = Priors.of(source_prior, target_prior, bounds)
    samples = Samples.of(
        scores,
        labels,
        weights,
        n_classes=priors.n_classes,
        excluded=priors.excluded,
        **options,
    )
    return samples, priors


def profile_of(
    scores: Any,
    labels: Any,
    slopes: Any,
    bounds: tuple[float, float],
    weights: Any = None,
    resolution: float | None = None,
) -> StrengthProfile:
    """Return the profile of scores with slopes that need not come from priors."""
    prior = np.full(len(slopes), 1 / len(slopes))
    rows = rows_of(np.asarray(scores), labels, weights)
    slopes = np.asarray(slopes, np.float64)
    return StrengthProfile.of(rows, Priors(prior, prior, slopes, bounds, resolution))


def random_case(
    rng: np.random.Generator,
    n: int = 60,
    n_classes: int = 5,
    *,
    bounds: tuple[float, float] = (0.0, 2.0),
    dtype: str = "f8",
    spread: float = 2.0,
    weighted: bool = False,
) -> Case:
    """Return scores that know something of the labels, and a long-tailed source prior."""
    counts = np.ceil(1000 * 0.6 ** np.arange(n_classes) + rng.integers(1, 4, n_classes))
    labels = rng.integers(n_classes, size=n)
    scores = rng.normal(scale=spread, size=(n, n_classes))
    scores[np.arange(n), labels] += 2.0
    source = counts / counts.sum()
    target = np.full(n_classes, 1 / n_classes)
    scores = scores + np.log(source)
    weights = rng.uniform(0.1, 3.0, n) if weighted else None
    return Case(scores.astype(dtype), labels, source, target, bounds, weights)


@st.composite
def exact_cases(draw: st.DrawFn, *, weighted: bool = False) -> ExactCase:
    """Draw exact lines with many ties, equal slopes and duplicated rows."""
    n_classes, n = draw(st.integers(2, 7)), draw(st.integers(1, 12))
    scores = draw(hnp.arrays(np.int64, (n, n_classes), elements=st.integers(-6, 6))) * 0.75
    if draw(st.booleans()):  # some impossible classes, the first of a row never
        gone = draw(hnp.arrays(bool, (n, n_classes)))
        scores = np.where(gone & (np.arange(n_classes) > 0), -np.inf, scores)
    scores = scores[draw(hnp.arrays(np.int64, n, elements=st.integers(0, n - 1)))]
    scores = scores.astype(draw(st.sampled_from(["f2", "f4", "f8"])))
    labels = draw(hnp.arrays(np.int64, n, elements=st.integers(0, n_classes - 1)))
    slopes = draw(hnp.arrays(np.int64, n_classes, elements=st.integers(-2, 2))) * 1.0
    weights = None
    if weighted:
        weights = draw(hnp.arrays(np.int64, n, elements=st.integers(1, 4))) * 1.0
    return ExactCase(scores, labels, slopes, draw(st.sampled_from(BOUNDS)), weights)


@st.composite
def cases(draw: st.DrawFn, *, weighted: bool | None = None, zeros: bool = True) -> Case:
    """Draw labelled scores with priors: coarse or fine scores, equal slopes, −inf, zeros."""
    n_classes, n = draw(st.integers(2, 7)), draw(st.integers(1, 15))
    coarse = st.integers(-8, 8).map(lambda i: i / 2)
    fine = st.floats(-6, 6, allow_subnormal=False)
    elements = draw(st.sampled_from([coarse, fine]))
    scores = draw(hnp.arrays(np.float64, (n, n_classes), elements=elements))
    scores = scores.astype(draw(st.sampled_from(["f2", "f4", "f8"])))
    scores = scores[draw(hnp.arrays(np.int64, n, elements=st.integers(0, n - 1)))]
    scores -= scores.dtype.type(8)  # never a row of probabilities: those bring a warning
    labels = draw(hnp.arrays(np.int64, n, elements=st.integers(0, n_classes - 1)))
    counts = draw(hnp.arrays(np.int64, n_classes, elements=st.integers(1, 5)))
    source, target = counts / counts.sum(), np.full(n_classes, 1 / n_classes)
    bounds = draw(st.sampled_from(BOUNDS))
    if draw(st.booleans()):
        least = 0 if zeros and bounds[0] >= 0 else 1
        mass = draw(hnp.arrays(np.int64, n_classes, elements=st.integers(least, 4)))
        mass[draw(st.integers(0, n_classes - 1))] += 1
        target = mass / mass.sum()
    if draw(st.booleans()):  # some impossible classes; one possible class is always left
        gone = draw(hnp.arrays(bool, (n, n_classes)))
        scores[gone & (np.arange(n_classes) != target.argmax())] = -np.inf
    weights = None
    if weighted or (weighted is None and draw(st.booleans())):
        weights = draw(hnp.arrays(np.float64, n, elements=st.floats(0.125, 4)))
    return Case(scores, labels, source, target, bounds, weights)


def assert_same_counts(a: Any, b: Any) -> None:
    for name in ("true_positive", "predicted", "support", "labelled", "seen"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def switch_multiset(switches: Any) -> list[tuple[Any, ...]]:
    """Return switches in an order of their own, to be compared bit for bit."""
    columns = [switches.position, switches.label, switches.loser, switches.winner]
    if switches.weight is not None:
        columns.append(switches.weight)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))
