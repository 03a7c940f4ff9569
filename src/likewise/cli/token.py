"""`likewise token`: make a token for clients of the service."""

from typing import Annotated

import typer

from likewise.cli.exit_codes import FINE, CommandError
from likewise.cli.terminal import say_lines


def token(
    name: Annotated[
        str, typer.Option(help="The name of the client, as the server and its log show it.")
    ] = "client",
    scopes: Annotated[
        str,
        typer.Option(
            metavar="LIST", help="Some of observe, read, review, erase, admin, separated by commas."
        ),
    ] = "observe",
    monitors: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", help="Names of monitors, separated by commas; all unless given."
        ),
    ] = None,
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
    lines = ["[[tokens]]", f'name = "{client.name}"', f'hash = "{client.hash}"']
    lines.append(f"scopes = {toml_value(list(client.scopes))}")
    if client.monitors is not None:
        lines.append(f"monitors = {toml_value(list(client.monitors))}")
    say_lines(
        "\n".join(["The token, for the client; it is not shown again:", "", f"    {secret}", ""]),
        wrap=False,
    )
    say_lines("\n".join(["For the settings of the server:", "", *lines]), wrap=False)
    return FINE


def _split_list(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
