"""What the tests of the command line share: data, files of every format, and ways to run."""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tests.support.child_processes import ended

NAMES = ["cat", "dog", "owl"]
COUNTS = np.array([900, 90, 10])
FORMATS = ["npy", "npz", "csv", "parquet", "zarr"]
COMMAND = str(Path(sys.executable).with_name("reprior"))

#: Every command that reads or writes files, in the folder of the fixture ``fused``.
COMMANDS_ON_FILES = [
    "fit val.csv --counts counts.json --kind logits -o new.json",
    "apply cal.json test.csv -o new.csv",
    "evaluate cal.json test.csv",
    "forecast cal.json test.csv --validation val.csv",
    "report cal.json val.csv --test test.csv -o new.html",
    "export sql cal.json --column a --column b --column c -o new.sql",
    "prior --counts counts.json -o new.json",
    "prior estimate test.csv --counts counts.json --kind logits --replicates 20 -o new.json",
    "fuse test.csv test.csv --kind logits -o new.csv",
    "fuse fit a=val.csv b=val.csv --counts counts.json --kind logits -o new.json",
    "fuse apply fusion.json a=test.csv b=test.csv -o new.csv",
    "fuse evaluate fusion.json a=test.csv b=test.csv",
]


class Data(NamedTuple):
    """Scores and labels of one data set."""

    scores: np.ndarray
    labels: np.ndarray


class Result(NamedTuple):
    """How a run ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def data(seed: int, n: int = 300) -> Data:
    """A model of three classes that knows its prior, on balanced samples."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=n)
    scores = rng.normal(size=(n, 3)) + 2 * np.eye(3)[labels] + np.log(COUNTS / COUNTS.sum())
    return Data(scores.round(6), labels)


def write(path: Path, values: Data, *, kind: str | None = None, names: bool = True) -> list[str]:
    """Write a score file in the format of its extension; return what a command must be told."""
    scores, labels = values
    more: list[str] = []
    if path.suffix == ".npy":
        np.save(path, scores)
        own = path.with_name(f"{path.stem}-labels.npy")
        np.save(own, labels)
        more = ["--labels", str(own)]
    elif path.suffix == ".npz":
        extra = {"class_names": np.array(NAMES)} if names else {}
        extra |= {"kind": np.array(kind)} if kind else {}
        np.savez(path, scores=scores, labels=labels, **extra)
    elif path.suffix == ".zarr":
        import zarr

        group = zarr.open_group(str(path), mode="w")
        group.create_array("scores", data=scores, chunks=(100, 3))
        group.create_array("labels", data=labels, chunks=(100,))
    else:
        _write_table(path, values)
    return more


def _write_table(path: Path, values: Data) -> None:
    import pyarrow as pa
    from pyarrow import csv, parquet

    columns = {name: values.scores[:, k] for k, name in enumerate(NAMES)}
    table = pa.table({**columns, "label": [NAMES[k] for k in values.labels], "id": _ids(values)})
    if path.suffix == ".csv":
        csv.write_csv(table, path)
    else:
        parquet.write_table(table, path, row_group_size=100)


def _ids(values: Data) -> list[str]:
    return [f"row-{i}" for i in range(len(values.labels))]


def write_counts(folder: Path) -> str:
    path = folder / "counts.json"
    path.write_text(json.dumps(COUNTS.tolist()))
    return str(path)


def read_output(path: Path) -> tuple[np.ndarray, list[str]]:
    """Return posterior and the predicted names of an output of any format."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return file["posterior"], [NAMES[k] for k in file["prediction"]]
    if path.suffix == ".zarr":
        import zarr

        group = zarr.open_group(str(path), mode="r")
        return group["posterior"][:], [NAMES[k] for k in group["prediction"][:]]
    from pyarrow import csv, parquet

    table = csv.read_csv(path) if path.suffix == ".csv" else parquet.read_table(path)
    return (
        np.column_stack([table[name].to_numpy() for name in NAMES]),
        [str(name) for name in table["prediction"].to_pylist()],
    )


def in_process(capsys: Any, *arguments: Any) -> Result:
    """Run the program in this process."""
    from reprior.__main__ import main

    capsys.readouterr()
    code = main([str(each) for each in arguments])
    out, err = capsys.readouterr()
    return Result(code, out, err)


def quietly(*arguments: Any) -> Result:
    """Run the program in this process, for fixtures that outlive a test."""
    from reprior.__main__ import main

    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main([str(each) for each in arguments])
    return Result(code, out.getvalue(), err.getvalue())


def run_example(run: Any, epilog: str) -> None:
    """Run the lines of a help text's example: reprior in this process, the others in a shell.

    Where the folder ``demo`` exists, it is what ``reprior demo`` would write.
    """
    text = " ".join(line.strip() for line in epilog.splitlines()[2:]).replace("\\ ", "")
    for line in text.split("$ ")[1:]:
        program, *arguments = shlex.split(line, comments=True)
        if program != "reprior":
            assert ended(["bash", "-e", "-c", line]).returncode == 0
        elif arguments[0] != "demo" or not Path("demo").exists():
            result = run(*arguments)
            assert result.code == 0, (line, result.err)


def installed(*arguments: Any, **options: Any) -> Result:
    """Run the installed command."""
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    done = ended([COMMAND, *map(str, arguments)], env=environment, **options)
    return Result(done.returncode, done.stdout, done.stderr)


def is_one_sentence(result: Result) -> bool:
    """Whether it failed as it should: one line on stderr, nothing on stdout, exit code 2."""
    one_line = result.err.count("\n") == 1 and result.err.startswith("Error: ")
    return result.code == 2 and one_line and "Traceback" not in result.err and not result.out
