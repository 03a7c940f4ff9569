"""Streams of decisions for the tests of reports."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

import likewise as lw
from likewise import Feature
from likewise.reports.evidence import Evidence
from likewise.reports.findings import Findings, Tally, curve_of

FEATURES = {
    "id": Feature("key"),
    "x": Feature("number", tolerance=2),
    "c": Feature("category", missing="match"),
    "sex": Feature("protected", missing="mismatch"),
    "race": Feature("protected", missing="mismatch"),
    "note": Feature("ignore"),
}
RULE = lw.Rule(features=FEATURES, output_column="z", favourable="yes")
SCORES = lw.Rule(features=FEATURES, output_column="z", output="number", delta=0.3, favourable="low")


def people(n: int, seed: int, kind: str = "label") -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)

    def one_of(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    outputs = ("yes", "no", "perhaps") if kind == "label" else (0.0, 0.25, 1.5, -2.0)
    return [
        {
            "id": f"k{i}",
            "x": float(one_of(*range(30))) / 2,
            "c": one_of("u", "v", "w", "w", None),
            "sex": one_of("f", "m", "m", None),
            "race": one_of("a", "b", "c", None),
            "note": "nothing",
            "z": one_of(*outputs),
        }
        for i in range(n)
    ]


def found(
    rule: lw.Rule, rows: Any, *, outputs: Any = None, cuts: Any = (), times: Any = None, **said: Any
) -> Findings:
    """The findings of a stream that comes in pieces, cut at these rows."""
    monitor = lw.Monitor(rule, comparable=said.pop("comparable", True))
    tally = Tally(monitor, worst=said.pop("worst", 20), columns=said.pop("columns", None))
    edges = [0, *sorted(cuts), len(rows)]
    for start, stop in pairwise(edges):
        given = () if outputs is None else (outputs[start:stop],)
        verdicts = monitor.observe_many(rows[start:stop], *given)
        tally.add(verdicts, None if times is None else times[start:stop])
    evidence = {name: said.pop(name) for name in ("head", "seconds", "order") if name in said}
    source = Evidence(said.pop("source", "a test"), **evidence)
    calibration, varied = said.pop("calibration", None), said.pop("varied", None)
    curve = None if calibration is None else curve_of(calibration, rule)
    return replace(tally.findings(source=source, **said), curve=curve, varied=varied)
