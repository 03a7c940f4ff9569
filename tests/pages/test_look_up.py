"""The page "Look up a case": a form whose answer is the page; who sees what; nothing is kept."""

import asyncio
import re

from tests.pages.asking import Asker, paging, token
from tests.support.rule_texts import rule_text

RULE = rule_text(
    {"id": "key", "who": "person", "age": 4, "job": "category", "sex": "protected"},
    metric="linf",
    output_column="approved",
)
PATH = "/m/default/look-up"


def run(tmp_path, play, rule=RULE, tokens=(), ledger=True):
    async def playing():
        async with paging(tmp_path, rule, tokens=tokens, ledger=ledger) as app:
            monitor = app.service.monitors["default"].monitor
            return await play(app, monitor)

    return asyncio.run(playing())


def fill(monitor):
    for row, (age, job, approved) in enumerate(
        ((30, "cook", "yes"), (31, "cook", "no"), (33, "cook", "yes"), (60, "cook", "no"))
    ):
        person = {"id": f"id-{row}", "who": f"person-{row}", "age": age, "job": job, "sex": "f"}
        monitor.observe({**person, "approved": approved})
    monitor.ledger.review(1, None, "error", reason="typed wrong", reviewer="rita")


async def look_up(asker, **fields):
    csrf = await asker.csrf(PATH)
    return await asker.send(PATH, {"csrf": csrf, **fields})


def rows_of(answer):
    """The rows of the table of cases, as the page links or writes them."""
    cells = re.findall(rb'data-label="row"><span>(?:<a [^>]*>)?([0-9,]+)', answer.body)
    return [int(cell) for cell in cells]


def test_a_case_that_is_typed_or_pasted_is_answered(tmp_path):
    async def play(app, monitor):
        fill(monitor)
        asker = Asker(app)
        form = await asker.get(PATH)
        assert b"column-age" in form.body and b"column-job" in form.body
        assert b"column-sex" not in form.body and b"column-id" not in form.body
        typed = await look_up(asker, **{"column-age": "30", "column-job": "cook"})
        assert typed.status == 200 and rows_of(typed) == [0, 1, 2]
        assert b"3 similar cases: 2 yes, 1 no" in typed.body
        assert b"/m/default/pairs/1" in typed.body and b"/m/default/pairs/0" not in typed.body
        assert b"typed wrong" in typed.body and b"id-2" in typed.body
        assert b'value="30"' in typed.body  # what was typed stays in the form
        for case in (
            '{"age": 30, "job": "cook"}',
            '{"age": "30", "job": "cook", "who": null}',
            ",30,cook",
            "age;job\n30;cook",
        ):
            pasted = await look_up(asker, case=case)
            assert (pasted.status, rows_of(pasted)) == (200, [0, 1, 2]), case
        known = await look_up(asker, **{"column-age": "30", "column-job": "cook"} | {
            "column-who": "person-0"})  # fmt: skip
        assert rows_of(known) == [1, 2]
        none = await look_up(asker, **{"column-age": "99", "column-job": "cook"})
        assert none.status == 200 and b"0 similar cases" in none.body
        assert monitor.rows == 4

    run(tmp_path, play)


def test_what_is_no_case_is_refused(tmp_path):
    async def play(app, monitor):
        fill(monitor)
        asker = Asker(app)
        for fields in (
            {},
            {"column-age": " "},
            {"column-age": "old", "column-job": "cook"},
            {"column-age": "30"},
            {"case": "{"},
            {"case": "[" * 100_000},
            {"case": "1,2,3,4,5,6"},
            {"case": "[1, 2]"},
            {"column-nobody": "1"},
        ):
            answer = await look_up(asker, **fields)
            assert answer.status in (400, 422), fields
        answer = await Asker(app).send(PATH, {"column-age": "30", "column-job": "cook"})
        assert answer.status == 403
        cross = {"sec-fetch-site": "cross-site"}
        assert (await asker.send(PATH, {"case": "30,cook"}, **cross)).status == 403

    run(tmp_path, play)


def test_the_case_is_in_no_address_and_in_no_log(tmp_path, caplog):
    async def play(app, monitor):
        fill(monitor)
        caplog.set_level("DEBUG")
        answer = await look_up(Asker(app), **{"column-age": "30.125", "column-job": "cook"})
        assert answer.status == 200 and "location" not in answer.headers
        assert answer.headers["cache-control"] == "no-store"
        assert "30.125" not in caplog.text and "looked up" in caplog.text

    run(tmp_path, play)


def test_readers_see_no_keys_and_no_reasons_and_senders_no_page(tmp_path):
    reader, one = token("reader", "read")
    sender, two = token("sender", "observe")

    async def play(app, monitor):
        fill(monitor)
        asker = Asker(app)
        await asker.sign_in(reader)
        answer = await look_up(asker, **{"column-age": "30", "column-job": "cook"})
        assert rows_of(answer) == [0, 1, 2] and b"error" in answer.body
        for word in (b"id-", b"rita", b"typed wrong"):
            assert word not in answer.body
        other = Asker(app)
        await other.sign_in(sender)
        assert (await other.get(PATH)).status == 403
        fields = {"case": "30,cook", "csrf": await other.csrf("/sign-in")}
        assert (await other.send(PATH, fields)).status == 403

    run(tmp_path, play, tokens=[one, two])


def test_vectors_are_pasted_as_numbers(tmp_path):
    async def play(app, monitor):
        monitor.observe_many([[0.5, 0.5], [0.55, 0.5], [0.9, 0.9]], ["a", "<b>", "a"])
        asker = Asker(app)
        for case in ("0.5, 0.5", "0.5 0.5", "[0.5, 0.5]"):
            answer = await look_up(asker, case=case)
            assert (answer.status, rows_of(answer)) == (200, [0, 1]), case
        assert b"&lt;b&gt;" in answer.body and b"<b>\n" not in answer.body
        assert (await look_up(asker, case="0.5, x")).status == 422

    run(tmp_path, play, 'metric = "linf"\nepsilon = 0.1\n', ledger=False)


def test_values_are_known_by_what_they_are_called(tmp_path):
    rule = (
        'metric = "l1"\nepsilon = 1\n[output]\ncolumn = "z"\nlabels = { "1" = "granted" }\n'
        '[features.grade]\nkind = "ordinal"\norder = [1, 2, 3]\ntolerance = 1\n'
        '[features.home]\nkind = "category"\n'
    )

    async def play(app, monitor):
        for grade, home, z in ((1, True, 1), (2, True, 0), (3, False, 1)):
            monitor.observe({"grade": grade, "home": home, "z": z})
        asker = Asker(app)
        answer = await look_up(asker, **{"column-grade": "2", "column-home": "True"})
        assert rows_of(answer) == [1, 0] and b"1 granted" in answer.body

    run(tmp_path, play, rule, ledger=False)
