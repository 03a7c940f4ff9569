"""Reviews from the queue to the ledger and its chain, over HTTP."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from likewise.ledger.ledger import Ledger
from likewise.ledger.violation_query import ViolationQuery
from tests.pages.people_at_work import Person, loan, text_of, told, work_server

REASON = "same <job> & age; only “sex” differs\nsecond line"


MONITORS = 12
"""One for each test."""


@dataclass
class Desk:
    """A monitor that one test works on."""

    server: Any
    secrets: dict
    name: str
    ledger: Path


@pytest.fixture(scope="module")
def desks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("queue")
    names = [f"q{i}" for i in range(MONITORS)]
    more = "".join(f'[monitors.{one}]\nrule = "rule.toml"\nledger = "{one}"\n' for one in names)
    serving, secrets = work_server(folder, more=more)
    with serving as running:
        yield iter([Desk(running, secrets, one, folder / one) for one in names])


@pytest.fixture
def desk(desks):
    desk = next(desks)
    told(desk.server, (loan(i) for i in range(40)), name=desk.name)
    return desk


def person(desk, name):
    return Person(desk.server, desk.secrets[name], desk.name)


def fields_of(told, **more):
    """What the form of the queue would send."""
    pair = told["pair"]
    seen = max((one["event"] for one in pair["reviews"]), default=-1)
    return {
        "row": pair["row"],
        "witness": pair["witness"],
        "seen": seen,
        "state": told["state"],
        "disposition": "error",
        "reason": REASON,
    } | more


def nearest(desk, count):
    with Ledger(desk.ledger) as ledger:
        return ledger.violations_page(ViolationQuery("nearest"), limit=count).rows


def test_a_review_goes_from_the_queue_to_the_chain_and_the_next_pair_comes(desk):
    ana = person(desk, "ana")
    first, second = nearest(desk, 2)
    told = ana.twin("queue")
    assert told["pair"]["row"] == first and told["reviewer"] == "ana"
    assert ana.twin("queue")["pair"]["row"] == first, "a look again keeps the pair"
    answer = ana.send("queue/review", fields_of(told))
    assert answer.status == 303 and "done=reviewed" in answer.headers["location"]
    assert ana.twin("queue")["pair"]["row"] == second
    with Ledger(desk.ledger) as ledger:
        (review,) = ledger.reviews(first)
        assert (review.disposition, review.reviewer, review.reason) == ("error", "ana", REASON)
        assert review.witness == told["pair"]["witness"]
        assert ledger.verify().ok
    page = ana.page(f"pairs/{first}")
    assert "same &lt;job&gt; &amp; age" in page and "<job>" not in page
    assert ana.twin("violations?review=error")["violations"][0]["row"] == first


def test_a_reason_and_a_disposition_are_required(desk):
    ana = person(desk, "ana")
    told = ana.twin("queue")
    for wrong in ({"reason": " "}, {"disposition": "fine"}, {"disposition": "open"}, {"row": "x"}):
        assert ana.send("queue/review", fields_of(told, **wrong)).status in (400, 422), wrong
    with Ledger(desk.ledger) as ledger:
        assert ledger.reviews() == []
    assert ana.twin("queue")["pair"]["row"] == told["pair"]["row"]


def test_undo_is_a_new_entry_and_the_pair_comes_back(desk):
    ana = person(desk, "ana")
    told = ana.twin("queue")
    row = told["pair"]["row"]
    ana.send("queue/review", fields_of(told))
    last = ana.twin("queue")["last"]
    assert last["row"] == row and last["disposition"] == "error"
    undo = {"row": row, "witness": last["witness"], "seen": last["event"], "state": "open"}
    assert ana.send("queue/undo", undo | {"reason": "mistaken"}).status == 303
    again = ana.twin("queue")
    assert again["last"] is None and again["pair"]["row"] == row
    with Ledger(desk.ledger) as ledger:
        assert [one.disposition for one in ledger.reviews(row)] == ["error", "open"]
        assert ledger.dispositions([row]) == {}
        assert ledger.verify().ok
    assert ana.send("queue/undo", undo | {"reason": "twice"}).status == 409


def test_two_reviewers_never_have_the_same_pair(desk):
    ana, bo = person(desk, "ana"), person(desk, "bo")
    mine, theirs = ana.twin("queue"), bo.twin("queue")
    assert mine["pair"]["row"] != theirs["pair"]["row"]
    working = {one["reviewer"]: one["row"] for one in bo.twin("queue")["leases"]}
    assert working == {"ana": mine["pair"]["row"], "bo": theirs["pair"]["row"]}
    assert bo.send("queue/review", fields_of(mine)).status == 409, "it is ana's"
    assert bo.twin("queue")["pair"]["row"] == theirs["pair"]["row"]
    assert "is reviewing this pair now" in bo.page(f"pairs/{mine['pair']['row']}")
    ana.send("queue/skip", {"row": mine["pair"]["row"], "state": "open"})
    assert ana.twin("queue")["pair"]["row"] not in (mine["pair"]["row"], theirs["pair"]["row"])
    bo.send("queue/skip", {"row": theirs["pair"]["row"], "state": "open"})
    assert bo.twin("queue")["pair"]["row"] == mine["pair"]["row"], "what ana gave back"


def test_a_review_since_a_page_was_opened_is_not_overwritten_unseen(desk):
    ana, bo = person(desk, "ana"), person(desk, "bo")
    told = ana.twin("queue")
    ana.send("queue/skip", {"row": told["pair"]["row"], "state": "open"})
    assert bo.send("queue/review", fields_of(told, state="")).status == 303
    late = ana.send("queue/review", fields_of(told, state="", disposition="justified"))
    assert late.status == 409 and b"has reviewed row" in late.body


def test_a_second_look_and_how_far_reviewers_agree(desk):
    ana, bo = person(desk, "ana"), person(desk, "bo")
    for disposition in ("error", "error", "justified", "unfair"):
        ana.send("queue/review", fields_of(ana.twin("queue"), disposition=disposition))
    assert ana.twin("queue?state=second")["pair"] is None, "her own are not for her"
    for disposition in ("error", "justified", "justified"):
        look = bo.twin("queue?state=second")
        assert look["pair"]["reviews"][0]["reviewer"] == "ana"
        bo.send("queue/review", fields_of(look, disposition=disposition), "queue?state=second")
    found = ana.twin("queue")["reviewer_agreement"]
    # Ana: error error justified; Bo: error justified justified. Observed 2/3, by chance
    # (2*1 + 1*2) / 9; Cohen's kappa is (2/3 - 4/9) / (1 - 4/9).
    assert found["pairs"] == 3 and found["method"] == "Cohen"
    assert found["share"] == pytest.approx(2 / 3)
    assert found["kappa"] == pytest.approx((2 / 3 - 4 / 9) / (1 - 4 / 9))
    page = text_of(ana.page("queue"))
    assert "This is based on 3 decisions and 2 reviewers." in page


def test_unclear_ones_wait_for_somebody_else(desk):
    ana, bo = person(desk, "ana"), person(desk, "bo")
    look = ana.twin("queue")
    ana.send("queue/review", fields_of(look, disposition="unclear"))
    assert ana.twin("queue?state=unclear")["pair"] is None
    assert bo.twin("queue?state=unclear")["pair"]["row"] == look["pair"]["row"]


def test_what_was_put_aside_can_be_had_again(desk):
    ana = person(desk, "ana")
    seen = []
    while (look := ana.twin("queue"))["pair"] is not None:
        seen.append(look["pair"]["row"])
        assert len(seen) < 100
        ana.send("queue/skip", {"row": seen[-1], "state": "open"})
    assert len(seen) == len(set(seen)) == look["skipped"] > 5
    assert f"Show {len(seen)} pair{'s' * (len(seen) != 1)} that you skipped" in ana.page("queue")
    ana.send("queue/back", {"state": "open"})
    assert ana.twin("queue")["pair"]["row"] == seen[0]


def test_who_may_not_review_sees_how_far_it_is_and_takes_nothing(desk):
    reader = person(desk, "reader")
    told = reader.twin("queue")
    assert told["pair"] is None and told["leases"] == [] and not told["may_review"]
    assert "scope <code>review</code>" in reader.page("queue")
    look = person(desk, "ana").twin("queue")
    answer = reader.send("queue/review", fields_of(look), "groups")
    assert answer.status == 403


def test_a_form_without_its_token_does_nothing(desk):
    ana = person(desk, "ana")
    look = ana.twin("queue")
    ana.page("queue")
    body = "&".join(
        f"{k}={v}"
        for k, v in {
            "row": look["pair"]["row"],
            "disposition": "error",
            "reason": "x",
            "seen": -1,
        }.items()
    ).encode()
    kind = {"content-type": "application/x-www-form-urlencoded"}
    assert ana.ask("POST", "queue/review", body, **kind).status == 403
    with Ledger(desk.ledger) as ledger:
        assert ledger.reviews() == []


@pytest.mark.long
def test_erased_pairs_leave_the_queue(desk):
    ana = person(desk, "ana")
    row = ana.twin("queue")["pair"]["row"]
    answer = desk.server.ask("POST", f"/v1/monitors/{desk.name}/erase", {"rows": [row]})
    assert answer.status == 200
    assert ana.twin("queue")["pair"]["row"] != row
    page = ana.page(f"pairs/{row}")
    assert "were erased" in page and not re.search(rf">k{row}<", page)
