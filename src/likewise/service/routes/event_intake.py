"""Route through which CloudEvents come: requests and responses of a model that KServe serves."""

from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from starlette.responses import Response

from likewise.service.body_types import encode
from likewise.service.cloudevents.event_decisions import ColumnNames, read_events
from likewise.service.cloudevents.receiver import EventReceiver
from likewise.service.http_errors import Refusal
from likewise.service.operations import MONITOR, Operations
from likewise.service.request_guard import AdmittedRequest

_LARGE = 16_384  # bytes of a body that is read in a thread, since it may inflate to much more
_MEDIA = ("application/json", "application/cloudevents+json", "application/cloudevents-batch+json")
OPERATIONS = Operations()


@OPERATIONS.post(
    f"{MONITOR}/cloudevents",
    "observe",
    takes={media: () for media in _MEDIA},
    answers=dict[str, Any],
    any_slashes=True,
)
async def receive(request: AdmittedRequest) -> Response:
    """Receive requests and responses of a served model, as KServe's logger sends them."""
    service, served, scope = request.service, request.served, request.http_request.scope
    try:
        body = await request.read_body()
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        read = partial(read_events, scope["headers"], body, served.limits)
        events = read() if len(body) < _LARGE else await served.run_in_thread(read)
        names = ColumnNames.from_query(query)
    except Refusal as error:
        served.counts.count_refusal(error)
        raise
    receiver = service.event_receivers.get(served.name)
    if receiver is None:
        receiver = service.event_receivers[served.name] = EventReceiver(served)
        service.before_drain.append(receiver.close)
    report = await receiver.receive(events, names)
    headers = {}
    if report.retry_seconds is not None:
        headers["retry-after"] = str(round(report.retry_seconds))
    return Response(encode(report.to_dict()), report.status, headers, "application/json")
