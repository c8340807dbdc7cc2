"""The target prior: uniform, from a file, or estimated from unlabelled scores."""

from __future__ import annotations

import json

import numpy as np
from tests.support.command_line import COUNTS, NAMES, Data, data, is_one_sentence, write

import reprior as rp
from reprior.cli.inputs import sample_rows
from reprior.files.chunks import Chunk

MIX = np.array([0.2, 0.2, 0.6])


def target(n=4000):
    """Unlabelled scores of another mix: mostly owls."""
    rng = np.random.default_rng(5)
    labels = rng.choice(3, size=n, p=MIX)
    scores = rng.normal(size=(n, 3)) + 2 * np.eye(3)[labels] + np.log(COUNTS / COUNTS.sum())
    return Data(scores, labels)


def fit(run, job, *more):
    return run(
        "fit", job / "val.csv", "--counts", job / "counts.json", "--kind", "logits",
        "-o", job / "cal.json", "--json", *more,
    )  # fmt: skip


def test_a_file_by_name(run, job):
    (job / "mix.json").write_text(json.dumps(dict(zip(NAMES[::-1], MIX[::-1], strict=True))))
    assert fit(run, job, "--target-prior", job / "mix.json").code == 0
    assert np.allclose(rp.load(job / "cal.json").target_prior_, MIX)


def test_a_file_without_names_is_taken_in_order_and_said(run, job):
    (job / "mix.json").write_text(json.dumps(MIX.tolist()))
    result = fit(run, job, "--target-prior", job / "mix.json")
    assert "target prior" in result.err
    assert "cat, dog, owl" in result.err


def test_an_estimate(run, job):
    write(job / "unlabelled.parquet", target())
    result = fit(
        run, job, "--target-prior", "estimate", "--target-scores", job / "unlabelled.parquet"
    )
    assert result.code == 0, result.err
    val = data(0)
    expected = rp.estimate_target_prior(
        target().scores, source_prior=rp.prior_from_counts(COUNTS), kind="logits",
        validation=(val.scores, val.labels),
    )  # fmt: skip
    assert np.allclose(result.json["target_prior"], expected)
    (note,) = (note for note in result.json["notes"] if "from all 4,000 rows" in note)
    assert f"once they are calibrated by {len(val.labels):,} labels of VAL" in note


def test_an_estimate_of_a_model_that_is_too_sure_is_right(run, job):
    val, unlabelled = data(0, 2000), target()
    write(job / "val.csv", Data(3.0 * val.scores, val.labels))
    write(job / "sure.parquet", Data(3.0 * unlabelled.scores, unlabelled.labels))
    result = fit(run, job, "--target-prior", "estimate", "--target-scores", job / "sure.parquet")
    plain = rp.estimate_target_prior(
        3.0 * unlabelled.scores, source_prior=rp.prior_from_counts(COUNTS), kind="logits"
    )
    off = np.abs(np.array(result.json["target_prior"]) - MIX).max()
    assert off < 0.05 < np.abs(plain - MIX).max()


def test_validation_that_lacks_a_class_calibrates_nothing(run, job):
    val = data(0)
    kept = val.labels != 2
    write(job / "val.csv", Data(val.scores[kept], val.labels[kept]))
    write(job / "unlabelled.parquet", target())
    result = fit(
        run, job, "--target-prior", "estimate", "--target-scores", job / "unlabelled.parquet"
    )
    expected = rp.estimate_target_prior(
        target().scores, source_prior=rp.prior_from_counts(COUNTS), kind="logits"
    )
    assert np.allclose(result.json["target_prior"], expected)
    assert any("VAL cannot calibrate them (`" in note for note in result.json["notes"])


def test_an_estimate_needs_scores(run, job):
    assert is_one_sentence(fit(run, job, "--target-prior", "estimate"))
    alone = fit(run, job, "--target-scores", job / "test.csv")
    assert is_one_sentence(alone)
    assert "--target-scores" in alone.err


def test_a_prior_that_is_none(run, job):
    (job / "mix.json").write_text("[1, 2, 3]")
    assert is_one_sentence(fit(run, job, "--target-prior", job / "mix.json"))
    assert is_one_sentence(fit(run, job, "--target-prior", "unifrom"))


def test_a_sample_is_uniform_and_bounded():
    scores = np.arange(3000.0).reshape(1000, 3)
    chunks = [Chunk(scores[i : i + 70], start=i) for i in range(0, 1000, 70)]
    rows, n = sample_rows(chunks, class_axis=-1, most=200)
    assert n == 1000
    assert rows.shape == (200, 3)
    assert len({row[0] for row in rows.tolist()}) == 200
    again, _ = sample_rows(chunks, class_axis=-1, most=200)
    assert np.array_equal(rows, again)
    late = (rows[:, 0] >= 1500).mean()  # of a half that every row may come from
    assert 0.35 < late < 0.65


def test_a_sample_of_maps_has_their_pixels():
    maps = np.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
    rows, n = sample_rows([Chunk(maps)], class_axis=1, most=1000)
    assert n == 40
    assert np.array_equal(rows, maps.transpose(0, 2, 3, 1).reshape(-1, 3))
