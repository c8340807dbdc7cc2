"""The bootstrap of a profile: how it varies between samples.

A replicate gives every sample, every group of samples, or every block that is known by its profile
alone, a weight drawn from the Poisson distribution of mean 1, as if it occurred that many times. A
replicate is a profile with all its methods; the scores are read once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NoReturn, TypeAlias, cast

import array_api_compat
import numpy as np

from reprior.core.checks import column_names
from reprior.core.threads import in_threads, prefetch
from reprior.exceptions import Argument, LabelsError, OptionError
from reprior.metrics.count_metrics import CountMetric, find_metric
from reprior.metrics.counts import PairCounts
from reprior.profile.binning import BinnedSwitches
from reprior.profile.merging import check_match, merged
from reprior.profile.objective import check_within
from reprior.profile.passes import Pairs
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Line, Priors, Samples
from reprior.profile.sweep import value_of
from reprior.profile.switches import ClassEvents, Switches
from reprior.tuning.resampling import SamplePaths, sample_paths

__all__ = [
    "FEWEST_BLOCKS",
    "Replicates",
    "StrengthBootstrap",
    "bootstrap_profiles",
]

Vector: TypeAlias = np.ndarray[Any, Any]

Part: TypeAlias = tuple[Vector, ...]

#: Replicates that share a stream of random numbers. One thread draws them together, so results do
#: not depend on the number of threads.
CHUNK = 25

#: Replicates of at least so many units are shared among threads: with fewer, a thread would mostly
#: wait for the interpreter lock.
WORTH_SHARING = 1 << 15

#: Fewer have no tails.
FEWEST_REPLICATES = 20

#: Strengths at which the curve of every replicate is kept, both bounds among them.
GRID = 401


@dataclass(frozen=True, eq=False)
class Replicates:
    """A metric in R replicates. A replicate in which it is not defined is left out.

    Parameters
    ----------
    strengths : ndarray of shape (G,)
        An even grid over the bounds.
    values : ndarray of shape (R, G)
        The metric of each replicate there.
    baseline : ndarray of shape (R,)
        The metric at λ = 0.
    best_strength, best_value : ndarray of shape (R,)
        The raw maximum of each replicate, over the continuum of strengths.
    best_interval : ndarray of shape (R, 2)
        The strengths that do equally well.
    number : integer array of shape (R,)
        Indices among the drawn replicates: equal indices mean the same samples, whatever the
        metric.
    """

    strengths: Vector
    values: Vector
    baseline: Vector
    best_strength: Vector
    best_value: Vector
    best_interval: Vector
    number: Vector

    def __len__(self) -> int:
        return int(self.baseline.size)

    def utility(self, metric: CountMetric) -> Replicates:
        """Return the same with negative values where smaller values of ``metric`` are better."""
        if metric.greater_is_better:
            return self
        values = {name: -getattr(self, name) for name in ("values", "baseline", "best_value")}
        return replace(self, **values)

    def taken(self, index: Vector) -> Replicates:
        """Return some of the replicates, by indices or a mask."""
        columns = (getattr(self, field.name)[index] for field in fields(self)[1:])
        return Replicates(self.strengths, *columns)


class StrengthBootstrap:
    """Replicates of the profile of labelled scores, by Poisson weights.

    Make one with :meth:`from_scores`. The same ``random_state`` gives the same replicates.

    Attributes
    ----------
    profile : StrengthProfile
        Of the samples as they are.
    n_replicates : int
        R.

    References
    ----------
    .. [1] Hanley, MacGibbon. "Creating non-parametric bootstrap samples using Poisson
       frequencies", Computer Methods and Programs in Biomedicine 83, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = (rng.random(400) < 0.2).astype(int)
    >>> margin = rng.normal(2.0 * labels - 1.0) + np.log(0.2 / 0.8)
    >>> logits = np.stack([np.zeros(400), margin], axis=1)
    >>> bootstrap = StrengthBootstrap.from_scores(
    ...     logits, labels, source_prior=[0.8, 0.2], n_replicates=200
    ... )
    >>> bootstrap.standard_error("balanced_accuracy", [0.0, 1.0]).round(3)
    array([0.026, 0.021])
    """

    def __init__(self, paths: SamplePaths, *, n_replicates: int, random_state: Any) -> None:
        self.n_replicates = _check_replicates(n_replicates)
        self.profile = paths.profile(paths.size)
        self._paths = paths
        seed = int(np.random.default_rng(random_state).integers(1 << 62))
        n_chunks = -(-self.n_replicates // CHUNK)
        self._seeds = np.random.SeedSequence(seed).spawn(n_chunks)
        self._replicates: dict[CountMetric, Replicates] = {}

    @classmethod
    def from_scores(
        cls,
        scores: Any,
        labels: Any,
        *,
        source_prior: Any,
        target_prior: Any = "uniform",
        kind: str = "logits",
        bounds: tuple[float, float] = (0.0, 2.0),
        class_axis: int = -1,
        ignore_index: int | None = None,
        sample_weight: Any = None,
        groups: Any = None,
        n_replicates: int = 1000,
        random_state: int | np.random.Generator = 0,
    ) -> StrengthBootstrap:
        """Follow labelled scores along the strength, once, so that they can be reweighted.

        Parameters
        ----------
        scores, labels, source_prior, target_prior, kind, bounds, class_axis, ignore_index, \
sample_weight
            As :meth:`reprior.StrengthProfile.from_scores` takes them. Dask arrays are loaded.
        groups : array of the labels' shape, optional
            Samples that are drawn together because they are not independent: an image's pixels,
            a patient's records, several scores of one sample.
        n_replicates : int, default 1000
            R.
        random_state : int or numpy Generator, default 0
            Seed of the replicates.
        """
        loaded = [
            np.asarray(array) if array_api_compat.is_dask_array(array) else array
            for array in (scores, labels, sample_weight)
        ]
        priors = Priors.of(source_prior, target_prior, bounds, classes=column_names(scores))
        samples = Samples.of(
            *loaded,
            n_classes=priors.n_classes,
            kind=kind,
            class_axis=class_axis,
            ignore_index=ignore_index,
            excluded=priors.excluded,
        )
        return cls.of(
            samples, priors, groups=groups, n_replicates=n_replicates, random_state=random_state
        )

    @classmethod
    def of(
        cls,
        samples: Samples,
        priors: Priors | Line,
        *,
        groups: Any = None,
        n_replicates: int = 1000,
        random_state: int | np.random.Generator = 0,
    ) -> StrengthBootstrap:
        """Make a bootstrap of checked samples."""
        n_replicates = _check_replicates(n_replicates)
        paths = sample_paths(samples, priors, groups)
        return cls(paths, n_replicates=n_replicates, random_state=random_state)

    @property
    def samples(self) -> Samples:
        """The samples that are drawn from."""
        return self._paths.samples

    @property
    def priors(self) -> Priors | Line:
        """Their priors and bounds."""
        return self._paths.priors

    def replicates(self, metric: str | CountMetric) -> Replicates:
        """Return the metric in every replicate; computed once."""
        asked = find_metric(metric, n_classes=self.profile.n_classes)
        if asked.needs == "images":
            raise OptionError(
                argument="metric",
                rule="must be one that replicates can weigh: they repeat samples, not images",
                got=repr(asked.name),
                remedy="Choose a metric of all samples, or cross-validate.",
            )
        count_metric = self.profile._metric(asked)
        if count_metric not in self._replicates:
            grid = np.linspace(*self.profile.bounds, GRID)
            parts = self._parts(partial(self._chunk, count_metric, grid))
            columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
            columns.append(np.arange(self.n_replicates))
            self._replicates[count_metric] = _defined(Replicates(grid, *columns), count_metric)
        return self._replicates[count_metric]

    def standard_error(self, metric: str | CountMetric, strengths: Any) -> Any:
        """Return the standard error of the metric at the given strengths: a number, or an array.

        It is interpolated between the points of the replicates' grid.
        """
        at = check_within(strengths, self.profile.bounds)
        replicates = self.replicates(metric)
        error = np.interp(at, replicates.strengths, replicates.values.std(axis=0, ddof=1))
        return float(error) if np.ndim(at) == 0 else error

    def _parts(self, work: Callable[[Vector], Part]) -> list[Part]:
        """Apply ``work`` to all drawn weights, chunk by chunk.

        Threads share the chunks if most of the work releases the interpreter lock. With few
        samples, a thread draws the next chunk meanwhile.
        """
        chunks = list(zip(self._seeds, range(0, self.n_replicates, CHUNK), strict=True))
        if self._paths.n_units >= WORTH_SHARING:
            return in_threads(lambda chunk: work(self._drawn(chunk)), chunks)
        return [work(drawn) for drawn in prefetch(map(self._drawn, chunks))]

    def _drawn(self, chunk: tuple[np.random.SeedSequence, int]) -> Vector:
        """Draw how often every unit occurs in the replicates of a chunk."""
        (seed, first), paths = chunk, self._paths
        n = min(CHUNK, self.n_replicates - first)
        return np.random.default_rng(seed).poisson(paths.size, (n, paths.n_units))

    def _chunk(self, metric: CountMetric, grid: Vector, drawn: Vector) -> Part:
        """Return the columns of :class:`Replicates` for the drawn weights."""
        paths, n = self._paths, len(drawn)
        values, points = np.full((n, GRID), np.nan), np.full((n, 5), np.nan)
        for i, times in enumerate(drawn):
            replicate = paths.profile(times)
            if metric.has_labels(replicate.baseline.labelled):
                values[i] = replicate.evaluate(metric, grid)
                best = replicate._widest_best(metric)
                base = value_of(replicate.baseline, metric)
                points[i] = base, best.strength, best.value, *best.interval
        return values, points[:, 0], points[:, 1], points[:, 2], points[:, 3:]


def _defined(replicates: Replicates, metric: CountMetric) -> Replicates:
    """Leave out replicates without any sample that defines the metric."""
    kept = np.isfinite(replicates.baseline)
    if kept.sum() < FEWEST_REPLICATES:
        raise LabelsError(
            argument="labels",
            rule="must be enough to draw from",
            got=(
                f"so few that {metric.name} is defined in {int(kept.sum())} of {kept.size} "
                "replicates"
            ),
            remedy="Add labelled samples.",
        )
    return replicates.taken(kept)


def _check_replicates(n_replicates: Any) -> int:
    whole = isinstance(n_replicates, int | np.integer) and not isinstance(n_replicates, bool)
    if not whole or n_replicates < FEWEST_REPLICATES:
        raise OptionError(
            argument="n_replicates",
            rule=f"must be a whole number of at least {FEWEST_REPLICATES}",
            got=f"{n_replicates!r}",
            remedy="Pass 1000 for intervals, 200 for standard errors.",
        )
    return int(n_replicates)


#: Fewer blocks have no spread.
FEWEST_BLOCKS = 10


def bootstrap_profiles(
    profiles: Sequence[StrengthProfile],
    *,
    n_replicates: int = 1000,
    random_state: int | np.random.Generator = 0,
) -> StrengthBootstrap:
    """Make a bootstrap of blocks of samples, each weighted as a whole by a Poisson number.

    A replicate has every block as often as a Poisson number of mean 1 says, as if other blocks of
    the same kind had been drawn. So the intervals are about new blocks; if the samples of a block
    are alike they are wider than those of a bootstrap of samples, as they must be. The scores are
    not needed.

    Parameters
    ----------
    profiles : sequence of StrengthProfile
        One per block, of equal priors, bounds and resolution, at least ten; 20 or more are
        better.
    n_replicates : int, default 1000
        Number of replicates.
    random_state : int or numpy Generator, default 0
        Seed of the replicates.

    Returns
    -------
    StrengthBootstrap
        :func:`reprior.tuning.uncertainty.uncertainty` makes intervals of it. Rules that need scores
        are refused.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> blocks = []
    >>> for _ in range(12):
    ...     labels = (rng.random(100) < 0.2).astype(int)
    ...     margin = rng.normal(2.0 * labels - 1.0) + np.log(0.2 / 0.8)
    ...     logits = np.stack([np.zeros(100), margin], axis=1)
    ...     blocks.append(StrengthProfile.from_scores(logits, labels, source_prior=[0.8, 0.2]))
    >>> bootstrap = bootstrap_profiles(blocks, n_replicates=200)
    >>> bool(bootstrap.standard_error("balanced_accuracy", 1.0) < 0.02)
    True
    """
    blocks = list(profiles)
    if len(blocks) < FEWEST_BLOCKS:
        raise OptionError(
            argument="profiles",
            rule=f"must be at least {FEWEST_BLOCKS}, one per block",
            got=f"{len(blocks)}",
            remedy=(
                "Make more and smaller blocks: the spread between them is all there is to go by."
            ),
        )
    for block in blocks[1:]:
        check_match(blocks[0], block, "be drawn from together")
    paths = cast(SamplePaths, _Blocks(tuple(blocks)))
    return StrengthBootstrap(paths, n_replicates=n_replicates, random_state=random_state)


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Blocks instead of samples, with the interface of :class:`SamplePaths`."""

    blocks: tuple[StrengthProfile, ...]

    @property
    def size(self) -> Vector:
        """1 for every block."""
        return np.ones(len(self.blocks), np.int64)

    @property
    def n_units(self) -> int:
        """Number of blocks."""
        return len(self.blocks)

    @property
    def samples(self) -> NoReturn:
        """Refuse: there are no scores."""
        raise OptionError(
            argument="samples",
            rule="must be asked of a bootstrap of samples",
            got="one of blocks, which are known by their profiles alone",
            remedy=[
                "Make it with StrengthBootstrap.from_scores(…), or pass its ",
                Argument("profile"),
                " to a rule that looks at the curve.",
            ],
        )

    def profile(self, times: Vector) -> StrengthProfile:
        """Return the sum of the blocks, with block i ``times[i]`` times."""
        drawn = zip(self.blocks, times.tolist(), strict=True)
        there = [_repeated(block, n) for block, n in drawn if n]
        return merged(there or [_repeated(self.blocks[0], 0)])


def _repeated(profile: StrengthProfile, n: int) -> StrengthProfile:
    """Return the profile of the samples repeated ``n`` times."""
    if n == 1:
        return profile
    sums = None if profile._sums is None else profile._sums * n
    pairs = profile._pairs
    if pairs is not None:
        start, origin = (_repeated_pairs(each, n) for each in (pairs.start, pairs.origin))
        pairs = Pairs(start, start if pairs.origin is pairs.start else origin)
    return profile._like(
        counts=profile._counts * n,
        sums=sums,
        switches=_repeated_switches(profile._switches, n),
        pairs=pairs,
    )


def _repeated_pairs(pairs: PairCounts, n: int) -> PairCounts:
    weight = None if pairs.weight is None else pairs.weight * n
    return PairCounts(pairs.label, pairs.predicted, pairs.count * n, weight, pairs.image)


def _repeated_switches(switches: Switches | BinnedSwitches, n: int) -> Switches | BinnedSwitches:
    if isinstance(switches, Switches):
        weight = None if switches.weight is None else switches.weight * n
        columns = switches.position, switches.label, switches.loser, switches.winner
        return Switches(*columns, switches.counts() * n, weight, switches.image)
    events = switches.events
    amounts = (getattr(events, each.name) * n for each in fields(ClassEvents)[2:])
    return BinnedSwitches(
        ClassEvents(events.position, events.klass, *amounts),
        switches.point,
        switches.count * n,
        switches.mass * n,
    )
