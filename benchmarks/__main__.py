"""`python -m benchmarks [question ...]`: ask, write down, and say which bars are reached."""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import child, contenders, measure, report, workloads
from benchmarks.answer import Setting, Skipped
from benchmarks.questions import QUESTIONS
from likewise.runtime.machine import MachineLoad


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "questions", nargs="*", metavar="question", help="all of them: " + ", ".join(QUESTIONS)
    )
    parser.add_argument("--scale", type=float, default=1.0, help="0.01: a trial of a minute")
    parser.add_argument("--rounds", type=int, default=3, help="runs of which the median is taken")
    parser.add_argument(
        "--out", type=Path, help="folder to write to; docs, or build/benchmarks where shrunk"
    )
    parser.add_argument("--huge", action="store_true", help="ten million rows too")
    parser.add_argument("--generated", action="store_true", help="made-up rows, not real ones")
    parser.add_argument("--no-peers", action="store_true", help="likewise alone")
    parser.add_argument("--report", action="store_true", help="write the page, measure nothing")
    chosen = parser.parse_args(words)
    unknown = [name for name in chosen.questions if name not in QUESTIONS]
    if unknown:
        parser.error(f"no question named {', '.join(unknown)}; there are {', '.join(QUESTIONS)}")
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
    elif folder is not None and (folder / "higgs_35k.npz").is_file():
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
        faiss={} if chosen.no_peers else child.faiss_releases(),
    )


def ask(name: str, setting: Setting) -> dict[str, Any]:
    """One question, whatever becomes of it: its answer, why it was skipped, or how it failed."""
    start, load = time.perf_counter(), MachineLoad()
    try:
        found = QUESTIONS[name](setting).as_json()
    except Skipped as why:
        found = {"skipped": str(why)}
    except Exception as error:  # one failed question must not lose the others' hours
        found = {"failed": f"{type(error).__name__}: {error}"}
    found["scale"] = setting.scale
    found["measured"] = datetime.date.today().isoformat()
    found["seconds"] = round(time.perf_counter() - start, 1)
    told = load.measure()
    found["load"] = None if told is None else round(told, 2)
    return found


def main(words: list[str] | None = None) -> int:
    chosen = arguments(words)
    before = report.read(chosen.out)
    if chosen.report:
        if not before:
            print("nothing was measured yet", file=sys.stderr)
            return 1
        report.publish(chosen.out, report.save(chosen.out, before["machine"], before["answers"]))
        return 0
    setting, machine = make_setting(chosen), measure.machine()
    # Earlier answers stay beside new ones only if they were taken on the like machine and scale.
    kept = before.get("answers", {}) if before.get("machine") == machine else {}
    kept = {name: old for name, old in kept.items() if old.get("scale") == setting.scale}
    asked = chosen.questions or list(QUESTIONS)
    answers: dict[str, Any] = {}
    for name in QUESTIONS:  # always in this order, one at a time
        if name in asked:
            print(f"{name} ...", end=" ", flush=True, file=sys.stderr)
            answer = ask(name, setting)
            outcome = next((key for key in ("skipped", "failed") if key in answer), None)
            told = f"{outcome}: {answer[outcome]}" if outcome else "done"
            print(f"{told} ({answer['seconds']} s, load {answer['load']})", file=sys.stderr)
            if outcome == "skipped" and name in kept and not chosen.questions:
                answer = kept[name]
            kept[name] = answer
        if name in kept:
            answers[name] = kept[name]
        report.save(chosen.out, machine, {**kept, **answers})  # nothing is lost on the way
    found = report.save(chosen.out, machine, answers)
    report.publish(chosen.out, found)
    print(report.bars_table(found["bars"]))
    failed = [name for name in asked if "failed" in answers[name]]
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
