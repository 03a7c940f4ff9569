"""The picture of the dimension curve: time and memory by the number of coordinates, both log.

The same light card as the other picture. Invariant: a contender that was not measured at a width
has no point there, and no line is drawn to it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.plot import FAINT, STYLE, log_scale, save

NAME = "dimensions"
LINES = {
    "uint8": ("likewise, uint8", "#0b62a8", "-"),
    "float32": ("likewise, float32", "#3f9ae0", "-"),
    "faiss": ("FAISS flat, nearest", "#b5599b", "--"),
    "scipy": ("SciPy cKDTree, query alone", "#e08a00", "--"),
}


def draw(folder: Path, answers: Mapping[str, Any]) -> bool:
    """dimensions.svg and .png in the folder; False where nothing can be drawn."""
    rows = answers.get(NAME, {}).get("tables", {}).get("curve", {}).get("rows", [])
    if not rows or importlib.util.find_spec("matplotlib") is None:
        return False
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        figure: Any = plt.figure(figsize=(11, 4.6), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
        times, memory = figure.subplots(1, 2)
        _panel(times, rows, "us", "µs per decision or query", "Time by width")
        _linear(times, rows)
        _panel(memory, rows, "rss_mb", "MB of the process", "Resident memory by width")
        memory.set_ylim(min(100, memory.get_ylim()[0]), max(10_000, memory.get_ylim()[1]))
        handles, names = times.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=5, fontsize=8.5)
        save(figure, folder, NAME)
        plt.close(figure)
    return True


def _panel(axes: Any, rows: list[Mapping[str, Any]], key: str, unit: str, title: str) -> None:
    for who, (name, colour, style) in LINES.items():
        points = [(row["width"], row[f"{who}_{key}"]) for row in rows if row.get(f"{who}_{key}")]
        if points:
            x, y = zip(*points, strict=True)
            axes.plot(x, y, style, marker="o", ms=4, lw=1.6, color=colour, label=name, zorder=3)
    log_scale(axes.xaxis, axes.set_xscale)
    log_scale(axes.yaxis, axes.set_yscale)
    widths = [row["width"] for row in rows]
    axes.set_xticks(widths, [f"{width:,}" for width in widths], fontsize=8)
    axes.set_xlabel("coordinates (log scale)")
    axes.set_ylabel(f"{unit} (log scale)")
    axes.set_title(title)


def _linear(axes: Any, rows: list[Mapping[str, Any]]) -> None:
    """What growth in proportion to the width would look like from the last point backwards."""
    last = rows[-1]
    widths = [row["width"] for row in rows]
    slope = [last["uint8_us"] * width / last["width"] for width in widths]
    low, high = axes.get_ylim()
    axes.plot(widths, slope, ":", color="#8a929b", lw=1.2, label="linear in the width")
    axes.set_ylim(low, high)
    axes.grid(color=FAINT)
