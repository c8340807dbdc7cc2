"""Fusion of several modalities, some of them degraded: Algorithm 1 of the paper as one object.

``modality``    ModalityFusion: fit, predict, save
``options``     its options, checked
``inputs``      {name: scores}, checked and laid out
``recipe``      what is done to them: references, slopes, rule and order
``native``      the mathematics on some images, by compiled kernels
``arrays``      the same in the array API, for every library and for gradients
``batch``       blocks of a whole array, shared among threads; ``counting`` adds up what they find
``predicting``  from scores to posterior or decision, by the path of their library
``stream``      labelled chunks, gone through as often as a fit needs
``tuner``       references and strengths from a stream
``grid``        the search of a strength that no profile can find exactly
``summary``     a fitted fusion in words, and as the fields of its file
"""

from __future__ import annotations

from reprior.fusion.modality import ModalityFusion

__all__ = ["ModalityFusion"]
