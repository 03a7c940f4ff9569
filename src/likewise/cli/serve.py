"""`likewise serve`: serve one history to many workers, over HTTP."""

import sys
from pathlib import Path
from typing import Any

from likewise.cli import options as o
from likewise.cli.exit_codes import FINE, CommandError
from likewise.cli.terminal import log_stderr, progress, say, say_lines, say_on_stderr


def warm() -> int:
    """Compile the inner loops now, not at their first use, and store them.

    Use it in container images, and on processors that no kernels are built for. Elsewhere the
    kernels are compiled already, and there is nothing to do.
    """
    from likewise.search.kernels.compile import way
    from likewise.search.kernels.native import ENTRIES, choose_level, library_path

    level = choose_level()
    if way == "plain":
        say("The kernels are not compiled.")
    elif level is None:
        from likewise.search.kernels.jit import announcement, compile_entry

        announcement.was_made = True  # the bar says it
        with progress("compiling kernels") as bar:
            for i, name in enumerate(ENTRIES):
                bar.update(i, len(ENTRIES), name)
                compile_entry(name)
        say("The kernels are compiled.")
    elif all(library_path(level, name).exists() for name in ENTRIES):
        say("The kernels are compiled already.")
    else:
        from likewise.search.kernels.building import build

        build([level], list(ENTRIES), sys.stderr)
        say("The kernels are compiled.")
    return FINE


def token(
    name: str = o.option(
        "The name of the client, as the server and its log show it.", default="client"
    ),
    scopes: str = o.option(
        "Some of observe, read, review, erase, admin, separated by commas.",
        default="observe",
        metavar="LIST",
    ),
    monitors: str | None = o.option(
        "Names of monitors, separated by commas; all unless given.", metavar="LIST"
    ),
) -> int:
    """Make a token for `likewise serve`: print it once, and the lines for the settings.

    likewise token --name scoring --scopes observe,read --monitors loans

    The token goes to the client and is stored nowhere; the settings hold only its hash.
    """
    from likewise.errors import BadRule
    from likewise.rule.rule import toml_value
    from likewise.service.settings import Token
    from likewise.service.tokens import new_token
    from likewise.service.toml_tables import NAME_PATTERN

    if not NAME_PATTERN.fullmatch(name):
        raise CommandError(
            f"the name is {name!r}; expected small letters, digits, dots, dashes and underscores."
        )
    secret, hashed = new_token()
    allowed = None if monitors is None else tuple(_split_list(monitors))
    try:
        client = Token(name, hashed, tuple(_split_list(scopes)), allowed)
    except BadRule as error:
        raise CommandError(str(error)) from None
    for monitor in client.monitors or ():
        if not NAME_PATTERN.fullmatch(monitor):
            raise CommandError(f"{monitor!r} is no name of a monitor.")
    settings: dict[str, Any] = {"name": name, "hash": hashed, "scopes": list(client.scopes)}
    if client.monitors is not None:
        settings["monitors"] = list(client.monitors)
    lines = [f"{setting} = {toml_value(value)}" for setting, value in settings.items()]
    say_lines(f"The token, for the client; it is not shown again:\n\n    {secret}\n", wrap=False)
    say_lines("\n".join(["For the settings of the server:", "", "[[tokens]]", *lines]), wrap=False)
    return FINE


def _split_list(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def serve(
    config: Path | None = o.argument(
        "A TOML file with monitors and limits.", "CONFIG", default=None
    ),
    rule: Path | None = o.option(
        "Serve a single monitor, `default`, with this rule.", metavar="RULE"
    ),
    ledger: Path | None = o.option("The ledger of that monitor.", metavar="FOLDER"),
    host: str | None = o.option("The address to listen on; loopback unless given."),
    port: int | None = o.option(
        "The port to listen on; 8800 unless given; 0: any free one.", min=0, max=65535
    ),
    uds: Path | None = o.option("Listen on a Unix socket instead.", metavar="SOCKET"),
    workers: int = o.option("Must be 1: one process owns the history.", default=1),
    log_format: str | None = o.option(
        "Write a log to standard error, without values of decisions.", metavar="text|json"
    ),
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
