"""What stands between decisions where hardly any are alike."""

import pytest

import likewise as lw
from likewise.proposing import loosening
from likewise.proposing.loosening import find_blocking_sets
from likewise.rule.variation import RulePart, list_parts


def test_parts_are_the_columns_compared_and_families_as_one():
    rule = lw.Rule(
        features={
            "income": lw.Feature("number", tolerance=1),
            "job_a": lw.Feature("category"),
            "sex": lw.Feature("protected"),
            "job_b": lw.Feature("category"),
            "home": lw.Feature("category"),
            "job_c": lw.Feature("ignore"),
        },
        output_column="z",
    )
    parts = list_parts(rule, together={"job": ("job_a", "job_b", "job_c")})
    assert parts == (
        RulePart("income", ("income",)),
        RulePart("job", ("job_a", "job_b")),
        RulePart("home", ("home",)),
    )


@pytest.mark.parametrize("block", [1, 1 << 21])
def test_weights_count_rows_by_how_many_columns_are_in_the_way(block, monkeypatch):
    """The second row differs from the first in b, the third in a and b, the fourth in all."""
    monkeypatch.setattr(loosening, "_BLOCK", block)
    table = {"a": [0, 0, 9, 9], "b": [0, 9, 18, 40], "c": [0, 0, 0, 9]}
    rule = lw.Rule(
        features={name: lw.Feature("number", tolerance=1) for name in table}, output_column="z"
    )
    found = find_blocking_sets(rule, table, [RulePart(name, (name,)) for name in table], 4)
    # b is alone in the way of the second, one of two of the third (with a) and of the
    # fourth (with c), where it is nearest to the third row.
    assert found.weights().tolist() == [0.5, 1 + 0.5 + 0.5, 0.5]


def test_only_the_first_rows_are_looked_at():
    table = {"a": [0, 9, 18], "b": [0, 0, 9]}
    rule = lw.Rule(
        features={name: lw.Feature("number", tolerance=1) for name in table}, output_column="z"
    )
    parts = [RulePart(name, (name,)) for name in table]
    assert find_blocking_sets(rule, table, parts, 2).weights().tolist() == [1.0, 0.0]
    assert find_blocking_sets(rule, table, parts, 3).weights().tolist() == [1.5, 0.5]
