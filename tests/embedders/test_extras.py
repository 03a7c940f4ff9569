"""What is missing is named, with the line that installs it; what is there works as ever."""

from tests.support.programs import run_python

EXTRAS = {
    "wordllama": ("wordllama", "wordllama", "wordllama"),
    "sentence-transformers:m": (
        "sentence_transformers",
        "sentence-transformers",
        "sentence-transformers",
    ),
    "onnx:m.onnx": ("onnxruntime", "onnxruntime", "onnx"),
    "torch:m:f": ("torch", "torch", "torch"),
}

MISSING = """
import sys

import likewise as lw

for asked in sys.argv[1:]:
    module, name = asked.split(" ")
    sys.modules[module] = None  # as if it were not installed
    try:
        lw.Monitor(lw.Rule("l2", 1, embed=name))
    except lw.errors.BadRule as error:
        print(error)
"""

NO_PILLOW = """
import sys

sys.modules["PIL"] = None
import numpy as np
import likewise as lw

embed = lambda batch: np.stack([one.reshape(-1)[:2] for one in batch]).astype(float)
feature = lw.Feature("image", embed=lw.Embedder(embed, shape=[2, 2]), tolerance=1)
monitor = lw.Monitor(lw.Rule("l2", features={"p": feature}, output_column="z"))
print(monitor.observe({"p": np.zeros((2, 2)), "z": 1}).row)
try:
    monitor.observe({"p": b"a file", "z": 1})
except lw.errors.BadDecision as error:
    print(error)
"""


def printed(code, *arguments):
    done = run_python("-c", code, *arguments)
    return done.stdout.splitlines()


def test_a_missing_package_is_named_with_the_line_that_installs_it():
    asked = [f"{module} {name}" for name, (module, _, _) in EXTRAS.items()]
    assert printed(MISSING, *asked) == [
        f"embed is {name!r}, which needs the package {package}, and that is not installed."
        f" Install it with: pip install '.[{extra}]' in the clone of likewise"
        for name, (_, package, extra) in EXTRAS.items()
    ]


def test_files_of_pictures_need_pillow_and_arrays_do_not():
    row, refusal = printed(NO_PILLOW)
    assert row == "0"
    assert refusal.startswith("row 0: 'p' is no picture: reading a file needs the package Pillow")
    assert "pip install '.[images]' in the clone of likewise" in refusal
