"""Where the passes run: chunk by chunk from files, or as a loader hands scores out.

``chunked``      tune a calibrator on chunks that can be read again
``checkpoints``  go on where a killed fit stopped
``online``       tune one on scores that come by once
``evaluation``   judge one on chunks, before and after
``target_prior`` estimate the prior of unlabelled scores on chunks
``fingerprint``  a digest of labelled scores
``dask_engine``  tune one on shards of files, or Dask arrays, by Dask's workers
``stream``       what they share: chunks, read and checked
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
