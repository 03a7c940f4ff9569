"""Torch tensors as inputs, outputs and columns: what other arrays would say, or a clear refusal."""

import pytest

import likewise as lw
from likewise import Feature
from tests.support.refusals import raises

pytestmark = pytest.mark.torch

RULE = lw.Rule("linf", 0.1)
NUMBER = lw.Rule("linf", 0.1, output="number", delta=0.5)
CHANCES = lw.Rule("linf", 0.1, output="probabilities", delta=0.1)
BIG = 2**53
ROWS = [[0.0, 0.5], [0.0, 0.5], [0.0, 0.5], [1.0, 0.5]]


@pytest.fixture
def torch():
    import torch

    torch.set_num_threads(1)
    return torch


def with_gradient(tensor):
    return tensor.clone().requires_grad_()


FORMS = {
    "float32": lambda torch, x: torch.tensor(x),
    "float64": lambda torch, x: torch.tensor(x, dtype=torch.float64),
    "a gradient": lambda torch, x: with_gradient(torch.tensor(x)),
    "computed with a gradient": lambda torch, x: with_gradient(torch.tensor(x)) * 1,
    "bfloat16": lambda torch, x: torch.tensor(x, dtype=torch.bfloat16),
    "bfloat16 with a gradient": lambda torch, x: with_gradient(
        torch.tensor(x, dtype=torch.bfloat16)
    ),
    "float8": lambda torch, x: torch.tensor(x).to(torch.float8_e4m3fn),
    "a transposed view": lambda torch, x: torch.tensor(x).mT.contiguous().mT,
    "tensors in a list": lambda torch, x: list(with_gradient(torch.tensor(x))),
    "numbers in lists": lambda torch, x: [list(with_gradient(torch.tensor(row))) for row in x],
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_inputs_may_be_tensors_of_any_sort(torch, form):
    labels = ["a", "b", "a", "b"]
    expected = lw.Monitor(RULE).observe_many(ROWS, labels)
    monitor = lw.Monitor(RULE)
    given = form(torch, ROWS)
    assert monitor.observe_many(given, labels).counts.tolist() == expected.counts.tolist()
    assert monitor.observe(given[0], "a").witnesses.rows.tolist() == [1]
    assert monitor.check(given[3], "c").witnesses.rows.tolist() == [3]
    assert monitor.past.inputs(4).tolist() == [ROWS[0]]
    assert lw.calibrate(RULE, given, labels).rows.tolist() == [-1, 0, 1, 0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("form", ["float32", "a gradient", "bfloat16", "tensors in a list"])
def test_outputs_may_be_tensors(torch, form):
    given = FORMS[form](torch, [0.0, 2.0, 0.0, 2.0])
    for rule in (RULE, NUMBER):
        monitor = lw.Monitor(rule)
        assert monitor.observe_many(ROWS, given).counts.tolist() == [0, 1, 1, 0]
        for z in (given[0], 0.0, 0):
            assert monitor.check(ROWS[0], z).witnesses.rows.tolist() == [1]
        assert monitor.observe(ROWS[3], given[1]).violation is False
    chances = FORMS[form](torch, [[0.25, 0.75], [0.75, 0.25]])
    monitor = lw.Monitor(CHANCES)
    assert monitor.observe_many(ROWS[:2], chances).counts.tolist() == [0, 1]
    assert monitor.check(ROWS[0], chances[0]).witnesses.rows.tolist() == [1]


def test_a_label_is_the_same_as_a_tensor_and_as_a_number(torch):
    monitor = lw.Monitor(RULE)
    for _ in range(3):
        assert not monitor.observe(ROWS[0], torch.tensor(1)).violation
    labels = torch.tensor([1, 1, 1, 1])
    assert monitor.observe_many(ROWS, labels).pairs == 0
    assert monitor.observe_many(ROWS, list(labels)).pairs == 0
    assert monitor.observe_many(ROWS, [(torch.tensor(2), "a")] * 4).counts.tolist() != [0] * 4
    assert not monitor.check([5.0, 5.0], 1).violation
    assert monitor.check(ROWS[3], torch.tensor(True)).witnesses.rows.tolist() == [14]
    verdict = lw.Monitor(RULE).observe_many(ROWS[:2], [(torch.tensor(2), "a"), (2, "a")])
    assert verdict.pairs == 0


def test_a_tensor_of_several_numbers_is_no_label(torch):
    monitor = lw.Monitor(RULE)
    for z in (torch.tensor([1, 2]), torch.tensor([[1.0]]), torch.tensor([1])):
        with raises(lw.errors.BadDecision):
            monitor.observe(ROWS[0], z)
        with pytest.raises(lw.errors.BadDecision):
            monitor.observe_many(ROWS[:2], [z, z])
    for z in (torch.tensor([1, 2]), torch.tensor([[1.0]])):
        with raises(lw.errors.BadDecision):
            lw.Monitor(NUMBER).observe(ROWS[0], z)
    with raises(lw.errors.BadDecision):
        monitor.observe(ROWS[0], torch.tensor(float("nan")))
    assert len(monitor) == 0


def test_a_tensor_that_holds_one_number_is_that_number_alone_and_in_a_batch(torch):
    held = torch.tensor([1.5])
    alone, batch = lw.Monitor(NUMBER), lw.Monitor(NUMBER)
    alone.observe(ROWS[0], held)
    batch.observe_many(ROWS[:1], [held])
    for monitor in (alone, batch):
        assert list(monitor.past.outputs([0])) == [1.5]


def test_tensors_that_numpy_cannot_have_are_refused(torch):
    for x in (
        torch.ones(2, device="meta"),
        torch.ones(2).to_sparse(),
        torch.ones(2, dtype=torch.complex64).conj(),
    ):
        for rule in (RULE, NUMBER):
            monitor = lw.Monitor(rule)
            with raises(lw.errors.BadDecision):
                monitor.observe(x, 1)
            with raises(lw.errors.BadDecision):
                monitor.observe_many([x, x], [1, 1])
            for z in (x, torch.ones((), device="meta")):
                with pytest.raises(lw.errors.BadDecision):
                    monitor.observe(ROWS[0], z)
            if rule is NUMBER or not x.is_complex():  # a complex number is a label
                with pytest.raises(lw.errors.BadDecision):
                    monitor.observe_many(ROWS[:2], x)
            with pytest.raises(lw.errors.BadDecision):
                monitor.observe_many(ROWS[:2], [x, x])
            assert len(monitor) == 0


def test_whole_numbers_that_float64_rounds_are_refused(torch):
    with raises(lw.errors.BadDecision):
        lw.Monitor(RULE).observe(torch.tensor([BIG + 1]), "a")
    with raises(lw.errors.BadDecision):
        lw.Monitor(NUMBER).observe([1.0], torch.tensor(BIG + 1))
    with raises(lw.errors.BadDecision):
        lw.Monitor(RULE).observe([0.5, torch.tensor(BIG + 1)], "a")
    monitor = lw.Monitor(RULE)
    monitor.observe([1.0], torch.tensor(BIG))
    assert monitor.check([1.0], torch.tensor(BIG + 1)).violation


@pytest.mark.filterwarnings("error")
def test_values_of_a_row_may_be_tensors(torch):
    rule = lw.Rule(
        features={
            "a": Feature("number", tolerance=1),
            "c": Feature("category"),
            "id": Feature("key"),
        },
        output_column="z",
    )
    monitor = lw.Monitor(rule)

    def row(i, z):
        return {
            "a": with_gradient(torch.tensor(0.5)),
            "c": torch.tensor(3),
            "id": torch.tensor(i),
            "z": z,
        }

    assert not monitor.observe(row(0, torch.tensor(1))).violation
    assert not monitor.observe({"a": 0.5, "c": 3, "id": 1, "z": 1}).violation
    assert monitor.observe(row(2, torch.tensor(2))).witnesses.rows.tolist() == [0, 1]
    assert monitor.observe_many([row(3, 1), row(4, 1)]).counts.tolist() == [1, 1]
    assert monitor.row_of(3) == monitor.row_of(torch.tensor(3)) == 3
    with raises(lw.errors.BadDecision):
        monitor.observe(row(0, 1))
    several = torch.tensor([1.0, 2.0])
    for name in ("a", "c", "id", "z"):
        with raises(lw.errors.BadDecision):
            monitor.observe({**row(9, 1), name: several})
    with raises(lw.errors.BadDecision):
        monitor.observe({**row(9, 1), "a": torch.tensor(BIG + 1)})
    assert len(monitor) == 5


@pytest.mark.filterwarnings("error")
def test_a_function_that_embeds_may_answer_with_tensors(torch):
    def embed(texts):
        sizes = torch.tensor([[float(len(text)), 1.0] for text in texts])
        return with_gradient(sizes).to(torch.bfloat16)

    monitor = lw.Monitor(lw.Rule("linf", 0.1, embed=embed))
    monitor.observe("one", "a")
    assert monitor.observe("two", "b").witnesses.rows.tolist() == [0]
    assert monitor.observe_many(["four", "six"], ["a", "a"]).counts.tolist() == [0, 1]
