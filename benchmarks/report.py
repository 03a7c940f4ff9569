"""Write what was found: JSON with every figure, and the bars between two markers of the page.

Invariant: in docs/benchmarks.md only what stands between the markers is replaced; the summary and
the reasons around them are written by hand and survive.
Not here: judgement. A `Bar` says what is reached; the prose says why something is not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import plot
from benchmarks.harness import Row, read_bars
from likewise.runtime.machine import NOT_FINAL, is_final

BEGIN = "<!-- measured: begin (python -m benchmarks writes this part) -->"
END = "<!-- measured: end -->"
Found = Mapping[str, Any]


def read(folder: Path) -> dict[str, Any]:
    """Return the results that are there already, or none."""
    path = folder / "benchmarks.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def judge(answers: Mapping[str, Any]) -> list[Row]:
    """Judge every bar, in order, whether it was measured or not."""
    return [bar.judge(answers.get(bar.benchmark, {})) for bar in read_bars()]


def save(folder: Path, machine: Found, answers: Mapping[str, Any]) -> dict[str, Any]:
    """Write the JSON, bars included."""
    found = {
        "version": 2,
        "machine": dict(machine),
        "bars": judge(answers),
        "answers": dict(answers),
    }
    save_json(folder / "benchmarks.json", found)
    return found


def save_json(path: Path, found: Found) -> None:
    """Write figures, one line for each row of a table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_json(dict(found)) + "\n", encoding="utf-8")


def _json(value: Any, depth: int = 0) -> str:
    """Lay out JSON with one line for each row of a table."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    nested = isinstance(value, list) or any(isinstance(one, (dict, list)) for one in parts)
    if not parts or not nested or depth > 4:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    lines = [_json(one, depth + 1) for one in parts]
    if isinstance(value, dict):
        lines = [f"{json.dumps(key)}: {line}" for key, line in zip(value, lines, strict=True)]
    space = "\n" + " " * depth
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}{space} " + f",{space} ".join(lines) + space + closing


def publish(folder: Path, found: Found) -> None:
    """Write the page and the picture from what the JSON holds."""
    if not plot.draw(folder, found["answers"]):
        print("no plot: matplotlib is missing, or there is nothing to draw", file=sys.stderr)
    replace_measured(folder / "benchmarks.md", "# Benchmarks", BEGIN, END, markdown(folder, found))


def replace_measured(page: Path, title: str, begin: str, end: str, body: str) -> None:
    """Replace what stands between two markers of a page; add them where they are missing."""
    text = page.read_text(encoding="utf-8") if page.exists() else title
    if begin not in text or end not in text:
        text = f"{text.rstrip()}\n\n{begin}\n{end}\n"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{begin}\n\n{body}\n{end}{after}", encoding="utf-8")


def markdown(folder: Path, found: Found) -> str:
    """Return everything between the markers, with the picture if it is in the folder."""
    answers = found["answers"]
    picture = "![Microseconds per decision, likewise and others](benchmarks.svg)"
    parts = [
        _machine(found["machine"], answers),
        *([picture] if (folder / "benchmarks.svg").exists() else []),
        "## The bars",
        format_bars(found["bars"]),
        "## What was measured",
        "Every figure is in [benchmarks.json](benchmarks.json), by these names, with how it was"
        ' measured and what was checked. `make bench ARGS="--report NAME"` prints its tables.',
        format_table(
            ["benchmark", "title", "tables", "checks", "measured", "load"],
            [
                [
                    f"`{name}`",
                    answer["title"],
                    ", ".join(f"`{table}`" for table in answer.get("tables", ())) or "–",
                    str(len(answer.get("checks", ()))),
                    next((key for key in ("failed", "skipped") if key in answer), None)
                    or answer["measured"],
                    format_number(answer["load"]),
                ]
                for name, answer in answers.items()
            ],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def format_bars(judged: Iterable[Found]) -> str:
    rows = []
    for bar in judged:
        unit = bar["unit"] if bar["unit"] in ("", "×") else f" {bar['unit']}"
        target = f"{bar['sign']} {format_number(bar['target'])}{unit}"
        value = "–" if bar["value"] is None else f"{format_number(bar['value'])}{unit}"
        verdict = {True: "yes", False: "**no**", None: bar["why_not"]}[bar["reached"]]
        if bar["reached"] is not None and not is_final(bar.get("load")):
            verdict += f", not final (load {bar['load']:g})"
        rows.append([bar["bar"], target, value, verdict])
    return format_table(["what", "bar", "measured", "reached"], rows)


def format_answer(name: str, answer: Found) -> str:
    """Return what one benchmark found, with all its tables."""
    parts = [f"## {name}: {answer['title']}"]
    parts += [f"{key}: {answer[key]}" for key in ("failed", "skipped") if key in answer]
    if not is_final(answer.get("load")):
        parts.append(f"**Not final: measured at a load of {answer['load']:g}.**")
    for table, rows in answer.get("tables", {}).items():
        keys = [key for key in rows[0] if any(row.get(key) not in (None, "") for row in rows)]
        lines = [[format_number(row.get(key)) for key in keys] for row in rows]
        parts.append(f"{table}:\n\n" + format_table(keys, lines, "---:"))
    parts += answer.get("notes", ())
    parts += [f"- checked: {what}" for what in answer.get("checks", ())]
    return "\n\n".join(parts)


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]], rule: str = "---") -> str:
    """Return a Markdown table; with the rule `---:`, columns after the first are to the right."""
    lines = [header, ["---"] + [rule] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def format_number(value: Any) -> str:
    """Return three digits that matter, thousands separated; a dash for nothing."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float) and value:
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return "0" if value == 0 else str(value)


def _machine(machine: Found, answers: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {v}" for name, v in machine["versions"].items() if v)
    days = sorted({a["measured"] for a in answers.values() if "measured" in a}) or ["never"]
    lines = [
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB,"
        f" {machine['system']}, Python {machine['python']}; {versions}."
        f" Measured {' and '.join(dict.fromkeys((days[0], days[-1])))}."
    ]
    loads = [a["load"] for a in answers.values() if a.get("load") is not None]
    if loads:
        lines.append(
            f"Load of the machine, where 1 is the measurement alone: {min(loads):g} to"
            f" {max(loads):g}. Above {NOT_FINAL:g} figures are not final."
        )
    shrunk = sorted({a["scale"] for a in answers.values() if a.get("scale", 1) != 1})
    if shrunk:
        scales = ", ".join(f"{scale:g}" for scale in shrunk)
        lines.append(f"**A trial run, shrunk to a scale of {scales}: not a measurement.**")
    return "\n\n".join(lines)
