"""Reviews, corrections and what turned out: chained, kept, destroyed with the person."""

import math

import numpy as np
import pytest

import likewise as lw
from likewise.verdict.context import ComparedRows
from tests.support.refusals import raises

RULE = lw.Rule("linf", 0.1)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "ledger"
    with lw.open(path, RULE, comparable=True) as monitor:
        monitor.observe([0.1, 0.2], "yes", key="ann", time=1.7e9)
        monitor.observe([0.1, 0.25], "no", key="ben", time=1.7e9 + 10)
        monitor.observe([0.9, 0.9], "no", key="cid", time=1.7e9 + 20)
        monitor.observe([0.12, 0.2], "no", key="dan", time=1.7e9 + 30)
    return path


def test_reviews_are_chained_and_the_last_one_counts(folder):
    with lw.open(folder) as monitor:
        monitor.ledger.review(1, 0, "unfair", reason="same file, other answer", reviewer="eve")
        monitor.ledger.review(3, None, "justified", reason="new policy", reviewer="eve")
        monitor.ledger.review(1, 0, "error", reason="a typo after all", reviewer="fay")
        assert monitor.ledger.verify().ok
    with lw.Ledger(folder) as ledger:
        assert [(one.row, one.disposition, one.reviewer) for one in ledger.reviews()] == [
            (1, "unfair", "eve"),
            (3, "justified", "eve"),
            (1, "error", "fay"),
        ]
        assert ledger.reviews(1)[1].reason == "a typo after all"
        assert [entry.row for entry in ledger.violations(review="error")] == [1]
        assert [entry.row for entry in ledger.violations(review="open")] == []
    with lw.open(folder) as monitor:
        monitor.ledger.review(3, None, "open", reason="to be looked at again", reviewer="fay")
    with lw.Ledger(folder) as ledger:
        assert [entry.row for entry in ledger.violations(review="open")] == [3]
        assert ledger.verify().ok


@pytest.mark.parametrize(
    ("given", "error", "facts"),
    [
        ((2, None, "error", "a", "b"), lw.errors.BadRow, {"row": 2}),
        ((1, 3, "error", "a", "b"), lw.errors.BadRow, {"row": 3}),
        ((1, 0, "fine", "a", "b"), lw.errors.BadRule, {}),
        ((1, 0, "error", " ", "b"), lw.errors.BadRule, {}),
        ((1, 0, "error", "a", ""), lw.errors.BadRule, {}),
    ],
)
def test_a_review_that_makes_no_sense_is_refused(folder, given, error, facts):
    row, witness, disposition, reason, reviewer = given
    with lw.open(folder) as monitor:
        head = monitor.ledger.head()
        with raises(error, **facts):
            monitor.ledger.review(row, witness, disposition, reason=reason, reviewer=reviewer)
        assert monitor.ledger.head() == head


def test_an_overruled_decision_stays_as_evidence_and_accuses_no_one(folder):
    with lw.open(folder) as monitor:
        verdict = monitor.ledger.supersede("ben", "yes", by="eve", why="the appeal was granted")
        assert (verdict.row, verdict.witnesses.rows.tolist()) == (4, [3])
        later = monitor.observe([0.1, 0.25], "yes", key="gus")
        assert later.witnesses.rows.tolist() == [3]
        assert later.compared_with == ComparedRows(0, 5, 1)
        with raises(lw.errors.BadRow):
            monitor.ledger.supersede("ben", "no", by="eve", why="again")
        assert monitor.rows == 6 and len(monitor) == 5
    with lw.open(folder) as monitor:  # the same after a restart
        assert monitor.check([0.1, 0.25], "yes").witnesses.rows.tolist() == [3]
        assert len(monitor) == 5
    with lw.Ledger(folder) as ledger:
        (told,) = ledger.supersessions()
        assert (told.row, told.by_row, told.by) == (1, 4, "eve")
        assert told.why == "the appeal was granted"
        old, new = ledger.entry(1), ledger.entry(4)
        assert (old.output, old.key, old.erased) == ("no", "ben", False)
        assert (new.output, new.key) == ("yes", None)
        np.testing.assert_array_equal(ledger.values(1)["input"], ledger.values(4)["input"])
        assert ledger.verify().ok
    assert lw.replay(folder).ok


def test_a_table_is_overruled_with_its_words(tmp_path):
    rule = lw.Rule(
        features={"age": lw.Feature("number", tolerance=5), "job": lw.Feature("category")},
        output_column="ok",
    )
    with lw.open(tmp_path, rule) as monitor:
        monitor.observe({"age": 40, "job": "nurse", "ok": "no"}, key="ann")
        monitor.observe({"age": 41, "job": "smith", "ok": "no"}, key="ben")
        monitor.ledger.supersede("ben", "yes", by="eve", why="an appeal")
        monitor.erase(key="ann")  # which looks for words that no row has any more
    with lw.Ledger(tmp_path) as ledger:
        assert ledger.values(1) == {"age": 41.0, "job": "smith"}
        assert ledger.values(2) == {"age": 41.0, "job": "smith"}
        assert (ledger.entry(1).output, ledger.entry(2).output) == ("no", "yes")
        assert ledger.verify().ok


def test_what_people_said_goes_with_the_person(folder):
    with lw.open(folder) as monitor:
        monitor.ledger.review(1, 0, "error", reason="ann moved to Graz", reviewer="eve")
        monitor.ledger.review(3, None, "error", reason="of ann, and of all others", reviewer="eve")
        assert monitor.observe([0.9, 0.9], "yes", key="eli").witnesses.rows.tolist() == [2]
        monitor.ledger.review(4, None, "error", reason="has nothing to do with her", reviewer="eve")
        monitor.ledger.truth("ann", "repaid early")
        monitor.ledger.supersede("ann", "no", by="eve", why="ann lied about Graz")
        monitor.erase(key="ann")
        assert monitor.ledger.verify().ok
    content = b"".join(path.read_bytes() for path in folder.iterdir())
    assert b"Graz" not in content and b"repaid" not in content and b"of ann" not in content
    assert b"nothing to do" in content
    with lw.Ledger(folder) as ledger:
        assert ledger.erased_rows().tolist() == [0, 5]  # and the decision that took its place
        reasons = [one.reason for one in ledger.reviews()]
        assert reasons == [None, None, "has nothing to do with her"]
        assert ledger.truths()[0].value is None and ledger.supersessions()[0].why is None
        assert math.isnan(ledger.entry(1).nearest[0].input_distance)


def test_truths_keep_their_type(folder):
    with lw.open(folder) as monitor:
        for key, value in (("ann", True), ("ben", 12.5), ("cid", "repaid")):
            monitor.ledger.truth(key, value)
        with raises(lw.errors.BadRow):
            monitor.ledger.truth("zoe", 1)
    with lw.Ledger(folder) as ledger:
        assert [(one.row, one.value) for one in ledger.truths()] == [
            (0, True),
            (1, 12.5),
            (2, "repaid"),
        ]


def test_stats_count_a_stretch_of_time_with_its_denominators(folder):
    with lw.Ledger(folder) as ledger:
        whole = ledger.stats()
        assert (whole.decisions, whole.judged, whole.comparable, whole.violations) == (4, 4, 2, 2)
        assert (whole.rate, whole.rate_among_comparable) == (0.5, 1.0)
        part = ledger.stats(since=1.7e9 + 10, until=1.7e9 + 30)
        assert (part.decisions, part.violations) == (2, 1)
        assert ledger.stats(last="1 hour").decisions == 0
        with raises(lw.errors.BadRule, setting="last"):
            ledger.stats(last="soon")
        assert [e.row for e in ledger.violations(since=1.7e9 + 15)] == [3]
        assert [e.row for e in ledger.violations(until=1.7e9 + 15)] == [1]
        assert [e.row for e in ledger.violations(within=0.03)] == [3]
    with lw.open(folder) as monitor:
        monitor.observe([0.5, 0.5], "yes")
        assert monitor.ledger.stats(last="1 hour").decisions == 1
