"""What was erased is told by no answer of any route, and stands in no file of the service."""

import asyncio
import contextlib
import io
import json
import struct
import zipfile

import pytest

from likewise.pages import page_router
from likewise.service.alerts.settings import AlertsTable
from likewise.service.app import App
from likewise.service.service import Service
from likewise.service.settings import Limits, MonitorSettings, ServiceSettings
from likewise.tables.exact_values import pack
from likewise.verdict.exact_body import EXACT_CONTENT_TYPE
from tests.pages.asking import Asker
from tests.service.asgi_calls import call
from tests.support.rule_texts import rule_text

RULE = rule_text(
    {"id": "key", "who": "person", "income": 5, "job": "category", "sex": "protected"},
    metric="linf",
    output_column="approved",
    favourable="yes",
)
V1 = "/v1/monitors/default"
HERE = {"host": "127.0.0.1"}
SECONDS = 60
WORDS = {
    "key": "keyxq17",
    "key in a batch": "keyxq18",
    "key of the last": "keyxq19",
    "person": "personxq17",
    "label": "labelxq17",
    "protected": "sexxq17",
    "category": "jobxq17",
    "reason": "reasonxq17",
    "reason of another": "reasonxq18",
    "overruled": "whyxq17",
    "truth": "truthxq17",
    "income": "41234.5678",
}
SECRETS = [WORDS["key"], WORDS["key in a batch"], WORDS["key of the last"]]


def decision(key, who, income, approved, *, sex="f", job="cook"):
    values = {"id": key, "who": who, "income": income, "job": job, "sex": sex}
    return {"values": values | {"approved": approved}, "model": "v1"}


def decisions():
    """Single ones, a batch and a last one; some have values that occur nowhere else."""
    person, sex = WORDS["person"], WORDS["protected"]
    single = [
        decision("a", "pa", 41233.1111, "yes"),
        decision("b", "pb", 41234.5678, "no"),
        decision(SECRETS[0], person, 41234.5678, WORDS["label"], sex=sex),
        decision("c", "pc", 41235.2222, "no"),
        decision("alone", "pe", 99.0, "no", job="smith"),
    ]
    batch = [
        decision("d", "pd", 41236.3333, "yes"),
        decision(SECRETS[1], person, 41234.5678, WORDS["label"], sex=sex),
        decision("unlike", person, 7.0, "no", job=WORDS["category"]),
        decision("e", "pe", 41237.0, "no"),
    ]
    return single, batch, decision(SECRETS[2], person, 41234.5678, WORDS["label"], sex=sex)


@contextlib.asynccontextmanager
async def serving(folder, *, ledger):
    (folder / "rule.toml").write_text(RULE)
    path = str(folder / "ledger") if ledger else None
    settings = ServiceSettings(
        {"default": MonitorSettings(rule=str(folder / "rule.toml"), ledger=path)},
        limits=Limits(skew_seconds=1e10),
        alerts=AlertsTable(
            outbox=folder / "outbox" / "alerts.sqlite", every_seconds=0.01, keys=True
        ),
    )
    service = Service(settings)
    app = App(service, [page_router])
    await asyncio.to_thread(service.open)
    service.alerting.start()
    try:
        yield app
    finally:
        await service.drain(30)
        await service.alerting.stop()
        service.close()


async def post(app, verb, body, kind="application/json"):
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = await call(app, "POST", f"{V1}/{verb}", sent, HERE | {"content-type": kind})
    assert answer.status == 200, answer.body
    return answer.json if kind == "application/json" else answer.body


async def feed(app, *, ledger):
    """Decisions, and what people say of them; the distances to those that will be erased."""
    single, batch, last = decisions()
    verdicts = [await post(app, "observe", one) for one in single]
    verdicts += (await post(app, "batch", {"decisions": batch}))["verdicts"]
    if ledger:
        said = {"witness": None, "disposition": "justified", "reviewer": "r"}
        await post(app, "reviews", {"row": 2, "reason": WORDS["reason"], **said})
        await post(app, "reviews", {"row": 3, "reason": WORDS["reason of another"], **said,
                                    "witness": 2})  # fmt: skip
        overruled = {"key": SECRETS[0], "output": "no", "by": "r", "why": WORDS["overruled"]}
        await post(app, "truths", {"key": SECRETS[0], "value": WORDS["truth"]})
        verdicts.append(await post(app, "supersede", overruled))
    verdicts.append(await post(app, "observe", last))
    gone = {1, 2, 6, 7, 9, 10}
    distances = set()
    for verdict in verdicts:
        for one in verdict["witnesses"]:
            if gone & {verdict["row"], one["row"]}:
                distances.add(one["input_distance"])
    return {one for one in distances if one}


async def listen(app, path):
    """What a reader who connects now is sent at once."""
    told, enough = [], asyncio.Event()

    async def receive():
        await enough.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        told.append(message.get("body", b""))
        if len(told) > 2:  # the head, how often to try again, and all that there is
            enough.set()

    path, _, query = path.partition("?")
    scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode(),
             "headers": [(b"host", b"127.0.0.1")]}  # fmt: skip
    await asyncio.wait_for(app(scope, receive, send), SECONDS)
    return b"".join(told)


def paths(app, rows):
    """Every address that can be asked, with every row, and other ways to ask where there are."""
    templates = {one.path for one in app.operations if one.method == "GET"}
    templates |= {one.path for one in app._router.routes if "GET" in (one.methods or ())}
    assert len(templates) > 25
    templates = {one.replace("{rest:path}", "nowhere") for one in templates}
    found = set()
    for template in templates - {"/static/{file}", "/v1/monitors/{name}/events"}:
        if template.endswith("/live"):
            continue
        for row in range(rows):
            for witness in range(rows) if "{witness}" in template else (0,):
                found.add(template.format(name="default", row=row, witness=witness))
    found |= {f"{V1}/verdicts?after=1", f"{V1}/verdicts?within=1", f"{V1}/stats?last=1 hour"}
    for end in ("", ".json"):
        for query in ("order=nearest", "order=newest", "within=1", "model=v1"):
            found.add(f"/m/default/violations{end}?{query}")
        for key in ("a", "b", "c", "d", "e"):
            found.add(f"/m/default/people{end}?key={key}")
        found |= {f"/m/default/queue{end}?state=second", f"/m/default/queue{end}?state=justified"}
    return sorted(found)


async def answers(app, rows):
    """By address, what is answered now."""
    asker = Asker(app)
    told = {}
    for path in paths(app, rows):
        answer = await asker.get(path)
        assert answer.status < 500 or answer.status == 501, (path, answer.body)  # no xlsxwriter
        body = answer.body
        if body.startswith(b"PK"):
            with zipfile.ZipFile(io.BytesIO(body)) as book:
                body = b"".join(book.read(name) for name in book.namelist())
        told[path] = body + json.dumps(answer.headers).encode()
    for path in (f"{V1}/events?after=0", f"{V1}/events?after=1"):
        told[path] = await listen(app, path)
    for path in ("/m/default/overview/live", "/m/default/health/live"):
        told[path] = await listen(app, path)
    csrf = await asker.csrf("/m/default/look-up")
    case = {"income": 41234.0, "job": "cook"}
    page = await asker.send("/m/default/look-up", {"csrf": csrf, "case": json.dumps(case)})
    assert page.status == 200
    told["POST /m/default/look-up"] = page.body
    told[f"POST {V1}/like"] = json.dumps(await post(app, "like", {"values": case})).encode()
    return told


def found_in(told, words, distances):
    """Which words and distances are told, and where."""
    sought = {name: [word.encode()] for name, word in words.items()}
    for one in distances:
        sought[f"distance {one}"] = [repr(one)[:9].encode(), b">%.3g<" % one]
    return {
        (name, where)
        for name, forms in sought.items()
        for where, body in told.items()
        for form in forms
        if form in body
    }


def found_in_files(folder, words, distances):
    """Which words and numbers are in files, and in which."""
    sought = {name: [word.encode()] for name, word in words.items()}
    for number in {41234.5678, *distances}:
        sought[f"number {number}"] = [struct.pack("<d", number), struct.pack(">d", number)]
    return {
        (name, str(file.relative_to(folder)))
        for file in folder.rglob("*")
        if file.is_file()
        for name, forms in sought.items()
        if any(form in file.read_bytes() for form in forms)
    }


def rows_of_secrets(app):
    return [1, 2, 6, 7, app.service.monitors["default"].next_row - 1]


async def erase_by_key(app):
    await post(app, "erase", {"keys": [*SECRETS, "unlike", "b"]})


async def erase_by_row(app):
    await post(app, "erase", {"rows": rows_of_secrets(app)})


async def erase_by_client(app):
    rows = [int(row) for row in rows_of_secrets(app)]
    await post(app, "forget", pack({"rows": rows}, "it"), EXACT_CONTENT_TYPE)


async def erase_by_page(app):
    asker = Asker(app)
    for key, more in ((SECRETS[0], {"person": "all"}), ("b", {})):
        csrf = await asker.csrf(f"/m/default/people?key={key}")
        fields = {"csrf": csrf, "key": key, "again": key, **more}
        assert (await asker.send("/m/default/people/erase", fields)).status == 303


async def erase_in_process(app):
    erase = app.service.monitors["default"].monitor.erase
    await asyncio.to_thread(erase, rows=rows_of_secrets(app))


@pytest.mark.long
@pytest.mark.parametrize("ledger", [True, False], ids=["ledger", "memory"])
@pytest.mark.parametrize(
    "erase", [erase_by_key, erase_by_row, erase_by_client, erase_by_page, erase_in_process]
)
def test_what_was_erased_is_told_nowhere(tmp_path, ledger, erase):
    async def run():
        async with serving(tmp_path, ledger=ledger) as app:
            distances = await feed(app, ledger=ledger)
            assert len(distances) > 3
            until = asyncio.get_running_loop().time() + SECONDS
            alerts = f"{V1}/alerts"
            while SECRETS[2].encode() not in (await call(app, "GET", alerts)).body:
                assert asyncio.get_running_loop().time() < until
                await asyncio.sleep(0.01)
            rows = app.service.monitors["default"].next_row
            before = await answers(app, rows)
            told = found_in(before, WORDS, distances)
            notes = {"reason", "reason of another", "overruled", "truth"}
            assert {name for name, _ in told} >= (WORDS.keys() - notes)
            assert {where for _, where in told} >= {
                f"{V1}/events?after=0", alerts, "/m/default/overview/live",
                f"POST {V1}/like", "POST /m/default/look-up",
            }  # fmt: skip
            await erase(app)
            after = await answers(app, rows)
            assert sorted(found_in(after, WORDS, distances)) == []
            assert sorted(found_in_files(tmp_path, WORDS, distances)) == []
            await asyncio.to_thread(app.service.monitors["default"].monitor.flush)
            assert sorted(found_in_files(tmp_path, WORDS, distances)) == []

    asyncio.run(run())
