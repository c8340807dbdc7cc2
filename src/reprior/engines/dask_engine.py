"""Tune a calibrator on Dask: shards of files, or arrays, larger than one machine."""

from __future__ import annotations

import copy
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Any, TypeAlias, TypeVar

import array_api_compat

from reprior._warnings import warn
from reprior.calibrator import PosteriorCalibrator
from reprior.calibrator.encoding import Terms, encode
from reprior.calibrator.fitting import tuned
from reprior.calibrator.options import check_options, full_problem
from reprior.core.checks import check_choice, check_finite_number
from reprior.engines.chunk_source import settle_terms
from reprior.engines.chunked import refuse_wide_bins
from reprior.engines.dask_shards import (
    NAMED,
    Shard,
    ShardJob,
    ShardOptions,
    Shards,
    expand_urls,
    pair_labels,
    read_head,
)
from reprior.exceptions import (
    Argument,
    OptionError,
    RepriorError,
    Setting,
    Words,
    quoted,
    require,
)
from reprior.files.interrupts import delay_interrupts
from reprior.files.scores import refuse_repeated_files
from reprior.profile.dask_arrays import delayed
from reprior.profile.merging import PackedProfile
from reprior.profile.profile import StrengthProfile
from reprior.profile.source import AUTO_BINS, Bins, Profiled, ProfilePass, Source

__all__ = [
    "dask_fit",
    "dask_profiles",
    "dask_setup",
    "running_on",
]

Calibrator = TypeVar("Calibrator", bound=PosteriorCalibrator)
Resolution: TypeAlias = Any


def dask_fit(
    calibrator: Calibrator,
    scores: Any,
    *,
    labels: Any = None,
    reading: ShardOptions | None = None,
    resolution: Resolution = "auto",
    scheduler: str | None = None,
    n_workers: int | None = None,
    on_error: str = "raise",
) -> Calibrator:
    """Tune a calibrator on labelled scores in shards, each read and counted by one of Dask's tasks.

    The result is that of ``calibrator.fit`` on all shards at once. Strength, interval, score and
    counts are equal to the bit, unless samples have fractional weights, whose sums differ in the
    last bits. What is fitted by log-loss is equal to 1e-6. The number of workers and the order of
    the shards do not matter.

    A task returns a profile only, and a tree of tasks adds the profiles up. Each widening of the
    bounds is another pass over all shards, and so is every Newton step of ``temperature="fit"``
    and ``metric="log_loss"``, unless the scores are few. These options collect all scores in this
    process's memory, up to 2²⁷ of them, and refuse more:
    ``tune="per_class"``, ``cv``, ``n_bootstrap``, ``temperature="bcts"`` or ``"vector"`` and
    ``selection="balanced_log_loss"``; for folds and replicates made of shards see
    :func:`dask_profiles`.

    Parameters
    ----------
    calibrator : PosteriorCalibrator
        Its options say what is tuned. It is fitted in place.
    scores : path, URL, pattern or list of these; or a tuple of Dask arrays or dataframes
        Score files as :func:`reprior.files.scores.open_scores` reads them, also by URL where
        fsspec knows the protocol: ``"s3://bucket/val-*.parquet"``. A file is a shard, and a
        task: some dozen million scores make good ones. Or (scores, labels[, weight]) as Dask
        arrays, or as a dataframe with a column per class and series of it.
    labels : path, URL, pattern or list of these, optional
        Files of labels, one for every shard, where these have none inside.
    reading : ShardOptions, optional
        How the files are read: columns, class names, ``storage`` options of fsspec.
    resolution : float, "auto" or None, default "auto"
        Sum switches in bins of this width; None keeps each. "auto" keeps up to ten million and
        then sums in bins of 1e-4, with a warning.
    scheduler : str, optional
        The address of a Dask cluster, or "threads", "processes", "synchronous". By default the
        Client that is active, or threads.
    n_workers : int, optional
        Start as many single-thread worker processes on this machine for this fit.
    on_error : {"raise", "skip"}, default "raise"
        What to do about a shard that cannot be read: raise an error that names it, or leave out
        the whole shard with a warning. Shards with other classes are always refused. This,
        ``labels`` and ``reading`` are for files, and refused with arrays.

    Returns
    -------
    PosteriorCalibrator
        The calibrator, fitted. Its ``provenance_`` is None: a digest needs the shards one after
        the other. Where shards were left out it is ``{"digest": "", "n_samples": …, "left_out":
        {"files": […], "n_samples": None}}``.

    Examples
    --------
    >>> import numpy as np
    >>> import reprior as rp
    >>> logits = np.array([[2.0, 0.0], [1.0, 0.0], [0.4, 0.0], [0.0, 1.0]])
    >>> folder = getfixture("tmp_path")
    >>> for i in range(2):
    ...     part = slice(2 * i, 2 * i + 2)
    ...     np.savez(folder / f"{i}.npz", scores=logits[part], labels=[[0, 0], [1, 1]][i])
    >>> calibrator = dask_fit(rp.PosteriorCalibrator([0.8, 0.2]), f"{folder}/*.npz")
    >>> round(calibrator.strength_, 3)
    0.505
    """
    check_options(calibrator)
    bins = _bins(resolution, calibrator.bounds)
    source: Source
    with running_on(scheduler, n_workers):
        if isinstance(scores, tuple) and scores and _is_lazy(scores[0]):
            _refuse_of_files(labels=labels, reading=reading, on_error=on_error)
            source, terms = encode(calibrator, *(*scores, None)[:3])
        else:
            source, terms = _shards(calibrator, scores, labels, reading, on_error)
        fitted = tuned(full_problem(calibrator, terms), source, bins=bins)
    if resolution == "auto" and fitted.profile.resolution is not None:
        warn(
            [
                f"There are more than {bins.exact_up_to} switches, too many to keep: they are "
                f"summed in bins of {bins.resolution:g}. Pass ",
                Setting("resolution", None),
                " to keep each, or a number.",
            ]
        )
    fitted.warn()
    calibrator._adopt(full_problem(calibrator, terms), fitted, _provenance(source))
    return calibrator


def _provenance(source: Source) -> dict[str, Any] | None:
    """Return the shards that were left out, and the number of samples in the others."""
    if not isinstance(source, Shards) or not source.left_out:
        return None
    left_out = {"files": source.left_out, "n_samples": None}
    return {"digest": "", "n_samples": source.n_samples, "left_out": left_out}


def dask_profiles(
    calibrator: PosteriorCalibrator,
    scores: Any,
    *,
    n_groups: int,
    labels: Any = None,
    reading: ShardOptions | None = None,
    resolution: Resolution = "auto",
    scheduler: str | None = None,
    n_workers: int | None = None,
    on_error: str = "raise",
) -> list[StrengthProfile]:
    """Profile shards in groups, for cross-validation and bootstrap at scale.

    The shards are assigned to ``n_groups`` groups in turn, and the workers add up the profiles of
    a group. Give the result to :func:`reprior.tuning.crossval.nested` for a score
    on groups that were not used for tuning, or to
    :func:`reprior.tuning.bootstrap.bootstrap_profiles` for intervals. A group is then the
    unit that is drawn: the result is about new shards (days, users, hospitals, whatever a shard
    is), and about new samples only if samples were assigned to the shards at random.

    Parameters
    ----------
    calibrator : PosteriorCalibrator
        Its priors, bounds, kind and classes are those of the profiles. It is not fitted.
    n_groups : int
        The number of profiles: 5 for folds; 20 or more for a bootstrap. At most the number of
        shards.
    scores, labels, reading, resolution, scheduler, n_workers, on_error
        As :func:`dask_fit` takes them; files only.

    Returns
    -------
    list of StrengthProfile
        One per group, in their order; all exact, or all with the same bins. A group without
        samples, for example because none of its shards can be read, is an error that names them.
    """
    check_options(calibrator)
    bins = _bins(resolution, calibrator.bounds)
    with running_on(scheduler, n_workers):
        source, terms = _shards(calibrator, scores, labels, reading, on_error)
        _check_groups(n_groups, len(source.shards))
        problem, shards = full_problem(calibrator, terms), source.shards
        profile_pass = ProfilePass(problem.priors(problem.bounds), bins)
        counted = source.run_groups(profile_pass, n_groups)
    profiles = [_profile_of(each, shards[i::n_groups]).unpacked() for i, each in enumerate(counted)]
    if any(profile.resolution is not None for profile in profiles):
        profiles = [profile.binned(bins.resolution) for profile in profiles]
    return profiles


def _profile_of(counted: Profiled | None, group: Sequence[Shard]) -> PackedProfile:
    """Return the profile of a group of shards; refuse a group without samples."""
    if counted is None or counted.packed is None:
        why = "could be read" if counted is None else "has samples that count"
        named = ", ".join(repr(shard.url) for shard in group[:NAMED])
        more = f" and {len(group) - NAMED} more" if len(group) > NAMED else ""
        raise OptionError(
            argument="n_groups",
            rule="must leave samples in every group",
            got=f"a group of which no shard {why}: {named}{more}",
            remedy=["Leave these out of ", Argument("scores"), ", or ask for fewer groups."],
        )
    return counted.packed


def _check_groups(n_groups: Any, n_shards: int) -> None:
    is_integer = isinstance(n_groups, int) and not isinstance(n_groups, bool)
    if not is_integer or not 1 <= n_groups <= n_shards:
        raise OptionError(
            argument="n_groups",
            rule=f"must be a whole number from 1 to the number of shards, {n_shards}",
            got=repr(n_groups),
            remedy="Cut the data in more shards, or ask for fewer groups.",
        )


def _is_lazy(values: Any) -> bool:
    """Tell whether values are an array, a dataframe or a series of Dask."""
    return bool(array_api_compat.is_dask_array(values)) or hasattr(values, "to_dask_array")


def _refuse_arrays(scores: Any) -> None:
    """Refuse arrays that are no tuple of Dask arrays."""
    first = next(iter(scores), "") if isinstance(scores, tuple | list) else scores
    if isinstance(first, str | os.PathLike):
        return
    got = type(first).__name__
    raise OptionError(
        argument="scores",
        rule="must be files by path or URL, or a tuple of Dask arrays or dataframes, (scores, "
        "labels) or (scores, labels, weight)",
        got=got if first is scores else f"{got} first",
        remedy="Pass such a tuple, or give scores and labels to calibrator.fit, which takes any "
        "array.",
    )


def _refuse_of_files(**given: Any) -> None:
    """Refuse options that are for files only."""
    for name, value in given.items():
        got = repr(value) if isinstance(value, str) else type(value).__name__
        if value is not None and got != "'raise'":
            raise OptionError(
                argument=name,
                rule=[
                    "must be left out where ",
                    Argument("scores"),
                    " are Dask arrays: it is about files",
                ],
                got=got,
                remedy="Pass labels and weights in the tuple, (scores, labels, weight).",
            )


def _shards(
    calibrator: PosteriorCalibrator,
    scores: Any,
    labels: Any,
    reading: ShardOptions | None,
    on_error: str,
) -> tuple[Shards, Terms]:
    check_choice("on_error", on_error, ("raise", "skip"))
    _refuse_arrays(scores)
    options, skip = reading or ShardOptions(), on_error == "skip"
    shards = [Shard(url) for url in expand_urls(scores, "scores", options.storage)]
    if labels is not None:
        label_urls = expand_urls(labels, "labels", options.storage)
        shards = pair_labels([shard.url for shard in shards], label_urls)
    refuse_repeated_files([shard.url for shard in shards], [shard.labels for shard in shards])
    # On a worker: that is where the files must be readable.
    head = delayed(read_head)(shards, options, skip=skip).compute()
    terms = settle_terms(calibrator, _NoChunks(head.class_names))
    blank = copy.copy(calibrator)
    blank.__dict__ = {k: v for k, v in vars(calibrator).items() if not k.endswith("_")}
    return Shards(shards, ShardJob(blank, terms, options, head, skip)), terms


class _NoChunks(tuple[Any, ...]):
    """No chunks yet, but the class names that the files have."""

    class_names: Sequence[str] | None

    def __new__(cls, class_names: Sequence[str] | None) -> _NoChunks:
        """Create an empty tuple with class names."""
        empty = super().__new__(cls)
        empty.class_names = class_names
        return empty


def _bins(resolution: Resolution, bounds: Sequence[float]) -> Bins:
    if resolution is None or resolution == "auto":
        return Bins.of(None) if resolution is None else AUTO_BINS
    if isinstance(resolution, str):
        why = ", which reads the shards once more, in order, on one machine: engines.fit does that"
        raise OptionError(
            argument="resolution",
            rule=["must be a number above 0, 'auto' or ", Words("None", "none")],
            got=f"{resolution!r}{why if resolution == 'refine' else ''}",
            remedy=[
                "Pass for example 0.0001, or ",
                Words("None", "none"),
                " to keep every switch.",
            ],
        )
    refuse_wide_bins(resolution, bounds)
    return Bins.of(check_finite_number("resolution", resolution, positive=True))


LOCAL = ("threads", "processes", "synchronous")
"""Dask's schedulers without a cluster."""


@contextmanager
def running_on(scheduler: str | None = None, n_workers: int | None = None) -> Iterator[None]:
    """Run Dask's tasks in the block on a cluster, on new local workers, or on Dask's default.

    Parameters
    ----------
    scheduler : str, optional
        The address of a cluster, such as ``"tcp://10.0.0.1:8786"``, or one of Dask's local ones:
        "threads", "processes", "synchronous".
    n_workers : int, optional
        Start this many worker processes of one thread each on this machine, for the block.

    Examples
    --------
    >>> import dask
    >>> with running_on("synchronous"):
    ...     dask.delayed(sum)([1, 2]).compute()
    3
    """
    _check(scheduler, n_workers)
    with ExitStack() as stack:
        if scheduler in LOCAL:
            dask = require("dask", extra="dask", purpose="To run on Dask")
            stack.enter_context(dask.config.set(scheduler=scheduler))
        elif scheduler is not None or n_workers is not None:
            distributed = require("distributed", extra="dask", purpose="To run on a Dask cluster")
            if scheduler is not None:
                stack.enter_context(_connected(distributed, scheduler))
            else:
                stack.enter_context(_without_unretrieved_errors())
                cluster = stack.enter_context(_started_workers(distributed, n_workers))
                stack.enter_context(distributed.Client(cluster))
        with _cluster_errors():
            yield


@contextmanager
def _cluster_errors() -> Iterator[None]:
    """Raise errors of the cluster itself, such as that of a killed worker, as a sentence."""
    try:
        yield
    except Exception as error:
        of_cluster = type(error).__module__.partition(".")[0] == "distributed"
        if not of_cluster or isinstance(error, OSError):
            raise
        raise RepriorError(
            "Dask's workers must stay alive until the work is done.",
            got=quoted(error, typed=True),
            remedy="Give them more memory, or cut the data in smaller shards.",
        ) from error


def _started_workers(distributed: Any, n_workers: int | None) -> Any:
    """Start workers on this machine, and return their cluster; after Ctrl-C, leave none behind.

    A cluster that is stopped while it starts logs tracebacks and may leave processes. So a thread
    starts it, which Ctrl-C does not interrupt, and an interrupt stops it once it is complete. The
    thread blocks SIGINT, for its processes too: these inherit it until :func:`dask_setup` ignores
    the signal.
    """

    def start() -> Any:
        if sys.platform != "win32":
            resource_tracker.ensure_running()  # it unblocks the signal where it is started
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        return distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            # Without pages; other services take any free port.
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            silence_logs=logging.CRITICAL,  # an error is raised here, once
            preload=["reprior.engines.dask_engine"],
        )

    with ThreadPoolExecutor(1, thread_name_prefix="reprior-workers") as pool:
        starting = pool.submit(start)
        try:
            return starting.result()
        except Exception as error:
            raise OptionError(
                argument="n_workers",
                rule="must be as many processes as this machine can start",
                got=f"{n_workers} ({quoted(error, typed=True)})",
                remedy="Pass fewer, or check the limits on memory and processes.",
            ) from error
        except BaseException:  # Ctrl-C, or the end of the process
            with delay_interrupts(), suppress(Exception):
                starting.result().close()
            raise


@contextmanager
def _without_unretrieved_errors() -> Iterator[None]:
    """Keep asyncio from logging errors of tasks that nobody waits for after Ctrl-C."""

    def wanted(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return type(error).__name__ != "AllExit"  # by which Dask's client leaves a wait

    logger = logging.getLogger("asyncio")
    logger.addFilter(wanted)
    try:
        yield
    finally:
        logger.removeFilter(wanted)


@contextmanager
def _connected(distributed: Any, address: str) -> Iterator[None]:
    dask = require("dask", extra="dask", purpose="To run on Dask")
    client = distributed.Client.__new__(distributed.Client)  # so that it can always be closed
    try:
        # As a default client it would stay the default, though no scheduler answers.
        client.__init__(address, set_as_default=False)
    except (ImportError, OSError, RuntimeError, TimeoutError, ValueError) as error:
        # The garbage collector would close it at any time, and may then wait for ever for a lock
        # that the next client holds while it starts.
        with suppress(Exception):  # a half-made client may lack what closing needs
            client.close()
        raise OptionError(
            argument="scheduler",
            rule=f"must be the address of a Dask scheduler that answers, or one of {LOCAL}",
            got=f"{address!r} ({error})",
            remedy="Check the address, and that the cluster is up.",
        ) from error
    with client, client.as_current(), dask.config.set(scheduler=client):
        yield


def _check(scheduler: Any, n_workers: Any) -> None:
    if scheduler is not None and (not isinstance(scheduler, str) or not scheduler):
        raise OptionError(
            argument="scheduler",
            rule=f"must be an address such as 'tcp://10.0.0.1:8786', or one of {LOCAL}",
            got=repr(scheduler),
            remedy="A Client that is active is used without it.",
        )
    if n_workers is None:
        return
    if isinstance(n_workers, bool) or not isinstance(n_workers, int) or n_workers < 1:
        raise OptionError(
            argument="n_workers",
            rule="must be a whole number of at least 1",
            got=repr(n_workers),
            remedy="Pass as many as there are cores, or leave it out.",
        )
    if scheduler is not None:
        raise OptionError(
            argument="n_workers",
            rule=["must be left out where ", Argument("scheduler"), " is given"],
            got=f"{n_workers} and {scheduler!r}",
            remedy="Pass one of them.",
        )


def dask_setup(worker: object) -> None:  # noqa: ARG001 - Dask passes it
    """Ignore Ctrl-C; Dask calls this in every worker at its start."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
