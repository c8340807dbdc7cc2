"""Fits of data that do not fit in memory: chunk by chunk, on Dask, or as scores come by.

``chunk_source`` chunks that can be read again, encoded for a calibrator and checked
``chunked``      tune a calibrator on chunks
``profiling``    its profiling passes: binned, refined, saved as they go
``checkpoints``  go on where a killed fit stopped
``online``       tune a calibrator on scores that come by once
``evaluation``   judge one on chunks, before and after
``target_prior`` estimate the prior of unlabelled scores on chunks
``fingerprint``  a digest of labelled scores
``dask_engine``  tune one on shards of files, or Dask arrays, by Dask's workers
``dask_shards``  score files anywhere that fsspec reaches, as shards
``concurrency``  threads whose results come back in order
"""

from reprior.engines.checkpoints import Checkpoint
from reprior.engines.chunked import fit
from reprior.engines.dask_engine import dask_fit, dask_profiles
from reprior.engines.dask_shards import ShardOptions
from reprior.engines.evaluation import Evaluation, evaluate
from reprior.engines.fingerprint import digest
from reprior.engines.online import OnlineFit
from reprior.engines.target_prior import estimate_target_prior

__all__ = [
    "Checkpoint",
    "Evaluation",
    "OnlineFit",
    "ShardOptions",
    "dask_fit",
    "dask_profiles",
    "digest",
    "estimate_target_prior",
    "evaluate",
    "fit",
]
