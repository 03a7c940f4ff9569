"""Small programs that need a process of their own.

`run_child` starts one and reads the JSON it prints; `python -m benchmarks.child` is one. `call`
runs any function of the harness that way, in this Python or in another one.
Invariant: a child measures itself; its parent only waits.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


NEWEST_FAISS = ROOT / ".venv-faiss" / "bin" / "python"
TORCH = ROOT / ".venv-torch" / "bin" / "python"
PROJECT = ROOT / ".venv" / "bin" / "python"


def run_child(
    *words: str, env: Mapping[str, str] | None = None, python: str = sys.executable
) -> dict[str, Any]:
    """Run one program of this file in a fresh process; what it printed."""
    done = subprocess.run(
        [python, "-m", "benchmarks.child", *words],
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the {words[0]} program ended with:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def call(
    where: str,
    given: Mapping[str, Any],
    python: str = sys.executable,
    env: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """`where` is module:function; it is given the mapping, and its answer comes back as JSON."""
    return run_child(where, json.dumps(given), python=python, env=env)


def faiss_releases() -> dict[str, str]:
    """The releases of FAISS that are here: a name for each, and the Python that has it."""
    pythons = {}
    if importlib.util.find_spec("faiss") is not None:
        pythons["pinned"] = sys.executable
    if NEWEST_FAISS.exists():
        pythons["newest"] = str(NEWEST_FAISS)
    return pythons


def memory(rows: int, columns: int, source: str) -> dict[str, Any]:
    """Bytes per decision, and whether stored rows are found again."""
    import gc

    from benchmarks import workloads
    from benchmarks.contenders import Question, warm_up
    from benchmarks.measure import rss_bytes

    folder = workloads.data_folder()
    made_up = workloads.generated()
    mix = made_up if source == made_up.name or folder is None else workloads.higgs(folder)
    points, outputs = mix.rows(rows, columns)
    question = Question("linf", 0.025)
    warm_up(question, points, outputs)
    gc.collect()
    before = rss_bytes()
    monitor = question.monitor()
    monitor.observe_many(points, outputs, threads=1)  # the verdicts are dropped at once
    gc.collect()
    grown = rss_bytes() - before
    explained = float(monitor.explain().bytes_per_decision)
    found = 0
    for i in range(0, rows, max(1, rows // 20)):
        found += i in monitor.check(points[i], 1 - int(outputs[i])).witnesses.rows
    return {
        "remembered": len(monitor),
        "witnesses": int(found),
        "explained_bytes": explained,
        "rss_bytes": grown / rows,
    }


if __name__ == "__main__":
    program, *arguments = sys.argv[1:]
    if ":" in program:
        module, _, function = program.partition(":")
        answer = getattr(importlib.import_module(module), function)(json.loads(arguments[0]))
        print(json.dumps(answer))
    else:
        print(json.dumps(memory(int(arguments[0]), int(arguments[1]), arguments[2])))
