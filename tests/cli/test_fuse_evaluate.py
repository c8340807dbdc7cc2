"""``reprior fuse evaluate``: each modality alone, the fusion, and its correction."""

from __future__ import annotations

import csv
import io
import re

import numpy as np
import pytest
from rich.console import Console
from tests.support.command_line import data, is_one_sentence
from tests.support.modalities import both, counts, maps, write_both, write_maps

import reprior as rp
from reprior.cli import fuse as own
from reprior.metrics import COUNT_METRICS, ClassCounts


@pytest.fixture
def fitted(tmp_path, run):
    def fitted(named, *more):
        path = tmp_path / "fusion.json"
        result = run("fuse", "fit", *named, *counts(tmp_path), "-o", path, "-q", *more)
        assert result.code == 0, result.err
        return path

    return fitted


def by_hand(scores, labels, fusion, metric):
    """The metric of every column, of the labels that are not 255."""
    plain = rp.load(fusion)
    after = rp.load(fusion)
    plain.strengths_ = dict.fromkeys(plain.strengths_, 0.0)
    keep = labels != 255
    decided = {
        **{name: z.argmax(1) for name, z in scores.items()},
        "before": plain.predict_proba(scores).argmax(1),
        "after": after.predict_proba(scores).argmax(1),
    }
    return {
        name: COUNT_METRICS[metric](
            ClassCounts.from_predictions(labels[keep], index[keep], n_classes=3)
        )
        for name, index in decided.items()
    }


def test_rows(tmp_path, run, fitted):
    path = fitted(write_both(tmp_path, 0, "val"))
    result = run("fuse", "evaluate", path, *write_both(tmp_path, 1, "test"), "--format", "json")
    assert result.code == 0, result.err
    for metric in ("accuracy", "balanced_accuracy", "mean_iou", "macro_f1"):
        expected = by_hand(both(1), data(1).labels, path, metric)
        assert result.json[metric] == pytest.approx(expected)


def test_maps_with_ignored_pixels(tmp_path, run, fitted):
    path = fitted(write_maps(tmp_path, *maps(3)), "--ignore-index", "255", "--metric", "mean_iou")
    scores, labels = maps(4)
    named = write_maps(tmp_path, scores, labels, "test")
    result = run("fuse", "evaluate", path, *named, "--ignore-index", "255", "--json")
    assert result.code == 0, result.err
    for metric in ("balanced_accuracy", "mean_iou"):
        assert result.json[metric] == pytest.approx(by_hand(scores, labels, path, metric))


def test_what_is_said_of_the_data(tmp_path, run, fitted):
    val, test = write_both(tmp_path, 0, "val"), write_both(tmp_path, 1, "test")
    path = fitted(val)
    same, other = (run("fuse", "evaluate", path, *named) for named in (val, test))
    assert "the tuning data" in same.out
    assert "tuned on: the result is optimistic" in same.err
    assert "calibrator" not in same.err
    assert "not the data it was tuned on" in other.out
    assert not other.err
    fusion = rp.load(path)
    fusion.provenance_ = None
    fusion.save(path)
    assert "not known" in run("fuse", "evaluate", path, *val).out


def test_a_part_of_the_tuning_data_is_recognised(tmp_path, run, fitted):
    """One modality left out, exchanged for other scores, or under the other's name."""
    val, test = write_both(tmp_path, 0, "val"), write_both(tmp_path, 1, "test")
    np.savez(tmp_path / "new.npz", scores=both(0)["depth"] + 1, labels=data(0).labels,
             kind="logits")  # fmt: skip
    path = fitted(val)
    swapped = [f"depth={val[0].partition('=')[2]}", f"rgb={val[1].partition('=')[2]}"]
    for named in (val[:1], val[1:], [val[0], f"depth={tmp_path}/new.npz"], swapped):
        result = run("fuse", "evaluate", path, *named, "--missing", "leave_out")
        assert "labels: the tuning data" in result.out
        assert "tuned on: the result is optimistic" in result.err
    for named in (test[:1], [f"depth={tmp_path}/new.npz"]):
        result = run("fuse", "evaluate", path, *named, "--missing", "leave_out")
        assert "not the data it was tuned on" in result.out
        assert "tuned on" not in result.err


class TestNarrow:
    """No number and no name is cut, however narrow the terminal is and long the names are."""

    names = ("left_camera", "right_camera", "thermal-infrared", "radar_front")

    def values(self, names):
        metrics = (*own.SHOWN, "recall[owl]")
        rng = np.random.default_rng(0)
        return {
            metric: dict(zip((*names, "before", "after"), rng.random(len(names) + 2).tolist(),
                             strict=True))
            for metric in metrics
        }  # fmt: skip

    def shown(self, values, width):
        out = io.StringIO()
        console = Console(width=width, file=out, markup=False, highlight=False)
        console.print(own._Fitting(own._grid(values, "measured on labels")))
        assert max(map(len, out.getvalue().splitlines())) <= width
        return out.getvalue()

    @pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
    def test_all_is_there(self, width):
        values = self.values(self.names)
        out = self.shown(values, width)
        for sides in values.values():
            assert all(f"{value:.4f}" in out for value in sides.values())
            assert f"{sides['after'] - sides['before']:+.4f}" in out
        words = re.findall(r"[^\s─]+", out)
        assert set(self.names) <= set(words)
        assert {"before", "after", "change"} <= set(words)

    def test_at_80_it_is_one_table(self):
        out = self.shown(self.values(self.names), 80)
        assert out.count("─\n") == 1
        assert [line.split()[0] for line in out.splitlines()[4:] if line.strip()] == [
            *self.names, "before", "after", "change",
        ]  # fmt: skip
        assert out.count("measured on labels") == 1

    def test_it_is_turned_only_where_it_must_be(self):
        out = self.shown(self.values(("rgb", "depth")), 80)
        assert out.splitlines()[1].split() == [
            "metric", "rgb", "depth", "before", "after", "change",
        ]  # fmt: skip

    def test_what_is_no_number_and_no_change(self):
        assert [own._signed(v) for v in (float("nan"), 1e-9, -0.25)] == ["–", "0.0000", "-0.2500"]


def test_one_modality_of_two(tmp_path, run, fitted):
    path = fitted(write_both(tmp_path, 0, "val"))
    named = write_both(tmp_path, 1, "test")[:1]
    result = run("fuse", "evaluate", path, *named, "--missing", "leave_out", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(result.out)))
    assert list(rows[0]) == ["metric", "rgb", "before", "after", "change"]
    assert all(row["rgb"] == row["before"] for row in rows)


def test_markdown_and_a_metric_of_one_class(tmp_path, run, fitted):
    path = fitted(write_both(tmp_path, 0, "val"), "--metric", "recall[owl]")
    named = write_both(tmp_path, 1, "test")
    result = run("fuse", "evaluate", path, *named, "--format", "markdown")
    assert "| metric | rgb | depth | before | after | change |" in result.out
    assert "| recall[owl] |" in result.out


def test_modalities_that_are_called_as_the_columns(tmp_path, run, fitted):
    named = [word.replace("rgb=", "before=") for word in write_both(tmp_path, 0, "val")]
    path = fitted(named)
    found = run("fuse", "evaluate", path, *named, "--json").json["accuracy"]
    assert set(found) == {"before alone", "depth", "before", "after"}


@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_one_score_of_two_classes(tmp_path, run, kind):
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=200)
    named, alone = [], {}
    for name in ("rgb", "depth"):
        z = 2 * (labels - 0.5) + rng.normal(size=200)
        alone[name] = float(((z > 0) == labels).mean())
        z = {"logits": z, "probs": 1 / (1 + np.exp(-z)), "log_probs": -np.log1p(np.exp(-z))}[kind]
        np.savez(tmp_path / f"{name}.npz", scores=z, labels=labels, kind=kind)
        named.append(f"{name}={tmp_path}/{name}.npz")
    (tmp_path / "two.json").write_text("[90, 10]")
    path = tmp_path / "fusion.json"
    result = run("fuse", "fit", *named, "--counts", tmp_path / "two.json", "-o", path)
    assert result.code == 0, result.err
    found = run("fuse", "evaluate", path, *named, "--json").json["accuracy"]
    assert {name: found[name] for name in alone} == pytest.approx(alone)


def test_all_labels_ignored(tmp_path, run, fitted):
    path = fitted(write_maps(tmp_path, *maps(3)), "--ignore-index", "255")
    scores, labels = maps(4)
    named = write_maps(tmp_path, scores, np.full_like(labels, 255), "test")
    result = run("fuse", "evaluate", path, *named, "--ignore-index", "255")
    assert is_one_sentence(result)
    assert "Some labels must be left to count" in result.err


def test_weights(tmp_path, run, fitted):
    path = fitted(write_maps(tmp_path, *maps(3)), "--ignore-index", "255")
    scores, labels = maps(4)
    named = write_maps(tmp_path, scores, labels, "test")
    weight = np.array([0.0] * 6 + [2.0] * 6)
    np.savez(
        tmp_path / "test-depth.npz", scores=scores["depth"], labels=labels, weight=weight,
        kind="logits",
    )  # fmt: skip
    result = run("fuse", "evaluate", path, *named, "--ignore-index", "255", "--json")
    assert result.code == 0, result.err
    half = {name: z[6:] for name, z in scores.items()}
    expected = by_hand(half, labels[6:], path, "mean_iou")
    assert result.json["mean_iou"] == pytest.approx(expected)
