"""Runs the service: opens the monitors, listens, and on SIGTERM answers what is under way and ends.

One process, one event loop. Ledgers are opened in a thread while /healthz already answers, and
/readyz says when they are open.
"""

import asyncio
import contextlib

import uvicorn

from likewise.runtime.log import logger
from likewise.service.app import App
from likewise.service.metrics.otlp import Otlp
from likewise.service.reporting import Reporter
from likewise.service.service import Service
from likewise.service.settings import Settings


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    service = Service(settings)
    asyncio.run(_run(service))


async def _run(service: Service) -> None:
    server = service.settings.server
    config = uvicorn.Config(
        App(service),
        host=server.host,
        port=server.port,
        uds=server.uds,
        ssl_certfile=server.certificate,
        ssl_keyfile=server.key,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=round(server.drain_seconds),
        limit_concurrency=None,
        proxy_headers=server.behind_proxy,
    )
    listening = uvicorn.Server(config)
    reporter = Reporter(service)
    told = [asyncio.create_task(reporter.run())]
    otlp = None
    if service.settings.otlp is not None:
        otlp = Otlp(service, service.settings.otlp)
        told.append(asyncio.create_task(otlp.run()))
    opening = asyncio.create_task(asyncio.to_thread(service.open))
    opening.add_done_callback(lambda task: _opened(task, listening))
    try:
        await listening.serve()
    finally:
        with contextlib.suppress(BaseException):
            await opening
        try:
            await service.drain(server.drain_seconds)
        except TimeoutError:
            logger.warning("what waited was not judged in time; it was not answered")
        for task in told:
            task.cancel()
        reporter.ended()
        if otlp is not None:
            await otlp.close()
        service.close()
    await opening  # which raises if the ledgers could not be opened


def _opened(task: "asyncio.Task[None]", listening: uvicorn.Server) -> None:
    if task.exception() is not None:
        listening.should_exit = True
