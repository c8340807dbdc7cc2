"""The calibrator: tune on labelled scores, then re-calibrate any others.

``posterior``  PosteriorCalibrator itself
``options``    what can be asked of it, and what cannot be asked together
``encoding``   frames and class names become arrays and class indices
``fitting``    what a fit does: from a problem and its data to the maps
``sources``    the passes of a fit, in memory or over parts
``lazy_source`` the same over Dask arrays and shards
``summary``    a fitted calibrator as text
``document``   a fitted calibrator as the fields of a file
``load``       a calibrator, or a fusion, from its file
``tracker``    the class mix of a model in production
"""

from reprior.calibrator.posterior import PosteriorCalibrator

__all__ = ["PosteriorCalibrator"]
