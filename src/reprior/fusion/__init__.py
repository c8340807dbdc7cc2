"""Fuse several modalities, some degraded, by Algorithm 1 of the paper; blend two models.

``blend``      Blend: the weight between two models
``modality``   ModalityFusion: options, fit, predict, summary, save
``inputs``     {modality: scores}, checked once and laid out
``fused``      the equations: flattening, correction and rule, by kernels and in the array API
``blocks``     passes over arrays in blocks, shared among threads: posterior, decisions, counts
``stream``     re-iterable labelled chunks of several modalities
``fitting``    entropy references and strengths, searched exactly or on a grid
"""

from __future__ import annotations

from reprior.fusion.blend import Blend
from reprior.fusion.modality import ModalityFusion

__all__ = ["Blend", "ModalityFusion"]
