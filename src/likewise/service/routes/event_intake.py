"""CloudEvents come in: the requests and responses of a model that KServe serves."""

from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from starlette.responses import Response

from likewise.service.body_types import encode
from likewise.service.cloudevents.event_decisions import ColumnNames
from likewise.service.cloudevents.event_formats import read_events
from likewise.service.cloudevents.receiver import EventReceiver
from likewise.service.http_errors import Refusal
from likewise.service.operations import MONITOR, Operations
from likewise.service.request_guard import AdmittedRequest

_LARGE = 16_384  # bytes of a body that are read beside the event loop; they may inflate to more
_MEDIA = (
    "application/json",
    "application/cloudevents+json",
    "application/cloudevents-batch+json",
)
OPERATIONS = Operations()


@OPERATIONS.post(
    f"{MONITOR}/cloudevents",
    "observe",
    takes={media: () for media in _MEDIA},
    answers=dict[str, Any],
    any_slashes=True,
)
async def receive(request: AdmittedRequest) -> Response:
    """Requests and responses of a served model, as KServe's logger sends them."""
    service, hosted, scope = request.service, request.hosted, request.http_request.scope
    try:
        body = await request.read_body()
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        read = partial(read_events, scope["headers"], body, hosted.limits)
        events = read() if len(body) < _LARGE else await hosted.run_in_thread(read)
        names = ColumnNames.from_query(query)
    except Refusal as error:
        hosted.counts.refused[str(error.status)] += 1
        raise
    receiver = service.event_receivers.get(hosted.name)
    if receiver is None:
        receiver = service.event_receivers[hosted.name] = EventReceiver(hosted)
        service.before_drain.append(receiver.close)
    received = await receiver.receive(events, names)
    headers = (
        {}
        if received.retry_seconds is None
        else {"retry-after": str(round(received.retry_seconds))}
    )
    body = encode(received.to_dict())
    return Response(body, received.status, headers, "application/json")
