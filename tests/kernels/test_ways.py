"""Kernels one by one, compiled by Numba and as plain Python; and the library gives the same bits.

Plain is how a kernel is debugged and how coverage sees it. Compiled at run time is how other
processors have it. Neither is what this process uses, so each has one of its own.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from likewise.kernels import native
from likewise.kernels.compile import way

HERE = Path(__file__).parent
V3, V2 = native.LEVELS["x86-64-v3"], native.LEVELS["x86-64-v2"]
WAYS = {"plain": {"NUMBA_DISABLE_JIT": "1"}, "jit": {"LIKEWISE_KERNELS": "jit"}}


def run(arguments: list[str], **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "NUMBA_DISABLE_JIT": "0", "LIKEWISE_KERNELS": "", **settings},
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )


ALL = sorted(path.stem for path in HERE.glob("test_*.py") if path.name != Path(__file__).name)
QUICK = ["test_distance", "test_rows", "test_sort", "test_split"]


@pytest.mark.long
@pytest.mark.skipif(way != "native", reason="this is such a run")
@pytest.mark.parametrize(
    ("name", "files", "least"),
    [
        ("plain", QUICK, 60),
        pytest.param("jit", ALL, 150, marks=pytest.mark.slow),  # .ci/run has it run
        pytest.param("plain", ALL, 150, marks=pytest.mark.slow),
    ],
)
def test_kernels_pass_the_same_tests(name, files, least, tmp_path):
    command = ["-m", "pytest", "-q", "-x", "-o", f"cache_dir={tmp_path}"]
    quiet = ["-W", "ignore::RuntimeWarning"]  # unsigned bytes wrap around on purpose
    paths = [str(HERE / f"{file}.py") for file in files]
    done = run([*command, *quiet, *paths], **WAYS[name])
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-1_000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed and int(passed[1]) >= least, done.stdout[-500:]
    assert "skipped" not in done.stdout


@pytest.mark.slow  # a minute of compiling; .ci/run has it run
def test_every_library_gives_the_bits_that_numba_gives():
    """Verdicts, slopes and calibration of long lives, by a digest of all numbers in them."""
    built = [level for level in native.levels_here() if native.library_path(level).exists()]
    if not built:
        pytest.skip("there is no library for this machine, so there is nothing to compare")
    program = str(HERE / "lives.py")
    expected = run([program], LIKEWISE_KERNELS="jit")
    assert expected.returncode == 0, expected.stderr
    told = json.loads(expected.stdout)
    assert told["way"] == "jit" and len(told["lives"]) >= 20
    assert all(found > 0 for found, _ in told["lives"].values()), "a life that found nothing"
    for level in built:
        done = run([program], LIKEWISE_KERNELS=level)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {**told, "way": "native"}, level


def test_library_has_all_entries_and_needs_nothing_but_c(tmp_path):
    built = [level for level in native.LEVELS if native.library_path(level).exists()]
    if not built:
        pytest.skip("there is no library")
    for level in built:
        text = native.library_path(level).read_bytes()
        for name in native.ENTRIES:
            assert f"likewise_{name}\0".encode() in text, f"{level} has no {name}"
        assert b"numba" not in text and b"Py_" not in text and b"NRT_" not in text


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (" ".join(native.LEVELS.values()), list(native.LEVELS)),
        (f"{V3} {V2} avx512f", ["x86-64-v3", "x86-64-v2"]),
        (V2, ["x86-64-v2"]),
        (V3, []),
        ("fpu", []),
    ],
)
def test_levels_are_those_that_the_processor_has(flags, expected, monkeypatch):
    monkeypatch.setattr(native, "_processor", lambda: frozenset(flags.split()))
    monkeypatch.setattr(native.sys, "platform", "linux")
    monkeypatch.setattr(native.platform, "machine", lambda: "x86_64")
    assert native.levels_here() == expected
    monkeypatch.setattr(native.platform, "machine", lambda: "aarch64")
    assert native.levels_here() == ["aarch64"]
    monkeypatch.setattr(native.platform, "machine", lambda: "riscv64")
    assert native.levels_here() == []


def test_what_was_built_from_other_text_is_not_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(native, "HERE", tmp_path)
    (tmp_path / "one.py").write_text("1")
    native.text_mark.cache_clear()
    try:
        assert native.load() is None
        first = native.text_mark()
        (tmp_path / "one.py").write_text("2")
        native.text_mark.cache_clear()
        assert native.text_mark() != first
    finally:
        native.text_mark.cache_clear()


def test_an_unknown_way_is_an_error_that_says_so():
    done = run(["-c", "import likewise.kernels.compile"], LIKEWISE_KERNELS="fast")
    assert done.returncode == 1
    assert "LIKEWISE_KERNELS is 'fast'; expected jit, or one of x86-64-v4" in done.stderr
