"""Write the tables of docs/evidence.md; what stands around them is written by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.report import replace_measured

BEGIN = "<!-- simulated: begin (python -m benchmarks.evidence writes this part) -->"
END = "<!-- simulated: end -->"
Found = Mapping[str, Any]


def publish(page: Path, found: Found) -> None:
    """Replace the tables of the page."""
    parts = [
        *(_dealt(found["deals"]) if "deals" in found else ()),
        *(_covered(found["files"]) if "files" in found else ()),
        *(_claimed(found["sides"]) if "sides" in found else ()),
    ]
    replace_measured(page, "# Evidence", BEGIN, END, "\n".join(parts))


def _dealt(rows: list[Found]) -> Iterable[str]:
    within = sum(row["within"] for row in rows) / len(rows)
    yield "## Answers dealt at random\n"
    yield f"{rows[0]['deals']} deals of each. {within:.1%} of all are within 1.96 null sd.\n"
    yield "| source | radius | comparable | mean index | its standard errors | sd | within |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        mean, errors = row["mean"], row["mean"] / row["error"]
        yield (
            f"| {row['source']} | {row['radius']:g} | {row['comparable']:,} | {mean:+.4f}"
            f" | {errors:+.1f} | {row['spread_ratio']:.2f} | {row['within']:.1%} |"
        )
    yield ""


def _covered(rows: list[Found]) -> Iterable[str]:
    concluded = sum(row["concluded"] for row in rows)
    covered = sum(row["covered"] for row in rows) / concluded
    yield "## Intervals\n"
    yield f"{rows[0]['files']} files of each. {covered:.1%} of all {concluded:,} intervals cover.\n"
    yield "| source | cases | mean index | intervals | cover | above | below | mean width |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        many = row["concluded"]
        above, cover = row["too_high"] / max(many, 1), row["covered"] / max(many, 1)
        yield (
            f"| {row['source']} | {row['cases']:,} | {row['target']:.3f} | {many} | {cover:.1%}"
            f" | {above:.1%} | {1 - above - cover:.1%} | {row['width']:.3f} |"
        )
    yield ""


def _claimed(rows: list[Found]) -> Iterable[str]:
    yield "## Two sides\n"
    yield "Claims of a difference beyond chance, and of how many trials.\n"
    yield from _by_sides(rows, "claimed", "concluded")
    same = [row for row in rows if row["sides"] in ("halves", "inputs differ")]
    yield "How often the adjusted effect of the side has an interval that includes 0.\n"
    yield from _by_sides(same, "covered", "effects")


def _by_sides(rows: list[Found], part: str, whole: str) -> Iterable[str]:
    sides = list(dict.fromkeys(row["sides"] for row in rows))
    yield f"| source | {' | '.join(sides)} |"
    yield f"|---{'|---' * len(sides)}|"
    for source in dict.fromkeys(row["source"] for row in rows):
        own = {row["sides"]: row for row in rows if row["source"] == source}
        shares = [_share(own[one][part], own[one][whole]) if one in own else "" for one in sides]
        yield f"| {source} | {' | '.join(shares)} |"
    yield ""


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%} of {whole}" if whole else "cannot be told"
