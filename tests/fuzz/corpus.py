"""Valid files of every format and document, and what reads each through a public function."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import zarr

import reprior as rp
from reprior.engines import fit
from reprior.files import counts_from_labels, open_scores, read_costs, read_counts
from reprior.files.count_files import read_class_names

NAMES = ("cat", "dog, brown", "owl", "élan")
K = len(NAMES)
PRIOR = np.array([0.4, 0.3, 0.2, 0.1])

Reader = Callable[[Path], Any]


@dataclass(frozen=True)
class Subject:
    """A file to mutate: how it is made, how it is read, and what its format promises.

    Parameters
    ----------
    write : callable
        Writes valid files into a folder and returns the paths that are mutated, one at a time.
    read : callable
        Reads one of them through a public function, uses it, and returns what came of it.
    protects : bool
        Whether the format has a checksum, so that a changed byte must not change what is read.
    is_text : bool
        Whether mutations of text and of JSON make sense.
    """

    write: Callable[[Path], list[Path]]
    read: Reader
    protects: bool = False
    is_text: bool = False


def _data(n: int = 41) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, K, n)
    scores = np.round(rng.normal(size=(n, K)) + 2 * np.eye(K)[labels], 3)
    return scores, labels


def _table() -> pa.Table:
    scores, labels = _data()
    columns: dict[str, Any] = {name: scores[:, k] for k, name in enumerate(NAMES)}
    ids = [f'row "{i}", of many' if i % 3 else f"row {i}" for i in range(len(scores))]
    return pa.table({"id": ids, **columns, "label": [NAMES[k] for k in labels]})


def _npy(folder: Path) -> list[Path]:
    scores, _ = _data()
    np.save(folder / "c.npy", scores)
    np.save(folder / "fortran.npy", np.asfortranarray(scores, np.float32))
    np.save(folder / "integers.npy", (scores * 10).astype(">i2"))
    return [folder / name for name in ("c.npy", "fortran.npy", "integers.npy")]


def _npz(folder: Path) -> list[Path]:
    scores, labels = _data()
    named = {"class_names": np.array(NAMES), "kind": np.array("logits")}
    np.savez(folder / "plain.npz", scores=scores, labels=labels, weight=1.0 + labels, **named)
    np.savez_compressed(folder / "packed.npz", scores=np.asfortranarray(scores), labels=labels)
    return [folder / "plain.npz", folder / "packed.npz"]


def _csv(folder: Path) -> list[Path]:
    pyarrow.csv.write_csv(_table(), folder / "a.csv")
    scores, labels = _data(9)
    rows = [[f"{x}" for x in row] + [str(k)] for row, k in zip(scores, labels, strict=True)]
    lines = ["0\t1\t2\t3\tlabel", *("\t".join(row) for row in rows)]
    (folder / "b.tsv").write_bytes("\r\n".join(lines).encode())
    return [folder / "a.csv", folder / "b.tsv"]


def _parquet(folder: Path) -> list[Path]:
    table = _table()
    named = {"reprior.class_names": json.dumps(NAMES), "reprior.kind": "logits"}
    pq.write_table(table.replace_schema_metadata(named), folder / "a.parquet", row_group_size=16)
    scores, labels = _data()
    listed = pa.table({"scores": list(scores), "label": pa.array(labels).dictionary_encode()})
    pq.write_table(listed, folder / "b.parquet", compression="zstd", write_page_checksum=True)
    return [folder / "a.parquet", folder / "b.parquet"]


def _zarr(folder: Path) -> list[Path]:
    scores, labels = _data()
    paths: list[Path] = []
    for version in (2, 3):
        store = folder / f"v{version}.zarr"
        group = zarr.open_group(str(store), mode="w", zarr_format=version)
        for name, values in (("scores", scores), ("labels", labels)):
            chunks = (17, *values.shape[1:])
            array = group.create_array(name, shape=values.shape, chunks=chunks, dtype=values.dtype)
            array[...] = values
        group.attrs.update(kind="logits", class_names=list(NAMES))
        paths += sorted(path for path in store.rglob("*") if path.is_file())
    return paths


def _samples(path: Path) -> Any:
    """Everything that a score file says, as a pass over it sees it."""
    store = next((each for each in path.parents if each.suffix == ".zarr"), None)
    file = open_scores(store or path, kind=None)
    chunks = list(file.chunks(max_bytes=16 * 8 * K))
    parts: list[Any] = [file.kind, file.class_names, file.n_samples, file.has_labels]
    for chunk in chunks:
        for values in (chunk.scores, chunk.labels, chunk.weight):
            parts.append(None if values is None else (values.shape, values.tobytes()))
    return parts


def _counts(folder: Path) -> list[Path]:
    texts = {
        "list.json": "[900, 60, 30.5, 1e1]",
        "names.json": json.dumps(dict(zip(NAMES, [900, 60, 30, 10], strict=True))),
        "plain.csv": "900\n60\n30\n10\n",
        "names.csv": 'class,count\ncat,900\n"dog, brown",60\nowl,30\nélan,10\n',
    }
    return _write_texts(folder, texts)


def _costs(folder: Path) -> list[Path]:
    rows = [[0, 1, 5, 0.5], [2, 0, 1, 0.5], [1, 1, 0, 0.5], [9, 9, 9, 0.25]]
    by_name = {
        name: dict(zip("abcd", row, strict=True)) for name, row in zip(NAMES, rows, strict=True)
    }
    texts = {
        "rows.json": json.dumps(rows),
        "names.json": json.dumps(by_name),
        "rows.csv": "\n".join(",".join(map(str, row)) for row in rows),
    }
    return _write_texts(folder, texts)


def _names(folder: Path) -> list[Path]:
    return _write_texts(folder, {"names.txt": "\n".join(NAMES), "names.json": json.dumps(NAMES)})


def _write_texts(folder: Path, texts: dict[str, str]) -> list[Path]:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def _labels(folder: Path) -> list[Path]:
    _, labels = _data()
    np.save(folder / "a.npy", labels.astype(np.int16))
    np.savez(folder / "b.npz", labels=np.array(NAMES)[labels])
    (folder / "c.csv").write_text("label\n" + "\n".join(map(str, labels)))
    pq.write_table(pa.table({"label": np.array(NAMES)[labels]}), folder / "d.parquet")
    return [folder / name for name in ("a.npy", "b.npz", "c.csv", "d.parquet")]


def _counted(path: Path) -> Any:
    if path.suffix in (".npz", ".parquet"):
        counts, names = counts_from_labels(path)
    else:
        counts, names = counts_from_labels(path, n_classes=K)
    return counts.tolist(), names


def _calibrators(folder: Path) -> list[Path]:
    scores, labels = _data()
    made = {
        "plain.json": rp.PosteriorCalibrator(PRIOR),
        "named.json": rp.PosteriorCalibrator(PRIOR, classes=NAMES, temperature="fit"),
        "biases.json": rp.PosteriorCalibrator(PRIOR, tune="per_class"),
        "separate.json": rp.PosteriorCalibrator(PRIOR, separate=True),
    }
    for name, calibrator in made.items():
        calibrator.fit(scores, labels if name != "named.json" else np.array(NAMES)[labels])
        calibrator.save(folder / name)
    return [folder / name for name in made]


def _applied(path: Path) -> Any:
    calibrator = rp.load(path)
    scores, _ = _data()
    assert isinstance(calibrator, rp.PosteriorCalibrator)
    posterior = calibrator.predict_proba(scores)
    return (
        posterior.tobytes(),
        np.asarray(calibrator.predict(scores)).tolist(),
        calibrator.summary(),
    )


def _fusions(folder: Path) -> list[Path]:
    scores, labels = _data()
    for name, flatten in (("a.json", True), ("b.json", False)):
        fusion = rp.ModalityFusion(PRIOR, flatten=flatten)
        fusion.fit({"rgb": scores, "depth": scores[:, ::-1].copy()}, labels).save(folder / name)
    return [folder / "a.json", folder / "b.json"]


def _fused(path: Path) -> Any:
    scores, _ = _data()
    fusion = rp.load(path)
    assert isinstance(fusion, rp.ModalityFusion)
    return fusion.predict_proba({"rgb": scores, "depth": scores[:, ::-1].copy()}).tobytes()


def _trackers(folder: Path) -> list[Path]:
    scores, _ = _data()
    tracker = rp.PriorTracker(PRIOR, half_life=100)
    tracker.update(scores)
    tracker.save(folder / "a.json")
    return [folder / "a.json"]


def _tracked(path: Path) -> Any:
    scores, _ = _data()
    tracker = rp.PriorTracker.load(path)
    tracker.update(scores)
    return tracker.prior.tobytes(), tracker.summary()


def _profiles(folder: Path) -> list[Path]:
    scores, labels = _data()
    for name, resolution in (("exact.npz", None), ("binned.npz", 0.01)):
        profile = rp.StrengthProfile.from_scores(
            scores, labels, source_prior=PRIOR, resolution=resolution
        )
        profile.save(folder / name)
    return [folder / "exact.npz", folder / "binned.npz"]


def _best(path: Path) -> Any:
    profile = rp.StrengthProfile.load(path)
    best = profile.best("balanced_accuracy")
    return best.strength, best.value, profile.evaluate("accuracy", [0.5, 1.5]).tolist()


def _checkpoints(folder: Path) -> list[Path]:
    _fitted(folder / "exact" / "any")
    return sorted((folder / "exact").glob("*.npz"))


def _fitted(path: Path) -> Any:
    scores, labels = _data()
    chunks = [(scores[i : i + 20], labels[i : i + 20]) for i in range(0, len(labels), 20)]
    calibrator = fit(rp.PosteriorCalibrator(PRIOR), chunks, checkpoint=path.parent)
    return calibrator.strength_, calibrator.best_score_, calibrator.strength_interval_


def _plain(read: Callable[[Path], Any]) -> Reader:
    return lambda path: repr(read(path))


SUBJECTS = {
    "npy": Subject(_npy, _samples),
    "npz": Subject(_npz, _samples, protects=True),
    "csv": Subject(_csv, _samples, is_text=True),
    "parquet": Subject(_parquet, _samples),
    "zarr": Subject(_zarr, _samples),
    "labels": Subject(_labels, _counted),
    "counts": Subject(_counts, _plain(read_counts), is_text=True),
    "costs": Subject(_costs, _plain(lambda path: read_costs(path, NAMES)), is_text=True),
    "names": Subject(_names, read_class_names, is_text=True),
    "calibrator": Subject(_calibrators, _applied, is_text=True),
    "fusion": Subject(_fusions, _fused, is_text=True),
    "tracker": Subject(_trackers, _tracked, is_text=True),
    "profile": Subject(_profiles, _best, protects=True),
    "checkpoint": Subject(_checkpoints, _fitted, protects=True),
}


def quietly(read: Reader, path: Path) -> Any:
    """Read a file without showing warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read(path)


def fresh(folder: Path) -> Path:
    """Return an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
