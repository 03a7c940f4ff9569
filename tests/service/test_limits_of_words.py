"""How many distinct words a monitor takes can be limited; what is refused leaves no trace."""

import pytest

import likewise as lw
from tests.support.refusals import raises

RULE = lw.Rule(
    features={
        "age": lw.Feature("number", tolerance=5),
        "job": lw.Feature("category"),
    },
    output_column="approved",
)


@pytest.mark.parametrize("with_ledger", [False, True], ids=["memory", "ledger"])
def test_new_words_are_refused_at_the_limit_and_known_ones_taken(tmp_path, with_ledger):
    monitor = lw.open(tmp_path / "l", RULE) if with_ledger else lw.Monitor(RULE)
    with monitor:
        monitor.core.limit_words(2)
        for i, job in enumerate(("nurse", "cook")):
            monitor.observe({"age": i, "job": job, "approved": "yes"}, model=f"m{i}")
        before = monitor.rows, monitor.core.memory.words()
        for row, model in (
            ({"age": 3, "job": "pilot", "approved": "yes"}, None),
            ({"age": 3, "job": "cook", "approved": "yes"}, "m2"),
        ):
            with raises(lw.errors.TooManyNames):
                monitor.observe(row, model=model)
        with raises(lw.errors.TooManyNames):
            monitor.observe_many([{"age": 4, "job": j, "approved": "no"} for j in ("cook", "x")])
        assert (monitor.rows, monitor.core.memory.words()) == before
        monitor.observe({"age": 5, "job": "cook", "approved": "no"}, model="m1")
        with raises(lw.errors.TooManyNames):
            monitor.observe({"age": 5, "job": "cook", "approved": "perhaps"})
        assert monitor.rows == before[0] + 1


def test_a_batch_counts_its_own_new_labels():
    monitor = lw.Monitor(lw.Rule("linf", 0.1))
    monitor.core.limit_words(3)
    with raises(lw.errors.TooManyNames, place=3):
        monitor.observe_many([[0.0]] * 5, ["a", "b", "c", "d", "e"])
    assert monitor.rows == 0
    assert len(monitor.observe_many([[0.0]] * 5, ["a", "b", "c", "b", "a"])) == 5


def test_a_ledger_made_again_keeps_the_limit(tmp_path):
    with lw.open(tmp_path / "l", lw.Rule("linf", 0.1)) as monitor:
        monitor.core.limit_words(1)
        monitor.observe([0.0], "a")
        monitor.core.ledger.journal.restore(check=False)
        with raises(lw.errors.TooManyNames):
            monitor.observe([0.0], "b")
        assert monitor.observe([0.0], "a").row == 1


def test_administration_is_chained_and_verifies(tmp_path):
    with lw.open(tmp_path / "l", lw.Rule("linf", 0.1)) as monitor:
        monitor.observe([0.0], "a")
        monitor.ledger.record_administration("auditor", "erase", count=1)
        assert monitor.observe([0.0], "b").count == 1
        assert monitor.ledger.verify().ok
    with lw.Ledger(tmp_path / "l") as ledger:
        (said,) = [event for event in ledger.events() if event.kind == "administration"]
    assert said.body == {"who": "auditor", "what": "erase", "count": 1}
