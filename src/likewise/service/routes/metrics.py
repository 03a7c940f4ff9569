"""For Prometheus: what the service has counted."""

from starlette.responses import Response

from likewise.service.metrics.prometheus import page
from likewise.service.metrics.samples import all_samples
from likewise.service.operations import Operations
from likewise.service.request_guard import AdmittedRequest

OPERATIONS = Operations()


@OPERATIONS.get("/metrics", "read", media="text/plain")
async def metrics(asked: AdmittedRequest) -> Response:
    """Counts, for Prometheus."""
    token, service = asked.token, asked.service
    seen = await all_samples(service, lambda name: token is None or token.allows("read", name))
    accept = asked.request.headers.get("accept", "")
    body, kind = page(seen, service.settings.labels, accept)
    return Response(body, headers={"content-type": kind})
