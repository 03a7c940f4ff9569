"""Pages of contradictions: the order of an index, with filters, and stopped anywhere."""

import numpy as np
import pytest

import likewise as lw
from likewise.ledger import violation_query
from likewise.ledger.ledger import Ledger
from likewise.ledger.violation_query import PageCursor, ViolationQuery, place_of

pytestmark = pytest.mark.pairwise


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """300 decisions on few inputs, so that there are many ties; some reviewed, some erased."""
    path = tmp_path_factory.mktemp("pages") / "ledger"
    drawn = np.random.default_rng(4)
    x = drawn.integers(0, 12, (300, 1)) / 20
    z = [("a", "b", "c")[i] for i in drawn.integers(0, 3, 300)]
    with lw.open(path, lw.Rule("linf", 0.1)) as monitor:
        for i in range(300):
            monitor.observe(x[i], z[i], key=i, time=1_000.0 + i - 7 * (i % 3), model=f"m{i % 2}")
        with Ledger(path) as ledger:
            flagged = [one.row for one in ledger.violations()]
        for row in flagged[::9]:
            monitor.ledger.review(row, None, "error", reason="so", reviewer="ana")
        monitor.erase(rows=flagged[5:200:40])
    return path


FILTERS = [
    {},
    {"model": "m1"},
    {"review": "error"},
    {"review": "open"},
    {"within": 0.05},
    {"since": 1_100.0, "until": 1_200.0},
    {"model": "m0", "review": "open", "within": 0.0},
    {"model": "never"},
]


def pages(ledger, order, limit, seconds=0.15, **filters):
    rows, behind, query = [], None, ViolationQuery(order, **filters)
    for _ in range(1000):
        page = ledger.violations_page(query, behind=behind, limit=limit, seconds=seconds)
        assert len(page.rows) <= limit
        rows += page.rows
        behind = page.next
        if behind is None:
            return rows
    raise AssertionError("there is no end")


@pytest.mark.parametrize("filters", FILTERS, ids=str)
@pytest.mark.parametrize("order", ["oldest", "newest", "nearest"])
@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.long), 3, 1000])
def test_pages_have_what_the_ledger_has_in_their_order(folder, filters, order, stride, monkeypatch):
    monkeypatch.setitem(violation_query.STRIDE, order, stride)
    with Ledger(folder) as ledger:
        every = list(ledger.violations(**filters))
        distances = dict(ledger.reader.all("SELECT row, distance FROM verdict"))
        if order != "nearest":
            expected = sorted((one.row for one in every), reverse=order == "newest")
        else:
            known = [one.row for one in every if distances[one.row] is not None]
            expected = sorted(known, key=lambda row: (distances[row], row))
        for seconds in (10.0, 0.0):
            assert pages(ledger, order, 7, seconds=seconds, **filters) == expected
        assert pages(ledger, order, 1000, **filters) == expected


def test_a_page_goes_on_behind_any_row(folder):
    with Ledger(folder) as ledger:
        nearest = ViolationQuery("nearest")
        every = ledger.violations_page(nearest, limit=1000).rows
        for at in range(0, len(every), 11):
            place = place_of(ledger.reader, "nearest", every[at])
            rest = ledger.violations_page(nearest, behind=place, limit=1000).rows
            assert rest == every[at + 1 :]
        query, place = ViolationQuery("newest"), PageCursor(every[3])
        newest = ledger.violations_page(query, behind=place, limit=1000).rows
        assert newest == sorted((row for row in every_row(ledger) if row < every[3]), reverse=True)
        query = ViolationQuery("oldest")
        oldest = ledger.violations_page(query, behind=place, limit=1000).rows
        assert oldest == [row for row in every_row(ledger) if row > every[3]]


@pytest.mark.parametrize("order", ["oldest", "newest", "nearest"])
def test_pages_by_output_have_the_rows_with_that_output(folder, order):
    with Ledger(folder) as ledger:
        every = pages(ledger, order, 1000)
        for output in ("a", "b", "never"):
            expected = [row for row in every if ledger.entry(row).output == output]
            for limit in (1, 7, 1000):
                assert pages(ledger, order, limit, output=output) == expected


def every_row(ledger):
    return [one.row for one in ledger.violations()]


@pytest.mark.parametrize("stride", [1, 4, 1000])
def test_who_names_a_row_is_found_however_far_each_look_goes(folder, stride, monkeypatch):
    monkeypatch.setitem(violation_query.STRIDE, "newest", stride)
    with Ledger(folder) as ledger:
        naming = {}
        for one in ledger.violations():
            for witness in one.nearest:
                naming.setdefault(witness.row, []).append(one.row)
        for row in [*list(naming)[:12], 299]:
            rows, after = [], None
            while True:
                page = ledger.find_rows_naming(row, after=after, limit=3, seconds=0.0)
                rows += page.rows
                if page.next is None:
                    break
                after = page.next.row
            assert rows == naming.get(row, [])


def test_the_database_follows_its_indexes_and_sorts_nothing(folder):
    with Ledger(folder) as ledger:
        seen = []
        plain = ledger.reader.all

        def explained(query, *values):
            if "verdict" in query and query.startswith("SELECT"):
                seen.append([step[3] for step in plain(f"EXPLAIN QUERY PLAN {query}", *values)])
            return plain(query, *values)

        ledger.reader.all = explained
        for order in ("oldest", "newest", "nearest"):
            query = ViolationQuery(order, model="m1", review="open", within=0.05)
            ledger.violations_page(query, limit=3)
        ledger.find_rows_naming(3)
    assert seen
    for plan in seen:
        assert not any("TEMP B-TREE" in step for step in plan), plan
        assert "CO-ROUTINE verdict" in plan or "SCAN verdict" not in plan, plan


def test_outputs_and_dispositions_of_rows_are_those_of_entries(folder):
    with Ledger(folder) as ledger:
        rows = [0, 1, 2, 70, 71, 150, 299]
        assert ledger.outputs_of(rows) == [ledger.entry(row).output for row in rows]
        flagged = every_row(ledger)
        error = {one.row for one in ledger.violations(review="error")}
        assert ledger.dispositions(flagged) == dict.fromkeys(sorted(error), "error")
        for row in flagged[:20]:
            by_row = [one for one in ledger.reviews() if one.row == row]
            assert ledger.reviews(row) == by_row
        last = ledger.reviews()[-1]
        assert ledger.reviews(first=last.event) == [last]
