"""``reprior fuse``: the Python API's fusion, row by row, for every format."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.command_line import COUNTS, Data, data, is_one_sentence, read_output, write
from tests.support.fusions import ORDERS, made

import reprior as rp

TEXT_DIGITS = 1e-6


def softmax(scores):
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


def second_model(seed):
    """Another model's scores of the same samples."""
    return Data(data(seed + 10).scores, data(seed).labels)


@pytest.mark.parametrize("rule", ["noisy_or", "mean", "product"])
@pytest.mark.parametrize("extension", ["npz", "csv", "parquet", "zarr"])
def test_rules_and_formats(tmp_path, run, rule, extension):
    a, b = data(0), second_model(0)
    write(tmp_path / f"a.{extension}", a)
    write(tmp_path / f"b.{extension}", b)
    result = run(
        "fuse", tmp_path / f"a.{extension}", tmp_path / f"b.{extension}", "--kind", "logits",
        "--rule", rule, "-o", tmp_path / f"out.{extension}",
    )  # fmt: skip
    assert result.code == 0, result.err
    expected = rp.fuse([softmax(a.scores), softmax(b.scores)], rule=rule)
    assert np.allclose(read_output(tmp_path / f"out.{extension}")[0], expected, atol=TEXT_DIGITS)


def test_flatten_and_calibrate_each_input(fitted, run):
    a, b = data(1), second_model(1)
    write(fitted / "b.csv", b)
    result = run(
        "fuse", fitted / "test.csv", fitted / "b.csv", "--calibrator", fitted / "cal.json",
        "--calibrator", "none", "--flatten", "none", "--flatten", fitted / "val.csv",
        "--kind", "logits", "-o", fitted / "out.csv",
    )  # fmt: skip
    assert result.code == 0, result.err
    calibrator = rp.load(fitted / "cal.json")
    reference = rp.EntropyReference.fit(data(0).scores)
    flat = rp.flatten(b.scores, reference)
    expected = rp.fuse([calibrator.predict_proba(a.scores), softmax(flat)])
    assert np.allclose(read_output(fitted / "out.csv")[0], expected, atol=TEXT_DIGITS)


def _of(scores, axis):
    """The shape of labels."""
    return np.take(scores, 0, axis=axis).shape


class TestOrder:
    """--order is that of ModalityFusion: δ is made of the model's own posterior in both."""

    def fused(self, run, folder, *order):
        """Both inputs corrected by a strength of their own, and flattened."""
        result = run(
            "fuse", folder / "a.npz", folder / "b.npz", "--calibrator", folder / "a.json",
            "--calibrator", folder / "b.json", "--flatten", folder / "known-a.npz",
            "--flatten", folder / "known-b.npz", *order, "-o", folder / "out.npz",
        )  # fmt: skip
        assert result.code == 0, result.err
        with np.load(folder / "out.npz") as file:
            return file["posterior"]

    def made(self, folder, prior, known, scores, strengths, **options):
        """Write what the command reads; return the fusion that does the same."""
        references = {}
        for name, z in scores.items():
            np.savez(folder / f"known-{name}.npz", scores=known[name], kind="logits")
            np.savez(folder / f"{name}.npz", scores=z, kind="logits")
            axis = options.get("class_axis", -1)
            calibrator = rp.PosteriorCalibrator(prior, **options)
            calibrator.fit(z, np.arange(z.size // z.shape[axis]).reshape(_of(z, axis)) % len(prior))
            calibrator.strength_ = strengths[name]
            calibrator.save(folder / f"{name}.json")
            found = rp.EntropyReference.fit(known[name], class_axis=axis)
            references[name] = (found.mean, found.std)
        return lambda order: made(prior, references, strengths, order=order, **options)

    @pytest.mark.parametrize("shape, axis", [((40, 3), -1), ((8, 3, 4, 5), 1), ((40, 1), -1)])
    def test_is_that_of_the_library(self, tmp_path, run, shape, axis):
        rng = np.random.default_rng(7)
        n = max(shape[1], 2)
        prior = np.array([0.7, 0.2, 0.1][:n]) / sum([0.7, 0.2, 0.1][:n])
        known = {name: 4 * rng.standard_normal(shape) for name in "ab"}
        scores = {name: rng.standard_normal(shape) for name in "ab"}
        fusion = self.made(
            tmp_path, prior, known, scores, {"a": 0.8, "b": 0.3},
            **({"class_axis": 1} if axis == 1 else {}),
        )  # fmt: skip
        found = {order: self.fused(run, tmp_path, "--order", order) for order in ORDERS}
        for order, each in found.items():
            expected = fusion(order).predict_proba(scores)
            np.testing.assert_allclose(each, expected, rtol=0, atol=1e-12, err_msg=order)
        assert np.abs(found["rebalance_first"] - found["flatten_first"]).max() > 0.01
        assert np.array_equal(self.fused(run, tmp_path), found["rebalance_first"])

    @pytest.mark.filterwarnings("ignore:.* tuning samples are left out")
    def test_a_class_that_is_not_to_be(self, tmp_path, run):
        """log 0 stays so, whatever it is scaled by."""
        rng = np.random.default_rng(8)
        z = rng.standard_normal((20, 3))
        np.savez(tmp_path / "a.npz", scores=z, kind="logits")
        np.savez(tmp_path / "known.npz", scores=5 * z, kind="logits")
        calibrator = rp.PosteriorCalibrator([0.6, 0.3, 0.1], target_prior=[0.5, 0.5, 0.0])
        calibrator.fit(z, np.arange(20) % 3)
        calibrator.strength_ = 0.5
        calibrator.save(tmp_path / "cal.json")
        same = ["--calibrator", tmp_path / "cal.json", "--flatten", tmp_path / "known.npz"] * 2
        result = run(
            "fuse", tmp_path / "a.npz", tmp_path / "a.npz", *same, "-o", tmp_path / "out.npz"
        )
        assert result.code == 0, result.err
        found = read_output(tmp_path / "out.npz")[0]
        assert (found[:, 2] == 0).all()
        assert np.allclose(found.sum(1), 1)


@pytest.mark.parametrize("options", [{"tune": "per_class"}, {"separate": True}])
def test_biases_and_second_maps_are_applied(tmp_path, run, options):
    a = data(1)
    write(tmp_path / "a.csv", a)
    calibrator = rp.PosteriorCalibrator(rp.prior_from_counts(COUNTS), **options)
    calibrator.fit(a.scores, a.labels)
    calibrator.save(tmp_path / "cal.json")
    result = run(
        "fuse", tmp_path / "a.csv", tmp_path / "a.csv", "--calibrator", tmp_path / "cal.json",
        "--calibrator", "none", "--kind", "logits", "-o", tmp_path / "out.csv",
    )  # fmt: skip
    assert result.code == 0, result.err
    expected = rp.fuse([calibrator.predict_proba(a.scores), softmax(a.scores)])
    plain = rp.fuse([softmax(a.scores), softmax(a.scores)])
    found = read_output(tmp_path / "out.csv")[0]
    assert np.allclose(found, expected, atol=TEXT_DIGITS)
    assert not np.allclose(found, plain, atol=1e-3)


@pytest.mark.parametrize("extension", ["csv", "parquet"])
def test_files_of_other_length_are_refused(tmp_path, run, extension):
    write(tmp_path / f"a.{extension}", data(0))
    write(tmp_path / f"b.{extension}", Data(data(1).scores[:299], data(0).labels[:299]))
    result = run(
        "fuse", tmp_path / f"a.{extension}", tmp_path / f"b.{extension}", "--kind", "logits",
        "-o", tmp_path / f"out.{extension}",
    )  # fmt: skip
    assert is_one_sentence(result)
    assert "299" in result.err
    assert not (tmp_path / f"out.{extension}").exists()


def test_one_input_is_too_few(job, run):
    result = run("fuse", job / "val.csv", "--kind", "logits", "-o", job / "out.csv")
    assert is_one_sentence(result)


def test_options_are_given_per_input(job, run):
    result = run(
        "fuse", job / "val.csv", job / "test.csv", "--kind", "logits", "--flatten",
        job / "val.csv", "-o", job / "out.csv",
    )  # fmt: skip
    assert is_one_sentence(result)
    assert "--flatten none" in result.err


def test_columns_in_another_order_are_put_in_order(job, run):
    from pyarrow import csv

    table = csv.read_csv(job / "test.csv").select(["owl", "cat", "dog"])
    csv.write_csv(table, job / "turned.csv")
    result = run(
        "fuse", job / "val.csv", job / "turned.csv", "--kind", "logits", "-o", job / "out.csv"
    )
    assert result.code == 0, result.err
    expected = rp.fuse([softmax(data(0).scores), softmax(data(1).scores)])
    assert np.allclose(read_output(job / "out.csv")[0], expected, atol=TEXT_DIGITS)


@pytest.mark.parametrize("shape, axis", [((90, 3), -1), ((6, 3, 4, 5), 1), ((90,), -1),
                                         ((90, 1), -1)])  # fmt: skip
def test_the_prediction_is_the_class_of_the_largest_posterior(tmp_path, run, shape, axis):
    rng = np.random.default_rng(0)
    for name in "ab":
        np.savez(tmp_path / f"{name}.npz", scores=rng.normal(size=shape), kind="logits")
    result = run("fuse", tmp_path / "a.npz", tmp_path / "b.npz", "--class-axis", str(axis),
                 "-o", tmp_path / "out.npz")  # fmt: skip
    assert result.code == 0, result.err
    with np.load(tmp_path / "out.npz") as file:
        posterior, prediction = file["posterior"], file["prediction"]
    of_second = (posterior.reshape(-1) > 0.5).astype(int)  # where there is one score per sample
    expected = posterior.argmax(axis) if 3 in shape else of_second
    assert np.array_equal(prediction, expected)


class TestCommandsBelow:
    """`fuse fit`, `apply` and `evaluate` are reached by the first word alone."""

    def test_a_file_of_that_name_is_written_with_its_folder(self, job, run, monkeypatch):
        (job / "fit").write_bytes((job / "val.csv").read_bytes())
        monkeypatch.chdir(job)
        result = run("fuse", "./fit", "test.csv", "--kind", "logits", "-o", "out.csv")
        assert "fit" in result.err  # a file without an extension, but taken for a file
        assert "NAME=FILE" not in result.err

    def test_the_name_must_come_first(self, job, run):
        result = run("fuse", "--rule", "mean", "fit", job / "val.csv", "-o", job / "out.csv")
        assert is_one_sentence(result)
        assert "The name of a command must come first" in result.err

    def test_names_belong_to_them(self, job, run):
        result = run("fuse", f"rgb={job}/val.csv", f"d={job}/test.csv", "-o", job / "out.csv")
        assert is_one_sentence(result)
        assert "write one of these first, or the files alone" in result.err

    @pytest.mark.parametrize("name", ["fit", "apply", "evaluate"])
    def test_their_help(self, run, name):
        result = run("fuse", name, "--help")
        assert result.out.startswith(f"Usage: reprior fuse {name} [OPTIONS] ")
        assert "SCORES" not in result.out
        assert f"reprior fuse {name} " in result.out.partition("Example:")[2]

    def test_they_are_listed(self, run):
        out = run("fuse", "--help").out
        assert out.startswith("Usage: reprior fuse [OPTIONS] SCORES...\n")
        assert all(f"  {name}  " in out for name in ("fit", "apply"))
        assert "..." not in out.partition("Commands:")[2]

    def test_their_errors_name_them(self, run):
        result = run("fuse", "fit", "rgb=a.npz")
        assert is_one_sentence(result)
        assert "See reprior fuse fit --help." in result.err


def test_numbers_of_classes_that_differ_are_named_without_empty_brackets(tmp_path, run):
    for name, k in (("a", 4), ("b", 5)):
        np.savez(tmp_path / f"{name}.npz", scores=np.eye(k), kind="logits")
    result = run("fuse", tmp_path / "a.npz", tmp_path / "b.npz", "-o", tmp_path / "out.npz")
    assert is_one_sentence(result)
    assert "Got 5 classes in" in result.err
    assert "and 4 classes in" in result.err
    assert "()" not in result.err
