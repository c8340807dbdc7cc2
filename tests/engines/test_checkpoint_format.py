"""A checkpoint with content that no fit has written is refused in one sentence."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.chunked_scores import PRIOR, flat, quietly, weighted

import reprior as rp
from reprior.engines import Checkpoint, fit
from reprior.exceptions import FileFormatError, RepriorError
from reprior.files import read_archive, write_archive

NAME = "pass-0.0-to-2.0.npz"


def data_of(case):
    data = flat(1, 120, shift=0.4)
    return weighted(data) if case == "weighted" else data


@pytest.fixture(scope="module", params=["exact", "bins", "refine", "weighted"])
def written(request, tmp_path_factory):
    """A folder in which a fit has saved its pass, the data, and the fit's resolution."""
    folder = tmp_path_factory.mktemp(request.param)
    resolution = {"exact": None, "bins": 0.01, "refine": "refine", "weighted": 0.01}[request.param]
    data = data_of(request.param)
    quietly(fit, data.calibrator(), data.chunks([40, 80]), checkpoint=folder, resolution=resolution)
    return folder, data, resolution


def again(folder, data, resolution):
    return fit(data.calibrator(), data.chunks([40, 80]), checkpoint=folder, resolution=resolution)


def edited(written, folder, edit, *, checksum=False):
    """A copy of a written folder with an edit; without ``checksum`` as version 2 has it."""
    source, data, resolution = written
    shutil.copytree(source, folder)
    header, arrays = read_archive(folder / NAME, format_name="reprior checkpoint", version=3)
    edit(header, arrays)
    if not checksum:
        header.pop("checksum", None)
        header["format_version"] = 2
    write_archive(folder / NAME, header, arrays)
    return folder, data, resolution


def sentence_of(case):
    with pytest.raises(RepriorError) as caught:
        again(*case)
    folder = str(case[0])
    sentence = str(caught.value)
    assert sentence.startswith("`checkpoint` must ")
    assert NAME in sentence
    assert f"Delete the folder {folder!r} to start again" in sentence
    assert "\n" not in sentence
    return sentence


def places(value, path=()):
    """Every place in a JSON document."""
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


def put(document, path, value):
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = value


def test_a_version_without_checksum_is_read(written, tmp_path):
    case = edited(written, tmp_path / "old", lambda header, arrays: None)
    found, _ = quietly(again, *case)
    want, _ = quietly(again, *written)
    assert (found.strength_, found.best_score_) == (want.strength_, want.best_score_)


def test_any_edit_breaks_the_checksum(written, tmp_path):
    def more_samples(header, arrays):
        header["state"]["place"][0] += 1

    def another_count(header, arrays):
        arrays["0.counts"][0, 0] += 1

    for i, edit in enumerate((more_samples, another_count)):
        case = edited(written, tmp_path / str(i), edit, checksum=True)
        assert "does not have its checksum" in sentence_of(case)


#: What takes the place of each value of a header.
OTHER_VALUES = (None, {}, -1, 1.5, 1 << 80)


@pytest.mark.parametrize("written", ["exact", "bins"], indirect=True)
def test_other_values_at_any_place_are_refused_or_change_nothing(written, tmp_path):
    header, _ = read_archive(written[0] / NAME, format_name="reprior checkpoint", version=3)
    want, _ = quietly(again, *written)
    n_refused = 0
    for path in places(header):
        if path[:1] != ("state",) and path not in {("sources",), ("options",), ("finished",)}:
            continue
        for value in OTHER_VALUES:
            shutil.rmtree(tmp_path / "copy", ignore_errors=True)

            def change(new, _, path=path, value=value):
                put(new, path, value)

            case = edited(written, tmp_path / "copy", change)
            try:
                found, _ = quietly(again, *case)
            except RepriorError as error:
                n_refused += str(error).startswith("`checkpoint` must ")
            else:
                assert (found.strength_, found.best_score_) == (want.strength_, want.best_score_)
    assert n_refused > 90


def test_missing_and_unknown_fields_are_named(written, tmp_path):
    header, _ = read_archive(written[0] / NAME, format_name="reprior checkpoint", version=3)
    inside = (header, header["state"], header["state"]["sum"], header["state"]["lookalike"])
    for depth, path in enumerate(((), ("state",), ("state", "sum"), ("state", "lookalike"))):
        for name in sorted(inside[depth].keys() - {"format", "format_version", "checksum"}):
            if name == "patient":  # version 2 may leave it out
                continue

            def without(new, _, path=path, name=name):
                for key in path:
                    new = new[key]
                del new[name]

            case = edited(written, tmp_path / f"{depth}-{name}", without)
            assert repr(".".join((*path, name))) in sentence_of(case)
        case = edited(
            written,
            tmp_path / f"{depth}-more",
            lambda new, _, path=path: put(new, (*path, "spare"), 1),
        )
        assert repr(".".join((*path, "spare"))) in sentence_of(case)


@pytest.mark.parametrize(
    "damage",
    [
        lambda array: array[..., :-1] if array.shape[-1] else np.zeros((2, 2)),
        lambda array: array.astype(np.float32),
        lambda array: array.astype(complex),
        lambda array: array[None],
        lambda array: -1 - np.abs(array),
    ],
)
def test_arrays_of_other_lengths_types_and_ranges_are_named(written, tmp_path, damage):
    _, arrays = read_archive(written[0] / NAME, format_name="reprior checkpoint", version=3)
    signed = ("predicted", "true_positive", "mass")  # which may be negative
    for name, array in arrays.items():
        new = damage(array)
        if new.dtype == array.dtype and new.shape == array.shape and name.endswith(signed):
            continue
        case = edited(
            written, tmp_path / name, lambda _, all_, name=name, new=new: all_.update({name: new})
        )
        assert repr(name) in sentence_of(case) or "checkpoint" in sentence_of(case)


def test_missing_and_unknown_arrays_are_named(written, tmp_path):
    _, arrays = read_archive(written[0] / NAME, format_name="reprior checkpoint", version=3)
    for name in arrays.keys() - {"gross", "0.sums"}:
        case = edited(written, tmp_path / name, lambda _, all_, name=name: all_.pop(name))
        assert repr(name) in sentence_of(case)
    case = edited(written, tmp_path / "more", lambda _, all_: all_.update(spare=np.zeros(2)))
    assert "'spare'" in sentence_of(case)


@pytest.mark.parametrize(
    "path, value, words",
    [
        (("state", "place"), [120, 3, 0, []], "a place in the data of the fit"),
        (("state", "place"), [120, 0, 5, []], "a place in the data of the fit"),
        (("state", "whole"), False, "true where the pass is finished"),
        (("state", "sum", "resolution"), 0.5, "as in the fit"),
        (("state", "sum", "waiting"), 10**6, "the number of switches"),
        (("state", "sum", "parts"), [["tally", 0, 0.3]], "as in the fit"),
        (("state", "boundless"), "two\nlines", "a sentence in one line"),
    ],
)
def test_what_does_not_fit_together_is_refused(written, tmp_path, path, value, words):
    case = edited(written, tmp_path / "copy", lambda new, _: put(new, path, value))
    assert words in sentence_of(case)


@pytest.mark.parametrize("written", ["exact"], indirect=True)
def test_switches_that_lead_elsewhere_are_about_the_checkpoint(written, tmp_path):
    def turned(_, arrays):
        winner, loser = (arrays[f"0.switch.{name}"] for name in ("winner", "loser"))
        arrays.update({"0.switch.winner": loser, "0.switch.loser": winner})

    sentence = sentence_of(edited(written, tmp_path / "copy", turned))
    assert "a class of larger slope than the loser as 'switch_winner'" in sentence
    assert "save()" not in sentence


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_damaged_bytes_are_a_sentence_or_the_same_result(seed):
    rng = np.random.default_rng(seed)
    source = Path(__file__).parents[1] / "written_before" / "checkpoint" / NAME
    with np.load(source.parents[1] / "data.npz") as arrays:
        scores, labels = arrays["scores"], arrays["labels"]
    expected = json.loads((source.parents[1] / "expected.json").read_text())["checkpoint"]
    strength, _ = expected.values()
    content = bytearray(source.read_bytes())
    for _ in range(rng.integers(1, 4)):
        content[rng.integers(len(content))] = rng.integers(256)
    chunks = [(scores[i : i + 20], labels[i : i + 20]) for i in (0, 20, 40)]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / NAME).write_bytes(content)
        try:
            found = fit(rp.PosteriorCalibrator(PRIOR), chunks, checkpoint=folder)
        except RepriorError as error:
            sentence = str(error)
        else:
            sentence = "`checkpoint` is valid" if found.strength_ == strength else ""
    assert sentence.startswith("`checkpoint` ")


def test_a_file_of_another_kind_is_refused(written, tmp_path):
    folder, data, resolution = written
    shutil.copytree(folder, tmp_path / "copy")
    np.savez(tmp_path / "copy" / NAME, scores=np.zeros(3))
    with pytest.raises(FileFormatError, match="is truncated, damaged"):
        again(tmp_path / "copy", data, resolution)
    Checkpoint(tmp_path / "copy").remove()
    assert not (tmp_path / "copy").exists()
