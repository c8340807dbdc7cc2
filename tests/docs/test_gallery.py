"""The gallery: its pages show what the commands print now, and its stories are true."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from docs.gallery.train_storms import features, parts
from docs.scripts.gallery_outputs import (
    BLOCK,
    DOCS,
    GALLERY,
    PAGES,
    renewed,
    run,
    scratch_copy,
    written,
)  # fmt: skip

from reprior.files import open_scores

DATA = GALLERY / "data"

pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the source distribution has no scores")
LARGEST_FILE = 512_000  # what the pre-commit hook lets pass
ALL_FILES = 3_200_000

STORIES = {
    "storms": {"kind": "probs"},
    "images": {},
    "segmentation": {},
}


@pytest.mark.parametrize("page", PAGES)
def test_the_page_shows_what_its_commands_print(page, tmp_path):
    text = (GALLERY / page).read_text(encoding="utf-8")
    assert len(BLOCK.findall(text)) >= 3
    again = renewed(text, scratch_copy(tmp_path))
    assert again == text, "Run: python -m docs.scripts.gallery_outputs"


@pytest.mark.parametrize("page", [*PAGES, "index.md"])
def test_pictures_and_pages_that_are_linked_exist(page):
    text = (GALLERY / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!http)([^)#]+)\)", text)
    assert links
    assert [link for link in links if not (GALLERY / link).exists()] == []


def test_every_story_is_in_the_index():
    text = (GALLERY / "index.md").read_text(encoding="utf-8")
    assert all(f"({page})" in text for page in PAGES)


def test_files_are_small():
    sizes = {path.name: path.stat().st_size for path in DATA.iterdir()}
    assert max(sizes.values()) <= LARGEST_FILE
    assert sum(sizes.values()) <= ALL_FILES


def test_every_file_has_a_source():
    text = (DATA / "README.txt").read_text(encoding="utf-8")
    stems = {re.sub(r"-\d+$", "-*", path.stem) for path in DATA.iterdir()} - {"README"}
    assert [stem for stem in stems if stem not in text] == []


@pytest.mark.parametrize("story", STORIES)
def test_both_parts_have_the_classes_of_the_counts(story):
    counts = json.loads((DATA / f"{story}-counts.json").read_text(encoding="utf-8"))
    for part in ("tune", "test"):
        file = open_scores(str(DATA / f"{story}-{part}*"), **STORIES[story])
        assert list(file.class_names) == list(counts)
        chunks = list(file.chunks())
        assert all(np.isfinite(chunk.scores).all() for chunk in chunks)
        seen = np.unique(np.concatenate([chunk.labels.ravel() for chunk in chunks]))
        assert seen.tolist() == list(range(len(counts)))


def test_the_parts_share_no_sample():
    for story, options in STORIES.items():
        rows = [
            {chunk.scores[i].tobytes() for chunk in file.chunks() for i in range(len(chunk.scores))}
            for file in (
                open_scores(str(DATA / f"{story}-{part}*"), **options) for part in ("tune", "test")
            )
        ]
        assert rows[0].isdisjoint(rows[1])


def test_images_are_weighted_to_the_training_mix():
    counts = np.array(list(json.loads((DATA / "images-counts.json").read_text()).values()))
    with np.load(DATA / "images-test.npz") as file:
        mix = np.bincount(file["labels"], file["training_mix"])
    np.testing.assert_allclose(mix / mix.sum(), counts / counts.sum(), rtol=1e-6)


def test_storms_are_split_whole():
    names = pd.Series(np.repeat([f"storm {i}" for i in range(50)], 4))
    rows = parts(names, seed=0)
    assert (sum(rows.values()) == 1).all()
    assert {part: names[mask].nunique() for part, mask in rows.items()} == {
        "train": 30, "tune": 10, "test": 10,
    }  # fmt: skip


def test_changes_do_not_cross_from_storm_to_storm():
    columns = ["month", "day", "hour", "lat", "long", "wind", "pressure",
               "tropicalstorm_force_diameter", "hurricane_force_diameter"]  # fmt: skip
    table = pd.DataFrame({name: np.arange(4.0) ** 2 for name in columns})
    made = features(table, pd.Series(["a", "a", "b", "b"]))
    assert made["change_of_wind"].isna().tolist() == [True, False, True, False]
    assert made["change_of_wind"].dropna().tolist() == [1.0, 5.0]
    assert made["age"].tolist() == [0, 1, 0, 1]


def judged(folder, calibrator, test):
    return json.loads(run(f"reprior evaluate {calibrator} '{test}' --format json", folder))


@pytest.mark.parametrize(
    "page, calibrator, test, better, worse",
    [
        ("tabular.md", "storms.json", "storms-test.csv",
         ["balanced_accuracy", "macro_f1"], ["accuracy", "macro_precision", "log_loss", "brier"]),
        ("images.md", "images.json", "images-test.npz",
         ["accuracy", "mean_iou", "log_loss", "ece"], []),
        ("segmentation.md", "bold.json", "segmentation-test-*.npz",
         ["balanced_accuracy"], ["accuracy", "mean_iou", "log_loss"]),
        ("segmentation.md", "careful.json", "segmentation-test-*.npz",
         ["balanced_accuracy", "mean_iou"], ["accuracy"]),
    ],
)  # fmt: skip
def test_what_the_pages_call_better_and_worse_is(page, calibrator, test, better, worse, tmp_path):
    folder = scratch_copy(tmp_path)
    text = (GALLERY / page).read_text(encoding="utf-8")
    fits = [written(line) for line in re.findall(r"^\$ reprior fit .*(?:\n> .*)*", text, re.M)]
    (fit,) = [command for command in fits if command.endswith(f"-o {calibrator}")]
    run(fit, folder)
    result = judged(folder, calibrator, test)
    smaller = {"log_loss", "brier", "ece", "classwise_ece"}
    gains = {
        name: (pair["after"] - pair["before"]) * (-1 if name in smaller else 1)
        for name, pair in result.items()
        if isinstance(pair, dict) and "after" in pair
    }
    assert [name for name in better if gains[name] <= 0] == []
    assert [name for name in worse if gains[name] >= 0] == []


def test_a_command_over_several_lines_is_one():
    assert written("$ reprior fit a.csv \\\n>     -o b.json") == "reprior fit a.csv -o b.json"


def test_a_command_that_fails_is_not_shown_as_output(tmp_path):
    with pytest.raises(RuntimeError, match="ended with 2"):
        run("reprior evaluate no-such.json no-such.csv", tmp_path)


def test_outputs_replace_the_old_ones(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    text = "Look:\n\n```console\n$ head -n 1 a.txt\nold\n```\n\n```text\n$ left alone\n```\n"
    assert renewed(text, tmp_path) == text.replace("old", "one")


def test_figures_are_of_the_folder_of_the_docs():
    assert (DOCS / "figures" / "gallery").is_dir()
