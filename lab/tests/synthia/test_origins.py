"""Score files are told apart by what they hold, and a result by what it was made of."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

from reprior.exceptions import FileFormatError
from reprior_lab.synthia.runs import (
    changed,
    digests_of,
    score_path,
    scored_conditions,
    scored_names,
)


def write(home, condition, value=0.0, *, date=(1980, 1, 1, 0, 0, 0)):
    path = score_path(home, condition)
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {"scores": np.full(3, value), "names": np.array(["a", "b"])}
    with zipfile.ZipFile(path, "w") as archive:
        for name, values in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy", date), "w") as member:
                np.lib.format.write_array(member, values)
    return path


def test_a_digest_is_of_what_a_file_holds_and_not_of_its_date(tmp_path):
    write(tmp_path / "one", "fog")
    write(tmp_path / "two", "fog", date=(2020, 2, 2, 2, 2, 2))
    write(tmp_path / "three", "fog", 0.5)
    one, two, three = (digests_of(tmp_path / n, ["fog"])["fog"] for n in ("one", "two", "three"))
    assert one == two
    assert one != three


def test_what_has_changed(tmp_path):
    for condition in ("fog", "rain"):
        write(tmp_path, condition)
    made_of = digests_of(tmp_path, ["fog", "rain"])
    assert not changed(made_of, tmp_path)
    score_path(tmp_path, "rain").unlink()
    assert not changed(made_of, tmp_path)
    assert not changed(made_of, tmp_path / "nowhere")
    write(tmp_path, "fog", 1.0)
    assert changed(made_of, tmp_path)


def test_conditions_are_those_of_all_networks_in_the_order_asked(tmp_path):
    for home, conditions in (("a", "fog rain"), ("b", "rain fog night")):
        for condition in conditions.split():
            write(tmp_path / home, condition)
    homes = [tmp_path / "a", tmp_path / "b"]
    assert scored_conditions(homes, ["night", "rain", "fog"]) == ["rain", "fog"]


def test_names(tmp_path):
    write(tmp_path, "fog")
    assert scored_names(tmp_path, "fog") == ("a", "b")


def test_files_that_are_damaged_or_lost(tmp_path):
    path = write(tmp_path, "fog")
    path.write_bytes(path.read_bytes()[:40])
    for read in (lambda: digests_of(tmp_path, ["fog"]), lambda: scored_names(tmp_path, "fog")):
        with pytest.raises(FileFormatError, match=r"must be a complete npz.*fog\.npz"):
            read()
    with pytest.raises(FileNotFoundError):
        digests_of(tmp_path, ["rain"])
