"""How sure a gain is: the bootstrap of the samples on the page, at every strength.

Samples, or images of which the samples are pixels, are drawn again as
:class:`reprior.StrengthBootstrap` does. The page shows the interval of the gain over the
uncorrected model at the strength of its slider.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from reprior.exceptions import LabelsError
from reprior.metrics.count_metrics import CountMetric
from reprior.profile.samples import Priors, Samples
from reprior.tuning.bootstrap import StrengthBootstrap
from reprior.tuning.crossval import images_of

__all__ = ["CONFIDENCE", "GainInterval", "SampleKeeper"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Scores of a set that are kept for the bootstrap; larger sets get no interval.
MOST_SCORES = 1 << 25
#: Samples of a set that are drawn from: two hundred replicates take some seconds.
MOST_SAMPLES = 400_000

N_REPLICATES = 200
CONFIDENCE = 0.9

#: Images of which pixels are drawn together; fewer say nothing of other images.
FEWEST_IMAGES = 10


@dataclass(frozen=True, eq=False)
class GainInterval:
    """Between which values the gain of a metric lies, at increasing ``strengths``.

    ``unit`` is what is drawn, "samples" or "images", of which there are ``n_units``.
    """

    strengths: Vector
    low: Vector
    high: Vector
    unit: str
    n_units: int


@dataclass(eq=False)
class SampleKeeper:
    """Keeps the samples of a pass, as long as they are few enough to be drawn again."""

    parts: list[Samples] = field(default_factory=list)
    n_samples: int = 0
    reason: str | None = None
    """Why there is no interval."""

    def add(self, samples: Samples) -> None:
        """Keep a copy of the samples of a chunk."""
        if self.reason is not None:
            return
        self.n_samples += samples.labels.size
        if self.n_samples > MOST_SAMPLES or self.n_samples * samples.n_classes > MOST_SCORES:
            self.reason = "The set is too large for a bootstrap on this page."
            self.parts.clear()
            return
        self.parts.append(samples.copied())

    def gain(self, priors: Priors, metric: CountMetric) -> GainInterval | None:
        """Return the interval of the gain of ``metric``; None, with a reason, if there is none."""
        if self.reason is not None:
            return None
        samples = Samples.concatenate(self.parts)
        groups = images_of(samples)
        n_units = samples.labels.shape[0]
        if groups is not None and n_units < FEWEST_IMAGES:
            self.reason = (
                f"Pixels of one image are not independent, and {n_units} images are too few."
            )
            return None
        bootstrap = StrengthBootstrap.of(
            samples, priors, groups=groups, n_replicates=N_REPLICATES, random_state=0
        )
        try:
            found = bootstrap.replicates(metric)
        except LabelsError:
            self.reason = "There are too few labels for a bootstrap."
            return None
        gain = found.values - found.baseline[:, None]
        tail = (1.0 - CONFIDENCE) / 2.0
        low, high = np.quantile(gain, [tail, 1.0 - tail], axis=0)
        unit = "samples" if groups is None else "images"
        return GainInterval(found.strengths, low, high, unit, n_units)
