"""A bare ASGI application that reads a body and answers with it: what no service can beat."""

from __future__ import annotations

from typing import Any

_JSON = (b"content-type", b"application/json")


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    message = await receive()
    body = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
    headers = [_JSON, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
