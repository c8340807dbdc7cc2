"""The calibrator: tune a correction on labelled scores, then apply it to others.

``posterior``  PosteriorCalibrator itself
``options``    its options, and which of them exclude each other
``encoding``   frames and class names as arrays and class indices
``fitting``    the steps of a fit: from a problem and a source of samples to the maps
``forecast``   the metric to expect on unlabelled scores
``summary``    a fitted calibrator as text
``document``   a fitted calibrator as the fields of a file
``load``       a calibrator, or a fusion, from its file
``tracker``    the class mix of a model in production
"""

from reprior.calibrator.posterior import PosteriorCalibrator

__all__ = ["PosteriorCalibrator"]
