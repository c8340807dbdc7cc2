"""A calibrator from its file."""

from __future__ import annotations

import math
import os

import numpy as np

from reprior.calibrator import PosteriorCalibrator
from reprior.core.prior import as_prior, as_target_prior
from reprior.encoding import as_classes
from reprior.files.calibrators import read_calibrator

__all__ = ["load"]


def load(path: str | os.PathLike[str]) -> PosteriorCalibrator:
    """Read a calibrator that :meth:`PosteriorCalibrator.save` wrote.

    A file that is truncated, damaged, from a newer version, or not a calibrator is refused.

    Examples
    --------
    >>> import numpy as np
    >>> import reprior as rp
    >>> path = getfixture("tmp_path") / "cal.json"
    >>> fitted = rp.PosteriorCalibrator([0.75, 0.25]).fit(3 * np.eye(2), [0, 1])
    >>> fitted.save(path)
    >>> rp.load(path).strength_ == fitted.strength_
    True
    """
    fields = read_calibrator(path)
    classes = fields["classes"]
    calibrator = PosteriorCalibrator(
        fields["source_prior"],
        target_prior=fields["target_prior"],
        metric=fields["metric"],
        temperature=fields["temperature"],
        kind=fields["kind"],
        class_axis=fields["class_axis"],
        classes=classes,
    )
    n_classes, score = len(fields["source_prior"]), fields["best_score"]
    calibrator.source_prior_ = as_prior(fields["source_prior"], name="source_prior")
    calibrator.target_prior_ = as_target_prior(fields["target_prior"], n_classes=n_classes)
    calibrator.classes_ = np.arange(n_classes) if classes is None else as_classes(classes)
    calibrator.strength_ = float(fields["strength"])
    calibrator.strength_interval_ = tuple(fields["strength_interval"])
    calibrator.temperature_ = float(fields["temperature"])
    calibrator.best_score_ = math.nan if score is None else float(score)
    calibrator.profile_, calibrator.provenance_ = None, fields["provenance"]
    return calibrator
