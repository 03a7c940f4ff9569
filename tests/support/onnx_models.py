"""ONNX models made for the tests, each beside what it does in NumPy."""

from pathlib import Path

import numpy as np

from tests.support.lazily import onnx, tokenizers

OPSET, IR = 17, 8  # old enough for every runtime that may be installed

WORDS = ["[UNK]", "[PAD]", "like", "cases", "should", "be", "treated", "alike", "red", "blue", "."]


def _save(path, nodes, inputs, outputs, constants):
    graph = onnx.helper.make_graph(
        nodes,
        "made for a test",
        [onnx.helper.make_tensor_value_info(*one) for one in inputs],
        [onnx.helper.make_tensor_value_info(*one) for one in outputs],
        [onnx.numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)])
    model.ir_version = IR
    onnx.checker.check_model(model)
    onnx.save(model, str(path))
    return Path(path)


def picture_model(path, shape, *, width=5, seed=0, fixed=True, kind="FLOAT", many="n"):
    """All of a picture times a matrix; a second output has it doubled. The matrix comes back."""
    size = int(np.prod(shape))
    matrix = np.random.default_rng(seed).normal(size=(size, width)).astype(np.float32)
    given = list(shape) if fixed else [f"d{i}" for i in range(len(shape))]
    nodes = [
        onnx.helper.make_node("Cast", ["x"], ["as_float"], to=onnx.TensorProto.FLOAT),
        onnx.helper.make_node("Reshape", ["as_float", "flat"], ["long"]),
        onnx.helper.make_node("MatMul", ["long", "matrix"], ["y"]),
        onnx.helper.make_node("Add", ["y", "y"], ["doubled"]),
    ]
    _save(
        path,
        nodes,
        [("x", onnx.TensorProto.DataType.Value(kind), [many, *given])],
        [
            ("y", onnx.TensorProto.FLOAT, [many, width]),
            ("doubled", onnx.TensorProto.FLOAT, [many, width]),
        ],
        {"flat": np.array([-1, size]), "matrix": matrix},
    )
    return matrix


def convolution(path, *, seed=0):
    """3 channels by a 2 x 2 window into 4, then the mean of each over the picture."""
    kernel = np.random.default_rng(seed).normal(size=(4, 3, 2, 2)).astype(np.float32)
    nodes = [
        onnx.helper.make_node("Conv", ["x", "kernel"], ["seen"]),
        onnx.helper.make_node("GlobalAveragePool", ["seen"], ["pooled"]),
        onnx.helper.make_node("Flatten", ["pooled"], ["y"]),
    ]
    _save(
        path,
        nodes,
        [("x", onnx.TensorProto.FLOAT, ["n", 3, "h", "w"])],
        [("y", onnx.TensorProto.FLOAT, ["n", 4])],
        {"kernel": kernel},
    )
    return kernel


def convolved(kernel, picture):
    """The twin of `convolution` for one picture, channels first."""
    _, height, width = picture.shape
    seen = np.zeros((4, height - 1, width - 1))
    for i in range(height - 1):
        for j in range(width - 1):
            window = picture[:, i : i + 2, j : j + 2].astype(float)
            seen[:, i, j] = (kernel.astype(float) * window).sum(axis=(1, 2, 3))
    return seen.mean(axis=(1, 2))


def text_model(path, *, width=6, seed=0, inputs=("input_ids", "attention_mask"), pooled=False):
    """A vector for each word, from a table, times its mask; the table comes back."""
    table = np.random.default_rng(seed).normal(size=(len(WORDS), width)).astype(np.float32)
    nodes = [onnx.helper.make_node("Gather", ["table", "input_ids"], ["words"])]
    last = "words"
    if "attention_mask" in inputs:
        nodes += [
            onnx.helper.make_node("Cast", ["attention_mask"], ["mask"], to=onnx.TensorProto.FLOAT),
            onnx.helper.make_node("Unsqueeze", ["mask", "axis"], ["each"]),
            onnx.helper.make_node("Mul", ["words", "each"], ["masked"]),
        ]
        last = "masked"
    if pooled:
        nodes.append(onnx.helper.make_node("ReduceMax", [last], ["y"], axes=[1], keepdims=0))
    else:
        nodes.append(onnx.helper.make_node("Identity", [last], ["y"]))
    shape = ["n", width] if pooled else ["n", "words_of_it", width]
    _save(
        path,
        nodes,
        [(one, onnx.TensorProto.INT64, ["n", "words_of_it"]) for one in inputs],
        [("y", onnx.TensorProto.FLOAT, shape)],
        {"table": table, "axis": np.array([2])} if "attention_mask" in inputs else {"table": table},
    )
    return table


def tokenizer(path):
    """Words by their place in WORDS, split at blanks and full stops."""
    words = {word: i for i, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.enable_padding(pad_id=words["[PAD]"], pad_token="[PAD]")
    made.save(str(path))
    return Path(path)


def tokens(text):
    """The twin of `tokenizer`."""
    apart = text.replace(".", " . ").split()
    return [WORDS.index(word) if word in WORDS else 0 for word in apart]
