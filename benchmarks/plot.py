"""One picture of the answers: contenders side by side, growth, and single calls.

A light card with its own background, so that it reads the same on a white and on a dark page.
Invariant: a panel whose benchmark was not run is left out, not drawn empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

INK, FAINT, CARD = "#24292f", "#d8dde3", "#fbfcfd"
COLOURS = {
    "likewise": "#0b62a8",
    "SciPy cKDTree, query alone": "#e08a00",
    "scikit-learn KDTree, query alone": "#2a9d6f",
    "FAISS flat, query alone": "#b5599b",
    "SciPy, rebuilt every 1,000": "#a06a2c",
    "Clemont k-d tree": "#c9341c",
    "Clemont brute force": "#7a6fd0",
    "Clemont frnn, k-d tree": "#8a2f4b",
    "Clemont frnn, FAISS": "#5b7f2a",
}
KEYS = {
    "us": "likewise",
    "scipy_us": "SciPy cKDTree, query alone",
    "sklearn_us": "scikit-learn KDTree, query alone",
    "faiss_us": "FAISS flat, query alone",
}
CURVES = {
    ("growth", "curve"): ("ε=0.01", "#0b62a8"),
    ("huge", "curve"): ("ε=0.05, to 10M", "#c9341c"),
}

STYLE: Any = {
    "figure.facecolor": CARD,
    "axes.facecolor": CARD,
    "savefig.facecolor": CARD,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "font.size": 9.5,
    "legend.frameon": False,
    "svg.hashsalt": "likewise",
}


def draw(folder: Path, answers: Mapping[str, Any]) -> bool:
    """Draw benchmarks.svg in the folder; False where nothing can be drawn."""
    tables: dict[tuple[str, str], Any] = {
        (name, table): rows
        for name, answer in answers.items()
        for table, rows in answer.get("tables", {}).items()
    }
    panels = {
        "beside": (_beside, _contenders(tables)),
        "growth": (_growth, {key: tables[key] for key in CURVES if key in tables}),
        "single": (_single, tables.get(("single", "single"))),
    }
    if not any(data for _, data in panels.values()) or find_spec("matplotlib") is None:
        return False
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        figure, axes = plt.subplot_mosaic(
            [["beside", "growth"], ["beside", "single"]],
            figsize=(11, 7.2),
            width_ratios=(1.35, 1),
            layout="constrained",
        )
        for name, (panel, data) in panels.items():
            if data:
                panel(axes[name], data)
            else:
                axes[name].remove()
        save(figure, folder, "benchmarks")
        plt.close(figure)
    return True


def save(figure: Any, folder: Path, name: str) -> None:
    """Write an SVG, the same bytes for the same figure."""
    path = folder / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    text = path.read_text(encoding="utf-8").splitlines()  # ending in blanks
    path.write_text("\n".join(line.rstrip() for line in text) + "\n", encoding="utf-8")


def _contenders(tables: Mapping[tuple[str, str], Any]) -> list[tuple[str, dict[str, float]]]:
    """One line per workload: its name, and microseconds by contender."""
    lines = []
    for question in ("higgs", "acs"):
        for row in tables.get((question, "contenders"), ()):
            times = {who: row[key] for key, who in KEYS.items() if row.get(key)}
            lines.append((f"{row['workload']}, {row['question']}", times))
    files: dict[str, dict[str, float]] = {}
    for row in tables.get(("paper", "contenders"), ()):
        files.setdefault(row["file"], {})[row["contender"]] = row["us"]
    return lines + list(files.items())


def _beside(axes: Any, lines: list[tuple[str, dict[str, float]]]) -> None:
    places = range(len(lines))[::-1]
    seen: dict[str, Any] = {}
    for place, (_, times) in zip(places, lines, strict=True):
        axes.plot([min(times.values()), max(times.values())], [place] * 2, color=FAINT, lw=2)
        for who, us in times.items():
            big = who == "likewise"
            seen[who] = axes.scatter(
                us, place, s=62 if big else 34, color=COLOURS[who], zorder=3, label=who
            )
    log_scale(axes.xaxis, axes.set_xscale)
    axes.set_yticks(list(places), [name for name, _ in lines])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("µs per decision (log scale, less is better)")
    axes.set_title("Compare and insert, beside others' search")
    order = [who for who in COLOURS if who in seen]
    axes.legend(
        [seen[who] for who in order],
        order,
        loc="upper center",
        bbox_to_anchor=(0.4, -0.1),
        ncols=2,
        fontsize=8.5,
    )


def log_scale(axis: Any, set_scale: Callable[[str], Any]) -> None:
    """A log scale with plain numbers: 1,000, not 10 to the third."""
    set_scale("log")
    axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axis.set_minor_formatter(lambda value, _: "")


def _growth(axes: Any, curves: Mapping[tuple[str, str], Any]) -> None:
    for key, rows in curves.items():
        label, colour = CURVES[key]
        x, y = [row["rows"] for row in rows], [row["us"] for row in rows]
        axes.plot(x, y, marker="o", ms=4, lw=1.6, color=colour, label=label)
    log_scale(axes.xaxis, axes.set_xscale)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("decisions remembered")
    axes.set_ylabel("µs per decision")
    axes.set_title("Growth, 12 columns, L∞")
    axes.legend(fontsize=8.5)


def _single(axes: Any, rows: list[dict[str, Any]]) -> None:
    keys = {"p50_us": "p50", "p99_us": "p99", "p999_us": "p99.9", "max_us": "max"}
    colours = ("#0b62a8", "#e08a00", "#2a9d6f")
    for row, colour in zip(rows, colours, strict=False):
        values = [row[key] for key in keys]
        axes.plot(list(keys.values()), values, marker="o", ms=5, color=colour, lw=1.6,
                  label=row["arrivals"])  # fmt: skip
    log_scale(axes.yaxis, axes.set_yscale)
    axes.set_ylabel("µs (log scale)")
    axes.set_title("One observe from Python, by arrival")
    axes.legend(fontsize=8.5)
