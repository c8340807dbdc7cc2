"""The calibrator: tune on labelled scores, then re-calibrate any others.

``posterior``  PosteriorCalibrator itself
``options``    what can be asked of it, and what cannot be asked together
``fitting``    from a problem and its data to the maps
``sources``    the data of a fit, in memory
``document``   a fitted calibrator as the fields of a file
"""

from reprior.calibrator.posterior import PosteriorCalibrator

__all__ = ["PosteriorCalibrator"]
