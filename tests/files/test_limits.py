"""Inputs are regular files of a limited size, and nothing in them is there twice."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import math
import os
import struct
import sys
import zipfile
import zlib

import numcodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.child_processes import ended

import reprior as rp
from reprior.exceptions import FileFormatError, LabelsError, OptionError, RepriorError
from reprior.files import (
    counts_from_labels,
    open_scores,
    parse_json,
    read_archive,
    read_costs,
    read_counts,
    refuse_huge_pages,
    write_archive,
)
from reprior.files.count_files import read_class_names
from reprior.files.formats.chunk_sizes import unpacked_bytes

READERS = {
    "scores": open_scores,
    "labels": counts_from_labels,
    "counts": read_counts,
    "costs": lambda path: read_costs(path, ["a", "b"]),
    "names": read_class_names,
    "document": rp.load,
    "profile": rp.StrengthProfile.load,
    "tracker": rp.PriorTracker.load,
}

needs_fifo = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="SKIPPED: no FIFOs here")


@needs_fifo
@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", READERS)
def test_a_pipe_or_a_device_is_refused_at_once(tmp_path, name):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for path, what in ((tmp_path / "link", "a named pipe"), ("/dev/zero", "a device")):
        with pytest.raises(FileFormatError, match=rf"must be a regular file\. Got {what}"):
            READERS[name](path)


def npz(path, members, method=zipfile.ZIP_DEFLATED, *, fortran=False):
    """Write members, each an array, or shape and dtype of an array that is said to be there."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members:
            with archive.open(f"{name}.npy", "w") as file:
                if not isinstance(content, tuple):
                    np.lib.format.write_array(file, np.asarray(content))
                    continue
                shape, dtype = content
                header = {"descr": dtype, "fortran_order": fortran, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
                n_bytes = 128 + math.prod(shape) * np.dtype(dtype).itemsize
            archive.getinfo(f"{name}.npy").file_size = n_bytes
    return path


HEADER = np.frombuffer(
    json.dumps({"format": "reprior strength profile", "format_version": 1}).encode(), np.uint8
)

HUGE = {
    "class names": (open_scores, [("scores", np.eye(2)), ("class_names", ((1 << 20,), "<U128"))]),
    "one name": (open_scores, [("scores", np.eye(2)), ("class_names", ((2,), "<U40000000"))]),
    "kind": (open_scores, [("scores", np.eye(2)), ("kind", ((), "<U80000000"))]),
    "a sample": (open_scores, [("scores", ((2, 1 << 28), "|i1")), ("labels", [0, 1])]),
    "profile": (rp.StrengthProfile.load, [("header", HEADER), ("counts", ((1 << 29,), "|i1"))]),
}


@pytest.mark.parametrize("case", HUGE)
def test_a_small_archive_of_huge_arrays_is_refused_before_it_is_unpacked(tmp_path, case):
    read, members = HUGE[case]
    path = npz(tmp_path / "bomb.npz", members)
    with pytest.raises(FileFormatError, match=r"bomb\.npz' must .* of at most [\d,]+ bytes"):
        read(path)


def test_an_array_in_fortran_order_is_not_unpacked_to_a_huge_copy(tmp_path):
    npz(tmp_path / "a.npz", [("scores", ((1 << 28, 2), "|i1"))], fortran=True)
    with pytest.raises(FileFormatError, match="'scores' in Fortran order of at most"):
        open_scores(tmp_path / "a.npz", kind="logits")


def test_many_zeros_are_no_bomb(tmp_path):
    scores = np.zeros((20_000, 50))
    scores[:, 1] = 1.0
    np.savez_compressed(tmp_path / "one-hot.npz", scores=scores, kind="probs")
    assert open_scores(tmp_path / "one-hot.npz").n_samples == 20_000


def test_a_huge_header_is_refused_before_it_is_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("scores.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 30) + b" " * 9)
    with pytest.raises(FileFormatError, match="a header of 1,073,741,824 bytes, where 10,000"):
        open_scores(tmp_path / "a.npz")


def test_a_long_list_of_members_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for i in range(12_000):
            archive.writestr(f"{'a' * 60}{i}", b"")
    with pytest.raises(FileFormatError, match="whose list of arrays takes at most 1,048,576 bytes"):
        open_scores(tmp_path / "a.npz")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("read", [open_scores, rp.StrengthProfile.load])
def test_an_array_that_is_there_twice_is_refused(tmp_path, read):
    path = npz(tmp_path / "a.npz", [("scores", np.eye(2)), ("scores", np.eye(3))])
    with pytest.raises(FileFormatError, match=r"must hold every array once\. Got 'scores' twice"):
        read(path)


@pytest.mark.parametrize("read", [open_scores, rp.StrengthProfile.load])
def test_an_encrypted_archive_is_refused(tmp_path, read):
    path = npz(tmp_path / "a.npz", [("scores", np.eye(2))])
    data = bytearray(path.read_bytes())
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    data[6] |= 1
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=r"must not be encrypted\. Got the array 'scores'"):
        read(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_methods_of_compression_are_refused(tmp_path, method):
    path = npz(tmp_path / "a.npz", [("scores", np.eye(2))], method)
    with pytest.raises(FileFormatError, match=f"Got compression method {method} of the array"):
        open_scores(path)


def test_an_array_longer_than_its_shape_is_refused(tmp_path):
    array = io.BytesIO()
    np.save(array, np.eye(3))
    (tmp_path / "a.npy").write_bytes(array.getvalue() + b"more")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("scores.npy", array.getvalue() + b"more")
    for name in ("a.npy", "a.npz"):
        with pytest.raises(FileFormatError, match="needs 72 bytes, 76 are there"):
            open_scores(tmp_path / name, kind="logits")


HEADERS = {
    "tokens": b"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 3), }\x00" + b" " * 50,
    "brackets": b"(" * 118,
    "unclosed": b"{'descr': '''<f8, 'fortran_order': False, 'shape': (3, 3), }" + b" " * 56,
    "negative": b"{'descr': '<f8', 'fortran_order': False, 'shape': (-3, -3), }" + b" " * 56,
    "booleans": b"{'descr': '<f8', 'fortran_order': False, 'shape': (True, 9), }" + b" " * 55,
    "no size": b"{'descr': '<U0', 'fortran_order': False, 'shape': (999999999, 9), }" + b" " * 50,
    "octal": b"{'descr': '<f8', 'fortran_order': False, 'shape': (03, 3), }" + b" " * 57,
    "escape": b"{'descr': '<f\\d', 'fortran_order': False, 'shape': (3, 3), }" + b" " * 57,
}


@pytest.mark.parametrize("case", HEADERS)
@pytest.mark.parametrize("form", ["npy", "npz"])
def test_damaged_headers_of_arrays(tmp_path, form, case):
    text = HEADERS[case]
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(72)
    if form == "npy":
        (tmp_path / "a.npy").write_bytes(data)
    else:
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("scores.npy", data)
    with pytest.raises(FileFormatError, match=rf"a\.{form}' must be a complete npy file"):
        open_scores(tmp_path / f"a.{form}", kind="logits")


def test_long_text_files_are_refused(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_bytes(b"1\n" * 2_000_001)
    with pytest.raises(FileFormatError, match=r"in at most 2,000,000 values\. Got 2,000,002"):
        read_counts(path)
    os.truncate(path, 1 << 40)  # a sparse file
    with pytest.raises(FileFormatError, match=r"in at most 33,554,432 bytes\. Got 1,099,511,627"):
        read_counts(path)
    with pytest.raises(FileFormatError, match="in at most 134,217,728 bytes"):
        rp.load(path)


def test_a_document_of_many_values_is_refused(tmp_path):
    (tmp_path / "cal.json").write_bytes(b"[" + b"{}," * 2_500_000 + b"{}]")
    with pytest.raises(FileFormatError, match=r"\(5,000,003 values, and 5,000,000 are allowed\)"):
        rp.load(tmp_path / "cal.json")


def test_keys_and_wide_letters_of_a_document_are_limited(tmp_path):
    keys = ",".join(f'"{i:x}":1' for i in range(1_700_000))
    (tmp_path / "cal.json").write_text(f"{{{keys}}}")
    with pytest.raises(FileFormatError, match=r"\(5,100,001 values, and 5,000,000 are allowed\)"):
        rp.load(tmp_path / "cal.json")
    (tmp_path / "cal.json").write_text(f'"{"a" * 40_000_000}\N{GRINNING FACE}"', encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"in memory the text takes 160,000,\d\d\d bytes"):
        rp.load(tmp_path / "cal.json")


def test_a_path_that_no_file_can_have(tmp_path):
    with pytest.raises(
        FileFormatError, match=r"must be a name that files may have\. Got 'a\\x00b'"
    ):
        rp.load("a\0b")
    with pytest.raises(OptionError, match=r"must be a name that files may have\. Got 'a\\x00b'"):
        write_archive("a\0b", {}, {})


@pytest.mark.parametrize(
    "text, words",
    [
        ('{"a": 1, "b": {"c": 2, "c": 2}}', "the key 'c' is there twice"),
        ("[NaN]", "NaN is not a number"),
        ("[-1e400]", "-1e400 is beyond the range of a float"),
        ("[" * 100_000, "nested too deeply"),
        (b'["\xff"]', "invalid start byte"),
        ("1" * 5_000, "4300"),
    ],
)
def test_json_that_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        parse_json(text)


def test_a_repeated_key_is_refused_in_every_document(tmp_path):
    path = tmp_path / "a.json"
    rp.PriorTracker([0.5, 0.5], half_life=100).save(path)
    path.write_text(path.read_text().replace('"mass"', '"kind": "probs",\n  "mass"'))
    with pytest.raises(FileFormatError, match="the key 'kind' is there twice"):
        rp.PriorTracker.load(path)
    path.write_text('{"cat": 1, "dog": 2, "cat": 3}')
    with pytest.raises(FileFormatError, match="'cat' twice"):
        read_counts(path)
    path.write_text('{"a": {"x": 1, "y": 2}, "a": {"x": 1, "y": 2}}')
    with pytest.raises(FileFormatError, match="'a' twice"):
        read_costs(path, ["a", "b"])
    write_archive(tmp_path / "a.npz", {"format": "f", "format_version": 1, "x": 0}, {})
    data = (tmp_path / "a.npz").read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        header = archive.read("header.npy").replace(b'"x": 0}', b'"format_version": 2}')
    text = header[128:]
    array = np.frombuffer(text, np.uint8)
    npz(tmp_path / "a.npz", [("header", array)])
    with pytest.raises(FileFormatError, match="must be a f file"):
        read_archive(tmp_path / "a.npz", format_name="f", version=1)


def test_archives_are_equal_to_the_bit_whenever_they_are_written(tmp_path):
    script = (
        "import sys, time\n"
        "import numpy as np\n"
        "time.localtime = lambda *_: time.struct_time((2001, 2, 3, 4, 5, 6, 0, 1, 0))\n"
        "from reprior.files.output import open_output\n"
        "from reprior.files.scores import open_scores\n"
        "import reprior as rp\n"
        "scores = open_scores('in.npz')\n"
        "with open_output(sys.argv[1], like=scores, classes=['a', 'b'], keep=True) as writer:\n"
        "    for chunk in scores:\n"
        "        writer.write(chunk, chunk.scores, chunk.labels)\n"
        "rp.StrengthProfile.from_scores(chunk.scores, chunk.labels, kind='probs',\n"
        "    source_prior=[0.25, 0.75]).save(sys.argv[2])\n"
    )
    np.savez(tmp_path / "in.npz", scores=np.eye(2), labels=[0, 1], kind="probs")
    for line in (script, script.replace("2001", "2011")):
        names = [f"{zlib.crc32(line.encode())}-{i}.npz" for i in (0, 1)]
        done = ended([sys.executable, "-c", line, *names], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    first, second, third, fourth = sorted(tmp_path.glob("*-?.npz"))
    assert first.read_bytes() == third.read_bytes()
    assert second.read_bytes() == fourth.read_bytes()


def test_a_table_of_very_many_columns_is_refused(tmp_path):
    names = [f"c{i}" for i in range(40_000)]
    (tmp_path / "a.csv").write_text(f"{','.join(names)}\n{','.join('1' * 40_000)}\n")
    with pytest.raises(FileFormatError, match=r"must have at most 32,768 columns\. Got 40,000"):
        open_scores(tmp_path / "a.csv", kind="logits")


def test_a_header_without_an_end_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a,b" + "c" * (1 << 24))
    with pytest.raises(FileFormatError, match=r"a line of its header is longer than 16,777,216"):
        open_scores(tmp_path / "a.csv", kind="logits")


@pytest.mark.parametrize("text", ["-1e999", "1" + "0" * 400])
def test_numbers_beyond_a_float_are_refused(tmp_path, text):
    (tmp_path / "a.csv").write_text(f"a,b,label\n0.5,-inf,0\n{text},1,1\n")
    with pytest.raises(RepriorError, match=r"beyond a float, in column 'a', line 3 of"):
        list(open_scores(tmp_path / "a.csv", kind="log_probs").chunks())


def parquet(path, **metadata):
    table = pa.table({"cat": [0.5, 1.5], "dog": [1.0, 0.0], "label": ["cat", "dog"]})
    pq.write_table(table.replace_schema_metadata(metadata), path, store_schema=bool(metadata))
    return path


def test_metadata_of_parquet_that_are_no_text_are_refused(tmp_path):
    path = parquet(tmp_path / "a.parquet", **{"reprior.class_names": b'["cat", "d\xffg"]'})
    with pytest.raises(FileFormatError, match=r"a complete parquet file.*utf-8"):
        open_scores(path, kind="logits")
    path = parquet(tmp_path / "b.parquet", other=b"\xff\xfe")
    assert open_scores(path, kind="logits").n_classes == 2
    path = parquet(tmp_path / "c.parquet", pandas=b'{"index_columns": [')
    with pytest.raises(FileFormatError, match="a complete parquet file"):
        open_scores(path, kind="logits")


@pytest.mark.parametrize("page", [0, 1])
def test_a_huge_page_of_parquet_is_refused_before_there_is_room_for_it(tmp_path, page):
    path = tmp_path / "a.parquet"
    table = pa.table({"cat": [0.5, 1.5] * 50, "dog": [1.0, 0.25] * 50})
    pq.write_table(table, path, compression="gzip", write_page_checksum=True)
    column = pq.read_metadata(path).row_group(0).column(0)
    place = (column.dictionary_page_offset, column.data_page_offset)[page]
    data = bytearray(path.read_bytes())
    assert data[place] == data[place + 2] == 0x15  # two integers: kind of page, bytes of the page
    data[place + 3 : place + 4] = b"\xfe\xff\xff\xff\x0f"
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match="a page of 2,147,483,647 bytes, where 268,435,456"):
        refuse_huge_pages(path, 1 << 28)
    with pytest.raises(FileFormatError, match=r"a page takes [\d,]+ bytes, which are not there"):
        refuse_huge_pages(_packed(path, place), 1 << 31)


def _packed(path, place):
    """Make the packed size of a page huge too."""
    data = bytearray(path.read_bytes())
    data[place + 9 : place + 10] = b"\xfe\xff\xff\xff\x0f"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("column", [b"dog", b"cat"])
def test_text_of_parquet_that_is_no_utf8_is_refused(tmp_path, column):
    path = parquet(tmp_path / "a.parquet")
    path.write_bytes(path.read_bytes().replace(column, b"d\xffg"))
    with pytest.raises(RepriorError):
        list(open_scores(path, kind="logits").chunks())


def test_labels_of_parquet_that_are_no_utf8_are_refused(tmp_path):
    labels = pa.array([b"cat", b"d\xffg"]).view(pa.string())
    pq.write_table(pa.table({"label": labels}), tmp_path / "a.parquet")
    with pytest.raises(LabelsError, match=r"must be UTF-8 text. Got other bytes in the labels"):
        counts_from_labels(tmp_path / "a.parquet")


@pytest.mark.parametrize("place", [4, 8, 12])
def test_damaged_headers_of_blosc_chunks_do_not_reach_the_library(tmp_path, place):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    array = group.create_array(
        "scores", shape=(40, 2), chunks=(17, 2), dtype="float32", compressors=numcodecs.Blosc()
    )
    array[...] = np.arange(80.0).reshape(40, 2)
    assert sum(map(len, open_scores(tmp_path / "a.zarr", kind="logits").chunks())) == 40
    chunk = tmp_path / "a.zarr" / "scores" / "1.0"
    data = bytearray(chunk.read_bytes())
    data[place + 2] ^= 0x10
    chunk.write_bytes(data)
    with pytest.raises(FileFormatError, match=r"the header of the chunk '1\.0'"):
        list(open_scores(tmp_path / "a.zarr", kind="logits").chunks())


def test_a_store_that_is_almost_empty_does_not_fill_the_memory(tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    rows = 1 << 36
    group.create_array("scores", shape=(rows, 2), chunks=(rows, 2), dtype="float32")
    with pytest.raises(FileFormatError, match=r"must have chunks of at most [\d,]+ bytes"):
        next(open_scores(tmp_path / "a.zarr", kind="logits").chunks())


def store(path, version=3):
    """A small zarr store; return its group."""
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    group = zarr.open_group(path, mode="w", zarr_format=version)
    array = group.create_array("scores", shape=(40, 2), chunks=(17, 2), dtype="float32")
    array[...] = np.arange(80.0).reshape(40, 2)
    return group


@needs_fifo
@pytest.mark.timeout(60)  # the library opens whatever has the name of a chunk
@pytest.mark.parametrize(
    "version, name",
    [
        *((2, name) for name in (".zattrs", "scores/.zarray", "scores/0.0", "class_names/.zarray")),
        *((3, name) for name in ("zarr.json", "scores/zarr.json", "scores/c/0/0", "x/c/0")),
    ],
)
@pytest.mark.parametrize("through_a_link", [False, True])
def test_a_pipe_inside_of_a_store_is_refused_at_once(tmp_path, version, name, through_a_link):
    store(tmp_path / "a.zarr", version)
    path = tmp_path / "a.zarr" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if through_a_link:
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to(tmp_path / "pipe")
    else:
        os.mkfifo(path)
    with pytest.raises(FileFormatError, match=r"in it is no regular file"):
        list(open_scores(tmp_path / "a.zarr", kind="logits").chunks())


def test_links_inside_of_a_store_are_followed(tmp_path):
    store(tmp_path / "a.zarr")
    (tmp_path / "a.zarr" / "scores").rename(tmp_path / "elsewhere")
    (tmp_path / "a.zarr" / "scores").symlink_to("../elsewhere")
    (tmp_path / "elsewhere" / "above").symlink_to("..")
    assert sum(map(len, open_scores(tmp_path / "a.zarr", kind="logits").chunks())) == 40


@pytest.mark.parametrize("version, name", [(2, ".zattrs"), (3, "zarr.json")])
def test_metadata_of_a_store_say_everything_once(tmp_path, version, name):
    store(tmp_path / "a.zarr", version).attrs.update(kind="logits", note=float("nan"))
    path = tmp_path / "a.zarr" / name
    text = path.read_text()
    assert open_scores(tmp_path / "a.zarr").kind == "logits"
    path.write_text(text.replace('"kind": "logits"', '"kind": "logits", "kind": "probs"'))
    with pytest.raises(FileFormatError, match="the key 'kind' is there twice"):
        open_scores(tmp_path / "a.zarr")
    path.write_text("[" * 200_000)
    with pytest.raises(FileFormatError, match="nested too deeply"):
        open_scores(tmp_path / "a.zarr")


@pytest.mark.parametrize("name", ["class_names", "kind"])
def test_huge_names_in_a_store_are_refused_before_they_are_read(tmp_path, name):
    group = store(tmp_path / "a.zarr", 2)
    group.create_array(name, shape=(1 << 32,), chunks=(1000,), dtype="<U50")
    with pytest.raises(FileFormatError, match=rf"an array '{name}' of at most [\d,]+ bytes"):
        open_scores(tmp_path / "a.zarr", kind="logits")


BOMB = 300 << 20


def zstd_of_unknown_size(data):
    """A frame whose header has no size, as streams are written: blocks that repeat one byte."""
    block = (1 << 17 << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    last = (1 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\0\x50" + block * (len(data) >> 17) + last


@pytest.mark.parametrize(
    "version, codec, pack",
    [
        (2, numcodecs.Zstd(), numcodecs.Zstd().encode),
        (2, numcodecs.Zstd(), zstd_of_unknown_size),
        (3, "auto", numcodecs.Zstd().encode),
        (2, numcodecs.GZip(), lambda data: gzip.compress(data, 1)),
        (2, numcodecs.GZip(), lambda data: gzip.compress(data[: BOMB // 2], 1) * 2),
        (2, numcodecs.Zlib(), lambda data: zlib.compress(data, 1)),
        (2, numcodecs.LZ4(), numcodecs.LZ4().encode),
        (2, numcodecs.LZMA(), lambda data: lzma.compress(data, preset=0)),
    ],
)
def test_a_chunk_that_is_far_too_large_is_not_unpacked(tmp_path, version, codec, pack):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=version)
    array = group.create_array(
        "scores", shape=(40, 2), chunks=(17, 2), dtype="float32", compressors=codec
    )
    array[...] = np.arange(80.0).reshape(40, 2)
    assert sum(map(len, open_scores(tmp_path / "a.zarr", kind="logits").chunks())) == 40
    chunk = tmp_path / "a.zarr" / "scores" / ("1.0" if version == 2 else "c/1/0")
    chunk.write_bytes(pack(bytes(BOMB)))
    with pytest.raises(FileFormatError, match="more than 268,435,456 bytes in the chunk"):
        list(open_scores(tmp_path / "a.zarr", kind="logits").chunks())


def test_a_frame_of_unknown_size_is_read(tmp_path):
    packed = zstd_of_unknown_size(bytes(2 << 17))
    assert len(numcodecs.Zstd().decode(packed)) == (2 << 17) + 1
    count = unpacked_bytes("ZstdCodec")
    assert count(io.BytesIO(packed), 1 << 30) == (2 << 17) + 1


def test_a_store_of_missing_chunks_does_not_take_for_ever(tmp_path):
    group = store(tmp_path / "a.zarr")
    del group["scores"]
    group.create_array("scores", shape=(10**12, 2), chunks=(10**5, 2), dtype="float32")
    with pytest.raises(FileFormatError, match=r"must hold at most 1,073,741,824 bytes of data"):
        next(open_scores(tmp_path / "a.zarr", kind="logits").chunks())


def test_a_parquet_file_of_one_value_does_not_take_for_ever(tmp_path):
    schema = pa.schema([("a", pa.float64()), ("b", pa.float64())])
    zeros = pa.table({name: np.zeros(10**6) for name in "ab"}, schema=schema)
    with pq.ParquetWriter(tmp_path / "a.parquet", schema, compression="zstd") as writer:
        for _ in range(80):
            writer.write_table(zeros, row_group_size=10**6)
    with pytest.raises(FileFormatError, match=r"must hold at most 1,073,741,824 bytes of data"):
        open_scores(tmp_path / "a.parquet", kind="logits")


LONG_NAMES = """
import numpy as np, pyarrow as pa, pyarrow.parquet as pq, sys
from reprior.files import counts_from_labels
codes = pa.array(np.arange(20_000) % 2, pa.int32())
names = pa.DictionaryArray.from_arrays(codes, pa.array(["x" * 1_000_000, "y" * 1_000_000]))
pq.write_table(pa.table({"label": names}), "a.parquet", compression="zstd", store_schema=False)
counts, _ = counts_from_labels("a.parquet")
assert counts.tolist() == [10_000, 10_000]
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no such names")
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_table_whose_name_is_no_utf8(tmp_path, form):
    path = tmp_path / os.fsdecode(b"\xff." + form.encode())
    table = pa.table({"a": [0.5, 1.5], "b": [1.5, 0.5]})
    if form == "csv":
        path.write_text("a,b\n0.5,1.5\n1.5,0.5\n")
    else:
        with path.open("wb") as file:
            pq.write_table(table, file)
    with pytest.raises(FileFormatError, match="must have a name in UTF-8"):
        open_scores(path, kind="logits")


def test_labels_that_python_takes_for_integers_are_names(tmp_path):
    (tmp_path / "a.csv").write_text("label\n1\n1_0\n10\n0\n")
    counts, names = counts_from_labels(tmp_path / "a.csv")
    assert dict(zip(names, counts.tolist(), strict=True)) == {"0": 1, "1": 1, "10": 1, "1_0": 1}


def test_text_in_arrays_that_is_no_text(tmp_path):
    wrong = np.array(["ab", "cd"]).view(np.uint32)
    wrong[1] = 0x110000
    for point in (0x110000, 0xD800):
        wrong[1] = point
        text = wrong.view("<U2")
        for arrays in ({"kind": text[0]}, {"class_names": text}, {"labels": text}):
            np.savez(tmp_path / "a.npz", scores=np.eye(2), **arrays)
            with pytest.raises(FileFormatError, match="text that is no Unicode"):
                list(open_scores(tmp_path / "a.npz", kind=None).chunks())
    for name in ("class_names", "labels"):
        np.savez(tmp_path / "a.npz", scores=np.eye(2), **{name: np.array([b"a", b"\xff"])})
        with pytest.raises(FileFormatError, match="invalid start byte"):
            list(open_scores(tmp_path / "a.npz", kind=None).chunks())


@pytest.mark.parametrize("names", [np.array("cat"), np.array([["a"], ["b"]])])
def test_class_names_that_are_no_list_are_refused(tmp_path, names):
    np.savez(tmp_path / "a.npz", scores=np.eye(3), class_names=names)
    with pytest.raises(FileFormatError, match="`class_names` is no list of names"):
        open_scores(tmp_path / "a.npz")


def test_labels_of_very_many_digits(tmp_path):
    (tmp_path / "a.csv").write_text(f"a,b,label\n0,1,1\n0,1,{'9' * 5_000}\n")
    with pytest.raises(LabelsError, match=r"must be class indices 0 … 1\. Got 9007199254740992 in"):
        list(open_scores(tmp_path / "a.csv", kind="logits").chunks())
    (tmp_path / "labels.csv").write_text(f"label\n0\n1\n{10**12}\n")
    with pytest.raises(LabelsError, match=r"must be class indices below 10,000,000"):
        counts_from_labels(tmp_path / "labels.csv")


@pytest.mark.parametrize("name", ["9" * 5_000, "²", "+-5"])
def test_class_names_that_look_like_numbers(tmp_path, name):
    (tmp_path / "a.csv").write_text(f"{name},7,label\n0,1,1\n0,1,0\n", encoding="utf-8")
    file = open_scores(tmp_path / "a.csv", kind="logits")
    assert file.class_names == (name, "7")
    assert [chunk.labels.tolist() for chunk in file.chunks()] == [[1, 0]]


def test_a_member_whose_name_was_changed_is_not_left_out(tmp_path):
    np.savez(tmp_path / "a.npz", scores=np.eye(2), weight=[1.0, 2.0])
    data = (tmp_path / "a.npz").read_bytes()
    head, _, tail = data.rpartition(b"weight.npy")
    (tmp_path / "a.npz").write_bytes(head + b"weight]npy" + tail)
    with pytest.raises(FileFormatError, match="must be a complete npz file"):
        open_scores(tmp_path / "a.npz")


def test_a_list_that_leaves_members_out_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", scores=np.eye(2), labels=[0, 1], weight=[1.0, 2.0])
    data = bytearray((tmp_path / "a.npz").read_bytes())
    second = data.rindex(b"PK\x01\x02", 0, data.rindex(b"PK\x01\x02"))
    data[second + 32] = 56  # a comment that takes in the next entry
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(FileFormatError, match="3 members are announced, not all are listed"):
        open_scores(tmp_path / "a.npz")


def test_a_list_that_points_before_the_archive_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", scores=np.eye(2))
    data = bytearray((tmp_path / "a.npz").read_bytes())
    data[-6:-2] = (0xFFFF).to_bytes(4, "little")  # where the list is said to begin
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(FileFormatError, match="must be a complete npz file"):
        open_scores(tmp_path / "a.npz")
