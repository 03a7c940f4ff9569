"""A model behind FastAPI. Every worker tells its decisions to the one `likewise serve`.

    likewise serve --rule examples/serving/loans.toml --ledger loans.ledger
    uvicorn --app-dir examples/serving app:app --workers 4

A contradiction is found whichever worker made the earlier decision. LIKEWISE_URL says where the
service is; LIKEWISE_TOKEN is sent if it is set. If the service cannot be reached, or refuses, that
is logged, the model answers all the same, and `contradicts` is null.
"""

import contextlib
import logging
import os

import httpx2
from fastapi import FastAPI
from model import trained
from pydantic import BaseModel

URL = os.environ.get("LIKEWISE_URL", "http://127.0.0.1:8800")
TOKEN = os.environ.get("LIKEWISE_TOKEN")

log = logging.getLogger(__name__)
model = trained()


@contextlib.asynccontextmanager
async def lifespan(app: FastAPI):
    headers = {"authorization": f"Bearer {TOKEN}"} if TOKEN else {}
    async with httpx2.AsyncClient(base_url=URL, headers=headers, timeout=5.0) as client:
        app.state.likewise = client
        yield


app = FastAPI(lifespan=lifespan)


class Applicant(BaseModel):
    id: str
    income: float
    debt: float


@app.post("/score")
async def score(applicant: Applicant) -> dict[str, object]:
    x = [applicant.income, applicant.debt]
    decision = str(model.predict([x])[0])
    verdict = await send_decision({"x": x, "z": decision, "key": applicant.id})
    return {
        "decision": decision,
        "contradicts": None if verdict is None else verdict["count"],
        "worker": os.getpid(),
    }


@app.get("/worker")
async def worker() -> int:
    return os.getpid()


async def send_decision(decision: dict[str, object]) -> dict[str, int] | None:
    """The verdict on a decision. The key makes it safe to send one again."""
    try:
        answer = await app.state.likewise.post("/v1/monitors/default/observe", json=decision)
        answer.raise_for_status()
    except httpx2.HTTPError as error:
        log.warning("likewise did not take a decision: %s", error)
        return None
    return answer.json()
