"""``reprior evaluate``: the numbers of the Python API, in every form, and correct marks."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from tests.support.command_line import (
    COUNTS,
    FORMATS,
    NAMES,
    data,
    is_one_sentence,
    write,
)

import reprior as rp


def expected(calibrator):
    """{metric: (before, after)} from arrays."""
    test = data(1)
    found = {}
    for name, metric in rp.metrics.COUNT_METRICS.items():
        pair = []
        for index in (test.scores.argmax(1), calibrator.predict_proba(test.scores).argmax(1)):
            pair.append(metric(rp.ClassCounts.from_predictions(test.labels, index, n_classes=3)))
        found[name] = tuple(pair)
    plain = np.exp(test.scores) / np.exp(test.scores).sum(axis=1, keepdims=True)
    posteriors = (plain, calibrator.predict_proba(test.scores))
    found["log_loss"] = tuple(rp.metrics.log_loss(p, test.labels) for p in posteriors)
    return found


@pytest.mark.parametrize("extension", FORMATS)
def test_json_has_the_numbers_of_the_api(fitted, run, extension):
    more = write(fitted / f"t.{extension}", data(1))
    result = run(
        "evaluate", fitted / "cal.json", fitted / f"t.{extension}", *more, "--format", "json"
    )
    assert result.code == 0, result.err
    wanted = expected(rp.load(fitted / "cal.json"))
    for name in ("accuracy", "balanced_accuracy", "mean_iou", "macro_f1", "log_loss"):
        assert set(result.json[name]) == {"before", "after"}
        found = (result.json[name]["before"], result.json[name]["after"])
        assert found == pytest.approx(wanted[name], rel=1e-9), name


def test_json_flag_and_format_are_the_same(fitted, run):
    arguments = ["evaluate", fitted / "cal.json", fitted / "test.csv"]
    assert run(*arguments, "--json").out == run(*arguments, "--format", "json").out


def test_table(fitted, run):
    result = run("evaluate", fitted / "cal.json", fitted / "test.csv")
    before, after = expected(rp.load(fitted / "cal.json"))["balanced_accuracy"]
    row = next(line for line in result.out.splitlines() if "balanced_accuracy" in line)
    assert row.split() == [
        "balanced_accuracy", f"{before:.4f}", f"{after:.4f}", f"{after - before:+.4f}"
    ]  # fmt: skip
    assert "not the data it was tuned on (by digest)" in result.out


def test_csv(fitted, run):
    result = run("evaluate", fitted / "cal.json", fitted / "test.csv", "--format", "csv")
    rows = {row["metric"]: row for row in csv.DictReader(io.StringIO(result.out))}
    before, after = expected(rp.load(fitted / "cal.json"))["mean_iou"]
    assert float(rows["mean_iou"]["before"]) == before
    assert float(rows["mean_iou"]["after"]) == after
    assert rows["mean_iou"]["tuning_data"] == "not recognised"


def test_markdown(fitted, run):
    result = run("evaluate", fitted / "cal.json", fitted / "test.csv", "--format", "markdown")
    assert "| metric | before | after | change |" in result.out.splitlines()
    assert any(line.startswith("| macro_f1 | 0.") for line in result.out.splitlines())


def test_the_tuning_data_are_known_again(fitted, run):
    arguments = ["evaluate", fitted / "cal.json", fitted / "val.csv"]
    table = run(*arguments)
    assert "note: these are the data that the calibrator was tuned on" in table.err
    assert "the tuning data" in table.out
    document = run(*arguments, "--json")
    assert "tuned on" in document.err
    assert all(set(metric) == {"before", "after"} for metric in document.json.values())
    assert run(*arguments, "--format", "csv").out.splitlines()[1].endswith(",yes")
    markdown = run(*arguments, "--format", "markdown")
    assert "the tuning data" in markdown.out


def test_a_calibrator_without_provenance_is_not_called_honest(fitted, run):
    calibrator = rp.load(fitted / "cal.json")
    calibrator.provenance_ = None
    calibrator.save(fitted / "old.json")
    result = run("evaluate", fitted / "old.json", fitted / "val.csv")
    assert "is not known" in result.out


def test_per_class_and_groups(fitted, run):
    arguments = ["evaluate", fitted / "cal.json", fitted / "test.csv", "--per-class",
                 "--counts", fitted / "counts.json", "--groups", "50", "100"]  # fmt: skip
    result = run(*arguments, "--json").json
    assert [row["class"] for row in result["per_class"]] == NAMES
    test = data(1)
    after = rp.load(fitted / "cal.json").predict(test.scores)
    owls = test.labels == 2
    assert result["per_class"][2]["recall_after"] == pytest.approx(np.mean(after[owls] == "owl"))
    assert result["per_class"][2]["training"] == COUNTS[2]
    assert result["recall_few"]["after"] == pytest.approx(np.mean(after[owls] == "owl"))
    assert run(*arguments).out.count("owl") == 1
    rows = list(csv.DictReader(io.StringIO(run(*arguments, "--format", "csv").out)))
    assert [row["class"] for row in rows] == NAMES


def test_labels_are_needed(fitted, run):
    (fitted / "u.csv").write_text("cat,dog,owl\n1,2,3\n")
    result = run("evaluate", fitted / "cal.json", fitted / "u.csv")
    assert is_one_sentence(result)
    assert "label" in result.err


@pytest.fixture
def shards(fitted):
    """Three files of one set of samples."""
    for i in range(3):
        write(fitted / f"s{i}.npz", data(i + 1))
    return fitted


@pytest.mark.parametrize("fault", ["damaged", "gone"])
@pytest.mark.parametrize("which", [0, 1])
def test_files_that_cannot_be_read_are_left_out_when_asked(shards, run, which, fault):
    paths = sorted(shards.glob("s*.npz"))
    bad = paths.pop(which)
    bad.write_bytes(bad.read_bytes()[:-40]) if fault == "damaged" else bad.unlink()
    every = [shards / f"s{i}.npz" for i in range(3)]
    arguments = ["evaluate", shards / "cal.json", "--json"]
    refused = run(*arguments, *every)
    assert is_one_sentence(refused)
    assert bad.name in refused.err
    found = run(*arguments, *every, "--skip-unreadable")
    assert found.code == 0, found.err
    assert "1 file could not be read" in found.err
    assert str(bad) in found.err
    document = found.json
    (note,) = document.pop("notes")
    assert note in found.err
    assert document == run(*arguments, *paths).json  # which has no notes: nothing was left out


def test_what_is_left_out_is_said_as_fit_says_it(shards, run):
    bad = shards / "s1.npz"
    bad.write_bytes(bad.read_bytes()[:-40])
    pattern = str(shards / "s*.npz")
    fitted = run(
        "fit", pattern, "--counts", shards / "counts.json", "--kind", "logits", "-o",
        shards / "again.json", "--skip-unreadable",
    )  # fmt: skip
    found = run("evaluate", shards / "again.json", pattern, "--skip-unreadable")
    said = [
        [line for line in each.err.splitlines() if "could not be read" in line]
        for each in (fitted, found)
    ]
    assert said[0] == said[1] != []
    assert "measured on 600 samples: the tuning data" in found.out


def test_a_table_of_other_classes_is_an_error_in_any_case(fitted, run):
    (fitted / "other.csv").write_text("cat,cow,owl,label\n1,2,3,cat\n")
    arguments = ["evaluate", fitted / "cal.json", fitted / "test.csv", fitted / "other.csv"]
    result = run(*arguments, "--skip-unreadable")
    assert is_one_sentence(result)
    assert "Missing: 'dog'" in result.err


def test_no_readable_file_is_an_error(shards, run):
    for path in shards.glob("s*.npz"):
        path.write_bytes(path.read_bytes()[:-40])
    result = run("evaluate", shards / "cal.json", shards / "s*.npz", "--skip-unreadable")
    assert is_one_sentence(result)
    assert "At least one score file must be readable. Got 3, and none is." in result.err


def test_an_empty_first_file_is_passed_by(shards, run):
    np.savez(shards / "s0.npz", scores=np.zeros((0, 3)), labels=np.zeros(0, int))
    result = run("evaluate", shards / "cal.json", shards / "s*.npz")
    assert result.code == 0, result.err
    assert "s0.npz' has no rows, and is skipped." in result.err
    assert "measured on 600 samples" in result.out


COSTS = np.array([[0, 1, 1, 0.4], [2, 0, 1, 0.4], [30, 9, 0, 0.4]])


@pytest.mark.parametrize("n_decisions", [2, 3, 4])
def test_costs_are_those_of_plain_arithmetic(fitted, run, n_decisions):
    test, costs = data(1), COSTS[:, :n_decisions]
    (fitted / "costs.json").write_text(json.dumps(costs.tolist()))
    arguments = ["evaluate", fitted / "cal.json", fitted / "test.csv", "--costs"]
    result = run(*arguments, fitted / "costs.json", "--format", "json")
    assert result.code == 0, result.err
    plain = np.exp(test.scores) / np.exp(test.scores).sum(axis=1, keepdims=True)
    posteriors = (plain, rp.load(fitted / "cal.json").predict_proba(test.scores))
    before, after = (costs[test.labels, (p @ costs).argmin(1)].mean() for p in posteriors)
    assert result.json["mean_cost"] == pytest.approx({"before": before, "after": after}, rel=1e-9)
    assert "costs are weighed by the probabilities, which need not be calibrated" in result.err
    table = run(*arguments, fitted / "costs.json").out
    row = next(line for line in table.splitlines() if "mean_cost" in line)
    assert row.split() == [
        "mean_cost", f"{before:.4f}", f"{after:.4f}", f"{after - before:+.4f}"
    ]  # fmt: skip


def test_costs_with_names_may_stand_in_any_order(fitted, run):
    rows = {name: dict(zip([*NAMES, "ask"], COSTS[k], strict=True)) for k, name in enumerate(NAMES)}
    turned = {a: dict(reversed(row.items())) for a, row in reversed(rows.items())}
    found = []
    for costs in (rows, turned, COSTS.tolist()):
        (fitted / "costs.json").write_text(json.dumps(costs))
        result = run(
            "evaluate", fitted / "cal.json", fitted / "test.csv", "--costs",
            fitted / "costs.json", "--json",
        )  # fmt: skip
        found.append(result.json["mean_cost"])
    assert found == [found[0]] * 3


@pytest.mark.parametrize(
    "costs, words",
    [
        ("0,1,1\n2,0,1\n", "--costs must have a row for each of the 3 classes"),
        ("0,1,1\n2,0,nan\n30,9,0\n", "--costs must be finite numbers. Got 'nan' in"),
        ("", "Got 0 in"),
    ],
)
def test_words_of_a_wrong_file_of_costs(fitted, run, costs, words):
    (fitted / "costs.csv").write_text(costs)
    result = run(
        "evaluate", fitted / "cal.json", fitted / "test.csv", "--costs", fitted / "costs.csv"
    )
    assert is_one_sentence(result)
    assert words in result.err


def test_labels_that_are_names_bring_no_note_of_integer_labels(fitted, run):
    test, turned = data(1), [2, 0, 1]
    lines = [",".join([*(NAMES[k] for k in turned), "label"])]
    for row, label in zip(test.scores, test.labels, strict=True):
        lines.append(",".join([*(str(row[k]) for k in turned), NAMES[label]]))
    (fitted / "turned.csv").write_text("\n".join(lines) + "\n")
    result = run("evaluate", fitted / "cal.json", fitted / "turned.csv", "--json")
    assert "integer labels" not in result.err
    assert result.json == run("evaluate", fitted / "cal.json", fitted / "test.csv", "--json").json
