"""Is it alive, can it be asked?

/healthz answers 200 as long as the event loop answers: whatever else is wrong, starting again would
not mend it. /readyz answers 503 with reasons while a ledger is being opened, a queue is full, or a
ledger's disk has less than `Limits.disk_bytes` free: then decisions should not be sent here.
A monitor that failed is named, and is no reason: the others can be asked, and would not be.
Nor is a reload of the settings that was refused: those from before are in use.

Neither needs a token. Where there are tokens, only one that may read a monitor is told its name.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from starlette.responses import Response

from likewise.service.body_types import encode
from likewise.service.monitor_readings import DiskSpace
from likewise.service.operations import Operations
from likewise.service.request_guard import AdmittedRequest, find_header
from likewise.service.served_monitor import ServedMonitor
from likewise.tables.times import iso_text_of_seconds
from likewise.version import __version__

_PROBE_BYTES = 65_536  # bytes: about what a commit takes
OPERATIONS = Operations()


@OPERATIONS.get("/healthz", None, answers=dict[str, Any])
async def alive(request: AdmittedRequest) -> Response:
    """Whether the server is alive."""
    paths = {
        name: path
        for name, hosted in request.service.monitors.items()
        if _may_see(request, name) and (path := _ledger_path(hosted))
    }
    writable = {name: await asyncio.to_thread(_is_writable, path) for name, path in paths.items()}
    told = {"alive": True, "version": __version__}
    return _respond(200, told | ({"disk_writable": writable} if writable else {}))


@OPERATIONS.get("/readyz", None, answers=dict[str, Any])
async def ready(request: AdmittedRequest) -> Response:
    """Whether it can be asked."""
    service = request.service
    reasons, failed = [], []
    for name, pending in list(service.pending.items()):
        if pending.error_code is None:
            about = _make_reason(name, "opening", f"it {pending}.")
            reasons.append(about | {"rows": pending.rows, "of": pending.all_rows})
        else:
            failed.append(_make_reason(name, pending.error_code, f"it {pending}."))
    if not (service.ready or reasons):
        reasons.append(_make_reason(None, "closed", "the server is ending."))
    for hosted in service.monitors.values():
        reasons += [
            one for one in (_check_queue(hosted), await _check_disk(hosted)) if one is not None
        ]
    told: dict[str, Any] = {"ready": not reasons}
    for name, some in (("reasons", reasons), ("failed", failed)):
        if shown := [one for one in some if _may_see(request, one["monitor"])]:
            told[name] = shown
    if service.refused_reload is not None:
        code, when = service.refused_reload
        told["reload"] = {"refused": code, "time": iso_text_of_seconds(when)}
    return _respond(503 if reasons else 200, told)


def _may_see(request: AdmittedRequest, monitor: str | None) -> bool:
    """Whether whoever asks may know of a monitor; None: of none in particular."""
    if monitor is None or not request.service.tokens:
        return True
    token = request.service.tokens.find(find_header(request.http_request.scope, b"authorization"))
    return token is not None and token.allows("read", monitor)


def _check_queue(hosted: ServedMonitor) -> dict[str, Any] | None:
    waiting, most = hosted.waiting_rows, hosted.limits.waiting_rows
    if waiting < most:
        return None
    return _make_reason(hosted.name, "queue", f"{waiting} decisions wait, of at most {most}.")


async def _check_disk(hosted: ServedMonitor) -> dict[str, Any] | None:
    path, least = _ledger_path(hosted), hosted.limits.disk_bytes
    if path is None:
        return None
    try:
        disk = await asyncio.to_thread(DiskSpace.measure, path)
    except OSError as error:
        return _make_reason(
            hosted.name, "disk", f"the disk cannot be asked: {type(error).__name__}."
        )
    if disk.free >= least:
        return None
    message = f"the disk has {disk.free} bytes free; expected at least {least}."
    return _make_reason(hosted.name, "disk", message)


def _make_reason(monitor: str | None, reason: str, message: str) -> dict[str, Any]:
    return {"monitor": monitor, "reason": reason, "message": message}


def _ledger_path(hosted: ServedMonitor) -> Path | None:
    return hosted.monitor.path if hosted.monitor.durable else None


def _is_writable(path: Path) -> bool:
    """Whether a file can be written there now: a full disk says so only to one who writes."""
    try:
        with TemporaryFile(dir=path, buffering=0) as file:  # which has no name, where that works
            return file.write(bytes(_PROBE_BYTES)) == _PROBE_BYTES
    except OSError:
        return False


def _respond(status: int, body: dict[str, Any]) -> Response:
    return Response(encode(body), status, media_type="application/json")
