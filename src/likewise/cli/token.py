"""`likewise token`: make a token for clients of the service."""

from typing import Annotated

import typer


def token(
    name: Annotated[str, typer.Option(help="What the server calls it, in its log too.")] = "client",
    scopes: Annotated[
        str,
        typer.Option(
            metavar="LIST", help="Some of observe, read, review, erase, admin, with commas."
        ),
    ] = "observe",
    monitors: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Names of monitors, with commas; all unless given."),
    ] = None,
) -> int:
    """Make a token for `likewise serve`: print it once, and the lines for the settings.

    likewise token --name scoring --scopes observe,read --monitors loans

    The token goes to the client and is kept nowhere; the settings have its hash only.
    """
    from likewise.cli.exit_codes import FINE, CommandError
    from likewise.cli.terminal import say_lines
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
    some = None if monitors is None else tuple(_split_list(monitors))
    try:
        made = Token(name, hashed, tuple(_split_list(scopes)), some)
    except BadRule as error:
        raise CommandError(str(error)) from None
    for one in made.monitors or ():
        if not NAME_PATTERN.fullmatch(one):
            raise CommandError(f"{one!r} is no name of a monitor.")
    lines = ["[[tokens]]", f'name = "{made.name}"', f'hash = "{made.hash}"']
    lines.append(f"scopes = {toml_value(list(made.scopes))}")
    if made.monitors is not None:
        lines.append(f"monitors = {toml_value(list(made.monitors))}")
    say_lines(
        "\n".join(["The token, for the client; it is not shown again:", "", f"    {secret}", ""]),
        wrap=False,
    )
    say_lines("\n".join(["For the settings of the server:", "", *lines]), wrap=False)
    return FINE


def _split_list(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
