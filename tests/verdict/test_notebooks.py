"""Answers become frames, and notebooks show them."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import likewise as lw
from likewise import Feature
from tests.support.strict_html import read_strictly

RULE = lw.Rule(
    features={
        "<i>": Feature("number", tolerance=1),
        "sex": Feature("protected"),
        "id": Feature("key"),
    },
    output_column="z",
    favourable="yes",
)


def judge(count=300, **settings):
    draw = np.random.default_rng(3)
    table = pd.DataFrame(
        {
            "<i>": draw.integers(0, 60, count),
            "sex": draw.choice(["<f>", "m"], count),
            "id": np.arange(count),
            "z": draw.choice(["yes", "no"], count),
        }
    )
    monitor = lw.Monitor(RULE, comparable=True, **settings)
    return monitor, table, monitor.observe_many(table)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", None])
def test_verdicts_become_a_frame_with_a_line_for_each(library):
    _, _, verdicts = judge(burst=lw.Burst(20, 2), support=True)
    frame = verdicts.to_frame(library)
    names = frame.column_names if library == "pyarrow" else frame.columns
    columns = {name: list(frame[name].to_numpy()) for name in names}
    assert type(frame).__module__.startswith(library or "pandas")
    assert columns["row"] == columns["key"] == list(range(300))
    for name in ("violation", "count", "comparable", "neighbours", "alarm"):
        assert columns[name] == [getattr(verdict, name) for verdict in verdicts]
    assert columns["near"] == [verdict.support.near for verdict in verdicts]
    assert columns["agree"] == [verdict.support.agree for verdict in verdicts]
    for i, verdict in enumerate(verdicts):
        nearest = verdict.witnesses.nearest(1)
        assert columns["nearest_row"][i] == (nearest[0].row if nearest else -1)
        if nearest:
            assert columns["input_distance"][i] == nearest[0].input_distance
            assert columns["output_distance"][i] == nearest[0].output_distance
        else:
            assert np.isnan(columns["input_distance"][i])


def test_frames_of_checks_and_slopes_have_their_columns():
    monitor, table, _ = judge()
    checked = monitor.check_many(table[:5].assign(id=1_000 + np.arange(5))).to_frame()
    assert checked["place"].to_list() == [0, 1, 2, 3, 4]
    assert "row" not in checked
    slopes = lw.Monitor(lw.Rule("linf", 1, output="number"), slope=True)
    frame = slopes.observe_many([[0.0], [1.0]], [0.0, 3.0]).to_frame("polars")
    assert isinstance(frame, pl.DataFrame)
    assert frame["slope"].to_list() == [0.0, 3.0]
    assert len(lw.Monitor(RULE).observe_many(table[:0]).to_frame()) == 0


def test_notebooks_show_what_answers_say():
    monitor, table, verdicts = judge()
    effects = verdicts.by_group("sex")
    views = {
        "monitor": monitor._repr_html_(),
        "rule": RULE._repr_html_(),
        "groups": effects._repr_html_(),
        "calibration": lw.calibrate(RULE, table)._repr_html_(),
    }
    for page in views.values():
        read_strictly(page, ["caption", "strong"])
        assert "<i>" not in page and "<f>" not in page
    assert "300 decisions remembered" in views["monitor"]
    assert "<bdi>&lt;i&gt;</bdi>: at most 1 apart" in views["monitor"]
    assert str(effects).splitlines()[0] in views["groups"]
    assert effects.comparisons[0].conclusion in views["groups"]
    assert "300 decisions" in views["calibration"]
    monitor.close()
    assert "closed" in monitor._repr_html_()


def test_calibration_in_a_notebook_says_which_epsilons_flag_less():
    calibration = lw.calibrate(lw.Rule("linf", 1), np.arange(40.0)[:, None] ** 2, list(range(40)))
    rates = {"0.1%": 0.001, "1.0%": 0.01, "5.0%": 0.05, "10.0%": 0.1, "25.0%": 0.25}
    page = calibration._repr_html_()
    for text, rate in rates.items():
        below = np.nextafter(calibration.epsilon_for(rate), np.inf)
        assert f"<td>{text}</td><td>{below:.6g}</td>" in page
