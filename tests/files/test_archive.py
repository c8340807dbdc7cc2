"""Arrays with a header in one npz file."""

import numpy as np
import pytest

from reprior.exceptions import FileFormatError
from reprior.files import read_archive, write_archive

NAME = "reprior test"
HEADER = {"format": NAME, "format_version": 1, "note": "λ"}


def read(path):
    return read_archive(path, format_name=NAME, version=1)


def test_round_trip(tmp_path):
    path = tmp_path / "a.npz"
    arrays = {"x": np.arange(3), "y": np.zeros((0, 2))}
    write_archive(path, HEADER, arrays)
    header, back = read(path)
    assert header == HEADER
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array, strict=True)


def test_an_archive_holds_the_header_and_its_arrays(tmp_path):
    path = tmp_path / "a.npz"
    write_archive(path, HEADER, {"x": np.arange(3)})
    with np.load(path) as file:
        assert sorted(file.files) == ["header", "x"]


def test_an_array_that_an_older_numpy_added_is_left_out(tmp_path):
    path = tmp_path / "a.npz"
    write_archive(path, HEADER, {"x": np.arange(3), "allow_pickle": np.array(False)})
    assert list(read(path)[1]) == ["x"]


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    write_archive(path, HEADER, {"x": np.arange(100)})
    whole = path.read_bytes()
    for size in range(0, len(whole) - 1, 7):
        path.write_bytes(whole[:size])
        with pytest.raises(FileFormatError, match="truncated, damaged or something else"):
            read(path)


@pytest.mark.parametrize(
    "header, words",
    [
        ({"format": "something else", "format_version": 1}, "without that mark"),
        ({"format": NAME, "format_version": 2}, "Install a newer reprior"),
        ({"format": NAME, "format_version": "1"}, "integer format_version"),
        ({"format": NAME}, "integer format_version"),
        ([], "without that mark"),
    ],
)
def test_other_headers_are_refused(tmp_path, header, words):
    path = tmp_path / "a.npz"
    write_archive(path, header, {})
    with pytest.raises(FileFormatError, match=words):
        read(path)


def test_pickled_objects_are_neither_written_nor_read(tmp_path):
    path = tmp_path / "a.npz"
    with pytest.raises(ValueError, match="allow_pickle"):
        write_archive(path, HEADER, {"x": np.array([{}], dtype=object)})
    assert not path.exists()
    np.savez(path, header=np.array([{}], dtype=object))
    with pytest.raises(FileFormatError):
        read(path)


def test_a_file_that_is_not_there_is_not_a_damaged_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nothing.npz")


def test_a_list_that_claims_more_bytes_than_the_file_has_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    write_archive(path, HEADER, {"x": np.zeros(1000)})
    content = bytearray(path.read_bytes())
    packed_size = content.rfind(b"PK\x01\x02") + 20  # the limit of what is unpacked depends on it
    content[packed_size : packed_size + 4] = (1 << 30).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="truncated, damaged"):
        read(path)
