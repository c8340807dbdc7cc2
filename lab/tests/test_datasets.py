"""Table 1, counted: from nothing, from a root, from label images."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from reprior.exceptions import FileFormatError
from reprior_lab.data.imbalance import imbalance_counts
from reprior_lab.datasets import _imbalance, reproduce
from reprior_lab.tables import Table

#: Training images of imbalanced CIFAR as all the compared methods report them.
TOTALS = {
    "CIFAR-10 exp-100": 12406,
    "CIFAR-10 exp-10": 20431,
    "CIFAR-10 step-100": 25250,
    "CIFAR-10 step-10": 27500,
    "CIFAR-100 exp-100": 10847,
    "CIFAR-100 exp-10": 19573,
    "CIFAR-100 step-100": 25250,
    "CIFAR-100 step-10": 27500,
}
PUBLISHED = "the published class sizes"


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """What is made without any data."""
    return reproduce(tmp_path_factory.mktemp("bare"))


def rows_of(reproduction):
    (table,) = reproduction.tables
    return {label: dict(zip((*table.columns,), cells, strict=True)) for label, cells in table.rows}


def words(row):
    return {column: cell.text for column, cell in row.items() if cell.text is not None}


def cifar10(root, n_each=100, n_classes=10):
    """The binary archive with a hundred images of each class, which ratio 100 needs."""
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    labels = np.random.default_rng(0).permutation(np.arange(n_each * n_classes) % n_classes)
    records = np.zeros((labels.size, 3073), np.uint8)
    records[:, 0] = labels
    for i, part in enumerate(np.array_split(records, 5), 1):
        part.tofile(folder / f"data_batch_{i}.bin")
    records[:10].tofile(folder / "test_batch.bin")


def label_image(path, ids):
    image = pytest.importorskip("PIL.Image", reason="label images are read with Pillow")
    path.parent.mkdir(parents=True, exist_ok=True)
    red = np.asarray(ids, np.uint8)
    image.fromarray(np.stack([red, np.full_like(red, 9), red], axis=-1)).save(path)


@pytest.mark.parametrize(
    "counts, kind",
    [
        ([5, 5, 5], "none"),
        ([9, 1], "step"),
        ([7, 9, 9, 7], "step"),
        (imbalance_counts(500, 100, "exp", 100), "exp"),
        (imbalance_counts(5000, 10, "exp", 10)[::-1], "exp"),
        (imbalance_counts(5000, 10, "exp", 10) + (np.arange(10) == 4), "long-tail"),
        ([100, 90, 1], "long-tail"),
        ([49, 7, 1], "long-tail"),  # 49 · (1 / 49) is below 1
    ],
)
def test_the_kind_of_imbalance_is_seen(counts, kind):
    assert _imbalance(np.array(counts)) == kind


def test_a_row_for_every_data_set_of_the_paper(bare):
    assert list(rows_of(bare)) == [
        "Two moons",
        "Circles",
        *TOTALS,
        "iNaturalist 2018",
        "SYNTHIA-Sequences",
    ]


@pytest.mark.parametrize("title, total", TOTALS.items())
def test_cifar_without_files_has_the_published_totals(bare, title, total):
    row = rows_of(bare)[title]
    assert row["training samples"].value == total
    assert row["counted from"].text == PUBLISHED
    imbalance, ratio = title.split()[1].split("-")
    assert row["imbalance"].text == f"{imbalance} (paper {imbalance})"
    assert row["ratio"].value == row["ratio"].paper == int(ratio)
    assert row["dimension"].text == "32×32×3 (paper 32×32)"


def test_the_papers_slip_stands_beside_the_truth(bare):
    cell = rows_of(bare)["CIFAR-100 exp-100"]["largest class"]
    assert (cell.value, cell.paper) == (500, 5000)
    said = [note for note in bare.notes if "printed 5,000" in note]
    assert len(said) == 1, "once, though four rows have it"


def test_the_toy_sets_and_inaturalist(bare):
    rows = rows_of(bare)
    for title in ("Two moons", "Circles"):
        row = rows[title]
        assert words(row) == {
            "dimension": "2 (paper 2)",
            "imbalance": "step (paper step)",
            "counted from": "the data",
        }
        assert row["largest class"].value == 2500
        assert row["ratio"].shown(0) == "9 (paper 9)"
    row = rows["iNaturalist 2018"]
    found = {column: cell.value for column, cell in row.items() if cell.value is not None}
    assert found == {
        "classes": 8142,
        "largest class": 1000,
        "ratio": 500,
        "training samples": 437_513,
    }
    assert row["imbalance"].text == "long-tail (paper long-tail)"


def test_what_is_missing_is_said(bare):
    row = rows_of(bare)["SYNTHIA-Sequences"]
    assert row["largest class"].shown(0) == "– (paper 1,900,000,000)"
    assert row["dimension"].text == "– (paper 768×384)"
    assert any("SYNTHIA-SEQS-05-DAWN/GT/LABELS" in note for note in bare.notes)


def test_files_are_the_table(bare):
    by_name = {path.name: path for path in bare.files}
    assert list(by_name) == ["datasets.md", "datasets.tex", "datasets.json", "datasets.run.json"]
    document = json.loads(by_name["datasets.json"].read_text(encoding="utf-8"))
    assert Table.from_dict(document) == bare.tables[0]
    run = json.loads(by_name["datasets.run.json"].read_text(encoding="utf-8"))
    assert run["experiment"] == "datasets"
    assert "numpy" in run["versions"]
    assert run["sets"]["cifar10-exp100"]["smallest"] == 50
    assert run["sets"]["synthia"] == {
        "dimension": "–",
        "origin": "nothing: its images are not there",
    }


def test_cifar_is_counted_where_it_is(tmp_path):
    cifar10(tmp_path / "data")
    told = []
    found = reproduce(
        tmp_path / "out", root=tmp_path / "data", progress=lambda *what: told.append(what)
    )
    rows = rows_of(found)
    exp, step = rows["CIFAR-10 exp-100"], rows["CIFAR-10 step-10"]
    assert exp["counted from"].text == "the data"
    expected = sum(int(100 * 0.01 ** (i / 9)) for i in range(10))
    assert exp["training samples"].value == expected
    assert (exp["largest class"].value, exp["largest class"].paper) == (100, 5000)
    assert exp["imbalance"].text == "exp (paper exp)"
    assert step["training samples"].value == 5 * 100 + 5 * 10
    assert rows["CIFAR-100 exp-100"]["counted from"].text == PUBLISHED, "which is not there"
    assert [done for _, done, _ in told] == list(range(len(told)))
    assert told[-1][1] == told[-1][2]
    assert str(tmp_path) not in found.files[-1].read_text(encoding="utf-8")


def test_pixels_of_the_training_drives(tmp_path):
    drives = "SYNTHIA-SEQS-05-{}/GT/LABELS/Stereo_Left/Omni_F/000000.png"
    label_image(tmp_path / drives.format("DAWN"), [[0, 1, 1], [1, 1, 15]])
    label_image(tmp_path / drives.format("NIGHT"), [[3, 3, 1], [3, 3, 0]])
    label_image(tmp_path / drives.format("FOG"), [[7, 7, 7], [7, 7, 7]])  # unseen in training
    row = rows_of(reproduce(tmp_path / "out", root=tmp_path))["SYNTHIA-Sequences"]
    found = {column: cell.value for column, cell in row.items() if cell.value is not None}
    assert found == {"classes": 3, "largest class": 5, "ratio": 5, "training samples": 10}
    assert words(row) == {
        "dimension": "3×2×3 (paper 768×384)",
        "imbalance": "long-tail (paper long-tail)",
        "counted from": "2 label images",
    }


def test_the_smaller_synthia_has_a_row_of_its_own(tmp_path):
    label_image(tmp_path / "SYNTHIA-SF/train/GT/000000.png", [[1, 1], [2, 2]])
    label_image(tmp_path / "SYNTHIA-SF/train/GT/000001.png", [[1, 1, 2, 2]])
    rows = rows_of(reproduce(tmp_path / "out", root=tmp_path))
    row = rows["SYNTHIA-SF (not the paper's)"]
    assert words(row) == {
        "dimension": "many sizes",
        "imbalance": "none",
        "counted from": "2 label images",
    }
    assert row["classes"].shown(0) == "2"
    assert rows["SYNTHIA-Sequences"]["classes"].value is None


def test_inaturalist_is_counted_in_its_annotations(tmp_path):
    found = {
        "images": [{"id": i, "file_name": f"{i}.jpg"} for i in range(7)],
        "annotations": [{"image_id": i, "category_id": c} for i, c in enumerate("aaaabbc")],
        "categories": [{"id": c, "name": c} for c in "abcd"],
    }
    (tmp_path / "train2018.json").write_text(json.dumps(found), encoding="utf-8")
    row = rows_of(reproduce(tmp_path / "out", root=tmp_path))["iNaturalist 2018"]
    assert row["counted from"].text == "train2018.json"
    values = [row[c].value for c in ("classes", "largest class", "ratio", "training samples")]
    assert values == [3, 4, 4, 7], "a class without images is not in this part"


def test_images_without_labels_are_refused(tmp_path):
    label_image(tmp_path / "SYNTHIA-SF/train/GT/000000.png", [[0, 0], [0, 0]])
    with pytest.raises(FileFormatError, match="must have class ids above 0 in their red channel"):
        reproduce(tmp_path / "out", root=tmp_path)


def test_a_root_with_nothing_in_it_is_refused(tmp_path):
    with pytest.raises(FileFormatError, match="`root` must hold a data set of the paper") as caught:
        reproduce(tmp_path / "out", root=tmp_path / "mistyped")
    assert "mistyped" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_nothing_heavy_is_imported():
    """The command line imports these modules for its help."""
    modules = ("correction", "datasets", "paper", "tables")
    code = "import sys\n" + "".join(f"import reprior_lab.{name}\n" for name in modules)
    code += "print(sorted({'lightning', 'matplotlib', 'sklearn', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
