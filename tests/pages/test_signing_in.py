"""Who may look, who may act, and that a form comes from a page of ours."""

import asyncio
from types import SimpleNamespace

import pytest

from likewise.errors import BadRule
from likewise.pages.settings import PagesSettings, read_pages_settings
from likewise.pages.signing_in import PageAuthenticator
from likewise.service.running import _trust_proxy
from likewise.service.service import Service
from likewise.service.settings import MonitorSettings, ServiceSettings
from tests.pages.asking import Asker, paging, token
from tests.support.refusals import raises

OVERVIEW = "/m/default/overview"
VERIFY = "/m/default/health/verify"


def run(coroutine):
    return asyncio.run(coroutine)


def test_whoever_has_no_session_is_led_to_sign_in_and_back(tmp_path):
    text, line = token("ana", "read")

    async def play():
        async with paging(tmp_path, tokens=[line]) as app:
            asker = Asker(app)
            answer = await asker.get(f"{OVERVIEW}?span=2h")
            assert answer.status == 303
            assert (
                answer.headers["location"] == "/sign-in?next=%2Fm%2Fdefault%2Foverview%3Fspan%3D2h"
            )
            csrf = await asker.csrf("/sign-in")
            answer = await asker.send(answer.headers["location"], {"csrf": csrf, "token": text})
            assert (answer.status, answer.headers["location"]) == (303, f"{OVERVIEW}?span=2h")
            assert (await asker.get(OVERVIEW)).status == 200

    run(play())


def test_cookie_is_for_this_server_only_and_changes_when_somebody_signs_in(tmp_path):
    text, line = token("ana", "read")

    async def play():
        async with paging(tmp_path, tokens=[line]) as app:
            asker = Asker(app)
            first = (await asker.get("/sign-in")).headers["set-cookie"]
            before = dict(asker.cookies)
            second = (await asker.sign_in(text)).headers["set-cookie"]
            assert asker.cookies.keys() == before.keys() and asker.cookies != before
            for cookie in (first, second):
                assert "httponly" in cookie.lower() and "samesite=strict" in cookie.lower()
                assert "path=/" in cookie.lower() and "domain" not in cookie.lower()
            assert text not in first + second

    run(play())


def test_cookie_is_secure_where_tls_is(tmp_path):
    path = tmp_path / "rule.toml"
    path.write_text("")
    settings = ServiceSettings({"default": MonitorSettings(rule=str(path))})

    async def made():
        return PageAuthenticator(Service(settings), PagesSettings())

    signing_in = run(made())
    plain = SimpleNamespace(url=SimpleNamespace(scheme="http"))
    tls = SimpleNamespace(url=SimpleNamespace(scheme="https"))
    assert signing_in.cookie_name(plain) == "likewise"
    assert signing_in.cookie_name(tls) == "__Host-likewise"


def test_unknown_token_is_refused_and_changes_nothing(tmp_path):
    _, line = token("ana", "read")

    async def play():
        async with paging(tmp_path, tokens=[line]) as app:
            asker = Asker(app)
            answer = await asker.sign_in("lw_nobody")
            assert answer.status == 401 and b"not known" in answer.body
            assert (await asker.get(OVERVIEW)).status == 303

    run(play())


def test_signing_out_ends_the_session_for_whoever_copied_its_cookie(tmp_path):
    text, line = token("ana", "read")

    async def play():
        async with paging(tmp_path, tokens=[line]) as app:
            asker, thief = Asker(app), Asker(app)
            await asker.sign_in(text)
            thief.cookies = dict(asker.cookies)
            assert (await thief.get(OVERVIEW)).status == 200
            csrf = await asker.csrf(OVERVIEW)
            assert (await asker.send("/sign-out", {"csrf": csrf})).status == 303
            assert (await thief.get(OVERVIEW)).status == 303

    run(play())


def test_form_without_the_token_of_its_session_is_refused(tmp_path):
    text, line = token("ana", "read")

    async def play():
        async with paging(tmp_path, tokens=[line]) as app:
            asker, other = Asker(app), Asker(app)
            await asker.sign_in(text)
            await other.sign_in(text)
            foreign = await other.csrf("/m/default/health")
            for fields in ({}, {"csrf": ""}, {"csrf": foreign}):
                answer = await asker.send(VERIFY, fields)
                assert answer.status == 403 and b"Nothing was done" in answer.body
            served = app.service.get_monitor("default")
            events = await served.read_ledger(lambda ledger: ledger.reader.events("administration"))
            assert events == []
            own = await asker.csrf("/m/default/health")
            assert (await asker.send(VERIFY, {"csrf": own})).status == 303

    run(play())


def test_form_of_a_visitor_without_a_cookie_is_refused(tmp_path):
    async def play():
        async with paging(tmp_path) as app:
            csrf = await Asker(app).csrf("/m/default/health")
            assert (await Asker(app).send(VERIFY, {"csrf": csrf})).status == 403

    run(play())


@pytest.mark.parametrize(
    "scopes, status", [(("observe",), 403), (("read",), 200), (("admin",), 200)]
)
def test_pages_need_the_scope_read(tmp_path, scopes, status):
    text, line = token("ana", *scopes)

    async def play():
        async with paging(tmp_path, tokens=[line]) as app:
            asker = Asker(app)
            await asker.sign_in(text)
            assert (await asker.get(OVERVIEW)).status == status
            assert (await asker.get(f"{OVERVIEW}.json")).status == status

    run(play())


def test_token_of_one_monitor_sees_no_other(tmp_path):
    text, line = token("ana", "read", monitors=("a",))

    async def play():
        async with paging(tmp_path, tokens=[line], names=("a", "b")) as app:
            asker = Asker(app)
            await asker.sign_in(text)
            assert (await asker.get("/")).headers["location"] == "/m/a/overview"
            assert (await asker.get("/m/b/overview")).status == 403
            assert b"/m/b/" not in (await asker.get("/m/a/overview")).body

    run(play())


def test_twin_takes_a_token_in_a_header(tmp_path):
    text, line = token("ana", "read")

    async def play():
        async with paging(tmp_path, tokens=[line]) as app:
            asker = Asker(app)
            assert (await asker.get(f"{OVERVIEW}.json")).status == 401
            answer = await asker.get(f"{OVERVIEW}.json", authorization=f"Bearer {text}")
            assert answer.status == 200 and answer.json["monitor"] == "default"

    run(play())


# A proxy in front


PROXIED = {"proxy_header": "X-Forwarded-User", "roles": {"ana": ["read", "review"], "*": ["read"]}}


def test_proxy_says_who_it_is_and_roles_say_what_they_may(tmp_path):
    async def play():
        async with paging(tmp_path, pages=PROXIED) as app:
            for name in ("ana", "ben"):
                answer = await Asker(app).get(OVERVIEW, **{"x-forwarded-user": name})
                assert answer.status == 200 and name.encode() in answer.body
            assert (await Asker(app).get(OVERVIEW)).status == 403

    run(play())


def test_header_of_somebody_who_is_not_the_proxy_is_not_believed(tmp_path):
    pages = PROXIED | {"proxy_addresses": ["10.1.2.3"]}

    async def play():
        async with paging(tmp_path, pages=pages) as app:
            assert (await Asker(app).get(OVERVIEW, **{"x-forwarded-user": "ana"})).status == 403

    run(play())


def test_address_that_a_client_claims_is_not_that_of_the_proxy(tmp_path):
    """Forwarded addresses say who asks, not who is the proxy."""
    claimed = {"x-forwarded-user": "ana", "x-forwarded-for": "10.1.2.3"}

    async def play(addresses):
        pages = PROXIED | {"proxy_addresses": addresses}
        async with paging(tmp_path, pages=pages) as app:
            return (await Asker(_trust_proxy(app)).get(OVERVIEW, **claimed)).status

    assert run(play(["10.1.2.3"])) == 403
    assert run(play(["127.0.0.1"])) == 200


def test_somebody_without_a_role_is_refused(tmp_path):
    pages = {"proxy_header": "X-Forwarded-User", "roles": {"ana": ["read"]}}

    async def play():
        async with paging(tmp_path, pages=pages) as app:
            answer = await Asker(app).get(OVERVIEW, **{"x-forwarded-user": "eve"})
            assert answer.status == 403 and b"no role" in answer.body

    run(play())


def test_server_without_tokens_answers_under_names_of_this_machine_only(tmp_path):
    async def play():
        async with paging(tmp_path) as app:
            assert (await Asker(app, host="localhost:8800").get(OVERVIEW)).status == 200
            assert (await Asker(app, host="evil.example").get(OVERVIEW)).status == 403

    run(play())


# Sessions


class Time:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def signing(tmp_path):
    path = tmp_path / "rule.toml"
    path.write_text("")
    text, line = token("ana", "read")
    settings = ServiceSettings({"default": MonitorSettings(rule=str(path))}, tokens=(line,))
    time = Time()

    async def made():
        return PageAuthenticator(
            Service(settings), PagesSettings(session_hours=1.0, sessions=3), time
        )

    return run(made()), time, text


def request(cookie=None):
    from starlette.requests import Request

    headers = [(b"host", b"127.0.0.1")]
    if cookie is not None:
        headers.append((b"cookie", f"likewise={cookie}".encode()))
    return Request(
        {
            "type": "http",
            "method": "GET",
            "path": "/",
            "query_string": b"",
            "headers": headers,
            "scheme": "http",
            "server": ("127.0.0.1", 80),
        }
    )


def cookie_of(response):
    set_cookie = response.headers.get("set-cookie")
    return None if set_cookie is None else set_cookie.partition(";")[0].partition("=")[2]


def signed_in(signing_in, text, cookie=None):
    from starlette.responses import Response

    response = Response()
    signing_in.sign_in(request(cookie), text, response)
    return cookie_of(response)


def kept(signing_in, cookie):
    from starlette.responses import Response

    response = Response()
    signing_in.refresh_cookie(request(cookie), response)
    return cookie_of(response)


def test_id_rotates_and_the_one_before_ends_while_forms_stay_valid(signing):
    signing_in, time, text = signing
    first = signed_in(signing_in, text)
    form = signing_in.csrf_token(request(first))
    assert kept(signing_in, first) is None
    time.now += 1000
    second = kept(signing_in, first)
    assert second not in (None, first)
    assert signing_in.identify(request(first)).name == "ana"  # what is under way still arrives
    time.now += 100
    assert signing_in.identify(request(first)) is None
    assert signing_in.identify(request(second)).name == "ana"
    signing_in.check_csrf(request(second), form)


def test_session_ends_after_its_hours_however_often_it_rotated(signing):
    signing_in, time, text = signing
    cookie = signed_in(signing_in, text)
    for _ in range(5):
        time.now += 1000
        cookie = kept(signing_in, cookie) or cookie
    assert signing_in.identify(request(cookie)) is None


def test_more_sessions_than_allowed_end_the_oldest(signing):
    signing_in, _, text = signing
    cookies = [signed_in(signing_in, text) for _ in range(5)]
    assert [signing_in.identify(request(one)) is not None for one in cookies] == [
        False,
        False,
        True,
        True,
        True,
    ]


def test_ids_are_kept_as_hashes_only(signing):
    signing_in, _, text = signing
    cookie = signed_in(signing_in, text)
    assert cookie not in repr(vars(signing_in)) and text not in repr(vars(signing_in))


# Settings


@pytest.mark.parametrize(
    "told, words",
    [
        ({"proxy_header": "X-User"}, "without roles"),
        ({"roles": {"*": ["read"]}}, "proxy_header"),
        ({"proxy_header": "X-User", "roles": {"*": ["fly"]}}, "expected some of"),
        ({"proxy_header": "X-User", "roles": {"*": "read"}}, "expected a list"),
        ({"proxy_addresses": ["nowhere"]}, "expected addresses"),
        ({"session_hours": 0}, "above 0"),
        ({"colour": "red"}, "is no setting"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(tmp_path, told, words):
    settings = ServiceSettings({"default": MonitorSettings(rule="rule.toml")}, pages=told)
    with raises(BadRule):
        read_pages_settings(settings)
