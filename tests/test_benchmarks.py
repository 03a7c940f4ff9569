"""The benchmark harness, on made-up rows and without peers: it measures what it says, and finds.

Times mean nothing at these sizes and are not looked at; answers are.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = str(Path(__file__).resolve().parents[1])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from benchmarks import bars, oracle, report, workloads  # noqa: E402
from benchmarks.__main__ import ask  # noqa: E402
from benchmarks.answer import Setting  # noqa: E402
from benchmarks.contenders import Question  # noqa: E402

ALONE = ("higgs", "single", "arrivals", "growth", "threads", "load", "labels")


@pytest.fixture(scope="module")
def setting() -> Setting:
    return Setting(source=workloads.generated(), scale=0.002, rounds=1)


@pytest.fixture(scope="module")
def answers(setting: Setting) -> dict:
    return {name: ask(name, setting) for name in ALONE}


@pytest.mark.parametrize("name", ALONE)
def test_question_is_answered_and_checked(answers, name):
    answer = answers[name]
    if "skipped" in answer:  # only threads may: it needs two cores
        assert name == "threads"
        pytest.skip(answer["skipped"])
    assert "failed" not in answer, answer["failed"]
    assert answer["checks"], "a measurement nobody checked"
    assert all(table["rows"] for table in answer["tables"].values())


def test_workloads_find_violations(answers):
    found = [row["pairs"] for row in answers["higgs"]["tables"]["contenders"]["rows"]]
    assert found[2] > 0, "1M × 12 at the widest radius found nothing"
    assert answers["single"]["tables"]["single"]["rows"][0]["pairs"] > 0
    assert answers["labels"]["tables"]["labels"]["rows"][-1]["many_pairs"] > 0


def test_bars_of_a_shrunk_run_are_never_reached(answers):
    judged = bars.judge(answers)
    assert any(bar["value"] is not None for bar in judged)
    assert all(bar["reached"] is None and bar["why_not"] for bar in judged)


def test_bars_say_reached_or_not_at_full_scale():
    rows = [{"threads": 1, "speedup": 1.0}, {"threads": 2, "speedup": 1.4}]
    answer = {"scale": 1, "tables": {"threads": {"rows": rows}}}
    (bar,) = (b for b in bars.judge({"threads": answer}) if b["bar"].startswith("two threads"))
    assert (bar["value"], bar["reached"]) == (1.4, False)
    rows[1]["speedup"] = 1.5
    (bar,) = (b for b in bars.judge({"threads": answer}) if b["bar"].startswith("two threads"))
    assert bar["reached"] is True


def test_report_leaves_the_prose_around_the_markers(answers, tmp_path):
    page = tmp_path / "benchmarks.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n", encoding="utf-8")
    machine = {"processor": "p", "cores": 2, "memory_gb": 1.0, "system": "s", "python": "3"}
    found = report.save(tmp_path, {**machine, "versions": {"numpy": "2"}}, answers)
    report.publish(tmp_path, found)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("\nafter\n")
    assert "old" not in text.splitlines()
    assert "| 1M × 12, L∞ ε 0.01" in text
    assert json.loads((tmp_path / "benchmarks.json").read_text(encoding="utf-8")) == found


def test_a_failed_check_is_reported_as_a_failure(setting, monkeypatch):
    monkeypatch.setattr(oracle, "witnesses", lambda *_: np.array([1]))
    assert ask("growth", setting)["failed"].startswith("Mismatch")


def test_missing_data_skips_the_question():
    answer = ask("acs", Setting(source=None))
    assert "was not found" in answer["skipped"]


def test_longer_stream_begins_with_the_shorter_one():
    source = workloads.generated()
    points, outputs = source.rows(300, 12)
    more, more_outputs = source.rows(500, 24)
    assert np.array_equal(points, more[:300, :12])
    assert np.array_equal(outputs, more_outputs[:300])
    fresh, _ = source.rows(300, 12, workloads.FRESH)
    assert not np.array_equal(points, fresh)


def test_oracle_keeps_the_boundary_and_drops_equal_outputs():
    question = Question("linf", 0.25, slack=0.0)
    points = np.array([[0.0], [0.25], [0.5], [0.75]])
    outputs = np.array([0, 1, 1, 1])
    rows = oracle.witnesses(question, points, outputs, np.array([0.25]), 0)
    assert rows.tolist() == [1, 2]
