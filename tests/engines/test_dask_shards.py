"""Shards by path and by URL: found, copied where they are far, and named in errors."""

from __future__ import annotations

import pickle
import sys

import fsspec
import numpy as np
import pytest
from tests.support.chunked_scores import flat
from tests.support.shards import in_memory, npz_shards, parquet_bytes

from reprior.engines import (
    FileState,
    Head,
    RemoteFileError,
    Shard,
    ShardOptions,
    UnlikeShardError,
    dask_fit,
    expand_urls,
    nearby,
    open_shard,
    pair_labels,
    read_head,
)
from reprior.exceptions import (
    FileFormatError,
    LabelsError,
    MissingDependencyError,
    OptionError,
)


def test_patterns_of_urls_are_sorted_and_lists_keep_their_order():
    pattern = in_memory(flat(), "expand")
    found = expand_urls(pattern, "paths", {})
    assert [url.rsplit("/")[-1] for url in found] == [f"part-{i:03d}.parquet" for i in range(5)]
    assert expand_urls(found[::-1], "paths", {}) == found[::-1]


def test_paths_are_paths(tmp_path):
    pattern = npz_shards(tmp_path, flat(), 3)
    assert expand_urls(pattern, "paths", {}) == [str(tmp_path / f"00{i}.npz") for i in range(3)]


def test_no_url_matches():
    with pytest.raises(FileNotFoundError, match=r"no file matches the pattern"):
        expand_urls("memory://nothing-here/*.npz", "paths", {})


def test_urls_and_paths_do_not_mix(tmp_path):
    with pytest.raises(OptionError, match=r"`paths` must be all paths or all URLs. Got 'b.npz'"):
        expand_urls(["memory://a.npz", "b.npz"], "paths", {})
    with pytest.raises(OptionError, match=r"`paths` must be a path"):
        expand_urls(np.zeros(3), "paths", {})


def test_files_by_url_are_read_in_place(tmp_path):
    npz_shards(tmp_path, flat(), 1)
    with open_shard(Shard(f"file://{tmp_path}/000.npz"), ShardOptions()) as file:
        assert file is not None
        assert file.paths == (tmp_path / "000.npz",)


def test_a_far_shard_is_copied_and_the_copy_goes(tmp_path):
    (url, *_) = expand_urls(in_memory(flat(), "copied", (30,)), "paths", {})
    with open_shard(Shard(url), ShardOptions()) as file:
        assert file is not None
        (path,) = file.paths
        assert path.exists()
        assert file.n_samples == 30
    assert not path.exists()


def test_errors_in_a_far_shard_name_its_url_not_the_copy():
    files = fsspec.filesystem("memory")
    files.pipe("/bad/one.parquet", parquet_bytes(flat(), slice(0, 9))[:-9])
    with (
        pytest.raises(FileFormatError, match=r"'memory:///bad/one.parquet'") as raised,
        open_shard(Shard("memory:///bad/one.parquet"), ShardOptions()),
    ):
        pass
    assert "reprior-" not in str(raised.value)


def test_a_far_shard_that_is_gone():
    with (
        pytest.raises(FileNotFoundError, match=r"memory://gone/one.npz") as raised,
        open_shard(Shard("memory://gone/one.npz"), ShardOptions()),
    ):
        pass
    assert isinstance(raised.value, RemoteFileError)


def test_labels_of_a_far_shard():
    data, files = flat(), fsspec.filesystem("memory")
    for name, array in (("scores", data.scores), ("labels", data.labels)):
        with files.open(f"/apart/{name}/0.npy", "wb") as target:
            np.save(target, array)
    shard = Shard("memory://apart/scores/0.npy", "memory://apart/labels/0.npy")
    with open_shard(shard, ShardOptions()) as file:
        assert file is not None
        (chunk,) = file.chunks()
    np.testing.assert_array_equal(chunk.labels, data.labels)
    with files.open("/apart/labels/0.npy", "wb") as target:
        np.save(target, data.labels[:-1])
    with (
        pytest.raises(LabelsError, match=r"59 labels in 'memory://apart/labels/0.npy'"),
        open_shard(shard, ShardOptions()),
    ):
        pass


def test_a_folder_by_url():
    zarr = pytest.importorskip("zarr")
    files = fsspec.filesystem("memory")
    store = zarr.storage.MemoryStore()
    group = zarr.create_group(store=store)
    for name, array in (("scores", flat().scores), ("labels", flat().labels)):
        group.create_array(name, data=array)
    for key, value in store._store_dict.items():
        files.pipe(f"/folder/all.zarr/{key}", value.to_bytes())
    with open_shard(Shard("memory://folder/all.zarr"), ShardOptions()) as file:
        assert file is not None
        assert (file.format, file.n_samples) == ("zarr", 60)


def test_the_head_is_that_of_the_first_with_rows():
    urls = expand_urls(in_memory(flat(), "head", (0, 30)), "paths", {})
    head = read_head([Shard(url) for url in urls], ShardOptions(), skip=False)
    assert head.path == urls[1]
    assert (head.n_classes, head.kind, head.row_shape) == (4, "logits", (4,))


HEAD = Head("a", "logits", ("x", "y"), (2,), 2, -1, None)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"n_classes": 3}, "number of classes. Got 2 in 'a' and 3 in 'b'"),
        ({"class_names": None}, "class names, in one order. Got 'x', 'y' in 'a' and None in 'b'"),
        ({"row_shape": (2, 5)}, "shape per sample. Got 2 in 'a' and 2, 5 in 'b'"),
        ({"kind": "probs"}, "kind. Got 'logits' in 'a' and 'probs' in 'b'"),
    ],
)
def test_unlike_shards(change, words):
    with pytest.raises(UnlikeShardError) as raised:
        HEAD.check(HEAD._replace(path="b", **change))
    remedy = "Name their order by `classes`, make" if "class_names" in change else "Make"
    assert str(raised.value) == (
        f"All shards must have the same {words}. {remedy} them alike, or fit them apart."
    )
    HEAD.check(HEAD._replace(path="b"))


def test_labels_pair_with_shards():
    assert pair_labels(["a", "b"], ["c", "d"]) == [Shard("a", "c"), Shard("b", "d")]
    with pytest.raises(LabelsError, match=r"Got 1 for 2 shards"):
        pair_labels(["a", "b"], ["c"])


def test_a_shard_without_labels_says_so(tmp_path):
    np.save(tmp_path / "a.npy", flat().scores)
    with (
        pytest.raises(LabelsError, match=r"`labels` must be given"),
        open_shard(Shard(str(tmp_path / "a.npy")), ShardOptions()),
    ):
        pass


def test_a_file_is_the_same_by_size_and_by_the_clock_of_one_machine():
    here = FileState(10, ("1",), "here")
    assert here.became(here) is None
    assert here.became(FileState(10, ("2",), "here")) == "was changed since"
    assert here.became(FileState(10, ("2",), "there")) is None  # a copy, made at another time
    assert here.became(FileState(11, ("2",), "there")) == "was 10 bytes and is 11 now"


def test_a_file_system_that_tells_nothing(monkeypatch):
    def refused(*_):
        raise NotImplementedError

    system = fsspec.filesystem("memory")
    system.pipe("/silent/a.npy", b"abc")
    assert Shard("memory://silent/a.npy").states({})["memory://silent/a.npy"].size == 3
    monkeypatch.setattr(type(system), "info", refused)
    assert Shard("memory://silent/a.npy").states({}) == {"memory://silent/a.npy": FileState()}


@pytest.mark.parametrize(
    "url, error, words",
    [
        (
            "s3://b/x-*.parquet",
            MissingDependencyError,
            r"not installed \(Install s3fs.*pip install",
        ),
        ("zz://b/x.parquet", OptionError, r"a protocol that fsspec knows.*Got 'zz://b/x\.parquet'"),
    ],
)
def test_urls_that_nothing_reads(url, error, words, monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(error, match=words):
        expand_urls(url, "scores", {})


def test_classes_that_only_one_shard_has_are_named():
    one = Head("a.csv", "logits", ("cat", "dog", "owl"), (3,), 3, -1, None)
    other = one._replace(path="b.csv", class_names=("cat", "cow"), row_shape=(2,), n_classes=2)
    with pytest.raises(UnlikeShardError) as raised:
        one.check(other)
    assert str(raised.value).startswith(
        "All shards must have the same classes. Those of 'a.csv' and 'b.csv' differ: "
        "'dog', 'owl' in 'a.csv' alone and 'cow' in 'b.csv' alone. "
    )
    order = one._replace(path="b.csv", class_names=("dog", "cat", "owl"))
    with pytest.raises(UnlikeShardError, match=r"class names, in one order\. Got 'cat', 'dog'"):
        one.check(order)


# ------------------------------------------------------------------------------- remote errors


class StoreError(Exception):
    """What a client of a cloud store raises, which is no OSError."""


class FailingStore(fsspec.AbstractFileSystem):
    """A store that lists one file, and fails at one of its methods."""

    protocol = "failing"
    cachable = False

    def __init__(self, fails_at="", error=StoreError, **options):
        super().__init__(**options)
        self.fails_at, self.error = fails_at, error

    def _fail(self, name):
        if name == self.fails_at:
            raise self.error("SignatureDoesNotMatch\n\x1b]0;title\x07 (403): not you")

    def glob(self, path, **_options):
        self._fail("glob")
        return ["bucket/0.parquet"]

    def isdir(self, path):
        self._fail("isdir")
        return False

    def get(self, *_arguments, **_options):
        self._fail("get")

    def info(self, path, **_options):
        raise self.error("no information")


@pytest.fixture
def failing_store():
    fsspec.register_implementation("failing", FailingStore, clobber=True)


SENTENCE = (
    "'failing://bucket/0.parquet' must be readable by its file system. Got {}: "
    "SignatureDoesNotMatch \\x1b]0;title\\x07 (403): not you. Check the URL, the credentials, the "
    "network and the options in `storage`."
)


@pytest.mark.parametrize("error", [StoreError, ValueError, TimeoutError, PermissionError])
@pytest.mark.parametrize("fails_at", ["isdir", "get"])
def test_any_error_of_a_store_is_a_sentence_with_the_url(failing_store, fails_at, error):
    options = ShardOptions(storage={"fails_at": fails_at, "error": error})
    shard = Shard("failing://bucket/0.parquet")
    with pytest.raises(RemoteFileError) as caught, open_shard(shard, options):
        pass
    assert str(caught.value) == SENTENCE.format(error.__name__)
    with pytest.raises(RemoteFileError), nearby(shard.url, options.storage):
        pass
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # from a worker
    assert isinstance(caught.value, OSError)


def test_a_store_that_cannot_list_is_a_sentence(failing_store):
    with pytest.raises(RemoteFileError, match=r"'failing://bucket/\*' must be readable by"):
        expand_urls("failing://bucket/*", "scores", {"fails_at": "glob"})


def test_a_fit_says_which_store_fails(failing_store):
    reading = ShardOptions(storage={"fails_at": "get"})
    for how in ("raise", "skip"):
        with pytest.raises(FileFormatError, match=r"'failing://bucket/0\.parquet'"):
            dask_fit(
                flat().calibrator(),
                "failing://bucket/*",
                reading=reading,
                on_error=how,
                scheduler="synchronous",
            )
