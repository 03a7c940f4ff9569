"""What a monitor remembers of outputs comes back as it was given."""

import pytest

import likewise as lw

X = [[0.0], [1.0], [2.0], [3.0]]
GIVEN = {
    "label": ["yes", 3, ("a", None), "yes"],
    "number": [0.5, -2.0, 0.0, 7.0],
    "probabilities": [[0.5, 0.5], [1.0, 0.0], [0.25, 0.75], [0.0, 1.0]],
}


def fed(output, one_by_one):
    monitor = lw.Monitor(lw.Rule(epsilon=0.1, output=output))
    if one_by_one:
        for x, z in zip(X, GIVEN[output], strict=True):
            monitor.observe(x, z)
    else:
        monitor.observe_many(X, GIVEN[output])
    return monitor


@pytest.mark.parametrize("one_by_one", [True, False])
@pytest.mark.parametrize("output", GIVEN)
def test_outputs_come_back_as_given(output, one_by_one):
    monitor = fed(output, one_by_one)
    assert monitor.outputs(range(4)) == GIVEN[output]
    assert monitor.outputs([3, 1, 3]) == [GIVEN[output][i] for i in (3, 1, 3)]
    assert monitor.outputs([]) == []


def test_outputs_of_a_table_come_back_as_given():
    rule = lw.Rule(features={"x": lw.Feature("number", tolerance=1)}, output_column="z")
    monitor = lw.Monitor(rule)
    monitor.observe_many([{"x": 1, "z": "yes"}, {"x": 2, "z": "no"}])
    assert monitor.outputs([1, 0]) == ["no", "yes"]


def test_outputs_of_other_rows_are_refused():
    monitor = fed("label", one_by_one=False)
    with pytest.raises(lw.BadRow, match="4"):
        monitor.outputs([4])
    monitor.forget([2])
    with pytest.raises(lw.BadRow, match="row 2 was forgotten"):
        monitor.outputs([1, 2])
    assert lw.Monitor(lw.Rule(epsilon=1)).outputs([]) == []
