"""The paper's figures 4 and 5 with what was measured here.

Invariant: a curve ends where its run was stopped, with a cross.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.paper import plan
from benchmarks.paper.cells import name_of
from benchmarks.plot import STYLE, log_scale, save

Cells = Mapping[str, Any]
COLOURS = {
    "brute": "#e08a00",
    "kdtree": "#2a9d6f",
    "bdd": "#7a6fd0",
    "snn": "#b5599b",
    "live": "#0b62a8",
}


def _look(metric: str, index: Any) -> dict[str, Any]:
    base = index[1] if isinstance(index, list) else index
    line = ":" if isinstance(index, list) else "--" if metric == "l2" else "-"
    return {
        "color": COLOURS[base],
        "linestyle": line,
        "linewidth": 2.4 if base == "live" else 1.5,
        "label": f"{name_of(index)}, {'L2' if metric == 'l2' else 'L∞'}",
    }


def draw(folder: Path, cells: Cells) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(
            2, 3, figsize=(10.5, 7.2), sharex=True, sharey=True, layout="constrained"
        )
        for axes_row, columns in zip(grid, (12, 24), strict=True):
            for axes, epsilon in zip(axes_row, plan.RADII, strict=True):
                _length(axes, cells, columns, epsilon)
        for axes in grid[1]:
            axes.set_xlabel("decisions remembered")
        for axes in grid[:, 0]:
            axes.set_ylabel("µs per decision")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5)
        save(figure, folder, "paper-length")
        plt.close(figure)

        figure, (above, below) = plt.subplots(1, 2, figsize=(10.5, 5.6), layout="constrained")
        _width(above, cells)
        _parts(below, cells)
        save(figure, folder, "paper-width")
        plt.close(figure)


def _length(axes: Any, cells: Cells, columns: int, epsilon: float) -> None:
    for metric, index in plan.CURVES:
        given = {"columns": columns, "epsilon": epsilon, "metric": metric, "index": index}
        one = cells[plan.Cell("length", {**given, "limit": plan.LENGTH_LIMIT}).key]
        rows, us = zip(*((point[0], point[1]) for point in one["curve"]), strict=True)
        look = _look(metric, index)
        axes.plot(rows, us, **look)
        if not one["finished"]:
            axes.plot(rows[-1], us[-1], "x", color=look["color"], markersize=6)
    axes.set_title(f"{columns} columns, ε {epsilon}")
    log_scale(axes.xaxis, axes.set_xscale)
    log_scale(axes.yaxis, axes.set_yscale)
    axes.set_xticks([1_000, 10_000, 100_000, 1_000_000], ["1k", "10k", "100k", "1M"])


def _given(cells: Cells, work: str) -> list[tuple[dict[str, Any], Any]]:
    return [
        (json.loads(key.partition(" ")[2]), one)
        for key, one in cells.items()
        if key.startswith(f"{work} ")
    ]


def _width(axes: Any, cells: Cells) -> None:
    curves: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for given, one in _given(cells, "width"):
        curve = curves.setdefault((given["metric"], given["index"]), [])
        curve.append((given["width"], one["us"]))
    for (metric, index), curve in curves.items():
        widths, us = zip(*sorted(curve), strict=True)
        axes.plot(widths, us, marker="o", markersize=4, **_look(metric, index))
    _axes(axes, "after 10,000 rows", plan.WIDTHS)


def _parts(axes: Any, cells: Cells) -> None:
    lines = dict(zip(plan.PARTS, ("-", "--", "-.", ":"), strict=True))
    for index in ("kdtree", "bdd", "live"):
        found = {g["width"]: one for g, one in _given(cells, "parts") if g["index"] == index}
        for k in plan.PARTS:
            us = [found[width][str(k)]["us"] for width in sorted(found)]
            label = f"{index}, {k} part{'s' if k > 1 else ''}"
            axes.plot(sorted(found), us, lines[k], color=COLOURS[index], label=label)
    _axes(axes, "Split, from an empty history", plan.PART_WIDTHS)


def _axes(axes: Any, title: str, widths: tuple[int, ...]) -> None:
    axes.set_title(title)
    log_scale(axes.xaxis, axes.set_xscale)
    log_scale(axes.yaxis, axes.set_yscale)
    axes.set_xticks(widths, [f"{width:,}" for width in widths])
    axes.set_xlabel("columns")
    axes.set_ylabel("µs per decision")
    axes.legend(fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.14))
