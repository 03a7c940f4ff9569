"""Route of the metrics, for Prometheus."""

from starlette.responses import Response

from likewise.service.metrics.prometheus import write_metrics
from likewise.service.metrics.samples import all_samples
from likewise.service.operations import Operations
from likewise.service.request_guard import AdmittedRequest

OPERATIONS = Operations()


@OPERATIONS.get("/metrics", "read", media="text/plain")
async def metrics(request: AdmittedRequest) -> Response:
    """Return metrics in a format of Prometheus."""
    token, service = request.token, request.service
    samples = await all_samples(service, lambda name: token is None or token.allows("read", name))
    accept = request.http_request.headers.get("accept", "")
    body, kind = write_metrics(samples, service.settings.labels, accept)
    return Response(body, headers={"content-type": kind})
