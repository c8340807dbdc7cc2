"""Fits of data that do not fit in memory: by chunks, on Dask, or batch by batch.

``chunk_source`` re-iterable labelled chunks, encoded for a calibrator and checked
``chunked``      tune a calibrator on chunks
``profiling``    the profile passes of a fit: binned, refined, saved as they go
``checkpoints``  save the passes of a fit, and resume from them
``checkpoint_format`` the file format of a saved pass: checksum and schema
``online``       tune a calibrator on batches that are seen once
``evaluation``   evaluate a calibrator on chunks, before and after
``target_prior`` estimate the prior of unlabelled scores on chunks
``fingerprint``  a digest of labelled scores
``dask_engine``  tune a calibrator on shards of files, or Dask arrays, by Dask's workers
``dask_shards``  score files anywhere that fsspec reaches, as shards
``concurrency``  threads whose results come back in order
"""

from reprior.engines.checkpoints import Checkpoint
from reprior.engines.chunk_source import Stream, settle_terms
from reprior.engines.chunked import PreallocatedSum, fit, profile_sum, refuse_wide_bins
from reprior.engines.concurrency import BackgroundThread, OrderedThreads
from reprior.engines.dask_engine import dask_fit, dask_profiles, running_on
from reprior.engines.dask_shards import (
    FileState,
    Head,
    MissingRemoteFileError,
    RemoteFileError,
    Shard,
    ShardOptions,
    UnlikeShardError,
    expand_urls,
    nearby,
    open_shard,
    pair_labels,
    read_head,
)
from reprior.engines.evaluation import Evaluation, evaluate
from reprior.engines.fingerprint import Digest, digest
from reprior.engines.online import OnlineFit, RowSample
from reprior.engines.profiling import Profiler, refined
from reprior.engines.target_prior import estimate_target_prior

__all__ = [
    "BackgroundThread",
    "Checkpoint",
    "Digest",
    "Evaluation",
    "FileState",
    "Head",
    "MissingRemoteFileError",
    "OnlineFit",
    "OrderedThreads",
    "PreallocatedSum",
    "Profiler",
    "RemoteFileError",
    "RowSample",
    "Shard",
    "ShardOptions",
    "Stream",
    "UnlikeShardError",
    "dask_fit",
    "dask_profiles",
    "digest",
    "estimate_target_prior",
    "evaluate",
    "expand_urls",
    "fit",
    "nearby",
    "open_shard",
    "pair_labels",
    "profile_sum",
    "read_head",
    "refined",
    "refuse_wide_bins",
    "running_on",
    "settle_terms",
]
