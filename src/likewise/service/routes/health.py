"""Routes /healthz and /readyz: whether the server is alive, and whether it can take decisions.

/healthz answers 200 as long as the event loop runs; a restart would not repair anything else.
/readyz answers 503 with reasons while a ledger is being opened, a queue is full, or a ledger's disk
has less than `Limits.disk_bytes` free; a failed monitor or a refused reload is only named.
Neither needs a token; with tokens, only one that may read a monitor sees its name.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from starlette.responses import Response

from likewise.service.body_types import encode
from likewise.service.metrics.exporting import write_metrics
from likewise.service.metrics.samples import all_samples
from likewise.service.monitor_readings import DiskSpace
from likewise.service.operations import Operations
from likewise.service.request_guard import AdmittedRequest, find_header
from likewise.service.served_monitor import ServedMonitor
from likewise.tables.times import iso_text_of_seconds
from likewise.version import __version__

OPERATIONS = Operations()


@OPERATIONS.get("/metrics", "read", media="text/plain")
async def metrics(request: AdmittedRequest) -> Response:
    """Return metrics in a format of Prometheus."""
    token, service = request.token, request.service
    samples = await all_samples(service, lambda name: token is None or token.allows("read", name))
    accept = request.http_request.headers.get("accept", "")
    body, kind = write_metrics(samples, service.settings.labels, accept)
    return Response(body, headers={"content-type": kind})


_PROBE_BYTES = 65_536  # bytes: about what a commit takes


@OPERATIONS.get("/healthz", None, answers=dict[str, Any])
async def alive(request: AdmittedRequest) -> Response:
    """Say whether the server is alive."""
    paths = {
        name: path
        for name, served in request.service.monitors.items()
        if _may_see(request, name) and (path := _ledger_path(served))
    }
    writable = {name: await asyncio.to_thread(_is_writable, path) for name, path in paths.items()}
    body = {"alive": True, "version": __version__}
    return _respond(200, body | ({"disk_writable": writable} if writable else {}))


@OPERATIONS.get("/readyz", None, answers=dict[str, Any])
async def ready(request: AdmittedRequest) -> Response:
    """Say whether the server is ready to take decisions."""
    service = request.service
    reasons, failed = [], []
    for name, pending in list(service.pending.items()):
        if pending.error_code is None:
            reason = _make_reason(name, "opening", f"it {pending}.")
            reasons.append(reason | {"rows": pending.rows, "of": pending.all_rows})
        else:
            failed.append(_make_reason(name, pending.error_code, f"it {pending}."))
    if not (service.ready or reasons):
        reasons.append(_make_reason(None, "closed", "the server is ending."))
    for served in service.monitors.values():
        reasons += [_make_reason(served.name, *one) for one in await _check(served)]
    body: dict[str, Any] = {"ready": not reasons}
    for name, problems in (("reasons", reasons), ("failed", failed)):
        if visible := [one for one in problems if _may_see(request, one["monitor"])]:
            body[name] = visible
    if service.refused_reload is not None:
        code, when = service.refused_reload
        body["reload"] = {"refused": code, "time": iso_text_of_seconds(when)}
    return _respond(503 if reasons else 200, body)


def _may_see(request: AdmittedRequest, monitor: str | None) -> bool:
    """Whether the caller may know of a monitor; None: of no monitor in particular."""
    if monitor is None or request.service.tokens.is_empty:
        return True
    token = request.service.tokens.find(find_header(request.http_request.scope, b"authorization"))
    return token is not None and token.allows("read", monitor)


async def _check(served: ServedMonitor) -> list[tuple[str, str]]:
    """Return why a monitor cannot take decisions now: its queue or its disk, and a message."""
    waiting, most = served.waiting_rows, served.limits.waiting_rows
    path, least = _ledger_path(served), served.limits.disk_bytes
    problems = []
    if waiting >= most:
        problems.append(("queue", f"{waiting} decisions wait, of at most {most}."))
    try:
        disk = None if path is None else await asyncio.to_thread(DiskSpace.measure, path)
    except OSError as error:
        problems.append(("disk", f"the disk cannot be read: {type(error).__name__}."))
    else:
        if disk is not None and disk.free < least:
            message = f"the disk has {disk.free} bytes free; expected at least {least}."
            problems.append(("disk", message))
    return problems


def _make_reason(monitor: str | None, reason: str, message: str) -> dict[str, Any]:
    return {"monitor": monitor, "reason": reason, "message": message}


def _ledger_path(served: ServedMonitor) -> Path | None:
    return served.monitor.ledger.path if served.monitor.durable else None


def _is_writable(path: Path) -> bool:
    """Whether a file can be written there now: only writing shows that a disk is full."""
    try:
        with TemporaryFile(dir=path, buffering=0) as file:  # without a name, where the OS can
            return file.write(bytes(_PROBE_BYTES)) == _PROBE_BYTES
    except OSError:
        return False


def _respond(status: int, body: dict[str, Any]) -> Response:
    return Response(encode(body), status, media_type="application/json")
