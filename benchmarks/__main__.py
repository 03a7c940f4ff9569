"""`python -m benchmarks [name ...]`: measure, write down, and say which bars are reached."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from benchmarks import contenders, measure, processes, report, workloads
from benchmarks.catalogue import BENCHMARKS
from benchmarks.harness import Setting


def read_arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help="all of them: " + ", ".join(BENCHMARKS)
    )
    parser.add_argument("--scale", type=float, default=1.0, help="0.01: a trial of a minute")
    parser.add_argument("--rounds", type=int, default=3, help="runs of which the median is taken")
    parser.add_argument(
        "--out", type=Path, help="folder to write to; docs, or build/benchmarks where shrunk"
    )
    parser.add_argument("--huge", action="store_true", help="ten million rows too")
    parser.add_argument("--generated", action="store_true", help="made-up rows, not real ones")
    parser.add_argument("--no-peers", action="store_true", help="likewise alone")
    parser.add_argument(
        "--report", action="store_true", help="measure nothing: write the page; print named tables"
    )
    chosen = parser.parse_args(words)
    unknown = [name for name in chosen.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark named {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    if not 0 < chosen.scale <= 1 or chosen.rounds < 1:
        parser.error("--scale is above 0 and at most 1, --rounds at least 1")
    if chosen.out is None:
        chosen.out = Path("docs") if chosen.scale == 1 else Path("build") / "benchmarks"
    return chosen


def make_setting(chosen: argparse.Namespace) -> Setting:
    folder = workloads.data_folder()
    source = None
    if chosen.generated:
        source = workloads.generated()
    elif folder is not None and (folder / workloads.HIGGS_FILE).is_file():
        source = workloads.higgs(folder)
    peers = () if chosen.no_peers else contenders.PEERS
    return Setting(
        source=source,
        data=folder,
        scale=chosen.scale,
        peers=tuple(peer for peer in peers if contenders.installed(peer.package)),
        with_clemont=not chosen.no_peers,
        huge=chosen.huge,
        rounds=chosen.rounds,
        generated=chosen.generated,
        faiss={} if chosen.no_peers else processes.faiss_releases(),
    )


def main(words: list[str] | None = None) -> int:
    chosen = read_arguments(words)
    before = report.read(chosen.out)
    if chosen.report:
        if not before:
            print("nothing was measured yet", file=sys.stderr)
            return 1
        report.publish(chosen.out, report.save(chosen.out, before["machine"], before["answers"]))
        for name in chosen.names:
            if name in before["answers"]:
                print(report.format_answer(name, before["answers"][name]))
        return 0
    setting, machine = make_setting(chosen), measure.machine()
    # Earlier answers stay beside new ones only if machine and scale were the same.
    kept = before.get("answers", {}) if before.get("machine") == machine else {}
    kept = {name: old for name, old in kept.items() if old.get("scale") == setting.scale}
    asked = chosen.names or list(BENCHMARKS)
    failed, found = False, {}
    for name, benchmark in BENCHMARKS.items():  # always in this order, one at a time
        if name in asked:
            print(f"{name} ...", end=" ", flush=True, file=sys.stderr)
            answer = benchmark.run(setting)
            outcome = next((key for key in ("skipped", "failed") if key in answer), None)
            said = f"{outcome}: {answer[outcome]}" if outcome else "done"
            print(f"{said} ({answer['seconds']} s, load {answer['load']})", file=sys.stderr)
            failed |= outcome == "failed"
            if outcome != "skipped" or name not in kept or chosen.names:
                kept[name] = answer
            found = report.save(chosen.out, machine, _in_order(kept))  # nothing is lost on the way
    report.publish(chosen.out, found)
    print(report.format_bars(found["bars"]))
    return int(failed)


def _in_order(answers: dict[str, Any]) -> dict[str, Any]:
    return {name: answers[name] for name in BENCHMARKS if name in answers}


if __name__ == "__main__":
    raise SystemExit(main())
