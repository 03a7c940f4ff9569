"""What is loaded when: neither the compiler nor any other heavy package before it is needed."""

import json

import pytest

import likewise as lw
from tests.support.looping import each
from tests.support.programs import run_python

DECISIONS = ("Rule", "Monitor", "Verdict", "Verdicts", "Witness", "Witnesses")
QUESTIONS = ("Calibration", "calibrate")
ERRORS = ("LikewiseError", "errors")
MOST_NAMES = 40
PUBLIC = (*DECISIONS, *QUESTIONS, *ERRORS, "__version__")


def modules_after(code: str) -> set[str]:
    listing = run_python("-c", f"{code}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))")
    return set(json.loads(listing.stdout.splitlines()[-1]))


COMPILER = ("numba", "llvmlite", "scipy")
MODELS = ("wordllama", "onnxruntime", "torch", "PIL", "tokenizers", "sentence_transformers")
FILES = ("polars", "pyarrow", "sklearn")
ENGINE = tuple(f"likewise.search.{room}" for room in ("kernels", "engine", "indexes"))
LIGHT = {
    "dir": ("import likewise; dir(likewise)", COMPILER),
    "a monitor": (
        "import likewise as lw; lw.Monitor(lw.Rule('linf', 1)).observe([0.0], 'a')",
        ("jinja2", "markupsafe", "likewise.search.kernels.nearest"),
    ),
    "models that are declared": (
        "import likewise as lw\nlw.Rule('l2', 1, embed='wordllama'), lw.Embedder('onnx:m.onnx')",
        ("numpy", *MODELS),
    ),
    "a function that is watched": (
        "import likewise as lw\n"
        "watched = lw.watch(lambda x: 1, lw.Rule('linf', 1))\n"
        "watched([0.0])\n"
        "assert watched.counts.decisions == 1",
        ("sklearn", "torch"),
    ),
    "a rule that is proposed": (
        "import likewise as lw\n"
        "rows = [{'income': i / 7, 'granted': 'yes' if i % 2 else 'no'} for i in range(50)]\n"
        "assert 'income' in lw.propose_rule(rows, output='granted').rule.features",
        FILES,
    ),
    "a client": (
        "import likewise as lw\n"
        "client = lw.connect('http://127.0.0.1:9')\n"
        "lw.client.AsyncClient, lw.Head, lw.Verification",
        ("numba", "llvmlite", "likewise.monitor.monitor", *ENGINE),
    ),
} | {
    f"the command {' '.join(arguments)}": (
        f"from likewise.cli import main\nmain({arguments!r})\nprint()",
        ("numpy", *COMPILER, *FILES),
    )
    for arguments in (["--version"], ["--help"], ["audit", "--help"], ["ordit"])
}
LIGHT["the module as the command"] = (
    "import runpy, sys\n"
    "sys.argv = ['likewise', '--version']\n"
    "try:\n"
    "    runpy.run_module('likewise', run_name='__main__', alter_sys=True)\n"
    "except SystemExit as done:\n"
    "    assert not done.code, done.code",
    COMPILER,
)


@pytest.mark.parametrize(("code", "heavy"), LIGHT.values(), ids=LIGHT)
def test_what_needs_no_heavy_package_loads_none(code, heavy):
    modules = modules_after(code)
    assert "likewise" in modules
    assert not {name for name in modules if name.startswith(heavy)}


def test_the_module_is_the_command():
    assert run_python("-m", "likewise", "--version").stdout == f"likewise {lw.__version__}\n"


def test_public_names_are_few():
    assert len(lw.__all__) <= MOST_NAMES


@each("name", PUBLIC)
def test_public_name_is_there_and_listed(name):
    assert getattr(lw, name) is not None
    assert name in dir(lw)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Moniter"):
        lw.Moniter  # noqa: B018


def test_import_loads_no_numpy_and_little_else():
    bare = modules_after("")
    modules = modules_after("import likewise") - bare
    assert "numpy" not in modules
    assert len(modules) < 40, sorted(modules)
