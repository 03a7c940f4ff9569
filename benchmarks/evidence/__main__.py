"""`python -m benchmarks.evidence`: simulate, and write docs/evidence.json and docs/evidence.md."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.evidence import page, trials
from benchmarks.evidence.sources import Source, generated, real
from benchmarks.report import save_json
from benchmarks.workloads import data_folder

HALVED = "HMDA", "Arrests", "COMPAS", "German, wide", "ACS", "power law, 2 %"
REPEATED = "HMDA, persons", "persons"


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"all of them: {', '.join(PARTS)}")
    parser.add_argument("--data", type=Path, default=data_folder(), help="folder of real data")
    parser.add_argument("--deals", type=int, default=200, help="deals of each source and radius")
    parser.add_argument("--files", type=int, default=400, help="files of each source and size")
    parser.add_argument("--trials", type=int, default=400, help="comparisons without a difference")
    parser.add_argument("--power", type=int, default=100, help="comparisons with one")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--report", action="store_true", help="simulate nothing: write the page")
    chosen = parser.parse_args()
    if unknown := set(chosen.parts) - set(PARTS):
        parser.error(f"no part named {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    if chosen.data is None and not chosen.report:
        parser.error("name the folder of real data: --data or LIKEWISE_DATA")
    return chosen


def simulate_deals(sources: list[Source], chosen: argparse.Namespace) -> list[Any]:
    return [
        _show(trials.deal, one, radius, chosen.deals) for one in sources for radius in trials.RADII
    ]


def simulate_files(sources: list[Source], chosen: argparse.Namespace) -> list[Any]:
    return [
        _show(trials.cover, one, cases, chosen.files) for one in sources for cases in (600, 2_000)
    ]


def simulate_sides(sources: list[Source], chosen: argparse.Namespace) -> list[Any]:
    found = []
    for one in sources:
        if one.name not in (*HALVED, *REPEATED):
            continue
        for sides in trials.SIDES:
            if one.name in REPEATED and "2 %" in sides:
                continue
            many = chosen.power if "flipped" in sides else chosen.trials
            found.append(_show(trials.claim, one, sides, many))
    return found


PARTS = {"deals": simulate_deals, "files": simulate_files, "sides": simulate_sides}


def _show(simulate: Callable[..., Any], source: Source, *arguments: Any) -> dict[str, Any]:
    """Simulate, print what was found, and return it."""
    began = time.perf_counter()
    found = asdict(simulate(source, *arguments))
    print(json.dumps(found, ensure_ascii=False), f"{time.perf_counter() - began:.0f} s", flush=True)
    return found


def main() -> int:
    chosen = read_arguments()
    path = chosen.out / "evidence.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if not chosen.report:
        sources = [*generated(), *real(chosen.data)]
        for name in chosen.parts or PARTS:
            found[name] = PARTS[name](sources, chosen)
            save_json(path, found)
    page.publish(chosen.out / "evidence.md", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
