"""`import likewise` is light: the compiler is loaded when a kernel is first used, not before."""

import json
import subprocess
import sys

import pytest

import likewise as lw
from tests.support.looping import each

DECISIONS = ("Rule", "Monitor", "Verdict", "Verdicts", "Witness", "Witnesses")
QUESTIONS = ("Calibration", "calibrate")
ERRORS = ("LikewiseError", "errors")
MOST_NAMES = 40
PUBLIC = (*DECISIONS, *QUESTIONS, *ERRORS, "__version__")
HEAVY = {"numba", "llvmlite", "scipy"}


def python(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def modules_after(code: str) -> set[str]:
    listing = python("-c", f"{code}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))")
    return set(json.loads(listing.splitlines()[-1]))


@pytest.mark.parametrize("code", ["import likewise", "import likewise; dir(likewise)"])
def test_import_loads_no_compiler(code):
    modules = modules_after(code)
    assert "likewise" in modules
    assert not modules & HEAVY


def test_version_on_the_command_line_loads_no_compiler():
    code = (
        "import runpy, sys\n"
        "sys.argv = ['likewise', '--version']\n"
        "try:\n"
        "    runpy.run_module('likewise', run_name='__main__', alter_sys=True)\n"
        "except SystemExit as done:\n"
        "    assert not done.code, done.code"
    )
    assert not modules_after(code) & HEAVY


def test_version_on_the_command_line_is_the_version_of_the_library():
    assert lw.__version__ in python("-m", "likewise", "--version").split()


def test_monitor_alone_does_not_load_what_hunts():
    code = "import likewise; likewise.Monitor(likewise.Rule('linf', 1))"
    assert not {name for name in modules_after(code) if "nearest" in name or "hunt" in name}


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
