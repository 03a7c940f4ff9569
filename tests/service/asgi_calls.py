"""Calls an ASGI application in this process, as a server would."""

import asyncio
import contextlib
import json
from dataclasses import dataclass

from likewise.service.app import App
from likewise.service.service import Service
from likewise.service.settings import Limits, MonitorSettings, ServerSettings, ServiceSettings


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


async def call(app, method, path, body=b"", headers=(), client=("127.0.0.1", 1)):
    """One request, its body in one piece; it is JSON unless headers say otherwise, or None."""
    path, _, query = path.partition("?")
    sent = []
    pieces = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        return pieces.pop() if pieces else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "client": client,
        "headers": [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in ({"content-type": "application/json"} | dict(headers)).items()
            if value is not None
        ],
    }
    await app(scope, receive, send)
    start = sent[0]
    return Answer(
        start["status"],
        {name.decode(): value.decode() for name, value in start["headers"]},
        b"".join(message.get("body", b"") for message in sent[1:]),
    )


RULE = 'metric = "linf"\nepsilon = 0.1\n'


@contextlib.asynccontextmanager
async def serving(
    folder, rule=RULE, *, ledger=False, limits=None, tokens=(), server=None, **served
):
    """An application with one monitor, `default`; its ServedMonitor is `app.service.monitors`'s."""
    path = folder / "rule.toml"
    path.write_text(rule)
    place = str(folder / "ledger") if ledger else None
    settings = ServiceSettings(
        {"default": MonitorSettings(rule=str(path), ledger=place, **served)},
        server=server or ServerSettings(),
        limits=limits or Limits(),
        tokens=tuple(tokens),
    )
    service = Service(settings)
    app = App(service)
    await asyncio.to_thread(service.open)
    try:
        yield app
    finally:
        await service.drain(30)
        service.close()
