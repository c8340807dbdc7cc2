"""NAME=FILE: what is taken, and the sentence for what is not."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.support.command_line import Data, data, is_one_sentence, write
from tests.support.modalities import PRIOR, both, counts, maps, write_both, write_maps

import reprior as rp


@pytest.fixture
def fit(tmp_path, run):
    def fit(*arguments, **options):
        return run("fuse", "fit", *arguments, *counts(tmp_path), "-o", tmp_path / "fusion.json")

    return fit


def test_the_name_ends_at_the_first_sign(tmp_path, fit):
    scores = both(0)
    np.savez(tmp_path / "a=b.npz", scores=scores["rgb"], labels=data(0).labels, kind="logits")
    np.savez(tmp_path / "x.npz", scores=scores["depth"], kind="logits")
    assert fit(f"rgb={tmp_path}/a=b.npz", f"d={tmp_path}/x.npz").code == 0
    assert rp.load(tmp_path / "fusion.json").modalities_ == ("rgb", "d")


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["val.npz"], "Got 'val.npz'. Write for example rgb=val.npz."),
        (["=val.npz"], "Write for example rgb=val.npz."),
        (["rgb="], "Write for example rgb=val-rgb.npz."),
        (["./a=b.npz"], "NAME=FILE, a word and the file"),
        (["*=b.npz"], "NAME=FILE, a word and the file"),
        (["rgb=a", "rgb=b"], "Got 'rgb' twice: 'a' and 'b'."),
        (["rgb=a", "rgb=b"], "'rgb=val-*"),
    ],
)
def test_what_is_no_name_and_file(fit, arguments, words):
    result = fit(*arguments)
    assert is_one_sentence(result)
    assert words in result.err


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda s, y: {"scores": s[:, :2]}, "same classes in one order. Got"),
        (
            lambda s, y: {"scores": s[:, :, :3], "labels": y[:, :3]},
            "same shape per sample. Got (3,",
        ),
        (lambda s, y: {"scores": s[:9], "labels": y[:9]}, "number of samples. Got 12 for 'rgb'"),
        (lambda s, y: {"scores": s, "labels": y, "kind": "probs"}, "kind of scores. Got logits"),
        (lambda s, y: {"scores": s, "labels": y[::-1]}, "Got other labels in entry"),
    ],
)
def test_files_that_do_not_agree(tmp_path, fit, change, words):
    scores, labels = maps(0)
    named = write_maps(tmp_path, scores, labels)
    np.savez(tmp_path / "val-rgb.npz", scores=scores["rgb"], labels=labels, kind="logits")
    values = {"kind": "logits", **change(scores["depth"], labels)}
    np.savez(tmp_path / "val-depth.npz", **values)
    result = fit(*named, "--ignore-index", "255")
    assert is_one_sentence(result)
    assert words in result.err


def test_the_kind_must_be_known(tmp_path, fit):
    for name, scores in both(0).items():
        np.savez(tmp_path / f"{name}.npz", scores=scores, labels=data(0).labels)
    result = fit(*(f"{name}={tmp_path}/{name}.npz" for name in both(0)))
    assert is_one_sentence(result)
    assert "--kind must be given" in result.err


def test_labels_must_be_somewhere(tmp_path, fit):
    for name, scores in both(0).items():
        np.savez(tmp_path / f"{name}.npz", scores=scores, kind="logits")
    result = fit(*(f"{name}={tmp_path}/{name}.npz" for name in both(0)))
    assert is_one_sentence(result)
    assert "must have labels" in result.err


class TestKnown:
    """What apply and evaluate say of modalities that the fusion does not know."""

    @pytest.fixture
    def fitted(self, tmp_path, fit):
        assert fit(*write_both(tmp_path, 0, "val")).code == 0
        write_both(tmp_path, 1, "test")
        return tmp_path

    @pytest.mark.parametrize(
        "arguments, words",
        [
            (["rbg={}/test-rgb.npz"], "those of the fusion, rgb, depth. Got 'rbg'. Did you mean"),
            (["lidar={}/test-rgb.npz"], "Got 'lidar'. Leave it out, or fit again with it."),
            (["rgb={}/test-rgb.npz"], "Got none for 'depth'. Write depth=FILE, or fuse what is"),
            (["rgb={}/test-rgb.npz", "rgb={}/test-depth.npz"], "given once. Got 'rgb' twice"),
            (["{}/test-rgb.npz"], "NAME=FILE"),
            (["rgb={}/counts.json", "depth={}/test-depth.npz"], "must be a score file"),
            (["rgb={}/none.npz", "depth={}/test-depth.npz"], "does not exist"),
        ],
    )
    @pytest.mark.parametrize("command", ["apply", "evaluate"])
    def test_wrong_modalities(self, fitted, run, command, arguments, words):
        more = ["-o", fitted / "out.npz"] if command == "apply" else []
        named = [word.format(fitted) for word in arguments]
        result = run("fuse", command, fitted / "fusion.json", *named, *more)
        assert is_one_sentence(result)
        assert words in result.err
        assert not (fitted / "out.npz").exists()

    @pytest.mark.parametrize(
        "first, words",
        [
            ("cal.json", "must be a fusion of several modalities, as fuse fit writes it"),
            ("val-rgb.npz", "FUSION must be a JSON file that fuse fit wrote"),
            ("counts.json", "write it again with reprior fuse fit"),
            ("none.json", "does not exist"),
        ],
    )
    def test_no_fusion(self, fitted, run, first, words):
        rp.PosteriorCalibrator(PRIOR).fit(*data(0)).save(fitted / "cal.json")
        named = [f"rgb={fitted}/test-rgb.npz", f"depth={fitted}/test-depth.npz"]
        result = run("fuse", "apply", fitted / first, *named, "-o", fitted / "out.npz")
        assert is_one_sentence(result)
        assert words in result.err

    def test_the_fusion_is_forgotten(self, fitted, run):
        named = [f"rgb={fitted}/test-rgb.npz", f"depth={fitted}/test-depth.npz"]
        result = run("fuse", "apply", *named, "-o", fitted / "out.npz")
        assert is_one_sentence(result)
        assert "FUSION must come first" in result.err

    def test_a_fusion_of_several_passes(self, fitted, run):
        document = json.loads((fitted / "fusion.json").read_text())
        document["uncertainty"] = "mutual_information"
        for each in document["modalities"]:
            each["mutual_information"], each["entropy"] = each["entropy"], None
        (fitted / "fusion.json").write_text(json.dumps(document))
        result = run("fuse", "evaluate", fitted / "fusion.json", f"rgb={fitted}/test-rgb.npz")
        assert is_one_sentence(result)
        assert "needs several passes" in result.err

    @pytest.mark.parametrize("command", ["fit", "apply", "evaluate"])
    def test_what_users_call_things_stays(self, fitted, run, command):
        first = counts(fitted) if command == "fit" else [fitted / "fusion.json"]
        more = [] if command == "evaluate" else ["-o", fitted / "out.json"]
        for name in ("my-calibrator.csv", "reprior fit.csv", "a calibrator's.csv"):
            named = [f"rgb={fitted}/{name}", f"depth={fitted}/test-depth.npz"]
            result = run("fuse", command, *first, *named, *more)
            assert is_one_sentence(result)
            assert name in result.err

    @pytest.mark.parametrize(
        "values, options, words",
        [
            ({"kind": "probs"}, [], "scores of the fusion's kind, logits. Got probs. Give scores "
             "of that kind, or fit a fusion on probs."),
            ({}, ["--classes", "classes.txt"], "must name the fusion's classes in its order, "
             "cat, dog, owl. Got cat, dog, calibrator. Drop --classes: the fusion knows"),
        ],
    )  # fmt: skip
    def test_sentences_are_about_the_fusion(self, fitted, run, monkeypatch, values, options, words):
        monkeypatch.chdir(fitted)
        (fitted / "classes.txt").write_text("cat\ndog\ncalibrator\n")
        np.savez("calibrator.npz", **{"scores": np.zeros((5, 3)), "kind": "logits", **values})
        named = ["rgb=calibrator.npz", "depth=calibrator.npz"]
        result = run("fuse", "apply", "fusion.json", *named, *options, "-o", "out.npz")
        assert is_one_sentence(result)
        assert words in result.err

    def test_rows_of_no_probabilities(self, fitted, fit, run):
        """The kind is the fusion's: no option would change it."""
        named = []
        for name, z in both(0).items():
            p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
            np.savez(fitted / f"p-{name}.npz", scores=p, labels=data(0).labels, kind="probs")
            np.savez(fitted / f"odd-{name}.npz", scores=2 * p, kind="probs")
            named.append(f"{name}={fitted}/p-{name}.npz")
        assert fit(*named).code == 0
        odd = [word.replace("p-", "odd-") for word in named]
        result = run("fuse", "apply", fitted / "fusion.json", *odd, "-o", fitted / "out.npz")
        assert is_one_sentence(result)
        assert "under the fusion's kind, probs" in result.err

    def test_other_classes(self, fitted, run):
        for name in ("rgb", "depth"):
            np.savez(fitted / f"{name}.npz", scores=np.zeros((5, 4)), kind="logits")
        named = [f"{name}={fitted}/{name}.npz" for name in ("rgb", "depth")]
        result = run("fuse", "apply", fitted / "fusion.json", *named, "-o", fitted / "out.npz")
        assert is_one_sentence(result)
        assert "4" in result.err
        assert "calibrator" not in result.err


def test_one_file_of_several(tmp_path, fit):
    """A pattern is one modality; its files may be cut otherwise than another's."""
    for name, parts in (("rgb", 3), ("depth", 4)):
        for i, part in enumerate(np.array_split(np.arange(300), parts)):
            values = Data(both(0)[name][part], data(0).labels[part])
            write(tmp_path / f"{name}-{i}.npz", values)
    result = fit(f"rgb={tmp_path}/rgb-*.npz", f"depth={tmp_path}/depth-*.npz",
                 "--kind", "logits")  # fmt: skip
    assert result.code == 0, result.err
    fusion = rp.load(tmp_path / "fusion.json")
    expected = rp.ModalityFusion(PRIOR).fit(both(0), data(0).labels)
    assert fusion.strengths_ == pytest.approx(expected.strengths_)
    for name, known in expected.references_.items():
        assert fusion.references_[name].mean == pytest.approx(known.mean)
        assert fusion.references_[name].std == pytest.approx(known.std)
