"""Violations, pair, people, models, groups and rule over HTTP: page and twin say the same."""

import csv
import io
import time
from contextlib import contextmanager

import pytest

from likewise.explaining.pairs import pair_card
from likewise.ledger.ledger import Ledger
from likewise.reports.selected_pairs import stored_pair, whereabouts
from tests.pages.people_at_work import HOSTILE, Person, loan, text_of, told, work_server
from tests.support.lazily import polars as pl

COUNT = 60


@contextmanager
def serving_loans(folder):
    serving, secrets = work_server(folder, text="[pages]\nrecord_looks = true\n")
    with serving as running:
        told(running, (loan(i) for i in range(COUNT // 2)), model="v1")
        told(running, (loan(i) for i in range(COUNT // 2, COUNT)), model="v2 <b>")
        told(running, (loan(i) for i in range(40)), name="memory", model="v1")
        running.folder, running.secrets = folder, secrets
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A service that tests share: they add no decision and erase none."""
    with serving_loans(tmp_path_factory.mktemp("lists")) as running:
        yield running


@pytest.fixture
def own_server(tmp_path):
    """A service for a test that changes what is there."""
    with serving_loans(tmp_path) as running:
        yield running


@pytest.fixture
def ana(server):
    return Person(server, server.secrets["ana"])


def entries(server):
    """What is in the ledger, read beside the server."""
    with Ledger(server.folder / "ledger") as ledger:
        return {one.row: one for one in ledger.violations()}


def rows(told):
    return [line["row"] for line in told["violations"]]


# The list


def test_the_newest_come_first_and_pages_follow_each_other(server, ana):
    expected = sorted(entries(server), reverse=True)
    assert len(expected) > 12
    seen, path = [], "violations?lines=5"
    while True:
        told = ana.twin(path)
        seen += rows(told)
        if told["next"] is None:
            break
        path = f"violations?lines=5&from={told['next']}"
    assert seen == expected


def test_the_nearest_come_first_and_ties_in_order_of_rows(server, ana):
    known = entries(server)
    ranked = sorted(known, key=lambda row: (known[row].nearest[0].input_distance, row))
    seen, path = [], "violations?order=nearest&lines=4"
    while True:
        told = ana.twin(path)
        seen += rows(told)
        if told["next"] is None:
            break
        path = f"violations?order=nearest&lines=4&from={told['next']}"
    assert seen == ranked


def test_filters_are_those_of_the_ledger(server, ana):
    known = entries(server)
    middle = sorted(one.nearest[0].input_distance for one in known.values())[len(known) // 2]
    cases = {
        "model=v1": lambda one: one.model == "v1",
        "output=no": lambda one: one.output == "no",
        "group=sex:f": lambda one: one.row // 5 % 2 == 0,
        f"within={middle!r}": lambda one: one.nearest[0].input_distance <= middle,
        "review=open": lambda one: True,
        "review=error": lambda one: False,
        "since=2020-01-01&until=2020-02-01": lambda one: False,
        "since=2020-01-01": lambda one: True,
        "model=v1&output=yes&group=sex:m": lambda one: (
            one.model == "v1" and one.output == "yes" and one.row // 5 % 2 == 1
        ),
    }
    for order in ("newest", "nearest"):
        for query, passes in cases.items():
            expected = {row for row, one in known.items() if passes(one)}
            told = ana.twin(f"violations?lines=200&order={order}&{query}")
            assert set(rows(told)) == expected and told["next"] is None, (order, query)


def test_counts_have_their_denominator(server, ana):
    counts = ana.twin("violations")["counts"]
    known = entries(server)
    with Ledger(server.folder / "ledger") as ledger:
        stats = ledger.stats()
    assert counts["violations"] == len(known) == stats.violations
    assert counts["comparable"] == stats.comparable > counts["violations"]
    assert f"of {stats.comparable:,} decisions that could be compared" in ana.page("violations")


@pytest.mark.parametrize(
    "query",
    [
        "order=best",
        "review=fine",
        "group=sex",
        "within=far",
        "since=soon",
        "lines=0",
        "from=x",
        "order=nearest&from=3",
    ],
)
def test_a_filter_that_makes_no_sense_is_refused_with_a_page(ana, query):
    answer = ana.ask("GET", f"violations?{query}")
    assert answer.status == 400
    assert b"expected" in answer.body or b"no place" in answer.body


def test_values_stay_text_and_links_lead_to_pairs(server, ana):
    page = ana.page("violations?lines=200")
    assert "<script>" not in page and "v2 <b>" not in page
    told = ana.twin("violations?lines=200")
    for line in told["violations"]:
        assert f'/m/default/pairs/{line["row"]}/{line["witness"]}"' in page


def test_csv_and_workbook_have_what_is_shown_and_no_formulas(own_server):
    ana = Person(own_server, own_server.secrets["ana"])
    told(own_server, [loan(900, id="=1+1", age=30.0, approved="no")])
    told(own_server, [loan(901, id="-2", age=30.0, job="nurse", sex="m", approved="yes")])
    lines = ana.twin("violations?lines=200&order=nearest")["violations"]
    answer = ana.ask("GET", "violations.csv?order=nearest")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["x-likewise-complete"] == "true"
    written = list(csv.DictReader(io.StringIO(answer.body.decode())))
    assert [int(one["row"]) for one in written] == [line["row"] for line in lines]
    keys = {one["witness_key"] for one in written} | {one["key"] for one in written}
    assert "'=1+1" in keys and "=1+1" not in keys
    answer = ana.ask("GET", "violations.xlsx?order=nearest&output=no")
    sheet = pl.read_excel(io.BytesIO(answer.body), sheet_name="pairs")
    no = [line for line in lines if line["output"] == "no"]
    assert sheet["row"].to_list() == [line["row"] for line in no]
    assert "=1+1" in sheet["key"].to_list(), "text in a cell of Excel is text"


def test_a_monitor_in_memory_says_that_it_knows_the_latest_only(server):
    ana = Person(server, server.secrets["ana"], "memory")
    told = ana.twin("violations")
    assert told["source"] == "memory" and rows(told) == sorted(rows(told), reverse=True)
    assert "This monitor is in memory" in ana.page("violations")
    near = ana.twin("violations?order=nearest")["violations"]
    assert [one["distance"] for one in near] == sorted(one["distance"] for one in near)
    row, witness = near[0]["row"], near[0]["witness"]
    page = ana.page(f"pairs/{row}/{witness}")
    assert f"Row {row} contradicts row {witness}" in page
    assert "reviews need a ledger" in page
    assert "in memory" in ana.page("queue")
    assert ana.twin("models")["models"][0]["model"] == "v1"
    assert ana.ask("GET", "violations?review=open").status == 400
    assert ana.twin(f"people?key=k{row}")["row"] == row


# One pair


def test_a_pair_shows_the_report_s_card_others_and_values_as_text(server, ana):
    known = entries(server)
    row = next(row for row, one in known.items() if row % 5 == 4 and one.count > 1)
    witness = known[row].nearest[1].row
    told = ana.twin(f"pairs/{row}/{witness}")
    assert told["pair"]["row"] == row and told["pair"]["witness"] == witness
    assert {one["row"] for one in told["other_witnesses"]} == {
        one.row for one in known[row].nearest if one.row != witness
    }
    page = ana.page(f"pairs/{row}/{witness}")
    assert '<article class="pair"><h3>' in page and "% of the tolerance" in page
    assert "<script>window" not in page and HOSTILE in text_of(page)
    assert ana.page(f"pairs/{row}").count('<article class="pair">') == 1
    with Ledger(server.folder / "ledger") as ledger:
        sides = [ledger.entry(one) for one in (row, witness)]
        pair = stored_pair(ledger, sides[0], known[row].nearest[1])
        later, earlier = map(whereabouts, sides)
        rule = ledger.rule
    card = pair_card(pair, rule, later=later, earlier=earlier, zone="")
    assert card in page, "the report's card"


def test_a_pair_that_there_is_not_is_refused(server, ana):
    known = entries(server)
    row = next(iter(known))
    for path in (f"pairs/{row}/{row}", "pairs/0/0", "pairs/x/1", "pairs/99999/1"):
        assert ana.ask("GET", path).status in (400, 404, 422), path


def test_a_page_that_there_is_not_is_refused_as_a_page_or_as_json(ana):
    for path in ("nothing", "pairs/1/2/3"):
        answer = ana.ask("GET", path)
        assert answer.status == 404 and answer.headers["content-type"].startswith("text/html")
    for path, accept in (("nothing.json", "text/html"), ("nothing", "application/json")):
        answer = ana.ask("GET", path, accept=accept)
        assert answer.status == 404 and answer.json()["code"]


def test_a_look_at_people_is_an_event_where_the_settings_say_so(server, ana):
    row, one = next(iter(entries(server).items()))
    ana.page(f"pairs/{row}/{one.nearest[0].row}")
    with Ledger(server.folder / "ledger") as ledger:
        looks = [
            event.body
            for event in ledger.events()
            if event.kind == "administration" and event.body["what"] == "look"
        ]
    assert {"who": "ana", "what": "look", "screen": "pair", "row": row}.items() <= looks[-1].items()


# Models, groups, rule, people


def test_models_are_told_apart_within_and_across(server, ana):
    models = {one["model"]: one for one in ana.twin("models")["models"]}
    known = entries(server)
    with Ledger(server.folder / "ledger") as ledger:
        of_row = {entry.row: entry.model for entry in ledger.entries()}
    for name in ("v1", "v2 <b>"):
        mine = [one for one in known.values() if one.model == name]
        told = models[name]
        assert told["decisions"] == sum(one == name for one in of_row.values())
        assert told["violations"] == len(mine)
        for side, same in (("within", True), ("across", False)):
            pairs = [
                (one.row, other.row)
                for one in mine
                for other in one.nearest
                if (of_row[other.row] == name) == same
            ]
            assert told[side]["pairs"] == len(pairs)
            assert told[side]["violations"] == len({row for row, _ in pairs})
    page = ana.page("models")
    assert "v2 &lt;b&gt;" in page and "v2 <b>" not in page


def wait_for(person, path, name="computed"):
    until = time.monotonic() + 60
    while True:
        told = person.twin(path)
        if told[name]["state"] != "computing":
            return told
        assert time.monotonic() < until
        time.sleep(0.2)


def test_groups_say_who_got_less_in_both_directions_with_base_rates(server, ana):
    told = wait_for(ana, "groups")
    assert told["computed"]["problem"] is None
    (sex,) = told["columns"]
    assert {one["value"] for one in sex["groups"]} == {"f", "m"}
    assert {"one_less", "other_less", "pairs"} <= sex["comparisons"][0].keys()
    page = ana.page("groups")
    assert "Base rates" in page and "Who got less" in page
    assert ana.send("groups/again", {}, "groups").status == 303


def test_the_rule_is_in_words_and_says_what_another_epsilon_does(server, ana):
    told = wait_for(ana, "rule?epsilon=0.25")
    assert told["computed"]["problem"] is None
    by_epsilon = {one["epsilon"]: one for one in told["epsilons"]}
    assert set(by_epsilon) == {0.25, 0.5, 1.0, 2.0}
    flagged = [by_epsilon[e]["violations"] for e in sorted(by_epsilon)]
    assert flagged == sorted(flagged) and flagged[-1] > flagged[0]
    told = wait_for(ana, "rule", "lines_computed")
    assert told["lines_computed"]["problem"] is None
    assert {one["column"] for one in told["lines"]["variants"]} >= {"age", "job"}
    page = ana.page("rule?epsilon=0.25")
    assert "Which column of the rule matters most" in page
    assert "output_column" in page and "Repeated decisions about one person" in page
    assert ana.ask("GET", "rule?epsilon=0").status == 400
    assert ana.ask("GET", "rule?epsilon=no").status == 400


def test_a_key_leads_to_its_decisions_and_to_pairs_on_both_sides(server, ana):
    known = entries(server)
    row = next(row for row, one in known.items() if row >= 10)
    told = ana.twin(f"people?key=k{row}")
    assert told["row"] == row and told["person"]["value"] == f"p{row // 2}"
    assert {row, row ^ 1} <= {one["row"] for one in told["decisions"]}
    assert {one["witness"] for one in told["contradicts"]} == {
        one.row for one in known[row].nearest
    }
    witness = known[row].nearest[0].row
    told = ana.twin(f"people?key=k{witness}")
    assert {one["row"] for one in told["contradicted_by"]} == {
        later for later, one in known.items() if witness in [w.row for w in one.nearest]
    }
    assert ana.twin("people?key=nobody")["row"] is None
    assert "No decision here has this key" in ana.page("people?key=nobody")
    assert "Look up" in ana.page("people")


def test_erasing_takes_the_key_twice_and_destroys_it(own_server):
    eraser = Person(own_server, own_server.secrets["eraser"])
    told(own_server, [loan(500, id="to go", who="goer"), loan(501, id="stays", who="goer")])
    page = eraser.page("people?key=to+go")
    assert "Type the key once more" in page
    assert "Type the key once more" not in Person(own_server, own_server.secrets["ana"]).page(
        "people?key=to+go"
    )
    wrong = eraser.send("people/erase", {"key": "to go", "again": "to  go"}, "people?key=to+go")
    assert wrong.status == 422 and eraser.twin("people?key=to+go")["row"] is not None
    done = eraser.send("people/erase", {"key": "to go", "again": "to go"}, "people?key=to+go")
    assert done.status == 303 and "done=erased" in done.headers["location"]
    assert eraser.twin("people?key=to+go")["row"] is None
    assert eraser.twin("people?key=stays")["row"] is not None
    with Ledger(own_server.folder / "ledger") as ledger:
        assert ledger.verify().ok
        assert [e.body["who"] for e in ledger.events() if e.body.get("what") == "erase"] == [
            "eraser"
        ]


def test_erasing_a_person_takes_all_decisions_about_them(own_server):
    eraser = Person(own_server, own_server.secrets["eraser"])
    told(own_server, [loan(510, id="g1", who="gone"), loan(511, id="g2", who="gone")])
    fields = {"key": "g1", "again": "g1", "person": "all"}
    assert eraser.send("people/erase", fields, "people?key=g1").status == 303
    assert eraser.twin("people?key=g2")["row"] is None


@pytest.mark.long
def test_who_may_not_erase_is_refused(server, ana):
    answer = ana.send("people/erase", {"key": "k1", "again": "k1"}, "queue")
    assert answer.status == 403 and ana.twin("people?key=k1")["row"] == 1
