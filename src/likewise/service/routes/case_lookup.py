"""The route that answers how similar cases were decided.

Nothing is remembered: not the case, and of the question only who asked and when, in the log.
Bound: `Limits.precedents` cases are listed. Keys, reviewers and reasons need the scope `review`.
"""

from starlette.responses import Response

from likewise.runtime.log import log_event
from likewise.service.body_types import LikeBody, PrecedentsBody
from likewise.service.content_types import encode_answer, media_type_of
from likewise.service.decision_bodies import parse_case
from likewise.service.operations import MONITOR, Operations
from likewise.service.request_guard import AdmittedRequest
from likewise.service.served_monitor import ServedMonitor
from likewise.verdict.precedents import Precedents

OPERATIONS = Operations()


@OPERATIONS.post(f"{MONITOR}/like", "read", LikeBody, answers=PrecedentsBody, exact=True)
async def like(request: AdmittedRequest) -> Response:
    """List the past decisions near a case, whatever their outputs; nothing is remembered."""
    served, token = request.served, request.token
    arguments = parse_case(served, request.content_type, await request.read_body())
    log_lookup(served, "a client without a token" if token is None else token.name)
    hides_people = token is not None and not token.allows("review", served.name)

    def look_up() -> bytes:
        found: Precedents = served.monitor.like(**arguments)
        found = found.hide_people() if hides_people else found
        fields = found.to_exact() if request.wants_exact else found.to_dict()
        return encode_answer(request.accept, fields)

    answer = await served.run_in_turn(look_up, counts_refusal=False)
    return Response(answer, media_type=media_type_of(answer))


def log_lookup(served: ServedMonitor, who: str) -> None:
    """Log that somebody looks up a case; the case itself is never logged."""
    log_event(
        "like", f"a case was looked up in {served.name} by {who}", monitor=served.name, by=who
    )
