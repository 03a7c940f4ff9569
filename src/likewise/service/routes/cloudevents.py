"""CloudEvents come in: the requests and responses of a model that KServe serves."""

import re
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from likewise.service.cloudevents.decisions import ColumnNames
from likewise.service.cloudevents.events import events_of
from likewise.service.cloudevents.receiver import EventReceiver
from likewise.service.door import Gone
from likewise.service.operations import Operation
from likewise.service.refusals import Refusal
from likewise.service.wire import encode

if TYPE_CHECKING:
    from likewise.service.app import App

_LARGE = 16_384  # bytes of a body that are read beside the event loop; they may inflate to more

OPERATIONS = [
    Operation(
        "POST",
        "/v1/monitors/{name}/cloudevents",
        "observe",
        "Requests and responses of a served model, as KServe's logger sends them",
        answers=dict[str, Any],
        takes={
            "application/json": (),
            "application/cloudevents+json": (),
            "application/cloudevents-batch+json": (),
        },
    )
]


def routes(app: "App") -> list[BaseRoute]:
    service, door = app.service, app.door
    receivers: dict[str, EventReceiver] = {}

    async def receive(request: Request) -> Response:
        name = request.path_params["name"]
        door.check_room()
        door.admit(request.scope, "observe", name)
        hosted = service.named(name)
        try:
            body = await door.body(request.scope, request.receive)
            query = dict(parse_qsl(request.scope["query_string"].decode("latin-1")))
            read = partial(events_of, request.scope["headers"], body, hosted.limits)
            events = read() if len(body) < _LARGE else await hosted.aside(read)
            names = ColumnNames.of(query)
        except Gone:
            return Response(status_code=400)  # to nobody
        except Refusal as error:
            hosted.counts.refused[str(error.status)] += 1
            raise
        receiver = receivers.get(name)
        if receiver is None:
            receiver = receivers[name] = EventReceiver(hosted)
            service.before_drain.append(receiver.close)
        received = await receiver.take(events, names)
        headers = {} if received.retry is None else {"retry-after": str(round(received.retry))}
        return Response(
            encode(received.to_dict()), received.status, headers, media_type="application/json"
        )

    route = Route("/v1/monitors/{name}/cloudevents", receive, methods=["POST"])
    # Trailing slashes are no other address: KServe does not follow a redirect.
    route.path_regex = re.compile(route.path_regex.pattern.removesuffix("$") + "/*$")
    return [route]
