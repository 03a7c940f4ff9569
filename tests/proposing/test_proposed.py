"""`lw.propose_rule` proposes what `likewise init` proposes."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import likewise as lw
from tests.audit.test_audit_data import command_says


def table():
    draw = np.random.default_rng(2)
    return pd.DataFrame(
        {
            "applicant_id": [f"A{i}" for i in range(300)],
            "income": draw.integers(1_000, 9_000, 300),
            "age": draw.integers(18, 90, 300),
            "sex": draw.choice(["f", "m"], 300),
            "<b>": draw.choice(["x", "y"], 300),
            "approved": draw.choice(["yes", "no"], 300),
        }
    )


@pytest.mark.parametrize("column", [None, "approved"])
def test_proposal_equals_the_command(tmp_path, column):
    data = tmp_path / "d.csv"
    table().to_csv(data, index=False)
    options = ("--output-column", column) if column else ()
    said = command_says("init", data, "--out", tmp_path / "r.toml", "--json", *options)
    assert said.pop("out") == str(tmp_path / "r.toml")
    proposed = lw.propose_rule(data, output=column)
    assert json.loads(json.dumps(proposed.to_dict())) == said
    assert proposed.to_toml() == (tmp_path / "r.toml").read_text()
    assert lw.Rule.from_toml(proposed.to_toml()) == proposed.rule


def test_frames_get_the_rule_of_their_file(tmp_path):
    table().to_csv(tmp_path / "d.csv", index=False)
    expected = lw.propose_rule(tmp_path / "d.csv").rule
    for frame in (table(), pl.from_pandas(table()), pl.from_pandas(table()).to_arrow()):
        assert lw.propose_rule(frame).rule == expected
    assert lw.propose_rule(table().to_dict("records")).rule == expected


def test_proposal_shows_what_to_check():
    proposed = lw.propose_rule(table())
    assert any("sex" in line and "Protected" in line for line in proposed.remarks)
    assert any("Tried on" in line for line in proposed.trial)
    assert all(line in str(proposed) for line in (*proposed.remarks, *proposed.trial))
    page = proposed._repr_html_()
    assert "&lt;b&gt;" in page and "<b>" not in page
    assert len(repr(proposed)) < 200


def test_an_output_that_names_do_not_tell_is_asked_for():
    frame = table().rename(columns={"approved": "what"})
    with pytest.raises(lw.errors.BadRule, match="which column of the table is the output"):
        lw.propose_rule(frame)
    assert lw.propose_rule(frame, output="what").rule.output_column == "what"
    with pytest.raises(lw.errors.BadRule, match="delimiter"):
        lw.propose_rule(frame, delimiter=";")
