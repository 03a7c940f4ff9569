"""Asks for pages without a browser: the application in this process, with its pages."""

import asyncio
import contextlib
import re
from urllib.parse import urlencode

from likewise.pages import page_router
from likewise.service.app import App
from likewise.service.service import Service
from likewise.service.settings import (
    Limits,
    MonitorSettings,
    ServerSettings,
    ServiceSettings,
    Token,
)
from likewise.service.tokens import new_token
from tests.service.asgi_calls import RULE, call

FORM = {"content-type": "application/x-www-form-urlencoded"}


def token(name, *scopes, monitors=None):
    """A token's text, and the settings' line for it."""
    text, hashed = new_token()
    return text, Token(name, hashed, scopes, monitors)


@contextlib.asynccontextmanager
async def paging(
    folder, rule=RULE, *, ledger=True, tokens=(), pages=None, names=("default",), limits=None
):
    """An application with pages, and monitors of these names."""
    path = folder / "rule.toml"
    path.write_text(rule)
    monitors = {
        name: MonitorSettings(
            rule=str(path), ledger=str(folder / f"{name}.ledger") if ledger else None
        )
        for name in names
    }
    settings = ServiceSettings(
        monitors,
        server=ServerSettings(),
        limits=limits or Limits(),
        tokens=tuple(tokens),
        pages=pages or {},
    )
    service = Service(settings)
    app = App(service, [page_router])
    await asyncio.to_thread(service.open)
    try:
        yield app
    finally:
        await service.drain(30)
        service.close()


class Asker:
    """Keeps its cookies, as a browser does."""

    def __init__(self, app, **headers):
        self._app = app
        self._headers = {"host": "127.0.0.1", "accept": "text/html"} | headers
        self.cookies = {}

    async def get(self, path, **headers):
        return await self._ask("GET", path, b"", headers)

    async def send(self, path, fields, **headers):
        return await self._ask("POST", path, urlencode(fields).encode(), FORM | headers)

    async def _ask(self, method, path, body, headers):
        sent = self._headers | headers
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = await call(self._app, method, path, body, sent)
        cookie = answer.headers.get("set-cookie")
        if cookie is not None:
            name, _, value = cookie.partition(";")[0].partition("=")
            if value in ("", '""'):
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value
        return answer

    async def csrf(self, path):
        """What the forms of a page carry."""
        answer = await self.get(path)
        return re.search(rb'name="csrf" value="([0-9a-f]+)"', answer.body)[1].decode()

    async def sign_in(self, text):
        csrf = await self.csrf("/sign-in")
        return await self.send("/sign-in?next=/", {"csrf": csrf, "token": text})
