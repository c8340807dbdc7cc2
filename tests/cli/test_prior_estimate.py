"""``reprior prior estimate``: methods, validation, intervals, files, sentences."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.support.command_line import COUNTS, FORMATS, NAMES, Data, is_one_sentence, write

import reprior as rp
from reprior.cli import app
from reprior.cli import prior as prior_command
from reprior.cli.inputs import sample_labelled_rows
from reprior.files.chunks import Chunk

PRIOR = rp.prior_from_counts(COUNTS)
MIX = np.array([0.2, 0.3, 0.5])
METHODS = ["em", "bbse", "bbse_soft", "rlls", "rlls_soft"]


def made(seed, prior, n):
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, size=n, p=prior)
    labels[:3] = [0, 1, 2]
    scores = rng.normal(size=(n, 3)) + 7 * np.eye(3)[labels] + np.log(PRIOR)
    return Data(scores.round(6), labels)


TARGET, SEEN = made(0, MIX, 900), made(1, [0.5, 0.3, 0.2], 1200)


@pytest.fixture
def there(tmp_path):
    """A folder with target.csv, seen.csv and counts.json."""
    write(tmp_path / "target.csv", TARGET)
    write(tmp_path / "seen.csv", SEEN)
    (tmp_path / "counts.json").write_text(json.dumps(COUNTS.tolist()))
    return tmp_path


def arguments(there, *more, scores="target.csv"):
    return (
        "prior", "estimate", there / scores, "--counts", there / "counts.json", "--kind", "logits",
        *more,
    )  # fmt: skip


def known(method, **options):
    return rp.estimate_target_prior_report(
        TARGET.scores, source_prior=PRIOR, method=method,
        validation=None if method == "em" else (SEEN.scores, SEEN.labels), **options,
    )  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_it_is_the_report_of_the_library(run, there, method):
    more = () if method == "em" else ("--validation", there / "seen.csv")
    result = run(*arguments(there, "--method", method, "--json", *more))
    assert result.code == 0, result.err
    expected = known(method)
    found = result.json
    assert found["method"] == method
    assert found["classes"] == NAMES
    np.testing.assert_allclose(found["prior"], expected.prior)
    np.testing.assert_allclose(found["source_prior"], PRIOR)
    np.testing.assert_allclose(found["intervals"], expected.intervals)
    assert (found["n_samples"], found["n_labels"]) == (900, expected.n_labels)
    assert found["iterations"] == expected.iterations
    assert found["converged"] is True
    if method == "em":
        assert found["conditioning"] is None
    else:
        assert found["conditioning"] == vars(expected.conditioning)


def test_the_table(run, there):
    out = run(*arguments(there, "--confidence", "0.5")).out
    expected = known("em", confidence=0.5)
    assert "intervals of 50 %" in out
    assert "method       em  (900 samples)" in out
    assert "converged after" in out
    for name, prior, (low, high) in zip(NAMES, expected.prior, expected.intervals, strict=True):
        line = next(line for line in out.splitlines() if line.startswith(name))
        assert f"{prior:.4f}" in line
        assert f"{low:.4f}" in line
        assert f"{high:.4f}" in line


@pytest.mark.parametrize("name", ["target.json", "target.csv"])
def test_what_is_written_is_a_target_prior_for_fit(run, job, there, name):
    assert run(*arguments(there, "-o", there / f"mix-{name}")).code == 0
    result = run(
        "fit", job / "val.csv", "--counts", job / "counts.json", "--kind", "logits",
        "--target-prior", there / f"mix-{name}", "-o", job / "cal.json",
    )  # fmt: skip
    assert result.code == 0, result.err
    np.testing.assert_allclose(rp.load(job / "cal.json").target_prior_, known("em").prior)


@pytest.mark.parametrize("extension", FORMATS)
def test_every_format(run, there, extension):
    write(there / f"t.{extension}", TARGET)
    more = write(there / f"v.{extension}", SEEN)
    result = run(
        *arguments(there, "--method", "bbse", "--json", "--replicates", "5", "--validation",
                   there / f"v.{extension}", *more, scores=f"t.{extension}")
    )  # fmt: skip
    assert result.code == 0, result.err
    np.testing.assert_allclose(result.json["prior"], known("bbse", n_replicates=5).prior)


def test_the_source_prior_itself_and_seeds(run, there):
    (there / "prior.json").write_text(json.dumps(dict(zip(NAMES, PRIOR.tolist(), strict=True))))
    by_prior = ("prior", "estimate", there / "target.csv", "--kind", "logits", "--source-prior",
                there / "prior.json", "--json", "--replicates", "20")  # fmt: skip
    first, again, other = (
        run(*by_prior, "--seed", seed).json["intervals"] for seed in ("0", "0", "1")
    )
    assert first == again != other
    np.testing.assert_allclose(first, known("em", n_replicates=20).intervals)


def test_classes_go_by_their_names(run, there):
    turned = Data(SEEN.scores[:, ::-1], 2 - SEEN.labels)
    import pyarrow as pa
    from pyarrow import csv

    columns = {name: turned.scores[:, k] for k, name in enumerate(NAMES[::-1])}
    labels = [NAMES[::-1][k] for k in turned.labels]
    csv.write_csv(pa.table({**columns, "label": labels}), there / "turned.csv")
    result = run(
        *arguments(there, "--method", "bbse", "--json", "--validation", there / "turned.csv")
    )
    np.testing.assert_allclose(result.json["prior"], known("bbse").prior)


def test_shares_have_one_format_and_tiny_ones_are_said_to_be(run, there):
    none = Data(TARGET.scores[TARGET.labels != 2], TARGET.labels[TARGET.labels != 2])
    write(there / "none.csv", none)
    result = run(*arguments(there, "--replicates", "5", scores="none.csv"))
    lines = [line.split("  ") for line in result.out.splitlines() if line.startswith(tuple(NAMES))]
    shares = [word.strip() for _, *words in lines for word in words if word.strip()]
    assert len(shares) == 12
    assert all(re.fullmatch(r"\d\.\d{4}|< 0\.0001", share) for share in shares)
    assert "e-" not in "".join(shares)


def test_a_calibration_is_taken_as_given_only_of_very_many_classes(run, there, monkeypatch):
    seen = ("--validation", there / "seen.csv", "--replicates", "5", "--json")
    assert not any("as given" in note for note in run(*arguments(there, *seen)).json["notes"])
    monkeypatch.setattr(prior_command, "MAX_CLASSES", 2)
    assert any("as given" in note for note in run(*arguments(there, *seen)).json["notes"])


def test_where_the_penalty_decides_it_is_said(run, tmp_path):
    run("demo", "-o", tmp_path)
    result = run(
        "prior", "estimate", tmp_path / "test.csv", "--counts", tmp_path / "counts.json", "--kind",
        "logits", "--validation", tmp_path / "val.csv", "--method", "rlls_soft",
    )  # fmt: skip
    assert "the penalty of RLLS outweighs the data" in result.err
    assert "Compare --method bbse_soft and --method em" in result.err
    assert "penalty      DECIDES: 1" in result.out
    assert "intervals are for the estimate with it" in result.out


def test_progress_counts_replicates(run, there, monkeypatch):
    told = []

    @contextmanager
    def progress(self, title, total=None, *, counted="samples"):
        yield lambda n: told.append((title, total, counted, n))

    monkeypatch.setattr("reprior.cli.session.Session.progress", progress)
    for more in ((), ("--method", "bbse", "--validation", there / "seen.csv")):
        told.clear()
        assert run(*arguments(there, "--replicates", "7", *more)).code == 0
        assert told[-1] == ("estimating", 7, "replicates", 7)


def test_near_singular_is_a_note(run, there):
    rng = np.random.default_rng(0)
    blind = Data(rng.normal(size=(120, 3)).round(6), np.arange(120) % 3)
    write(there / "blind.csv", blind)
    result = run(
        *arguments(there, "--method", "bbse", "--json", "--validation", there / "blind.csv")
    )
    assert result.code == 0
    assert result.json["conditioning"]["near_singular"] is True
    assert any(
        "confusion matrix of the validation samples may be singular" in note
        for note in result.json["notes"]
    )


def test_a_large_file_is_sampled_and_that_is_said(run, there, monkeypatch):
    monkeypatch.setattr(prior_command, "MOST_SCORES", 900)
    result = run(
        *arguments(there, "--method", "bbse", "--json", "--validation", there / "seen.csv")
    )
    assert result.json["n_samples"] == 300
    assert result.json["n_labels"] == 300
    notes = " ".join(result.json["notes"])
    assert "from 300 rows drawn from 900 of the scores" in notes
    assert "from 300 rows drawn from 1,200 of the validation scores" in notes


def test_a_labelled_sample_is_uniform_bounded_and_keeps_pairs():
    scores = np.arange(3000.0).reshape(1000, 3)
    labels = np.arange(1000)
    chunks = [Chunk(scores[i : i + 70], labels[i : i + 70], start=i) for i in range(0, 1000, 70)]
    rows, found, n = sample_labelled_rows(chunks, class_axis=-1, ignore_index=7, most=200)
    assert n == 999
    assert rows.shape == (200, 3)
    assert np.array_equal(rows[:, 0], 3.0 * found)
    assert len(set(found.tolist())) == 200
    assert 7 not in found
    assert 0.35 < (found >= 500).mean() < 0.65


def test_a_labelled_sample_of_maps_and_of_single_scores():
    maps = np.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
    labels = np.arange(40).reshape(2, 4, 5)
    rows, found, n = sample_labelled_rows(
        [Chunk(maps, labels)], class_axis=1, ignore_index=None, most=99
    )
    assert n == 40
    assert np.array_equal(rows, maps.transpose(0, 2, 3, 1).reshape(-1, 3))
    assert np.array_equal(found, labels.reshape(-1))
    single, _, _ = sample_labelled_rows(
        [Chunk(np.arange(4.0), np.arange(4))], class_axis=-1, ignore_index=None, most=9
    )
    assert np.array_equal(single, np.arange(4.0))


@pytest.mark.parametrize(
    "more, words",
    [
        (["--method", "bbse"], "--validation must be given for --method bbse, which learns"),
        (["--method", "bsse"], "Did you mean 'bbse'?"),
        (["--labels", "x.npy"], "--labels must be those of --validation"),
        (["--weight-column", "w"], "--weight-column must not be given here"),
        (["--confidence", "1"], "--confidence"),
        (["--replicates", "1"], "--replicates"),
        (["--source-prior", "counts.json"], "--source-prior must stand alone"),
        (["--validation", "no-such.csv"], "no-such.csv"),
        (["--ignore-index", "cat", "--validation", "seen.csv"], "none of class 0"),
        (["-o", "target.csv"], "must not be an input"),
        (["-o", "seen.csv", "--validation", "seen.csv"], "must not be an input"),
    ],
)
def test_words(run, there, monkeypatch, more, words):
    monkeypatch.chdir(there)
    result = run(*arguments(Path(), *more))
    assert is_one_sentence(result), result
    assert words in result.err


def test_validation_of_another_model(run, there):
    np.savez(there / "other.npz", scores=SEEN.scores[:, :2], labels=SEEN.labels % 2)
    np.savez(there / "probs.npz", scores=np.eye(3), labels=np.arange(3), kind="probs")
    np.savez(there / "t.npz", scores=TARGET.scores, kind="logits")
    base = ("prior", "estimate", there / "t.npz", "--counts", there / "counts.json", "--method",
            "bbse", "--validation")  # fmt: skip
    other = run(*base, there / "other.npz", "--kind", "logits")
    assert is_one_sentence(other)
    assert "Got logits of 2" in other.err
    probs = run(*base, there / "probs.npz")
    assert is_one_sentence(probs)
    assert "--validation must be of the kind" in probs.err


def test_all_ignored(run, there):
    np.savez(there / "v.npz", scores=np.eye(3), labels=np.full(3, 255))
    np.savez(there / "t.npz", scores=TARGET.scores)
    result = run(
        *arguments(there, "--method", "bbse", "--validation", there / "v.npz", "--ignore-index",
                   "255", scores="t.npz")
    )  # fmt: skip
    assert is_one_sentence(result)
    assert "--validation must have a sample that is not ignored" in result.err


def test_options_before_the_name_are_refused(run, there):
    result = run("prior", "--counts", there / "counts.json", "estimate", there / "target.csv")
    assert is_one_sentence(result)
    assert "Options of reprior prior estimate must come after its name. Got --counts" in result.err


def test_a_near_command_is_suggested(run, there):
    result = run("prior", "estimat", there / "target.csv")
    assert is_one_sentence(result)
    assert "Did you mean 'estimate'?" in result.err


def test_the_help_of_both(run):
    both = run("prior", "--help").out
    assert "estimate  Estimate the class mix of unlabelled scores." in both
    assert "Example:" in both
    own = run("prior", "estimate", "--help").out
    assert "em|bbse|bbse_soft|rlls|rlls_soft" in own
    group = app.app.get_command(None, "prior")
    assert group.get_command(None, "estimate") is prior_command.estimate_command


def test_a_prior_may_be_passed_instead_of_counts(run, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n0.1,0.2\n0.3,0.1\n")
    result = run("prior", "estimate", path, "--kind", "logits")
    assert "Got neither. Or pass the prior itself as --source-prior." in result.err


def test_em_without_validation_says_what_it_relies_on(run, there):
    words = "em trusts the probabilities of SCORES: where"
    assert words in run(*arguments(there)).err
    assert words not in run(*arguments(there, "--validation", there / "seen.csv")).err
