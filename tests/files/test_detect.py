"""Formats by contents and extension."""

import numpy as np
import pytest

from reprior.exceptions import FileFormatError
from reprior.files import FORMATS, detect_format


def test_contents_decide_where_the_extension_is_unknown(tmp_path):
    path = tmp_path / "scores.dat"
    with open(path, "wb") as file:
        np.save(file, np.zeros(3))
    assert detect_format(path) == "npy"
    path.write_bytes(b"PAR1...")
    assert detect_format(path) == "parquet"
    path.write_text("a,b\n1,2\n")
    assert detect_format(path) == "csv"


CASES = {
    "a.csv": (b"\x93NUMPY", "the extension '.csv' and npy data. Rename it to 'a.npy'"),
    "a.npz": (b"a,b\n1,2\n", "the extension '.npz' and text that begins with"),
    "a.bin": (b"\x00\x01", "an unknown extension '.bin' and unknown binary data"),
    "a": (b"\x00\x01", "no extension and unknown binary data"),
    "b.csv": (b"", "Got an empty file"),
    "a.csv.gz": (b"\x1f\x8b\x08", "Got gzip data. Unpack it first"),
    "a.h5": (b"\x89HDF\r\n", "Got an HDF5 file"),
    "a.pkl": (b"\x80\x04\x95", "Got a pickle. Save arrays with numpy.save"),
    "l.csv": (b"a,b\n\xe9,2\n", "must be UTF-8 text"),
}


@pytest.mark.parametrize("name", CASES)
def test_disagreement_says_what_was_found(tmp_path, name):
    data, words = CASES[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(FileFormatError) as caught:
        detect_format(tmp_path / name)
    assert words in str(caught.value)
    assert all(form in str(caught.value) for form in FORMATS) or "UTF-8" in words


def test_a_folder_is_a_zarr_store_or_nothing(tmp_path):
    with pytest.raises(FileFormatError, match="a folder that is no zarr store"):
        detect_format(tmp_path)
    (tmp_path / "zarr.json").write_text("{}")
    assert detect_format(tmp_path) == "zarr"


def test_a_letter_cut_in_two_at_the_end_of_the_look_is_text(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"a" * 4095 + "é".encode() + b",b\n1,2\n")
    assert detect_format(tmp_path / "a.csv") == "csv"
