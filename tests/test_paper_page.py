"""The page of `make paper`, from made-up results: every cell planned once, shown, compared."""

from __future__ import annotations

import pytest

from benchmarks.paper import cells as work
from benchmarks.paper import page, plan, streams
from benchmarks.paper.__main__ import Results

MACHINE = {"processor": "a processor", "cores": 2, "python": "3", "versions": dict.fromkeys(
    ("numpy", "numba", "scipy", "faiss-cpu", "dd"), "1")}  # fmt: skip


def made_up(cell: plan.Cell, live_us: float) -> dict:
    given = cell.given
    us = live_us if given["index"] == "live" else 50.0
    if cell.work == "table":
        found = {"rows": 200, "of": 200, "width": 3, "epsilon": 1.0, "flagged": 12, "pairs": 34}
        return {
            "what": given["stream"],
            **found,
            "us": us,
            "mb": 1.0,
            "checked": True,
            "seconds": 1,
        }
    if cell.work == "counts":
        return {"equal": len(given["radii"]), "seconds": 1}
    if cell.work == "length":
        curve = [[rows, us + i, 1, 1] for i, rows in enumerate(work.LENGTHS)]
        whole = given["index"] == "live"
        return {"curve": curve if whole else curve[:3], "finished": whole, "seconds": 1}
    if cell.work == "width":
        return {"us": us, "rows": 1, "pairs": 1, "seconds": 1}
    return {str(k): {"us": us * k, "rows": 1} for k in given["parts"]} | {"seconds": 1}


def results(live_us: float = 2.0) -> dict:
    return {cell.key: made_up(cell, live_us) for cell in plan.plan()}


def test_plan_has_every_cell_once():
    keys = [cell.key for cell in plan.plan()]
    assert len(set(keys)) == len(keys)
    counted = {
        (cell.given["file"], cell.given["index"], radius)
        for cell in plan.plan()
        if cell.work == "counts"
        for radius in cell.given["radii"]
    }
    assert len(counted) == len(streams.FILES) * len(plan.PEOPLE) * 11
    assert all(hasattr(work, cell.work) for cell in plan.plan())


def test_page_shows_counts_costs_and_where_runs_stopped():
    text = page.body(results(), MACHINE)
    for part in (
        "| adult-base-P2 | 200 | 12 | 6.0 | 23.2 | 34 | 12 of 12 |",
        "stopped at 5,000",
        "Yes: in all",
        "`kdtree, 16 parts` µs",
    ):
        assert part in text, part


def test_page_says_where_live_is_not_the_fastest():
    text = page.body(results(live_us=60.0), MACHINE)
    assert "Yes: in all" not in text
    assert "- fair german-base-P2: `brute` 50.0 µs, `live` 60.0" in text
    assert "- 12 columns, ε 0.01, 1,000 rows: `brute` 50.0 µs, `live` 60.0" in text
    assert "- 3,072 columns: `kdtree` 50.0 µs, `live` 60.0" in text


def test_page_is_refused_where_indexes_disagree():
    cells = results()
    key = next(key for key in cells if "fair adult-base-P2" in key and '"bdd"' in key)
    cells[key]["pairs"] += 1
    with pytest.raises(AssertionError, match="adult-base-P2: the indexes disagree"):
        page.body(cells, MACHINE)


def test_results_are_kept_for_the_same_code_only(tmp_path):
    cell = plan.plan()[0]
    Results(tmp_path / "paper.json", "one", afresh=False).keep(cell, {"seconds": 1})
    assert Results(tmp_path / "paper.json", "one", afresh=False).cells == {cell.key: {"seconds": 1}}
    assert Results(tmp_path / "paper.json", "two", afresh=False).cells == {}
    assert Results(tmp_path / "paper.json", "one", afresh=True).cells == {}
