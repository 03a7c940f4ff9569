"""Filters, reviews, undo and erasing in a browser, with the policy on; anything it says fails."""

import os
from pathlib import Path

import pytest

from likewise.ledger.ledger import Ledger
from tests.pages.people_at_work import loan, told, work_server
from tests.support.hostile_text import STRINGS

pytestmark = pytest.mark.early

SHOTS = os.environ.get("LIKEWISE_SHOTS")
"""A folder for pictures of all screens; none are taken without it."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    serving, secrets = work_server(folder)
    with serving as running:
        told(running, (loan(i) for i in range(60)), model="v1")
        told(running, (loan(i) for i in range(60, 120)), model="v2")
        running.folder, running.secrets = folder, secrets
        yield running


def signed_in(looker, server, name, **more):
    page = looker.page(**more)
    page.goto(f"{server.url}/sign-in?next=/m/default/queue")
    page.fill("#token", server.secrets[name])
    page.click("text=Sign in >> nth=-1")
    page.wait_for_url("**/queue")
    return page


def reviews(server, row):
    with Ledger(server.folder / "ledger") as ledger:
        assert ledger.verify().ok
        return [(one.reviewer, one.disposition, one.reason) for one in ledger.reviews(row)]


def row_of(page):
    """The pair that the queue shows."""
    return int(page.locator("form.review input[name=row]").get_attribute("value"))


def test_filters_stand_in_the_address_and_a_file_has_the_same_lines(looker, server):
    page = signed_in(looker, server, "ana")
    page.goto(f"{server.url}/m/default/violations")
    page.select_option("#order", "nearest")
    page.select_option("#output", "no")
    page.fill("#within", "0.5")
    page.click("text=Show")
    page.wait_for_url("**output=no**")
    assert "order=nearest" in page.url and "within=0.5" in page.url
    assert page.locator("#output").input_value() == "no"
    outputs = page.locator("td[data-label=output]").all_inner_texts()
    assert outputs and set(outputs) == {"no"}
    with page.expect_download() as download:
        page.click("text=CSV")
    lines = Path(download.value.path()).read_text().splitlines()
    assert len(lines) - 1 == len(outputs)


def test_a_review_by_keyboard_reaches_the_chain_and_is_taken_back(looker, server):
    page = signed_in(looker, server, "ana")
    row = row_of(page)
    page.keyboard.press("f")
    assert page.locator("input[value=unfair]").is_checked()
    page.keyboard.type("jobs <b>and</b> ages alike")  # the reason has the focus now
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**done=reviewed**")
    assert reviews(server, row) == [("ana", "unfair", "jobs <b>and</b> ages alike")]
    assert row_of(page) != row
    page.keyboard.press("z")
    page.wait_for_url("**done=undone**")
    assert reviews(server, row)[1:] == [("ana", "open", "withdrawn")]
    page.goto(f"{server.url}/m/default/pairs/{row}")
    history = page.locator("[aria-label='Reviews of this pair']").inner_text()
    assert "jobs <b>and</b> ages alike" in history and "withdrawn" in history


def test_a_review_without_a_reason_is_not_sent(looker, server):
    page = signed_in(looker, server, "ana")
    row = row_of(page)
    before = reviews(server, row)
    page.keyboard.press("e")
    page.keyboard.press("Control+Enter")
    assert page.locator("#reason:invalid").count() == 1
    assert row_of(page) == row and reviews(server, row) == before


def test_two_reviewers_at_once_have_pairs_of_their_own(looker, server):
    ana, bo = signed_in(looker, server, "ana"), signed_in(looker, server, "bo")
    rows = row_of(ana), row_of(bo)
    assert rows[0] != rows[1]
    for page, who in ((ana, "ana"), (bo, "bo")):
        page.check("input[value=justified]")
        page.fill("#reason", f"seen by {who}")
        page.click("text=Save review")
        page.wait_for_url("**done=reviewed**")
    assert row_of(ana) != row_of(bo)
    assert reviews(server, rows[0])[-1][0] == "ana" and reviews(server, rows[1])[-1][0] == "bo"
    page = bo
    page.goto(f"{server.url}/m/default/queue?state=second")
    assert row_of(page) == rows[0], "what ana has reviewed"


def test_erasing_asks_for_the_key_again(looker, server):
    page = signed_in(looker, server, "eraser")
    page.goto(f"{server.url}/m/default/people?key=k11")
    page.fill("#again", "k1")
    page.click("button.danger")
    page.wait_for_selector(".refusal")
    looker.complaints[:] = [one for one in looker.complaints if "422" not in one]
    page.goto(f"{server.url}/m/default/people?key=k11")
    page.fill("#again", "k11")
    page.click("button.danger")
    page.wait_for_url("**done=erased**")
    page.goto(f"{server.url}/m/default/people?key=k11")
    assert "No decision here has this key" in page.inner_text("main")


@pytest.mark.long
def test_everything_works_without_a_script(looker, server):
    page = signed_in(looker, server, "bo", java_script_enabled=False)
    row = row_of(page)
    page.check("input[value=duplicate]")
    page.fill("#reason", "without a script")
    page.click("text=Save review")
    page.wait_for_url("**done=reviewed**")
    assert reviews(server, row)[-1] == ("bo", "duplicate", "without a script")


@pytest.mark.slow
def test_hostile_strings_stay_text_on_every_screen(looker, server):
    strings = [one for one in STRINGS if one.strip() and "\ud800" not in one and "\x00" not in one]
    rows = [
        loan(
            0,
            id=f"h{i}{one}"[:300],
            who=f"w{i}",
            age=70 + 10 * (i // 2),
            job=one[:300],
            sex=one[:300],
            approved="yes" if i % 2 else one[:300],
        )
        for i, one in enumerate(one for one in strings for _ in (0, 1))
    ]
    told(server, rows, model="<img src=x onerror=window.obeyed=true>")
    page = signed_in(looker, server, "chief")
    found = page.request.get(f"{server.url}/m/default/violations.json").json()["violations"]
    line = found[0]
    paths = [
        "violations",
        "violations?order=nearest",
        "models",
        "groups",
        "rule",
        "queue",
        f"pairs/{line['row']}/{line['witness']}",
        "people",
    ]
    for path in paths:
        page.goto(f"{server.url}/m/default/{path}")
        assert page.evaluate("window.obeyed") is None, path
        assert page.locator("main img, main svg[onload], main script").count() == 0, path


SCREENS = ("violations", "queue", "groups", "models", "people?key=k8", "rule", "pairs/{row}")


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_no_screen_is_wider_than_its_window(looker, server, width, dark):
    page = signed_in(looker, server, "chief", width=width, dark=dark)
    row = row_of(page)
    for path in SCREENS:
        page.goto(f"{server.url}/m/default/{path.format(row=row)}")
        for _ in range(20):
            if page.locator("text=This is being computed").count() == 0:
                break
            page.wait_for_timeout(500)
            page.reload()
        wide = page.evaluate("document.documentElement.scrollWidth")
        if SHOTS:
            name = (
                f"{path.partition('?')[0].partition('/')[0]}-{width}-{'dark' if dark else 'light'}"
            )
            page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)
        assert wide <= width, path


@pytest.mark.slow
def test_the_screens_can_be_used_with_a_screen_reader(looker, server):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = signed_in(looker, server, "chief", bypass_csp=True)
    row = row_of(page)
    for path in SCREENS:
        page.goto(f"{server.url}/m/default/{path.format(row=row)}")
        found = axe.run(page).response["violations"]
        told = [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found]
        assert told == [], path
