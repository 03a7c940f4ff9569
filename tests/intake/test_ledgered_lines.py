"""Exactly once: what is sent again is answered as before, and stored once."""

import numpy as np
import pytest

import likewise as lw
from likewise import Feature
from likewise.intake.binding import bind_features, bind_vectors, judge_with
from likewise.intake.ledgered_lines import LedgeredLines, OtherInput, stored_rule
from likewise.intake.verdict_json import answer
from likewise.sources.chunk import Chunk
from tests.refusals import raises

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


def bound(rule, rows):
    names = {"source": "the stream", "rule_name": "the rule"}
    if rule.features is not None:
        return bind_features(rule, list(rows[0]), **names)
    return bind_vectors(rule, list(rows[0]), "z", named_by="the test", **names)


def send(stored, rule, rows, first=1):
    """Answers to rows, each judged once."""
    binding = bound(rule, rows)
    judge = judge_with(stored.begin(binding), binding, stored.keys)
    verdicts = judge(Chunk(rows, np.arange(first, first + len(rows))))
    return [answer(verdict, keyed=binding.key is not None) for verdict in verdicts]


@RULES
@pytest.mark.parametrize("cut", range(len(ROWS) + 1))
def test_decisions_that_are_sent_again_are_answered_again_and_stored_once(rule, cut, tmp_path):
    rows = rows_for(rule)
    first = LedgeredLines(tmp_path / "led", rule)
    told = send(first, rule, rows[:cut]) if cut else []
    first.close()
    again = LedgeredLines(tmp_path / "led", rule)
    answers = send(again, rule, rows)
    again.close()
    assert [one.pop("known", False) for one in answers] == [i < cut for i in range(len(rows))]
    assert answers[:cut] == told
    assert [one["row"] for one in answers] == list(range(len(rows)))
    assert [one["count"] for one in answers] == [0, 1, 0, 1]
    with lw.Ledger(tmp_path / "led") as ledger:
        assert ledger.rows == len(rows)


@RULES
def test_keys_are_told_where_they_were_given(rule, tmp_path):
    stored = LedgeredLines(tmp_path / "led", rule)
    fresh = send(stored, rule, rows_for(rule))
    again = send(stored, rule, rows_for(rule))
    stored.close()
    for one in (fresh[1], again[1]):
        assert one.get("key") == ("q" if rule is KEYED else None)
        assert ("key" in one) == ("key" in one["witnesses"][0]) == (rule is KEYED)


def test_another_decision_at_a_line_is_other_input(tmp_path):
    rows = rows_for(UNKEYED)
    stored = LedgeredLines(tmp_path / "led", UNKEYED)
    send(stored, UNKEYED, rows)
    with pytest.raises(lw.RepeatedKey) as refused:
        send(stored, UNKEYED, [{**rows[1], "a": 3.0}], first=2)
    other = stored.other_input(refused.value, 2)
    assert isinstance(other, OtherInput)
    assert "line 2 is not what the ledger" in str(other) and "other input" in str(other)
    assert stored.other_input(lw.BadDecision("no number"), 2) is None
    stored.close()


def test_another_decision_with_a_key_is_refused_and_no_other_input(tmp_path):
    stored = LedgeredLines(tmp_path / "led", KEYED)
    send(stored, KEYED, ROWS)
    with pytest.raises(lw.RepeatedKey) as refused:
        send(stored, KEYED, [{**ROWS[0], "a": 3.0}])
    assert stored.other_input(refused.value, 1) is None
    assert stored.why_passed(1) is None
    stored.close()


def test_line_that_was_passed_without_being_stored_is_not_stored_later(tmp_path):
    rows = rows_for(UNKEYED)
    stored = LedgeredLines(tmp_path / "led", UNKEYED)
    send(stored, UNKEYED, rows[:1], first=1)
    send(stored, UNKEYED, rows[2:3], first=3)
    stored.close()
    again = LedgeredLines(tmp_path / "led", UNKEYED)
    assert again.last_number == 3
    again.begin(bound(UNKEYED, rows))
    passed = [again.why_passed(number) is not None for number in (1, 2, 3, 4)]
    assert passed == [False, True, False, False]
    again.close()


def test_rule_is_read_from_a_ledger_that_is_there(tmp_path):
    assert stored_rule(tmp_path / "led") is None
    LedgeredLines(tmp_path / "led", KEYED).close()
    assert stored_rule(tmp_path / "led").fingerprint == KEYED.fingerprint


def test_ledger_of_another_rule_is_not_gone_on_with(tmp_path):
    stored = LedgeredLines(tmp_path / "led", UNKEYED)
    other = lw.Rule("linf", 2.0)
    with raises(lw.BadRule):
        stored.begin(bound(other, rows_for(UNKEYED)))
    stored.close()
