"""`python -m benchmarks.paper`: run every cell that has no result yet, then write docs/paper.md.

Results are kept in build/paper.json as they come, so a run that was stopped goes on where it was.
A result counts as long as the code that it measured is the same (plan.py).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import measure, processes, workloads
from benchmarks.paper import page
from benchmarks.paper.plan import Cell, fingerprint, plan

KEPT = processes.ROOT / "build" / "paper.json"


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    parser.add_argument("--only", default="", help="cells whose key contains this, and no page")
    parser.add_argument("--page", action="store_true", help="write the page from what there is")
    parser.add_argument("--afresh", action="store_true", help="forget earlier results")
    parser.add_argument("--out", type=Path, default=processes.ROOT / "docs")
    return parser.parse_args(words)


class Results:
    """What each cell gave, on disk after every cell."""

    def __init__(self, path: Path, code: str, *, afresh: bool) -> None:
        self.path, self.code = path, code
        kept = {} if afresh or not path.is_file() else json.loads(path.read_text())
        same = kept.get("code") == code
        self.machine = measure.machine()
        self.cells: dict[str, Any] = kept["cells"] if same else {}

    def keep(self, cell: Cell, result: dict[str, Any]) -> None:
        self.cells[cell.key] = result
        self.path.parent.mkdir(exist_ok=True)
        text = json.dumps({"code": self.code, "machine": self.machine, "cells": self.cells})
        beside = self.path.with_suffix(".part")
        beside.write_text(text)
        beside.replace(self.path)


def run(cell: Cell) -> dict[str, Any]:
    start = time.perf_counter()
    env = {} if cell.timed else {"OMP_NUM_THREADS": "1"}
    result = processes.call(f"benchmarks.paper.cells:{cell.work}", cell.given, env=env)
    result["seconds"] = round(time.perf_counter() - start, 1)
    return result


def run_all(cells: list[Cell], results: Results) -> list[str]:
    """Timed cells one by one, the others two at a time. What failed."""
    begin, failed = time.perf_counter(), []
    done = 0

    def finish(cell: Cell) -> None:
        nonlocal done
        try:
            result = run(cell)
        except RuntimeError as error:
            failed.append(f"{cell.key}: {error}")
            told = "FAILED"
        else:
            results.keep(cell, result)
            told = f"{result['seconds']} s"
        done += 1
        minutes = (time.perf_counter() - begin) / 60
        print(f"[{done}/{len(cells)}, {minutes:.1f} min] {cell.key}: {told}", file=sys.stderr)

    for cell in cells:
        if cell.timed:
            finish(cell)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(finish, [cell for cell in cells if not cell.timed]))
    return failed


def main(words: list[str] | None = None) -> int:
    chosen = arguments(words)
    if workloads.data_folder() is None:
        print(
            "make paper needs the folder of real data: set LIKEWISE_DATA to it, or put it at"
            " ../shared/data beside the checkout.",
            file=sys.stderr,
        )
        return 2
    results = Results(KEPT, fingerprint(processes.ROOT), afresh=chosen.afresh)
    cells = [cell for cell in plan() if chosen.only in cell.key]
    left = [cell for cell in cells if cell.key not in results.cells]
    failed = []
    if not chosen.page:
        print(f"{len(left)} of {len(cells)} cells to run", file=sys.stderr)
        failed = run_all(left, results)
        for line in failed:
            print(line, file=sys.stderr)
    if chosen.page or not (chosen.only or failed):
        shown = {cell.key: results.cells[cell.key] for cell in plan()}
        page.write(chosen.out, shown, results.machine)
        print(f"wrote {chosen.out / 'paper.md'}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
