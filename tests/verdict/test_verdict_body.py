"""Verdicts as dictionaries, and as tables for notebooks."""

import datetime
import json

import likewise as lw
from tests.support.looping import each
from tests.support.strict_html import Reader

HOSTILE = "<script>alert(\"x\" & 'y')</script>"
NEAR = [[0.0], [0.3], [0.1], [0.2]]


def judged(keys=None, **settings):
    monitor = lw.Monitor(lw.Rule("linf", 1.0), **settings)
    return monitor.observe_many([*NEAR, [0.0], [50.0]], ["a"] * 4 + ["b", "a"], keys=keys)


def read(page):
    reader = Reader(more=["caption"])
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return " ".join(reader.texts), reader.seen


def test_dictionary_has_the_fields_in_their_order_and_the_nearest_witness_first():
    told = judged()[4].to_dict()
    assert list(told) == ["row", "violation", "count", "witnesses"]
    assert (told["row"], told["violation"], told["count"]) == (4, True, 4)
    assert [one["row"] for one in told["witnesses"]] == [0, 2, 3, 1]
    assert told["witnesses"][1] == {"row": 2, "input_distance": 0.1, "output_distance": 1.0}


def test_dictionary_names_as_many_witnesses_as_are_wanted_and_counts_all():
    verdict = judged()[4]
    for most in range(6):
        told = verdict.to_dict(most)
        assert told["count"] == 4
        assert told["witnesses"] == verdict.to_dict()["witnesses"][:most]


def test_dictionary_has_the_keys_that_were_given():
    told = judged(keys=["p", "q", 3, None, "s", "t"])[4].to_dict()
    assert list(told)[:2] == ["row", "key"]
    assert told["key"] == "s"
    assert [one.get("key") for one in told["witnesses"]] == ["p", 3, None, "q"]
    assert ["key" in one for one in told["witnesses"]] == [True, True, False, True]


def test_dictionary_counts_neighbours_where_a_burst_is_counted():
    told = judged(burst=lw.Burst(last=4, alarm=4))[4].to_dict()
    assert list(told)[-2:] == ["neighbours", "alarm"]
    assert (told["neighbours"], told["alarm"]) == (4, True)


def test_dictionary_says_what_a_ledger_compared_with(tmp_path):
    with lw.open(tmp_path / "led", lw.Rule("linf", 1.0)) as monitor:
        monitor.observe_many([[0.0], [9.0]], ["a", "b"])
        monitor.forget([1])
        told = monitor.observe([0.1], "b").to_dict()
    assert told["compared_with"] == {"first": 0, "stop": 2, "absent": 1}


def test_dictionary_of_a_check_has_no_row():
    monitor = lw.Monitor(lw.Rule("linf", 1.0))
    monitor.observe([0.0], "a")
    assert monitor.check([0.0], "b").to_dict()["row"] is None
    assert [one["row"] for one in monitor.check_many([[0.0]], ["b"]).to_dicts()] == [None]


@each(
    "key", ["text", HOSTILE, 7, True, 1.5, float("inf"), datetime.date(2020, 1, 1), (1, 2), b"raw"]
)
def test_dictionary_is_strict_json_whatever_a_key_is(key):
    monitor = lw.Monitor(lw.Rule("linf", 1.0))
    monitor.observe([0.0], "a", key=key)
    told = monitor.observe([0.0], "b", key="other").to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_dictionaries_of_a_batch_are_those_of_its_verdicts():
    verdicts = judged(keys=list("pqrstu"))
    assert verdicts.to_dicts() == [verdict.to_dict() for verdict in verdicts]
    assert verdicts.to_dicts(1) == [verdict.to_dict(1) for verdict in verdicts]


def test_table_of_a_verdict_has_its_nearest_witnesses():
    text, tags = read(judged(keys=list("pqrstu"))[4]._repr_html_())
    assert "row 4, key t, contradicts 4 earlier decisions" in text
    assert tags.count("tr") == 5
    assert text.index("0.1") < text.index("0.3")


def test_table_of_a_batch_has_what_violates():
    text, tags = read(judged()._repr_html_())
    assert "6 decisions, 1 violating" in text
    assert tags.count("tr") == 2


def test_tables_are_small_and_say_how_many_are_left_out():
    monitor = lw.Monitor(lw.Rule("linf", 1.0))
    monitor.observe_many([[0.0]] * 50, ["a"] * 50)
    verdicts = monitor.observe_many([[0.0]] * 50, ["b"] * 50)
    for table in (verdicts, verdicts[0]):
        text, tags = read(table._repr_html_())
        assert "and 40 more" in text
        assert tags.count("tr") == 11


def test_table_is_a_sentence_where_there_is_nothing_to_show():
    verdicts = judged()
    assert read(verdicts[0]._repr_html_()) == ("row 0 contradicts nothing", ["p"])
    assert (
        "table" not in lw.Monitor(lw.Rule("linf", 1.0)).observe_many([[1.0]], ["a"])._repr_html_()
    )


def test_tables_tell_of_alarms_and_checks():
    verdicts = judged(burst=lw.Burst(last=4, alarm=4))
    assert "has 4 neighbours and raises an alarm" in read(verdicts[4]._repr_html_())[0]
    assert "1 raising an alarm" in read(verdicts._repr_html_())[0]
    monitor = lw.Monitor(lw.Rule("linf", 1.0))
    monitor.observe([0.0], "a")
    assert "this one contradicts 1 earlier decision" in monitor.check([0.0], "b")._repr_html_()
    assert "place" in read(monitor.check_many([[0.0]], ["b"])._repr_html_())[0]


def test_tables_escape_keys():
    verdicts = judged(keys=[HOSTILE, "q", "r", "\x1b[2J", HOSTILE + "2", "u"])
    for table in (verdicts, verdicts[4]):
        page = table._repr_html_()
        assert "<script" not in page
        assert "\x1b" not in page
        assert HOSTILE in read(page)[0]
