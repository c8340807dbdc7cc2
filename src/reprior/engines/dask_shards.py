"""Score files, local or by URL through fsspec, as shards: one Dask task reads each."""

from __future__ import annotations

import glob
import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from reprior._warnings import warn
from reprior.calibrator.encoding import Terms
from reprior.core.threads import one_thread
from reprior.engines.chunk_source import Stream, refuse_other_samples, state_of
from reprior.exceptions import (
    Argument,
    FileFormatError,
    LabelsError,
    MissingDependencyError,
    OptionError,
    Reference,
    RepriorError,
    quoted,
    require,
)
from reprior.files.formats.interface import NoRowsError, Reader, apart, few
from reprior.files.scores import ScoreFile, expand_paths, open_scores
from reprior.profile.dask_arrays import delayed, tree
from reprior.profile.source import Pass

__all__ = [
    "FileState",
    "Head",
    "MissingRemoteFileError",
    "RemoteFileError",
    "Shard",
    "ShardJob",
    "ShardOptions",
    "Shards",
    "UnlikeShardError",
    "expand_urls",
    "nearby",
    "open_shard",
    "pair_labels",
    "read_head",
]

Result = TypeVar("Result")

#: Names under which file systems give the time of change. "created" is one where files are
#: replaced as a whole.
_TIMES = (
    "mtime",
    "modify",
    "modified",
    "last_modified",
    "LastModified",
    "updated",
    "created",
    "ETag",
    "etag",
)


@dataclass(frozen=True)
class ShardOptions:
    """How every shard is read; see :func:`reprior.files.scores.open_scores`.

    ``storage`` has the options of the file system in fsspec: keys, endpoints.
    """

    kind: str | None = None
    classes: Sequence[Any] | str | None = None
    label_column: str = "label"
    weight_column: str | None = None
    ignore_index: int | str | None = None
    scores_name: str | None = None
    labels_name: str = "labels"
    labels_as: str | None = None
    class_axis: int | None = None
    storage: dict[str, Any] = field(default_factory=dict)


class Shard(NamedTuple):
    """A score file, by path or URL, and the file of its labels where that is another."""

    url: str
    labels: str | None = None

    def states(self, storage: dict[str, Any]) -> dict[str, FileState]:
        """Return the present state of its files, as far as their file system gives it."""
        return {url: _state(url, storage) for url in self if url is not None}


class FileState(NamedTuple):
    """Size and time of change of a file, None where they are unknown."""

    size: int | None = None
    changed: tuple[str, ...] | None = None
    clock: str = ""
    """The machine whose clock gave the time: copies on other machines have other times."""

    def became(self, other: FileState) -> str | None:
        """Return how the file has changed, in words; None if it is the same."""
        if self.size != other.size:
            return f"was {self.size} bytes and is {other.size} now"
        same = self.clock != other.clock or self.changed == other.changed
        return None if same else "was changed since"


class UnlikeShardError(FileFormatError):
    """A readable shard with other classes, another shape or kind than the others."""


class RemoteFileError(FileFormatError, OSError):
    """A file by URL that its file system cannot read."""

    def __new__(cls, *_arguments: Any, **_options: Any) -> Self:
        """Create it as an OSError: copies are made through this, and ValueError refuses them."""
        return OSError.__new__(cls)


class MissingRemoteFileError(RemoteFileError, FileNotFoundError):
    """A file by URL that does not exist."""


class Head(NamedTuple):
    """What all shards have in common, taken from the first one with rows."""

    path: str
    kind: str | None
    class_names: tuple[str, ...] | None
    row_shape: tuple[int, ...]
    n_classes: int
    class_axis: int
    ignore_index: int | None

    @classmethod
    def of(cls, file: ScoreFile, url: str) -> Head:
        """Return the head of a file."""
        reader: Reader = file.readers[0]
        return cls(
            path=url,
            kind=file.kind,
            class_names=file.class_names,
            row_shape=reader.row_shape,
            n_classes=file.n_classes,
            class_axis=file.class_axis,
            ignore_index=file.ignore_index,
        )

    def check(self, other: Head) -> None:
        """Refuse a shard of other classes, shape or kind, naming both."""
        difference = ""
        if self.class_names and other.class_names:
            difference = apart({self.path: self.class_names, other.path: other.class_names})
        if difference:
            raise UnlikeShardError(
                [
                    f"All shards must have the same classes. Those of {self.path!r} and "
                    f"{other.path!r} differ: {difference}. Every numeric column of a "
                    "table is a class, unless ",
                    Argument("classes"),
                    " names these. Make them alike, or fit them apart.",
                ]
            )
        for words, mine, theirs in (
            ("number of classes", self.n_classes, other.n_classes),
            ("class names, in one order", self.class_names, other.class_names),
            ("shape per sample", self.row_shape, other.row_shape),
            ("kind", self.kind, other.kind),
        ):
            if mine != theirs:
                naming: list[str | Reference] = ["Make"]
                if "names" in words:
                    naming = ["Name their order by ", Argument("classes"), ", make"]
                raise UnlikeShardError(
                    f"All shards must have the same {words}.",
                    got=f"{_brief(mine)} in {self.path!r} and {_brief(theirs)} in {other.path!r}",
                    remedy=[*naming, " them alike, or fit them apart."],
                )


def expand_urls(paths: Any, name: str, storage: dict[str, Any]) -> list[str]:
    """Return the files behind paths, URLs or patterns; the files of a pattern are sorted.

    Examples
    --------
    >>> import fsspec
    >>> files = fsspec.filesystem("memory")
    >>> for each in "ba":
    ...     files.pipe(f"/example/{each}.npy", b"")
    >>> expand_urls("memory://example/*.npy", "paths", {})
    ['memory:///example/a.npy', 'memory:///example/b.npy']
    """
    listed = [paths] if isinstance(paths, str | os.PathLike) else paths
    if not isinstance(listed, Sequence) or not any(map(_is_url, listed)):
        return [os.fspath(path) for path in expand_paths(listed, name)]
    urls: list[str] = []
    for url in listed:
        if not _is_url(url):
            raise OptionError(
                argument=name,
                rule="must be all paths or all URLs",
                got=f"{os.fspath(url)!r} among URLs",
                remedy="Write file:// before paths of files.",
            )
        system, path = _file_system(url, storage)
        if not glob.has_magic(path):
            urls.append(str(url))
            continue
        with _remote(str(url)):
            matches = sorted(system.glob(path))
        if not matches:
            raise FileNotFoundError(2, "no file matches the pattern", str(url))
        urls.extend(str(system.unstrip_protocol(match)) for match in matches)
    return urls


def read_head(shards: Sequence[Shard], options: ShardOptions, *, skip: bool) -> Head:
    """Return the head of the first shard with rows; ``skip`` ignores damaged shards."""
    for shard in shards:
        try:
            with open_shard(shard, options) as file:
                if file is not None:
                    return Head.of(file, shard.url)
        except (FileFormatError, OSError):
            if not skip:
                raise
    raise FileFormatError(
        f"Some shard must have rows. Got {len(shards)} shards, each empty or unreadable, "
        f"{shards[0].url!r} first. Check that they were written to their end."
    )


@contextmanager
def open_shard(
    shard: Shard, options: ShardOptions, head: Head | None = None
) -> Iterator[ScoreFile | None]:
    """Open a shard as a score file; None if it has no rows. Errors within name it.

    A remote shard is copied to a local disk while it is open.
    """
    with _named(shard.url), tempfile.TemporaryDirectory(prefix="reprior-") as folder:
        path = _local(shard.url, Path(folder), options.storage)
        labels = None
        if shard.labels is not None:
            labels = _local(shard.labels, Path(folder) / "labels", options.storage)
        try:
            if head is not None and len(head.row_shape) > 1:
                options = replace(options, class_axis=head.class_axis)
            file = _open(path, labels, options)
            if file is not None:
                file.require_labels()
                if head is not None:
                    head.check(Head.of(file, shard.url))
            yield file
        except RepriorError as error:
            names = {os.fspath(path): shard.url}
            if labels is not None and shard.labels is not None:
                names[os.fspath(labels)] = shard.labels
            raise error.mapped(partial(_with_urls, names)) from error


def _with_urls(names: dict[str, str], part: str | Reference) -> str | Reference:
    """Replace the names of local copies in a part of an error by the URLs that were given."""
    if isinstance(part, str):
        for copy, url in names.items():
            part = part.replace(copy, url)
    return part


@contextmanager
def nearby(url: str | None, storage: dict[str, Any] | None = None) -> Iterator[Path | None]:
    """Give a file's local path; a remote file is copied to a local disk for the block."""
    with tempfile.TemporaryDirectory(prefix="reprior-") as folder:
        yield None if url is None else _local(url, Path(folder), storage or {})


def pair_labels(urls: Sequence[str], labels: Sequence[str]) -> list[Shard]:
    """Return shards with a label file each."""
    if len(labels) != len(urls):
        raise LabelsError(
            argument="labels",
            rule="must be as many files as there are shards, one for each",
            got=f"{len(labels)} for {len(urls)} shards",
            remedy="Put the labels into the shards, or cut them alike.",
        )
    return [Shard(url, label_url) for url, label_url in zip(urls, labels, strict=True)]


def _open(path: Path, labels: Path | None, options: ShardOptions) -> ScoreFile | None:
    try:
        return open_scores(
            path,
            labels=labels,
            kind=options.kind,
            classes=options.classes,
            label_column=options.label_column,
            weight_column=options.weight_column,
            ignore_index=options.ignore_index,
            scores_name=options.scores_name,
            labels_name=options.labels_name,
            labels_as=options.labels_as,
            class_axis=options.class_axis,
        )
    except NoRowsError:  # a valid file without rows
        return None


def _brief(value: Any) -> str:
    return few(value) if isinstance(value, tuple) and value else repr(value)


@contextmanager
def _named(url: str) -> Iterator[None]:
    """Let every error name the shard."""
    try:
        yield
    except FileFormatError:  # it names the file already
        raise
    except RepriorError as error:
        raise error.with_sentence(f"It is in {url!r}.") from error
    except OSError as error:
        if error.filename == url:
            raise
        reason = error.strerror or f"it cannot be read ({error})"
        code = error.errno or (2 if isinstance(error, FileNotFoundError) else 5)
        raise OSError(code, reason, url) from error


def _is_url(path: Any) -> bool:
    return isinstance(path, str) and "://" in path


def _file_system(url: Any, storage: dict[str, Any]) -> tuple[Any, str]:
    core = require("fsspec.core", extra="dask", purpose="To read files by URL")
    with _remote(str(url)):
        try:
            system, path = core.url_to_fs(str(url), **storage)
        except ImportError as error:
            raise MissingDependencyError(
                f"{str(url)!r} is read by a package that is not installed ({error}). Install it "
                f"here and where the workers run, for example: pip install s3fs (for s3://) or "
                f"gcsfs (gs://)."
            ) from error
        except ValueError as error:
            raise OptionError(
                f"URLs must be of a protocol that fsspec knows, such as s3://, gs:// or https://. "
                f"Got {str(url)!r} ({error}). Correct it, or copy the files here."
            ) from error
    return system, str(path)


def _place(url: str, storage: dict[str, Any]) -> tuple[Any, str]:
    """Return the file system of a shard, None for the local one, and the path in it."""
    if not _is_url(url):
        return None, url
    system, path = _file_system(url, storage)
    protocols = system.protocol if isinstance(system.protocol, tuple) else [system.protocol]
    return (None if "file" in protocols else system), path


def _state(url: str, storage: dict[str, Any]) -> FileState:
    system, path = _place(url, storage)
    if system is None:
        _, size, changed = state_of(Path(path))
        return FileState(size, (str(changed),), platform.node())
    with suppress(Exception):  # reading the file raises what is wrong
        info = system.info(path)
        times = [str(info[name]) for name in _TIMES if info.get(name) is not None]
        return FileState(info.get("size"), tuple(times))
    return FileState()


def _local(url: str, folder: Path, storage: dict[str, Any]) -> Path:
    """Return the local path of a shard; copy a remote one into ``folder``."""
    system, path = _place(url, storage)
    if system is None:
        return Path(path)
    folder.mkdir(exist_ok=True)
    target = folder / Path(path).name
    with _remote(url):
        system.get(path, os.fspath(target), recursive=bool(system.isdir(path)))
    return target


@contextmanager
def _remote(url: str) -> Iterator[None]:
    """Raise whatever a file system raises as a sentence that names the URL.

    Clients of cloud stores have errors of their own, which are no OSErrors.
    """
    try:
        yield
    except RepriorError:
        raise
    except Exception as error:
        kind: type[RemoteFileError] = RemoteFileError
        if isinstance(error, FileNotFoundError):
            kind = MissingRemoteFileError
        raise kind(
            f"{url!r} must be readable by its file system.",
            got=quoted(error, typed=True),
            remedy=[
                "Check the URL, the credentials, the network and the options in ",
                Argument("storage"),
                ".",
            ],
        ) from error


#: The number of shards that a sentence names.
NAMED = 5


@dataclass(frozen=True, eq=False)
class ShardJob:
    """What every task needs."""

    options: Any
    """The unfitted calibrator: its options say how to read scores and labels."""
    terms: Terms
    reading: ShardOptions
    head: Head
    skip: bool


class _Seen(NamedTuple):
    """The state of a shard in one pass."""

    n_samples: int
    states: dict[str, FileState]


class _Result(NamedTuple):
    """The result of some shards, and the indices of those that could not be read."""

    value: Any
    failures: tuple[tuple[int, str], ...]
    seen: tuple[tuple[int, _Seen], ...] = ()


class Shards:
    """Score files as a source; one Dask task reads each.

    Under ``job.skip``, shards that cannot be read are left out as a whole, with a warning that
    names them. The first pass decides which these are, and ``left_out`` has their URLs. The others
    must be the same in every pass: the same number of samples, file sizes and times of change, as
    far as their file system gives these.
    """

    def __init__(self, shards: Sequence[Shard], job: ShardJob) -> None:
        self.shards, self.job = list(shards), job
        self.left_out: list[str] = []
        self._settled = False
        self._seen: list[_Seen] = []

    @property
    def n_samples(self) -> int:
        """The number of samples in the last pass."""
        return sum(each.n_samples for each in self._seen)

    def run(self, pass_: Pass[Result]) -> Result:
        """Run a pass over all shards, one task each, and merge the results."""
        return self.run_groups(pass_, 1)[0]

    def run_groups(self, pass_: Pass[Result], n_groups: int) -> list[Result]:
        """Run a pass and merge the results per group; shards are assigned to groups in turn."""
        dask = require("dask", extra="dask", purpose="To read shards on Dask")
        shared = delayed((pass_, self.job, not self._settled), traverse=False)
        work, joined = delayed(_on_shard), _Joined(pass_)
        tasks = [work(shared, i, shard) for i, shard in enumerate(self.shards)]
        groups = [tree(tasks[i::n_groups], joined) for i in range(n_groups)]
        # A group of one shard was not joined by the tree.
        results: list[_Result] = [joined([each]) for each in dask.compute(*groups)]
        self._settle(sorted(failure for result in results for failure in result.failures))
        seen = dict(each for result in results for each in result.seen)
        self._compare([seen[i] for i in sorted(seen)])
        return [result.value for result in results]

    def _compare(self, now: list[_Seen]) -> None:
        """Refuse shards that have changed since an earlier pass."""
        for shard, a, b in zip(self.shards, self._seen or now, now, strict=True):
            if a.n_samples != b.n_samples:
                got = f"{a.n_samples} samples in {shard.url!r}, and then {b.n_samples}"
                refuse_other_samples("scores", got)
            for url, state in a.states.items():
                if how := state.became(b.states[url]):
                    refuse_other_samples("scores", f"{url!r}, which {how}")
        self._seen = now

    def _settle(self, failures: Sequence[tuple[int, str]]) -> None:
        """Leave out unreadable shards, in later passes too, and warn of them."""
        self._settled = True
        if not failures:
            return
        failed = {i for i, _ in failures}
        self.left_out.extend(self.shards[i].url for i in sorted(failed))
        self.shards = [shard for i, shard in enumerate(self.shards) if i not in failed]
        few = " ".join(sentence for _, sentence in failures[:NAMED])
        more = f" And {len(failures) - NAMED} more." if len(failures) > NAMED else ""
        if not self.shards:
            raise FileFormatError(f"Some shard must be readable. Got none that is. {few}{more}")
        warn(
            f"{len(failures)} of {len(failures) + len(self.shards)} shards could not be read and "
            f"were left out: {few}{more}"
        )


@dataclass(frozen=True, eq=False)
class _Joined:
    """Merge the results of the shards that could be read."""

    pass_: Pass[Any]

    def __call__(self, results: list[_Result]) -> _Result:
        failures = tuple(failure for result in results for failure in result.failures)
        known = [result.value for result in results if result.value is not None]
        seen = tuple(each for result in results for each in result.seen)
        return _Result(self.pass_.merge(known) if known else None, failures, seen)


def _on_shard(shared: tuple[Pass[Any], ShardJob, bool], i: int, shard: Shard) -> _Result:
    """Run a pass over the i-th shard; a shard that fails contributes nothing."""
    pass_, job, first = shared
    accumulator = pass_.begin()
    n_samples = 0
    states = shard.states(job.reading.storage)  # before reading: the next pass sees later changes
    try:
        with open_shard(shard, job.reading, job.head) as file, one_thread():
            if file is not None:
                stream = Stream(job.options, file, job.terms, may_be_empty=True)
                for part in stream.parts():
                    with part.located():
                        accumulator.add(part.samples)
                n_samples = stream.n_samples or 0
    except (FileFormatError, OSError) as error:
        # A readable shard that differs from the others is never skipped.
        if not job.skip or not first or isinstance(error, UnlikeShardError):
            raise
        return _Result(None, ((i, _sentence(error)),))
    return _Result(accumulator.result(), (), ((i, _Seen(n_samples, states)),))


def _sentence(error: FileFormatError | OSError) -> str:
    return str(error) if isinstance(error, FileFormatError) else f"{error}."
