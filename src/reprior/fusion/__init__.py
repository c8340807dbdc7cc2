"""Fuse several modalities, some of them degraded: Algorithm 1 of the paper as one object.

``modality``   ModalityFusion: options, fit, predict, summary, save
``inputs``     {modality: scores}, checked once and laid out
``fused``      the equations: flattening, correction and rule, by kernels and in the array API
``blocks``     passes over arrays in blocks, shared among threads: posterior, decisions, counts
``stream``     re-iterable labelled chunks of several modalities
``fitting``    entropy references and strengths, searched exactly or on a grid
"""

from __future__ import annotations

from reprior.fusion.modality import ModalityFusion

__all__ = ["ModalityFusion"]
