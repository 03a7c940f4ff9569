"""`likewise serve`: serve one history to many workers, over HTTP."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.exit_codes import FINE, CommandError
from likewise.cli.terminal import log_stderr, say_on_stderr


def serve(
    config: Annotated[
        Path | None, typer.Argument(metavar="CONFIG", help="A TOML file with monitors and limits.")
    ] = None,
    rule: Annotated[
        Path | None,
        typer.Option(metavar="RULE", help="Serve a single monitor, `default`, with this rule."),
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The ledger of that monitor.")
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on; loopback unless given.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="The port to listen on; 8800 unless given; 0: any free one."
        ),
    ] = None,
    uds: Annotated[
        Path | None, typer.Option(metavar="SOCKET", help="Listen on a Unix socket instead.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Must be 1: one process owns the history.")] = 1,
    log_format: Annotated[
        str | None,
        typer.Option(
            metavar="text|json", help="Write a log to standard error, without values of decisions."
        ),
    ] = None,
) -> int:
    """Serve monitors over HTTP: one history that any worker, pod or language can reach.

    likewise serve --rule loans.toml --ledger loans.ledger

    Ends with SIGTERM or an interrupt, once requests under way are answered. On SIGHUP it reads
    CONFIG again: tokens, limits, alerts and the certificate. Exit codes: 0 fine, 2 bad usage or
    settings, 3 no ledger can be opened.
    """
    from likewise.runtime.log import logger

    try:
        from msgspec.structs import replace

        from likewise.pages import page_router
        from likewise.service.running import serve as run
    except ModuleNotFoundError as error:
        raise CommandError(
            f"{error.name} is missing: pip install '.[serve]' in the clone of likewise."
        ) from None
    from likewise.service.service_log import write_log
    from likewise.service.settings import MonitorSettings, ServiceSettings

    if log_format is not None:
        if log_format not in ("text", "json"):
            raise CommandError(f"--log-format is {log_format!r}; expected text or json.")
        write_log(log_format)
        log_stderr(logger.error)
    if (config is None) == (rule is None and ledger is None):
        raise CommandError("expected a CONFIG, or --rule and --ledger for a single monitor.")
    options = {"host": host, "port": port, "uds": uds}
    changes = {name: value for name, value in options.items() if value is not None}

    def read_settings() -> ServiceSettings:
        if config is not None:
            settings = ServiceSettings.read(config)
        else:
            settings = ServiceSettings({"default": MonitorSettings(rule=rule, ledger=ledger)})
        return replace(settings, server=replace(settings.server, workers=workers, **changes))

    tell = logger.info if log_format else lambda line: say_on_stderr(f"likewise: {line}")
    reload = None if config is None else read_settings
    run(read_settings(), tell, [page_router], reload)
    return FINE
