"""Models from anywhere: no file outside of the folder is read, nothing hangs, no traceback."""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.external_data_helper import set_external_data
from tests.support.child_processes import ended
from tests.support.onnx_models import calibrator, gemm_model, text

import reprior as rp
from reprior.onnx import FoldError, calibrator_of, fold, verify

ROOT = str(Path(__file__).parents[2])
SECRET = np.random.default_rng(0).normal(size=5).astype(np.float32).tobytes()


def model_at(folder, location, **entries):
    """Write a model whose bias is in a data file; return the model's path."""
    model = gemm_model()
    bias = next(t for t in model.graph.initializer if t.name == "b")
    bias.raw_data = SECRET
    set_external_data(bias, location, **entries)
    bias.ClearField("raw_data")
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(
    "location",
    [
        "",
        ".",
        "..",
        "../secret",
        "inner/secret",
        "inner/../secret",
        "./secret",
        "{root}/secret",
        "..\\secret",
        "inner\\secret",
        "C:secret",
        "C:\\secret",
        "\\\\host\\share\\secret",
        "secret:stream",
        "sec\0ret",
    ],
)
def test_a_location_that_is_no_bare_name_is_not_read(tmp_path, monkeypatch, location):
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    monkeypatch.chdir(folder)
    location = location.format(root=tmp_path)
    for name in ("../secret", "secret", "inner/secret", location):
        if name not in ("", ".", "..") and "\0" not in name:
            (folder / name).write_bytes(SECRET)  # backslashes and colons are letters on POSIX
    with pytest.raises(
        rp.FileFormatError, match=r"must be in a file beside the model. Got the loc"
    ):
        fold(model_at(folder, location), calibrator())


@pytest.mark.parametrize("kind", ["symlink", "folder", "pipe"])
def test_data_that_are_no_regular_file_are_not_read(tmp_path, kind):
    data = tmp_path / "data"
    if kind == "symlink":
        (tmp_path / "secret").write_bytes(SECRET)
        data.symlink_to("secret")
    elif kind == "folder":
        data.mkdir()
    else:
        os.mkfifo(data)
    with pytest.raises(rp.FileFormatError, match="must have its external data beside it"):
        fold(model_at(tmp_path, "data"), calibrator())


@pytest.mark.parametrize(
    "entries",
    [
        {"offset": 24},
        {"offset": -4},
        {"length": 21},
        {"offset": 4, "length": 20},
        {"offset": 2**70},
        {"length": -1},
    ],
)
def test_data_beyond_their_file_are_refused(tmp_path, entries):
    (tmp_path / "data").write_bytes(SECRET)
    with pytest.raises(rp.FileFormatError, match=r"could not be read \(bytes .* has 20\)"):
        fold(model_at(tmp_path, "data", **entries), calibrator())


def test_a_range_that_is_no_number_is_refused(tmp_path):
    (tmp_path / "data").write_bytes(SECRET)
    path = model_at(tmp_path, "data", offset=0)
    path.write_bytes(
        path.read_bytes().replace(b"\x0a\x06offset\x12\x010", b"\x0a\x06offset\x12\x01x")
    )
    with pytest.raises(rp.FileFormatError, match="could not be read"):
        fold(path, calibrator())


def test_one_file_does_not_become_many_tensors(tmp_path):
    (tmp_path / "data").write_bytes(bytes(1 << 20))
    model = gemm_model()
    for k in range(100):
        tensor = model.graph.initializer.add(name=f"t{k}", data_type=1, dims=[1 << 18])
        tensor.raw_data = b""
        set_external_data(tensor, "data")
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(rp.FileFormatError, match="the same bytes for more than 4 tensors"):
        fold(path, calibrator())


def sparse_model(path):
    """A model with a sparse initialiser whose values are in a file of their own."""
    model = gemm_model()
    sparse = model.graph.sparse_initializer.add(dims=[5])
    sparse.values.CopyFrom(numpy_helper.from_array(np.zeros(5, np.float32), "s"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.arange(5), "i"))
    set_external_data(sparse.values, path)
    sparse.values.ClearField("raw_data")
    return model


def test_sparse_tensors_have_external_data_too(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(sparse_model("../secret").SerializeToString())
    with pytest.raises(rp.FileFormatError, match=r"Got the location '../secret'"):
        fold(path, calibrator())
    with pytest.raises(FoldError, match="must have its weights in memory"):
        fold(sparse_model("data"), calibrator())


def test_a_second_output_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = gemm_model()
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((9, 99), np.float32), "big"))
    onnx.save(model, "in.onnx", save_as_external_data=True, location="in.data", size_threshold=0)
    for _ in range(2):
        fold("in.onnx", calibrator(), output="out.onnx")
    assert sorted(os.listdir()) == ["in.data", "in.onnx", "out.onnx", "out.onnx.data"]
    verify("in.onnx", "out.onnx", calibrator())


# ------------------------------------------------------------------------------- malformed


@pytest.mark.parametrize("field", ["node", "output", "metadata", "documentation"])
def test_names_that_are_not_utf8(tmp_path, field):
    model = gemm_model()
    model.graph.node[0].name = "the node"
    model.graph.node[0].output[0] = model.graph.output[0].name = "the output"
    model.metadata_props.add(key="the metadata", value="x")
    model.doc_string = "the documentation"
    data = model.SerializeToString()
    path = tmp_path / "model.onnx"
    name = f"the {field}".encode()
    path.write_bytes(data.replace(name, b"\xff" * len(name)))
    for read in (lambda: fold(path, calibrator()), lambda: calibrator_of(path)):
        with pytest.raises(rp.FileFormatError, match=r"model.onnx' must have names in UTF-8. Got"):
            read()
    with pytest.raises(FoldError, match=r"`model` must have names in UTF-8. Got"):
        fold(onnx.ModelProto.FromString(path.read_bytes()), calibrator())
    out = tmp_path / "out.onnx"  # such a file is replaced like any other
    out.write_bytes(path.read_bytes())
    fold(gemm_model(), calibrator(), output=out)
    verify(gemm_model(), out, calibrator())


def test_class_names_that_are_not_utf8():
    model = text(
        """m (float[N, 5] x) => (float[N, 5] p, int64[N] label) {
            p = Softmax(x)
            label = ArgMax <axis = 1, keepdims = 0> (p)
        }"""
    )
    names = numpy_helper.from_array(np.array(list("abcde"), object), "names")
    names.string_data[2] = b"\xff"
    model.graph.initializer.append(names)
    model.graph.node.append(helper.make_node("Gather", ["names", "label"], ["name"]))
    model.graph.output.append(helper.make_tensor_value_info("name", 8, ["N"]))
    with pytest.raises(FoldError, match=r"must have texts in UTF-8. Got b'\\xff' in the tensor"):
        fold(model, calibrator(kind="probs"))


def test_nodes_that_read_each_other():
    model = gemm_model()
    model.graph.node.append(helper.make_node("Identity", ["c2"], ["c1"]))
    model.graph.node.append(helper.make_node("Identity", ["c1"], ["c2"]))
    model.graph.output.append(helper.make_tensor_value_info("c1", 1, ["N", 5]))
    with pytest.raises(FoldError, match="must be a graph without cycles"):
        fold(model, calibrator())


def test_a_bias_behind_a_long_chain():
    model, n = gemm_model(), 1500
    (gemm,) = (node for node in model.graph.node if node.op_type == "Gemm")
    bias, gemm.input[2] = gemm.input[2], f"b{n}"
    names = [bias, *(f"b{i + 1}" for i in range(n))]
    nodes = [*(helper.make_node("Identity", [a], [b]) for a, b in pairwise(names))]
    nodes += model.graph.node
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    assert verify(model, fold(model, calibrator()), calibrator()).wrong_labels == 0


def with_functions(**calls):
    """Return a model with functions of one input and output, each a chain of calls."""
    model = gemm_model()
    opsets = [helper.make_opsetid("d", 1), helper.make_opsetid("", 17)]
    for name, callees in calls.items():
        nodes = [
            helper.make_node(
                callee, [f"t{i}"], [f"t{i + 1}"], domain="" if callee == "Identity" else "d"
            )
            for i, callee in enumerate(callees)
        ]
        output = f"t{len(callees)}"
        model.functions.append(helper.make_function("d", name, ["t0"], [output], nodes, opsets))
    model.opset_import.append(helper.make_opsetid("d", 1))
    model.graph.node.append(helper.make_node(next(iter(calls)), ["z"], ["q"], domain="d"))
    model.graph.output.append(helper.make_tensor_value_info("q", 1, ["N", 5]))
    return model


@pytest.fixture
def no_inliner(monkeypatch):
    """Fail where a model reaches ``onnx.inliner``, whose older versions end the interpreter."""

    def fail(model):
        pytest.fail("the model reached onnx.inliner")

    monkeypatch.setattr("onnx.inliner.inline_local_functions", fail)


@pytest.mark.parametrize(
    "calls",
    [
        {"F": ["F"]},
        {"F": ["Identity", "G"], "G": ["F"]},
        {"F": ["G"], "G": ["H"], "H": ["Identity", "G"]},
    ],
)
def test_functions_that_call_themselves(no_inliner, calls):
    model = with_functions(**calls)
    with pytest.raises(FoldError, match=r"^`model` must have no function that calls itself. Got '"):
        fold(model, calibrator())
    with pytest.raises(FoldError, match=r"^`original` must have no function that calls itself"):
        verify(model, gemm_model(), calibrator())
    with pytest.raises(FoldError, match=r"^`folded` must have no function that calls itself"):
        verify(gemm_model(), model, calibrator())


def test_a_function_that_calls_itself_in_a_branch(no_inliner):
    model = with_functions(F=["Identity"])
    call = helper.make_node("F", ["t0"], ["r"], domain="d")
    output = helper.make_tensor_value_info("r", 1, None)
    branch = helper.make_graph([call], "branch", [], [output])
    node = helper.make_node("If", ["t0"], ["s"], then_branch=branch, else_branch=branch)
    model.functions[0].node.append(node)
    with pytest.raises(FoldError, match=r"must have no function that calls itself. Got 'F'"):
        fold(model, calibrator())


def test_functions_that_call_each_other_too_deep(no_inliner):
    calls = {f"F{i}": [f"F{i + 1}"] for i in range(100)}
    model = with_functions(**calls, F100=["Identity"])
    with pytest.raises(FoldError, match=r"at most 100 deep. Got a depth of 101"):
        fold(model, calibrator())


@pytest.mark.parametrize("n", [20, 90])
def test_functions_that_are_too_large_once_inlined(no_inliner, n):
    calls = {f"F{i}": [f"F{i + 1}"] * 2 for i in range(n)}
    model = with_functions(**calls, **{f"F{n}": ["Identity"]})
    with pytest.raises(FoldError, match=r"at most 1,000,000 nodes once its functions are"):
        fold(model, calibrator())


def test_functions_that_call_each_other_are_inlined():
    model = with_functions(F=["G", "H"], G=["H", "Identity"], H=["Identity"])
    folded = fold(model, calibrator())
    assert verify(model, folded, calibrator()).wrong_labels == 0


def test_a_model_that_is_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "model.onnx")
    with pytest.raises(rp.FileFormatError, match=r"must be an ONNX model. It is no regular file"):
        fold(tmp_path / "model.onnx", calibrator())


def test_a_model_of_more_than_protobuf_reads_is_not_read(tmp_path):
    path = tmp_path / "model.onnx"
    path.touch()
    os.truncate(path, 1 << 40)  # a sparse file
    with pytest.raises(rp.FileFormatError, match=r"an ONNX model, in at most 2,147,483,647 bytes"):
        fold(path, calibrator())
    fold(gemm_model(), calibrator(), output=path)  # such a file is replaced like any other
    verify(gemm_model(), path, calibrator())


def test_two_calibrators_in_one_model_are_refused():
    model = fold(gemm_model(), calibrator())
    model.metadata_props.add(key="reprior.calibrator", value="{}")
    with pytest.raises(rp.FileFormatError, match=r"must have 'reprior\.calibrator' once"):
        calibrator_of(model)


MUTATE = """
import random
import sys
import warnings

import onnx
import reprior as rp
from reprior.onnx import calibrator_of, fold
from tests.support.onnx_models import calibrator, full_model, gemm_model

warnings.simplefilter("ignore")
correction = calibrator()
models = [full_model(), gemm_model(), fold(gemm_model(), correction)]
valid = [model.SerializeToString() for model in models]
rng = random.Random(int(sys.argv[1]))
path = "model.onnx"
refused = 0
for case in range(int(sys.argv[2])):
    data = bytearray(rng.choice(valid))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[at] = rng.choice([0, 127, 128, 255])
            case 1:
                data[at] ^= 1 << rng.randrange(8)
            case 2:
                del data[at : at + rng.randint(1, 8)]
            case 3:
                data[at:at] = rng.randbytes(rng.randint(1, 4))
    with open(path, "wb") as file:
        file.write(data)
    for use in (lambda: fold(path, correction), lambda: calibrator_of(path)):
        try:
            use()
        except rp.RepriorError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"case {case}") from error
print(refused)
"""


def test_mutated_models_are_refused_in_a_sentence(tmp_path):
    done = ended(
        [sys.executable, "-X", "faulthandler", "-c", MUTATE, "0", "200"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ROOT},
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100
