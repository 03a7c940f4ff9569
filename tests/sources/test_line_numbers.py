"""Lines and a ledger, exactly once: what is sent again is answered as before, and stored once."""

from contextlib import contextmanager

import pytest

import likewise as lw
from likewise import Feature
from likewise.sources.binding import bind_features, bind_vectors
from likewise.sources.judge_messages import LineNumbers, Messages, PassedLine, StreamJudge
from likewise.sources.protocol import Record
from likewise.verdict.verdict_body import write_body

KEYED = lw.Rule(
    features={"id": Feature("key"), "a": Feature("number", tolerance=1)}, output_column="z"
)
UNKEYED = lw.Rule("linf", 1.0)
ROWS = [
    {"id": "p", "a": 1.0, "z": "x"},
    {"id": "q", "a": 1.5, "z": "y"},
    {"id": "r", "a": 9.0, "z": "y"},
    {"id": "s", "a": 1.25, "z": "x"},
]
RULES = pytest.mark.parametrize("rule", [KEYED, UNKEYED], ids=["by key", "by position"])


def rows_for(rule):
    unwanted = () if rule is KEYED else ("id",)
    return [{name: row[name] for name in row if name not in unwanted} for row in ROWS]


@contextmanager
def opened(folder, rule, resume=True):
    """A judge of lines whose ledger was begun or is gone on with."""

    def bind(columns):
        names = {"source": "the lines", "rule_name": "the rule"}
        if rule.features is not None:
            return bind_features(rule, columns, **names)
        return bind_vectors(rule, columns, "z", named_by="the test", **names)

    with lw.open(folder, rule) as monitor:
        yield StreamJudge(monitor, bind, lines=LineNumbers.of(monitor, resume=resume))


def send(judge, rows, first=1):
    """Answers to rows, each judged once."""
    records = [Record("standard input", i, b"") for i, _ in enumerate(rows, first)]
    verdicts = judge.judge(Messages(records, rows))
    return [write_body(one, keys=judge.has_key_column, compared_with=False) for one in verdicts]


@RULES
@pytest.mark.parametrize("cut", range(len(ROWS) + 1))
def test_decisions_that_are_sent_again_are_answered_again_and_stored_once(rule, cut, tmp_path):
    rows = rows_for(rule)
    with opened(tmp_path / "led", rule) as first:
        told = send(first, rows[:cut]) if cut else []
    with opened(tmp_path / "led", rule) as again:
        answers = send(again, rows)
    assert [one.pop("repeated", False) for one in answers] == [i < cut for i in range(len(rows))]
    assert answers[:cut] == told
    assert [one["row"] for one in answers] == list(range(len(rows)))
    assert [one["count"] for one in answers] == [0, 1, 0, 1]
    with lw.Ledger(tmp_path / "led") as ledger:
        assert ledger.rows == len(rows)


@RULES
def test_keys_are_told_where_they_were_given(rule, tmp_path):
    with opened(tmp_path / "led", rule) as judge:
        fresh = send(judge, rows_for(rule))
        again = send(judge, rows_for(rule))
    for one in (fresh[1], again[1]):
        assert one.get("key") == ("q" if rule is KEYED else None)
        assert ("key" in one) == ("key" in one["witnesses"][0]) == (rule is KEYED)


@RULES
def test_another_decision_in_the_place_of_one_is_refused(rule, tmp_path):
    rows = rows_for(rule)
    with opened(tmp_path / "led", rule) as judge:
        send(judge, rows)
        with pytest.raises(lw.errors.RepeatedKey):
            send(judge, [{**rows[1], "a": 3.0}], first=2)
        assert judge.monitor.rows == len(rows)


def test_line_that_was_passed_without_being_stored_is_not_stored_later(tmp_path):
    rows = rows_for(UNKEYED)
    with opened(tmp_path / "led", UNKEYED) as judge:
        send(judge, rows[:1], first=1)
        send(judge, rows[2:3], first=3)
    with opened(tmp_path / "led", UNKEYED) as again:
        send(again, rows[:1], first=1)
        for some, first in ((rows[1:2], 2), (rows, 1)):
            with pytest.raises(PassedLine):
                send(again, some, first)
        send(again, rows[2:], first=3)
        assert again.monitor.rows == 3


@RULES
@pytest.mark.parametrize("resume", [True, False])
def test_numbers_go_on_unless_the_input_begins_again(rule, resume, tmp_path):
    with opened(tmp_path / "led", rule, resume) as judge:
        assert judge.positions() == {"standard input": 0}
        send(judge, rows_for(rule))
    with opened(tmp_path / "led", rule, resume) as judge:
        before = 4 if rule is UNKEYED and not resume else 0
        assert judge.positions() == {"standard input": before}
        assert not judge.stores_positions
