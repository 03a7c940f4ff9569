"""docs/paper.md: what the cells gave, beside what the paper printed.

Invariant: only what stands between the markers is replaced; the prose around it is written by hand.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.paper import figures, plan, streams
from benchmarks.paper.cells import name_of
from benchmarks.report import format_table, replace_measured

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
Cells = Mapping[str, Any]

PRINTED_PERCENT = {
    "german-base-P2": 2.9,
    "german-global-P2": 0.0,
    "adult-base-P2": 23.2,
    "adult-global-P2": 2.5,
    "compas-base-P2": 55.4,
    "compas-global-P2": 40.6,
}
PRINTED = {
    "german": {"brute": (0.31, 220), "kdtree": (0.30, 223), "bdd": (0.74, 235)},
    "adult": {"brute": (0.69, 250), "kdtree": (1.21, 360), "bdd": (5.38, 275)},
    "compas": {"brute": (0.31, 223), "kdtree": (0.49, 235), "bdd": (4.50, 236)},
}
"""By data set and index, as the paper prints them: milliseconds per decision, MB."""
PRINTED_ROBUST = (
    ("CIFAR-10, 20k × 3,072, L∞ 8/255", "0.948 / 0.196", "3.71", "6.09", "1.87 (k-d, 16 threads)"),
    (
        "CIFAR-100, 20k × 3,072, L∞ 8/255",
        "0.344 / 0.316",
        "5.47",
        "32.04",
        "9.73 (k-d, 16 threads)",
    ),
    ("ImageNet, 10k × 150,528, L∞ 4/255", "0.767 / 0.186", "260", "7,730", "620 (k-d, 16 threads)"),
    ("CIFAR-10-C, DINOv2, 20k × 384, L2 7.5", "a figure", "2.36", "83.75", "12.75 (SNN)"),
    ("CIFAR-100-C, DINOv2, 20k × 384, L2 7.5", "a figure", "4.53", "59.26", "37.80 (SNN)"),
    ("ImageNet-3DCC, DINOv2, 10k × 384, L2 12.5", "a figure", "32.78", "200", "60.25 (SNN)"),
)


def write(folder: Path, cells: Cells, machine: Mapping[str, Any]) -> None:
    figures.draw(folder, cells)
    page = folder / "paper.md"
    replace_measured(page, "# The paper, run here", BEGIN, END, body(cells, machine))


def body(cells: Cells, machine: Mapping[str, Any]) -> str:
    minutes = sum(cell["seconds"] for cell in cells.values()) / 60
    return "\n\n".join(
        (
            f"Measured {datetime.date.today().isoformat()}: {len(cells)} runs, each in a process of"
            f" its own, {minutes:.0f} minutes of them in all (those that only count ran two at a"
            " time). " + ", ".join(f"{key} {value}" for key, value in _facts(machine)) + ".",
            "## Table 1, individual fairness",
            _found(cells),
            _costs(cells, streams.FAIR),
            "## Without the true label, sex and race",
            _unseen(cells),
            _costs(cells, streams.UNSEEN),
            "## Table 1, adversarial and semantic robustness",
            _robust(cells),
            "## Figure 4: the length of the history",
            "![Six panels: microseconds per decision against rows remembered, for 12 and 24"
            " columns and three radii; live stays lowest.](paper-length.svg)",
            _lengths(cells),
            "## Figure 5: columns and parts",
            "![Two panels: microseconds per decision against columns for each index, and for"
            " one to sixteen parts.](paper-width.svg)",
            _widths(cells),
            "## Is `live` the fastest?",
            _fastest(cells),
        )
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return format_table(header, rows, "---:")


def _facts(machine: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    yield "On", f"{machine['processor']}, {machine['cores']} cores"
    yield "Python", machine["python"]
    for name in ("numpy", "numba", "scipy", "faiss-cpu", "dd"):
        yield name, machine["versions"][name]


def _cell(cells: Cells, name: str, index: Any) -> Any:
    (found,) = [
        result
        for key, result in cells.items()
        if key.startswith("table ")
        and (given := json.loads(key[6:]))["stream"] == name
        and given["index"] == index
    ] or [None]
    return found


def _us(value: float) -> str:
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _agreed(cells: Cells, name: str, indexes: Sequence[Any]) -> Any:
    """One index's result, which those of all others that came to the end must equal."""
    whole = [one for index in indexes if (one := _cell(cells, name, index)) and _ended(one)]
    if len({(one["flagged"], one["pairs"]) for one in whole}) != 1:
        raise AssertionError(f"{name}: the indexes disagree, or none came to the end")
    return whole[0]


def _ended(one: Mapping[str, Any]) -> bool:
    return bool(one["rows"] == one["of"])


def _equal(cells: Cells, file: str, index: str) -> int:
    """At how many radii an index gave what is known; the table's own radius included."""
    table = _cell(cells, f"fair {file}", index)
    return int(bool(table and table["checked"])) + sum(
        result["equal"]
        for key, result in cells.items()
        if key.startswith("counts ")
        and (given := json.loads(key[7:]))["file"] == file
        and given["index"] == index
    )


def _found(cells: Cells) -> str:
    rows = []
    for name in streams.FILES:
        one = _agreed(cells, f"fair {name}", plan.PEOPLE)
        radii = {_equal(cells, name, index) for index in plan.PEOPLE}
        rows.append(
            [
                name,
                f"{one['of']:,}",
                f"{one['flagged']:,}",
                f"{100 * one['flagged'] / one['of']:.1f}",
                f"{PRINTED_PERCENT[name]:.1f}",
                f"{one['pairs']:,}",
                f"{min(radii)} of 12",
            ]
        )
    return (
        "L∞, ε 0.16, rows in order, every column but the decision a coordinate. The last column"
        " says at how many of the known radii (0.0025 to 0.32) each of "
        + ", ".join(f"`{index}`" for index in plan.PEOPLE)
        + " has exactly the flagged rows and pairs of brute force.\n\n"
        + _table(["file", "rows", "flagged", "%", "% in the paper", "pairs", "counts equal"], rows)
    )


def _costs(cells: Cells, names: Sequence[str]) -> str:
    header = ["µs per decision (MB)", *(f"`{index}`" for index in plan.PEOPLE)]
    printed = names == streams.FAIR
    if printed:
        header.append("the paper, brute / k-d / BDD: ms (MB)")
    rows = []
    for name in names:
        file = name.split()[1]
        line = [file]
        for index in plan.PEOPLE:
            one = _cell(cells, name, index)
            line.append(f"{_us(one['us'])} ({one['mb']:,.0f})")
        if printed:
            costs = PRINTED[file.split("-", maxsplit=1)[0]].values()
            line.append(
                " / ".join(f"{ms:.2f}" for ms, _ in costs)
                + f" ({' / '.join(f'{mb}' for _, mb in costs)})"
            )
        rows.append(line)
    note = (
        "Each decision on its own, `observe(x, z)` from Python, the mean over the file. MB is what"
    )
    note += " the process grew by at its peak; the paper's is the whole process."
    return (note + "\n\n" if printed else "") + _table(header, rows)


def _unseen(cells: Cells) -> str:
    rows = []
    for name in streams.FILES:
        one = _agreed(cells, f"blind {name}", plan.PEOPLE)
        seen = _agreed(cells, f"fair {name}", plan.PEOPLE)
        rows.append(
            [
                name,
                f"{one['flagged']:,}",
                f"{100 * one['flagged'] / one['of']:.1f}",
                f"{100 * seen['flagged'] / seen['of']:.1f}",
                f"{one['pairs']:,}",
            ]
        )
    return (
        "Two people who differ only in sex, race or what later became of them are alike: weight 0"
        " for those columns.\n\n" + _table(["file", "flagged", "%", "% with them", "pairs"], rows)
    )


def _robust(cells: Cells) -> str:
    tables = []
    for names, indexes, near in (
        (streams.PICTURES, plan.PICTURES, "L∞ 8 of 255"),
        (streams.EMBEDDINGS, plan.EMBEDDINGS, "L2"),
    ):
        header = ["stream", "rows × columns", "ε", "flagged", "%", "pairs"]
        header += [f"`{name_of(index)}` µs (MB)" for index in indexes]
        rows = []
        for name in names:
            one = _agreed(cells, name, indexes)
            line = [
                one["what"] + ("" if one["checked"] else " (count not known before)"),
                f"{one['of']:,} × {one['width']:,}",
                f"{one['epsilon']:g}",
                f"{one['flagged']:,}",
                f"{100 * one['flagged'] / one['of']:.1f}",
                f"{one['pairs']:,}",
            ]
            for index in indexes:
                got = _cell(cells, name, index)
                short = "" if _ended(got) else f", stopped at {got['rows']:,} rows"
                line.append(f"{_us(got['us'])} ({got['mb']:,.0f}){short}")
            rows.append(line)
        tables.append(f"{near}:\n\n" + _table(header, rows))
    tables.append(
        "What the paper prints, on pictures and embeddings of its own (violations in % for the base"
        " and the robust model, milliseconds per decision):\n\n"
        + _table(["data", "violations, %", "brute force", "k-d tree", "third"], PRINTED_ROBUST)
    )
    return "\n\n".join(tables)


def _lengths(cells: Cells) -> str:
    rows = []
    for metric, index in plan.CURVES:
        line = [f"`{name_of(index)}`, {_metric(metric)}"]
        for columns in (12, 24):
            for epsilon in plan.RADII:
                one = _length(cells, columns, epsilon, metric, index)
                last = one["curve"][-1]
                stop = "" if one["finished"] else f", stopped at {last[0]:,}"
                line.append(f"{_us(last[1])}{stop}")
        rows.append(line)
    header = [f"{c} columns, ε {e}" for c in (12, 24) for e in plan.RADII]
    return (
        f"HIGGS-like rows (real ones mixed by benchmarks/workloads.py), one million at most; a run"
        f" stops after {plan.LENGTH_LIMIT:g} s. Microseconds per decision over the last stretch"
        " that it reached:\n\n" + _table(["index", *header], rows)
    )


def _metric(metric: str) -> str:
    return {"linf": "L∞", "l2": "L2"}[metric]


def _length(cells: Cells, columns: int, epsilon: float, metric: str, index: Any) -> Any:
    given = {"columns": columns, "epsilon": epsilon, "metric": metric, "index": index}
    return cells[plan.Cell("length", {**given, "limit": plan.LENGTH_LIMIT}).key]


def _widths(cells: Cells) -> str:
    of_width: dict[str, dict[int, str]] = {}
    of_parts: dict[str, dict[int, str]] = {}
    for key, one in cells.items():
        work, _, given = key.partition(" ")
        if work == "width":
            asked = json.loads(given)
            who = f"`{asked['index']}`, {_metric(asked['metric'])}"
            of_width.setdefault(who, {})[asked["width"]] = _us(one["us"])
        elif work == "parts":
            asked = json.loads(given)
            for k in asked["parts"]:
                who = f"`{asked['index']}`, {k} part{'s' if k > 1 else ''}"
                of_parts.setdefault(who, {})[asked["width"]] = _us(one[str(k)]["us"])
    first = [[who, *(us.get(w, "–") for w in plan.WIDTHS)] for who, us in of_width.items()]
    second = [[who, *(us.get(w, "–") for w in plan.PART_WIDTHS)] for who, us in of_parts.items()]
    return (
        "Random pixels of CIFAR-10 pictures with noise on top and made-up decisions, ε 8/255. After"
        " loading 10,000 rows, microseconds per decision by number of columns (a run stops after"
        f" {plan.WIDTH_LIMIT:g} s; `bdd` is not run beyond 64 columns, where loading takes"
        " minutes):\n\n"
        + _table(["index", *(f"{w:,}" for w in plan.WIDTHS)], first)
        + f"\n\nFrom an empty history, the first 2,000 decisions or {plan.PART_LIMIT:g} s of them,"
        " by parts of `Split`, on two cores:\n\n"
        + _table(["index", *(f"{w:,}" for w in plan.PART_WIDTHS)], second)
    )


def _fastest(cells: Cells) -> str:
    """Every cell of a table in which another index is faster than `live`."""
    lost = []
    total = 0
    for names, indexes in (
        ((*streams.FAIR, *streams.UNSEEN), plan.PEOPLE),
        (streams.PICTURES, plan.PICTURES),
        (streams.EMBEDDINGS, plan.EMBEDDINGS),
    ):
        for name in names:
            mine = _cell(cells, name, "live")["us"]
            total += 1
            for index in indexes:
                other = _cell(cells, name, index)["us"]
                if other < mine:
                    lost.append(f"{name}: `{name_of(index)}` {_us(other)} µs, `live` {_us(mine)}")
    for columns in (12, 24):
        for epsilon in plan.RADII:
            for metric in ("linf", "l2"):
                total += 1
                mine = _length(cells, columns, epsilon, metric, "live")["curve"]
                for _, index in [one for one in plan.CURVES if one[0] == metric]:
                    curve = _length(cells, columns, epsilon, metric, index)["curve"]
                    for (rows, us, *_), (same, my_us, *_) in zip(curve, mine, strict=False):
                        if us < my_us and rows == same:
                            lost.append(
                                f"{columns} columns, ε {epsilon}, {rows:,} rows:"
                                f" `{name_of(index)}` {_us(us)} µs, `live` {_us(my_us)}"
                            )
    widths = [json.loads(key[6:]) for key in cells if key.startswith("width ")]
    for width in plan.WIDTHS:
        total += 1
        by_index = {
            given["index"]: cells[plan.Cell("width", given).key]["us"]
            for given in widths
            if given["width"] == width and given["metric"] == "linf"
        }
        lost += [
            f"{width:,} columns: `{index}` {_us(us)} µs, `live` {_us(by_index['live'])}"
            for index, us in by_index.items()
            if us < by_index["live"]
        ]
    if not lost:
        return f"Yes: in all {total} comparisons, at every length and width."
    return (
        f"In {total} comparisons, every length of a curve counted as part of one, another index was"
        " faster here:\n\n" + "\n".join(f"- {line}" for line in lost)
    )
