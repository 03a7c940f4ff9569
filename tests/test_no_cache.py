"""A read-only install without a home folder: kernels are compiled in each process, with a warning.

This is how a container runs that has no writable folder but one that nobody thought of.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import likewise as lw
from tests.support.programs import run_python

MAKE = """
import warnings
import likewise as lw

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    monitor = lw.Monitor(lw.Rule("linf", 0.1))
print(lw.__file__)
print(*[f"{one.category.__name__}: {one.message}" for one in told], sep="\\n")
"""
JUDGE = """
import likewise as lw


class Everything:
    def __init__(self, space):
        self.rows = []

    def add(self, row, point):
        self.rows.append(row)

    def candidates(self, point, reach):
        return self.rows


monitor = lw.Monitor(lw.Rule("linf", 0.1), index=Everything)
monitor.observe([0.0, 0.0], "yes")
print(monitor.observe([0.0, 0.05], "no").witnesses.rows)
"""


@pytest.fixture
def installed(tmp_path):
    """A copy of the package in which nothing can be written, not even by root."""
    package = tmp_path / "site" / "likewise"
    ignore = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    shutil.copytree(Path(lw.__file__).parent, package, ignore=ignore)
    folders = [package, *(path for path in package.rglob("*") if path.is_dir())]
    for folder in folders:
        (folder / "__pycache__").touch()  # a file, so that it can be no folder
        folder.chmod(0o555)
    yield package.parent
    for folder in folders:
        folder.chmod(0o755)


def run(code: str, installed: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    hidden = ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "PYTHONPATH", "NUMBA_DISABLE_JIT")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    here = {"PYTHONPATH": str(installed), "HOME": os.devnull, "LIKEWISE_KERNELS": "jit"}
    env = {**kept, **here, **settings}
    return run_python("-c", code, code=None, cwd=installed, env=env)


@pytest.mark.long
def test_without_a_place_for_kernels_there_is_one_warning_and_no_error(installed):
    done = run(MAKE, installed)
    assert done.returncode == 0, done.stderr
    where, *told = done.stdout.splitlines()
    assert Path(where).is_relative_to(installed)
    assert len(told) == 1
    assert told[0].startswith("RuntimeWarning: ") and "NUMBA_CACHE_DIR" in told[0]


def test_with_a_place_for_kernels_there_is_no_warning(installed, tmp_path):
    done = run(MAKE, installed, NUMBA_CACHE_DIR=str(tmp_path / "kept"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == [""]


@pytest.mark.slow
def test_without_a_place_for_kernels_verdicts_are_what_they_are(installed):
    done = run(JUDGE, installed, NUMBA_OPT="0")
    assert (done.returncode, done.stdout) == (0, "[0]\n"), done.stderr
    assert done.stderr.count("NUMBA_CACHE_DIR") == 1
