"""Routes of alerts: list those of a monitor, and acknowledge one."""

from msgspec import Struct

from likewise.service.alerts.alert import AlertBody
from likewise.service.alerts.alerting import AlertService, RateBody, ReceiverBody
from likewise.service.http_errors import Refusal
from likewise.service.operations import MONITOR, Operations, RequestParameter
from likewise.service.request_guard import AdmittedRequest
from likewise.service.routes.query_values import parse_limit

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
        RequestParameter("status", "only alerts in this state", choices=("firing", "resolved")),
        RequestParameter("limit", f"how many, at most {_MOST}", int),
    ),
)
async def list_alerts(request: AdmittedRequest) -> AlertsBody:
    """List the alerts of a monitor, newest first, with the state of its rate and receivers."""
    name, alerting = request.path_parameter("name"), _find_alert_service(request)
    status = request.query.get("status")
    if status not in (None, "firing", "resolved"):
        raise Refusal(400, f"status is {status[:100]!r}; expected firing or resolved.")
    limit = parse_limit(request.query, 100, _MOST)
    alerts = await alerting.run_in_thread(alerting.outbox.find_alerts, name, limit, status)
    receivers = await alerting.describe_receivers(name)
    return AlertsBody([one.to_body() for one in alerts], alerting.make_rate_body(name), receivers)


@OPERATIONS.post(f"{MONITOR}/alerts/{{id}}/acknowledge", "review", once=True, idempotent=True)
async def acknowledge(request: AdmittedRequest) -> AlertBody:
    """Acknowledge an alert, so that it is not repeated."""
    name, alerting = request.path_parameter("name"), _find_alert_service(request)
    by = "anyone" if request.token is None else request.token.name
    alert = await alerting.acknowledge(name, request.path_parameter("id"), by)
    if alert is None:
        raise Refusal(404, f"the monitor {name!r} has no alert with that id.")
    return alert.to_body()


def _find_alert_service(request: AdmittedRequest) -> AlertService:
    name, alerting = request.served.name, request.service.alerting
    if alerting is None:
        raise Refusal(404, "this service has no alerts: its settings have no table [alerts].")
    if not alerting.is_watching(name):
        raise Refusal(404, f"the monitor {name!r} has no alerts.")
    return alerting
