"""Every index that can be asked for, by the metric that it serves.

Wrappers come in all the settings that could matter: a rebuild with every row, now and then, never;
a part for each coordinate, for some of them, for all. `Scan` is the plainest index there can be,
given as an object or as a factory; the ball tree is the example in the documentation.
"""

import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import likewise as lw
from likewise.search.indexes.protocol import Point, Rows, Space, distances

TAUS: tuple[int | str, ...] = (1, 2, 7, 64, 1_000, "auto")
EUCLIDEAN = ("l2", "cosine")
BALL_TREE = Path(__file__).resolve().parents[2] / "examples" / "balltree.py"
Make = Callable[[int], Any]
"""From the number of coordinates to what a monitor is given as its index."""


class Scan:
    """Looks at every row that was added."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.rows: list[int] = []
        self.points: list[Point] = []

    def add(self, row: int, point: Point) -> None:
        self.rows.append(row)
        self.points.append(point.copy())

    def candidates(self, point: Point, reach: float) -> Rows:
        if not self.rows:
            return np.empty(0, dtype=np.int64)
        near = distances(self.space, np.array(self.points), point) <= reach * (1 + 1e-9)
        return np.array(self.rows)[near]


def scan_of(metric: str, width: int) -> Scan:
    """The scan as an object, made before there is a monitor."""
    return Scan(Space("l2" if metric == "cosine" else metric, width))


@cache
def load_ball_tree() -> ModuleType:
    """The example of somebody else's index."""
    spec = importlib.util.spec_from_file_location("balltree", BALL_TREE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _ball_tree(tau: int | str) -> Make:
    return lambda width: lw.Periodic(load_ball_tree().BallTreeIndex, tau)


def _split(inner: Any) -> dict[str, Make]:
    return {
        "1 part": lambda width: lw.Split(inner, 1),
        "2 parts": lambda width: lw.Split(inner, 2),
        "3 parts": lambda width: lw.Split(inner, 3),
        "a part each": lambda width: lw.Split(inner, width),
        "too many parts": lambda width: lw.Split(inner, width + 3),
        "auto": lambda width: lw.Split(inner),
    }


def _periodic(static: str) -> dict[str, Make]:
    return {f"tau {tau}": lambda width, tau=tau: lw.Periodic(static, tau) for tau in TAUS}


def groups(metric: str) -> dict[str, dict[str, Make]]:
    """Indexes for a metric: by name or wrapper, then by setting."""
    names = {
        "linf": ("brute", "kdtree", "bdd"),
        "l1": ("brute", "kdtree"),
        "l2": ("brute", "kdtree", "snn"),
        "cosine": ("brute", "kdtree", "snn"),
    }[metric]
    found: dict[str, dict[str, Make]] = {
        name: {"": lambda width, name=name: name} for name in names
    }
    found["Periodic kdtree"] = _periodic("kdtree")
    if metric in EUCLIDEAN:
        found["Periodic snn"] = _periodic("snn")
    if metric == "linf":
        for inner in ("kdtree", "bdd", "brute", "live"):
            found[f"Split {inner}"] = _split(inner)
        found["Split of a wrapper"] = {
            "Periodic": lambda width: lw.Split(lw.Periodic("kdtree", 7), 2),
            "Split": lambda width: lw.Split(lw.Split("kdtree", 2), 2),
            "factory": lambda width: lw.Split(Scan, 2),
        }
    found["factory"] = {"": lambda width: Scan}
    found["ball tree"] = {f"tau {tau}": _ball_tree(tau) for tau in (1, 7, 64, "auto")}
    return found


def few(metric: str) -> dict[str, Make]:
    """One index of each kind, with many rebuilds and a cut through the middle."""
    chosen = {
        name: made[""] for name, made in groups(metric).items() if "" in made and name != "factory"
    }
    chosen["live"] = lambda width: "live"
    chosen["Periodic kdtree"] = lambda width: lw.Periodic("kdtree", 7)
    if metric in EUCLIDEAN:
        chosen["Periodic snn"] = lambda width: lw.Periodic("snn", 7)
    if metric == "linf":
        chosen["Split live"] = lambda width: lw.Split("live", 2)
    chosen["ball tree"] = _ball_tree(7)
    chosen["object"] = lambda width: scan_of(metric, width)
    return chosen
