"""The Python calls that one decision takes inside likewise, on every path people use.

A path grows back unnoticed, a helper at a time. So the numbers are bounds, as Python 3.11 counts,
where a comprehension is a call; later versions count fewer.
"""

import statistics
import struct
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import likewise as lw
from tests.support.commands import installed
from tests.support.rule_texts import rule_text
from tests.support.serving import serving

ROOT = str(Path(lw.__file__).parent)
RULE = rule_text({"age": 5, "job": "category"}, output={"column": "z"})
COUNTER = """
import mmap, os, struct, sys, threading
_shared = mmap.mmap(os.open(os.environ["LIKEWISE_CALLS"], os.O_RDWR), 8)
_calls = 0
def _count(frame, event, argument):
    global _calls
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(os.environ["LIKEWISE_ROOT"]):
        _calls += code.co_name != "<module>"
        _shared[:] = struct.pack("q", _calls)
threading.setprofile(_count)
sys.setprofile(_count)
"""


def decision(k):
    return {"age": 30 + k % 9, "job": "xyz"[k % 3], "z": "yn"[k % 2]}


def count_calls(step, warm=30, times=15):
    """Return the median number of calls inside likewise of one step, once it is warm."""
    for k in range(warm):
        step(k)
    counts = []

    def count(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            counts[-1] += 1

    before = sys.getprofile()
    threading.setprofile(count)
    try:
        for k in range(warm, warm + times):
            counts.append(0)
            sys.setprofile(count)
            step(k)
            sys.setprofile(before)
    finally:
        threading.setprofile(None)
        sys.setprofile(before)
    return statistics.median(counts)


def test_decision_in_memory_takes_few_calls():
    points = np.arange(200.0).reshape(100, 2)  # far apart: nothing is near
    vectors, lists = lw.Monitor(lw.Rule("linf", 0.1)), lw.Monitor(lw.Rule("linf", 0.1))
    table = lw.Monitor(lw.Rule.from_toml(RULE))
    assert count_calls(lambda k: vectors.observe(points[k], "ab"[k % 2])) <= 7
    assert count_calls(lambda k: lists.observe(points[k].tolist(), "ab"[k % 2])) <= 11
    assert count_calls(lambda k: table.observe(decision(k))) <= 40


def test_durable_decision_takes_few_calls(tmp_path):
    points = np.arange(200.0).reshape(100, 2)
    with lw.open(tmp_path / "vectors", lw.Rule("linf", 0.1)) as vectors:
        calls = count_calls(lambda k: vectors.observe(points[k], "ab"[k % 2], key=f"k{k}"))
        assert calls <= 105
    with lw.open(tmp_path / "table", lw.Rule.from_toml(RULE)) as table:
        assert count_calls(lambda k: table.observe(decision(k), key=f"k{k}")) <= 130


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """Have every Python that is started count its calls; read how many there were."""
    (tmp_path / "sitecustomize.py").write_text(COUNTER)
    counted = tmp_path / "calls"
    counted.write_bytes(bytes(8))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("LIKEWISE_CALLS", str(counted))
    monkeypatch.setenv("LIKEWISE_ROOT", ROOT)
    return lambda: struct.unpack("q", counted.read_bytes())[0]


@pytest.mark.long
def test_audit_takes_few_calls(tmp_path, calls):
    rng = np.random.default_rng(1)
    lines = [
        f"{rng.integers(20, 60)},{'xyz'[rng.integers(3)]},{'yn'[rng.integers(2)]}"
        for _ in range(400)
    ]
    (tmp_path / "d.csv").write_text("\n".join(["age,job,z", *lines, ""]))
    (tmp_path / "rule.toml").write_text(RULE)
    installed("audit", "d.csv", "--rule", "rule.toml", "--json", cwd=tmp_path)
    assert 100 < calls() <= 9_000


@pytest.mark.long
def test_durable_request_takes_few_calls(tmp_path, calls):
    (tmp_path / "rule.toml").write_text(RULE)
    options = ("--rule", tmp_path / "rule.toml", "--ledger", tmp_path / "ledger")
    counts = []
    with serving(*options) as server:
        for k in range(45):
            before = calls()
            assert server.post("observe", {"values": decision(k), "key": f"k{k}"}).status == 200
            time.sleep(0.05)  # until what is done after the answer is done
            counts.append(calls() - before)
    assert 50 < statistics.median(counts[30:]) <= 220
