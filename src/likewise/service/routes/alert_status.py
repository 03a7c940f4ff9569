"""Alerts of a monitor: looking at them, and saying that somebody has seen one."""

from msgspec import Struct

from likewise.service.alerts.alert import AlertBody
from likewise.service.alerts.alerting import Alerting, RateBody, ReceiverBody
from likewise.service.http_errors import Refusal
from likewise.service.operations import MONITOR, Operations, Query
from likewise.service.request_guard import AdmittedRequest
from likewise.service.routes.query_values import limit_of

_MOST = 1000
OPERATIONS = Operations()


class AlertsBody(Struct):
    """The alerts of a monitor, newest first."""

    alerts: list[AlertBody]
    rate: RateBody
    receivers: list[ReceiverBody]


@OPERATIONS.get(
    f"{MONITOR}/alerts",
    "review",
    queries=(
        Query("status", "only those", choices=("firing", "resolved")),
        Query("limit", f"how many, at most {_MOST}", int),
    ),
)
async def alerts(asked: AdmittedRequest) -> AlertsBody:
    """What is worth telling somebody, newest first, and how the rate stands."""
    name, alerting = asked.parameter("name"), _alerting_of(asked)
    status = asked.query.get("status")
    if status not in (None, "firing", "resolved"):
        raise Refusal(400, f"status is {status[:100]!r}; expected firing or resolved.")
    found = await alerting.alerts(name, limit_of(asked.query, 100, _MOST), status)
    receivers = await alerting.receivers(name)
    return AlertsBody([one.body() for one in found], alerting.rate(name), receivers)


@OPERATIONS.post(f"{MONITOR}/alerts/{{id}}/acknowledge", "review", once=True, idempotent=True)
async def acknowledge(asked: AdmittedRequest) -> AlertBody:
    """Say that somebody has seen an alert."""
    name, alerting = asked.parameter("name"), _alerting_of(asked)
    by = "anyone" if asked.token is None else asked.token.name
    alert = await alerting.acknowledge(name, asked.parameter("id"), by)
    if alert is None:
        raise Refusal(404, f"the monitor {name!r} has no alert with that id.")
    return alert.body()


def _alerting_of(asked: AdmittedRequest) -> Alerting:
    name, alerting = asked.hosted.name, asked.service.alerting
    if alerting is None:
        raise Refusal(404, "this service has no alerts: its settings have no table [alerts].")
    if not alerting.watches(name):
        raise Refusal(404, f"the monitor {name!r} has no alerts.")
    return alerting
