"""For Prometheus: what the service has counted."""

from starlette.responses import Response

from likewise.service.metrics.prometheus import write_metrics
from likewise.service.metrics.samples import all_samples
from likewise.service.operations import Operations
from likewise.service.request_guard import AdmittedRequest

OPERATIONS = Operations()


@OPERATIONS.get("/metrics", "read", media="text/plain")
async def metrics(request: AdmittedRequest) -> Response:
    """Counts, for Prometheus."""
    token, service = request.token, request.service
    seen = await all_samples(service, lambda name: token is None or token.allows("read", name))
    accept = request.http_request.headers.get("accept", "")
    body, kind = write_metrics(seen, service.settings.labels, accept)
    return Response(body, headers={"content-type": kind})
