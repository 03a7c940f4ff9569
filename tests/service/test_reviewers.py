"""Who reviewed or overruled: with tokens the token says it, without them nobody has checked it."""

import asyncio
import json

import pytest

import likewise as lw
from likewise.errors import BadRule
from likewise.service.settings import Token
from likewise.service.tokens import new_token
from likewise.tables.exact_values import pack
from likewise.verdict.exact_body import EXACT_CONTENT_TYPE
from tests.pages.asking import Asker, paging, token
from tests.service.asgi_calls import call, serving
from tests.support.refusals import raises

ONE = "/v1/monitors/default"
REVIEW = {"row": 1, "witness": 0, "disposition": "error", "reason": "mistyped"}
OVERRULE = {"key": "b", "output": "yes", "why": "an appeal"}


def acted(folder, acts, *, tokens, exact):
    """Call routes as `ana`; the statuses, and what the ledger says of who it was."""
    text, hashed = new_token()
    settings = {"tokens": [Token("ana", hashed, ("admin",))]} if tokens else {}
    headers = {"authorization": f"Bearer {text}"}

    async def play():
        async with serving(folder, ledger=True, **settings) as app:
            served = app.service.monitors["default"]
            served.monitor.observe([0.1], "yes", key="a")
            served.monitor.observe([0.1], "no", key="b")
            statuses = []
            for verb, body in acts:
                kinds = (
                    {"content-type": EXACT_CONTENT_TYPE, "accept": EXACT_CONTENT_TYPE}
                    if exact
                    else {}
                )
                sent = pack(body) if exact else json.dumps(body).encode()
                answer = await call(app, "POST", f"{ONE}/{verb}", sent, headers | kinds)
                statuses.append(answer.status)
            await served.flush()
            return statuses, await served.read_ledger(said)

    return asyncio.run(play())


def said(ledger):
    return {
        "reviews": [(one.reviewer, one.verified) for one in ledger.reviews()],
        "superseded": [(one.by, one.verified) for one in ledger.supersessions()],
        "administration": [
            (one.body["what"], one.body["who"], one.body["verified"])
            for one in ledger.reader.events("administration")
        ],
    }


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_name_is_that_of_the_token(tmp_path, exact, named):
    acts = [
        ("reviews", REVIEW | ({"reviewer": "ana"} if named else {})),
        ("supersede", OVERRULE | ({"by": "ana"} if named else {})),
    ]
    statuses, kept = acted(tmp_path, acts, tokens=True, exact=exact)
    assert statuses == [200, 200]
    assert kept == {
        "reviews": [("ana", True)],
        "superseded": [("ana", True)],
        "administration": [("review", "ana", True), ("supersede", "ana", True)],
    }


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", ["ben", "Ana", ""])
def test_nobody_signs_as_somebody_else(tmp_path, exact, name):
    acts = [
        ("reviews", REVIEW | {"reviewer": name}),
        ("supersede", OVERRULE | {"by": name}),
    ]
    statuses, kept = acted(tmp_path, acts, tokens=True, exact=exact)
    assert statuses == [403, 403]
    assert kept == {"reviews": [], "superseded": [], "administration": []}


@pytest.mark.parametrize("exact", [False, True])
def test_name_without_tokens_is_marked_as_unverified(tmp_path, exact):
    claimed = {"verified": True}  # which only a service may say
    acts = [
        ("reviews", REVIEW),
        ("reviews", REVIEW | {"reviewer": "ana"} | claimed),
        ("reviews", REVIEW | {"reviewer": "ana"}),
        ("supersede", OVERRULE),
        ("supersede", OVERRULE | {"by": "ana"} | claimed),
        ("supersede", OVERRULE | {"by": "ana"}),
    ]
    statuses, kept = acted(tmp_path, acts, tokens=False, exact=exact)
    assert statuses == [422, 422, 200, 422, 422, 200]
    assert kept == {
        "reviews": [("ana", False)],
        "superseded": [("ana", False)],
        "administration": [("review", "", False), ("supersede", "", False)],
    }


def test_name_in_python_is_what_the_caller_says(tmp_path):
    with lw.open(tmp_path / "ledger", lw.Rule("linf", 0.1)) as monitor:
        monitor.observe([0.1], "yes", key="a")
        monitor.observe([0.1], "no", key="b")
        monitor.ledger.review(1, 0, "error", reason="mistyped", reviewer="ana")
        monitor.ledger.supersede("b", "yes", by="ana", why="an appeal")
    with lw.Ledger(tmp_path / "ledger") as ledger:
        assert (ledger.reviews()[0].verified, ledger.supersessions()[0].verified) == (False, False)
        assert ledger.verify().ok


@pytest.mark.parametrize("tokens", [True, False])
def test_pages_and_json_say_whether_a_name_is_verified(tmp_path, tokens):
    text, line = token("ana", "admin")

    async def play():
        async with paging(tmp_path, tokens=[line] if tokens else []) as app:
            served = app.service.monitors["default"]
            served.monitor.observe([0.1], "yes")
            served.monitor.observe([0.1], "no")
            asker = Asker(app)
            if tokens:
                await asker.sign_in(text)
            csrf = await asker.csrf("/m/default/pairs/1/0")
            form = REVIEW | {"csrf": csrf, "seen": "-1"}
            assert (await asker.send("/m/default/queue/review", form)).status == 303
            html = (await asker.get("/m/default/pairs/1/0")).body
            pair = (await asker.get("/m/default/pairs/1/0.json")).json
            look = (await asker.get(f"{ONE}/decisions/1", authorization=f"Bearer {text}")).json
            return html, pair["reviews"], look["reviews"], await served.read_ledger(said)

    html, *reviews, kept = asyncio.run(play())
    name = "ana" if tokens else "local"
    assert (b"unverified" in html) != tokens
    for several in reviews:
        assert [(one["reviewer"], one["verified"]) for one in several] == [(name, tokens)]
    assert kept["reviews"] == [(name, tokens)]
    assert kept["administration"] == [("review", name, tokens)]


@pytest.mark.parametrize("name", ["", "local", "anyone"])
def test_no_token_has_the_name_of_nobody(name):
    with raises(BadRule, setting="name"):
        Token(name, new_token()[1])
