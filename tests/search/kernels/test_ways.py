"""Kernels one by one, compiled by Numba and as plain Python; all libraries give the same bits.

Plain is how a kernel is debugged and how coverage sees it. Compiled at run time is how other
processors have it. Neither is what this process uses, so each has one of its own.
"""

import json
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from likewise.search.kernels import building, native
from likewise.search.kernels.building import linker
from likewise.search.kernels.compile import way
from tests.support.programs import run_python

HERE = Path(__file__).parent
V3, V2 = native.LEVELS["x86-64-v3"], native.LEVELS["x86-64-v2"]
WAYS = {"plain": {"NUMBA_DISABLE_JIT": "1"}, "jit": {"LIKEWISE_KERNELS": "jit"}}


JIT_LINE = (
    "likewise: Numba is compiling kernels, once on this machine; this takes up to a minute ..."
)


def run(arguments: list[str], **settings: str) -> subprocess.CompletedProcess[str]:
    plain = {"NUMBA_DISABLE_JIT": "0", "LIKEWISE_KERNELS": "", "PYTHONWARNINGS": "ignore"}
    return run_python(
        *arguments,
        code=None,
        timeout=900,
        cwd=HERE.parents[2],
        env={**os.environ, **plain, **settings},
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


@pytest.fixture
def copied(tmp_path):
    """A copy of the package, for builds that nobody else sees."""
    if not native.levels_here() or linker(native.levels_here()[0]) is None:
        pytest.skip("no kernels can be built here: no Linux, another processor or no linker")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(native.HERE.parents[1], tmp_path / "likewise", ignore=ignored)
    return tmp_path


@pytest.mark.long
@pytest.mark.skipif(way != "native", reason="this is such a run")
@pytest.mark.early
@pytest.mark.xdist_group("kernels by Numba")
def test_every_level_gives_the_bits_that_numba_gives(copied):
    """Verdicts, slopes and calibration of long lives, by a digest of all numbers in them."""
    program, here = str(HERE / "lives.py"), {"PYTHONPATH": str(copied)}
    with ThreadPoolExecutor(1) as beside:
        by_numba = beside.submit(run, [program], LIKEWISE_KERNELS="jit")
        built = run(["-m", "likewise.search.kernels.building", "--level", "here"], **here)
    assert built.returncode == 0, built.stderr
    expected = by_numba.result()
    assert expected.returncode == 0, expected.stderr
    told = json.loads(expected.stdout)
    assert told["way"] == "jit" and len(told["lives"]) >= 20
    assert all(found > 0 for found, _ in told["lives"].values()), "a life that found nothing"
    for level in native.levels_here():
        done = run([program], LIKEWISE_KERNELS=level, **here)
        assert (done.returncode, done.stderr) == (0, ""), level
        assert json.loads(done.stdout) == {**told, "way": "native"}, level


def test_libraries_need_nothing_but_c():
    level = next(iter(native.levels_here()), None)
    if level is None or not native.library_path(level, "decide").exists():
        pytest.skip("there are no libraries")
    for name in native.ENTRIES:
        text = native.library_path(level, name).read_bytes()
        assert f"likewise_{name}\0".encode() in text
        assert b"numba" not in text and b"Py_" not in text and b"NRT_" not in text


@pytest.mark.long
@pytest.mark.skipif(way != "native", reason="nothing is built")
def test_a_missing_library_is_built_by_the_first_call_which_says_so(copied):
    level = native.levels_here()[0]
    (there,) = (copied / "likewise/search/kernels/built" / level).glob("erase_rows-*.so")
    there.unlink()
    code = (
        "import likewise as lw\n"
        "monitor = lw.Monitor(lw.Rule('linf', 1))\n"
        "monitor.observe([0.0], 'a')\n"
        "print(monitor.forget([0]))\n"
        "monitor.forget([0])\n"
        "print(lw.__file__)"
    )
    for lines in (3, 0):  # the next process finds it
        done = run(["-c", code], PYTHONPATH=str(copied))
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[0] == "1" and str(copied) in done.stdout
        assert len(done.stderr.splitlines()) == lines, done.stderr
        assert ("compiling erase_rows" in done.stderr) == bool(lines)
    assert there.exists()


@pytest.mark.long
@pytest.mark.xdist_group("kernels by Numba")
def test_compiling_at_run_time_is_said_once(tmp_path):
    code = (
        "from likewise.search.kernels.jit import compile_entry\nfor name in {}: compile_entry(name)"
    )
    program = code.format(("erase_rows", "take_from_blocks"))
    settings = {"LIKEWISE_KERNELS": "jit", "NUMBA_CACHE_DIR": str(tmp_path)}
    assert run(["-c", program], **settings).stderr.splitlines() == [JIT_LINE]
    assert run(["-c", program], **settings).stderr == ""  # found on disk


def test_entries_are_dealt_out_so_that_all_processes_end_together():
    work = [("v3", name) for name in native.ENTRIES]
    shares = building._deal(work, 2)
    assert sorted(name for _, names in shares for name in names) == sorted(native.ENTRIES)
    taken = [building._seconds(names) for _, names in shares]
    assert len(taken) == 2 and max(taken) < 1.1 * min(taken)
    several = building._deal([*work, *(("v2", name) for name in native.ENTRIES)], 2)
    assert [level for level, _ in several] == ["v3", "v2"]


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


def test_a_mark_is_of_the_text_that_an_entry_is_made_of(tmp_path, monkeypatch):
    for path in native.HERE.glob("*.py"):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(native, "HERE", tmp_path)

    def marks():
        native.text_mark.cache_clear()
        return {name: native.text_mark(name) for name in native.ENTRIES}

    try:
        first = marks()
        with (tmp_path / "flat.py").open("a") as file:
            file.write("# more\n")
        assert {name for name, mark in marks().items() if mark != first[name]} == {"flat"}
        second = marks()
        with (tmp_path / "distance.py").open("a") as file:  # which others import
            file.write("# more\n")
        changed = {name for name, mark in marks().items() if mark != second[name]}
        assert {"decide", "flat", "search_best"} <= changed and "take_from_blocks" not in changed
    finally:
        monkeypatch.undo()
        native.text_mark.cache_clear()


def test_marks_follow_every_import_of_a_kernel():
    """A module that an entry loads and its mark leaves out would keep an old library in use."""
    prefix = "likewise.search.kernels."
    known = f"import sys; print(*(m for m in sys.modules if m.startswith({prefix!r})))"
    for name, module in native.ENTRIES.items():
        done = run(
            ["-c", f"import likewise.search.kernels.{module}\n{known}"], NUMBA_DISABLE_JIT="1"
        )
        loaded = {one.rpartition(".")[2] for one in done.stdout.split()} - {"native"}
        assert loaded <= set(native.sources(name)), name


def test_an_unknown_way_is_an_error_that_says_so():
    done = run(["-c", "import likewise.search.kernels.compile"], LIKEWISE_KERNELS="fast")
    assert done.returncode == 1
    assert "LIKEWISE_KERNELS is 'fast'; expected jit, or one of x86-64-v4" in done.stderr
