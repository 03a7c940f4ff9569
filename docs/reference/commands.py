"""Write command-line.md from the command itself: python docs/reference/commands.py

Every command and option, with its help, as the parser knows it; a test fails if the page differs.
"""

import inspect
import re
from pathlib import Path
from typing import Any

import typer.main

from likewise.cli import exit_codes
from likewise.cli.commands import app

PAGE = Path(__file__).with_name("command-line.md")

_KINDS = {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "PATH"}
"""What stands for a value where the command has no better word."""

HEAD = """\
# The command line

Made from the command itself by `python docs/reference/commands.py`; a test fails if it is stale.
The same is on the screen with `likewise COMMAND --help`.

The extra `cli` brings the command, the extra `demo` what the demo needs as well:
[install](../how-to/install.md). Every command also takes `--help`, or `-h`.
"""


def page() -> str:
    """Return the whole page."""
    command: Any = typer.main.get_command(app)
    parts = [HEAD, _overview(command), _exit_codes(), _described(command, "likewise")]
    parts += [_described(one, f"likewise {name}") for name, one in command.commands.items()]
    return "\n".join(parts)


def _overview(command: Any) -> str:
    """List every command with the first paragraph of its help."""
    lines = ["| command | what it does |", "|---|---|"]
    for name, one in command.commands.items():
        first = re.split(r"\n\s*\n", inspect.cleandoc(one.help or ""))[0]
        lines.append(
            f"| [`likewise {name}`](#likewise-{name}) | {_escaped(' '.join(first.split()))} |"
        )
    return "\n".join([*lines, ""])


def _exit_codes() -> str:
    """List the exit codes from the header of exit_codes.py."""
    found = re.findall(r"(?:^    |; )(\d+)\s+([^;\n]+)", exit_codes.__doc__ or "", re.MULTILINE)
    found.sort(key=lambda one: int(one[0]))
    lines = [f"| {code} | {_escaped(meaning)} |" for code, meaning in found]
    return "\n".join(["| exit code | meaning |", "|---|---|", *lines, ""])


def _described(command: Any, name: str) -> str:
    parts = [f"## {name}", "", *_help(command), *_usage(command, name), ""]
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    if arguments:
        parts += ["| argument | |", "|---|---|"]
        parts += [f"| `{one.metavar or one.name.upper()}` | {_told(one)} |" for one in arguments]
        parts.append("")
    panels: dict[str, list[Any]] = {}
    for one in options:
        panels.setdefault(getattr(one, "rich_help_panel", None) or "", []).append(one)
    for panel, some in panels.items():
        parts += [f"**{panel}**", ""] if panel else []
        parts += ["| option | |", "|---|---|"]
        parts += [f"| {_names(one)} | {_told(one)} |" for one in some]
        parts.append("")
    return "\n".join(parts)


def _help(command: Any) -> list[str]:
    """Paragraphs; those that are commands stand in a block."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")):
        text = " ".join(paragraph.split())
        if re.match(r"(likewise|tail|cat|zcat) ", text):
            lines += ["```sh", text, "```", ""]
        else:
            lines += [_escaped(text), ""]
    return lines


def _usage(command: Any, name: str) -> list[str]:
    pieces = [name]
    pieces += ["COMMAND"] if hasattr(command, "commands") else []
    pieces += [
        one.metavar or one.name.upper()
        for one in command.params
        if one.param_type_name == "argument"
    ]
    return [f"`{' '.join([*pieces, '[OPTIONS]'])}`"]


def _names(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    if option.is_flag:
        return names
    kind = option.type_descriptor.annotation
    return f"{names} `{option.metavar or _KINDS[kind]}`".replace("|", r"\|")


def _told(one: Any) -> str:
    told = _escaped(getattr(one, "help", None) or "")
    shown = getattr(one, "show_default", None)
    default = shown if isinstance(shown, str) else one.default
    if default in (None, False, [], ()) or callable(default) or shown is False:
        return told
    return f"{told} Unless given: `{default}`."


def _escaped(text: str) -> str:
    """Options are code; outside of `code`, no character of Markdown."""
    parts = re.sub(r"(?<![\w`-])(--[a-z-]+)", r"`\1`", text).split("`")
    parts[::2] = [re.sub(r"([|*_<>\[\]{}])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
