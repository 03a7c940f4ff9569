"""Write what was found: JSON for machines, tables between two markers for readers, plots.

Invariant: in docs/benchmarks.md only what stands between the markers is replaced; the prose
around them is written by hand and survives.
Not here: judgement. `bars` says what is reached; the prose says why something is not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import bars, curve, plot
from likewise.runtime.machine import NOT_FINAL, is_final

BEGIN = "<!-- measured: begin (python -m benchmarks writes this part) -->"
END = "<!-- measured: end -->"
FIRST_PAGE = f"""# Benchmarks

likewise beside other tools, and the bars it is meant to reach. `make bench` measures all of it.

{BEGIN}
{END}
"""


def read(folder: Path) -> dict[str, Any]:
    """The results that are there already, or none."""
    path = folder / "benchmarks.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def save(folder: Path, machine: Mapping[str, Any], answers: Mapping[str, Any]) -> dict[str, Any]:
    """Write the JSON, bars included."""
    found = {
        "version": 1,
        "machine": dict(machine),
        "bars": bars.judge(answers),
        "answers": dict(answers),
    }
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / "benchmarks.json").write_text(text + "\n", encoding="utf-8")
    return found


def publish(folder: Path, found: Mapping[str, Any]) -> None:
    """Write the page and the plot from what the JSON holds."""
    drawn = {"benchmarks": plot.draw(folder, found["answers"])}
    drawn[curve.NAME] = curve.draw(folder, found["answers"])
    if not any(drawn.values()):
        print("no plot: matplotlib is missing, or there is nothing to draw", file=sys.stderr)
    page = folder / "benchmarks.md"
    text = page.read_text(encoding="utf-8") if page.exists() else FIRST_PAGE
    if BEGIN not in text or END not in text:
        text = f"{text.rstrip()}\n\n{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    body = markdown(found, drawn)
    page.write_text(f"{before}{BEGIN}\n\n{body}\n{END}{after}", encoding="utf-8")


def markdown(found: Mapping[str, Any], drawn: Mapping[str, bool]) -> str:
    """Everything between the markers; `drawn` says which plots are there."""
    parts = [_machine(found["machine"], found["answers"])]
    if drawn.get("benchmarks"):
        parts.append("![Microseconds per decision, likewise and others](benchmarks.svg)")
    parts.append("## The bars\n\n" + bars_table(found["bars"]))
    for name, answer in found["answers"].items():
        parts.append(_answer(name, answer))
        if drawn.get(name):
            parts.append(f"![{answer['title']}]({name}.svg)")
    return "\n\n".join(parts) + "\n"


def bars_table(judged: list[Mapping[str, Any]]) -> str:
    rows = []
    for bar in judged:
        sign = "≥" if bar["at_least"] else "≤"
        unit = bar["unit"] if bar["unit"] in ("", "×") else f" {bar['unit']}"
        target = f"{sign} {number(bar['target'])}{unit}"
        value = "–" if bar["value"] is None else f"{number(bar['value'])}{unit}"
        verdict = {True: "yes", False: "**no**", None: bar["why_not"]}[bar["reached"]]
        if bar["reached"] is not None and not is_final(bar.get("load")):
            verdict += f", not final (load {bar['load']:g})"
        rows.append([bar["bar"], target, value, verdict])
    return _table(["what", "bar", "measured", "reached"], rows)


def number(value: Any) -> str:
    """Three digits that matter, thousands separated; a dash for nothing."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if value == 0:
            return "0"
        if abs(value) >= 100:
            return f"{value:,.0f}"
        return f"{value:.3g}"
    return str(value)


def _machine(machine: Mapping[str, Any], answers: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {v}" for name, v in machine["versions"].items() if v)
    days = sorted({a["measured"] for a in answers.values() if "measured" in a})
    scales = sorted({a["scale"] for a in answers.values() if "scale" in a})
    shrunk = [scale for scale in scales if scale != 1]
    lines = [
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB,"
        f" {machine['system']}, Python {machine['python']}; {versions}."
        f" Measured {' and '.join(dict.fromkeys((days[0], days[-1]))) if days else 'never'}."
    ]
    loads = [a["load"] for a in answers.values() if a.get("load") is not None]
    if loads:
        lines.append(
            f"Load of the machine, where 1 is the measurement alone: {min(loads):g} to"
            f" {max(loads):g} from question to question. Above {NOT_FINAL:g} figures are not final."
        )
    if shrunk:
        told = ", ".join(f"{s:g}" for s in shrunk)
        lines.append(f"**A trial run, shrunk to a scale of {told}: not a measurement.**")
    return "\n\n".join(lines)


def _answer(name: str, answer: Mapping[str, Any]) -> str:
    if "failed" in answer:
        return f"## {name}\n\n**Failed:** {answer['failed']}"
    if "skipped" in answer:
        return f"## {name}\n\nSkipped: {answer['skipped']}"
    parts = [f"## {answer['title']}"]
    if not is_final(answer.get("load")):
        parts.append(f"**Not final: measured at a load of {answer['load']:g}.**")
    for table in answer["tables"].values():
        shown = {
            key: heading
            for key, heading in table["columns"].items()
            if any(row.get(key) not in (None, "") for row in table["rows"])
        }
        rows = [[number(row.get(key)) for key in shown] for row in table["rows"]]
        caption = f"{table['caption']}\n\n" if table["caption"] else ""
        parts.append(caption + _table(list(shown.values()), rows))
    parts += answer["notes"]
    if answer["checks"]:
        checks = "\n".join(f"- {told}" for told in answer["checks"])
        parts.append(f"Checked:\n\n{checks}")
    return "\n\n".join(parts)


def _table(headings: list[str], rows: list[list[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
