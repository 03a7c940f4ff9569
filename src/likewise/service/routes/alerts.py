"""Alerts of a monitor: looking at them, and saying that somebody has seen one."""

from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from likewise.service.alerts.alerting import Alerting
from likewise.service.operations import Operation, Query
from likewise.service.refusals import Refusal
from likewise.service.wire import encode

if TYPE_CHECKING:
    from likewise.service.app import App

_MOST = 1000


class AlertBody(msgspec.Struct):
    """An alert, as `Alert.to_dict` has it."""

    id: str
    kind: str
    monitor: str
    severity: str
    status: str
    summary: str
    details: dict[str, Any]
    began: str
    ended: str | None
    acknowledged: str | None
    acknowledged_by: str | None


class RateBody(msgspec.Struct):
    """How the rate of a monitor stands, as it was last concluded."""

    finding: str
    because: str | None
    violations: int
    comparable: int
    usual_violations: int
    usual_comparable: int
    usual_low: float | None
    usual_high: float | None


class ReceiverBody(msgspec.Struct):
    """Who is told, and how that goes."""

    name: str
    kind: str
    waiting: int
    given_up: int
    failures: int
    last_failure: str | None


class AlertsBody(msgspec.Struct):
    """The alerts of a monitor, newest first."""

    alerts: list[AlertBody]
    rate: RateBody
    receivers: list[ReceiverBody]


_ALERTS = "/v1/monitors/{name}/alerts"
OPERATIONS = [
    Operation(
        "GET",
        _ALERTS,
        "review",
        "What is worth telling somebody, newest first, and how the rate stands",
        answers=AlertsBody,
        queries=(
            Query("status", "only those", choices=("firing", "resolved")),
            Query("limit", f"how many, at most {_MOST}", int),
        ),
    ),
    Operation(
        "POST",
        f"{_ALERTS}/{{id}}/acknowledge",
        "review",
        "Say that somebody has seen an alert",
        answers=AlertBody,
    ),
]


def routes(app: "App") -> list[BaseRoute]:
    service, door = app.service, app.door

    def alerting_of(name: str) -> Alerting:
        service.named(name)  # 404 or 503
        if service.alerting is None:
            raise Refusal(404, "this service has no alerts: its settings have no table [alerts].")
        return service.alerting

    async def listed(request: Request) -> Response:
        name = request.path_params["name"]
        door.admit(request.scope, "review", name)
        alerting = alerting_of(name)
        status = request.query_params.get("status")
        if status not in (None, "firing", "resolved"):
            raise Refusal(400, f"status is {status!r}; expected firing or resolved.")
        told = request.query_params.get("limit", "100")
        if not (told.isascii() and told.isdigit() and 1 <= int(told) <= _MOST):
            raise Refusal(400, f"limit is {told!r}; expected 1 to {_MOST}.")
        found = await alerting.alerts(name, int(told), status)
        receivers = await alerting.receivers(name)
        body = AlertsBody(
            [AlertBody(**alert.to_dict()) for alert in found],
            RateBody(**alerting.state(name)),
            [ReceiverBody(**one) for one in receivers],
        )
        return Response(encode(body), media_type="application/json")

    async def acknowledged(request: Request) -> Response:
        name, id = request.path_params["name"], request.path_params["id"]
        token = door.admit(request.scope, "review", name)
        alerting = alerting_of(name)
        by = "anyone" if token is None else token.name
        alert = await alerting.acknowledge(name, id, by)
        if alert is None:
            raise Refusal(404, f"the monitor {name!r} has no alert with that id.")
        return Response(encode(AlertBody(**alert.to_dict())), media_type="application/json")

    return [
        Route(_ALERTS, listed, methods=["GET"]),
        Route(_ALERTS + "/{id}/acknowledge", acknowledged, methods=["POST"]),
    ]
