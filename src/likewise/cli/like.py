"""`likewise like`: list how similar cases were decided, in a file or a ledger."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from likewise.cli import options as o
from likewise.cli.exit_codes import FINE, CommandError
from likewise.cli.input_files import ReadingOptions
from likewise.cli.terminal import print_json, progress, say

if TYPE_CHECKING:
    from likewise.auditing.look_up import LookedUp, MakeCase

_MOST_BYTES = 1 << 20  # of a file with a case


@o.with_option_groups()
def like(
    data: o.Data,
    rule: o.RuleFile = None,
    case: list[str] = o.option(
        "The case: a file of JSON, - for standard input, or COLUMN=VALUE, which may be repeated.",
        default=[],
        metavar="CASE",
    ),
    limit: int = o.option("How many similar cases are listed.", default=20, min=0, metavar="N"),
    model: str | None = o.option(
        "Which model would decide, for a rule about models.", metavar="NAME"
    ),
    model_column: o.ModelColumn = None,
    trust_code: o.TrustCode = False,
    json: o.Json = False,
    *,
    quick: o.RuleOptions,
    reading: ReadingOptions,
) -> int:
    """List how similar cases were decided, nearest first. Nothing is stored.

    likewise like decisions.csv --rule likewise.toml --case age=30 --case job=cook

    likewise like decisions.ledger --case case.json

    Decisions about the person in the case are left out. A ledger that is being written is asked
    through its service, or on its page "Look up".
    """
    make_case = _read_case(case)
    if Path(data).is_dir():
        looked_up = _ask_ledger(Path(data), rule, quick, trust_code, make_case, limit, model)
    else:
        looked_up = _ask_file(
            data, rule, quick, reading, trust_code, make_case, limit, model, model_column
        )
    if json:
        print_json(looked_up.to_dict())
    else:
        _print(looked_up)
    return FINE


def _read_case(case: list[str]) -> "MakeCase":
    """Return a function that makes the case from what was given."""
    from likewise.monitor.case_texts import read_case_fields, read_pasted_case

    if not case:
        raise CommandError("which case? Give --case case.json, --case -, or --case COLUMN=VALUE.")
    if len(case) > 1 or ("=" in case[0] and not Path(case[0]).is_file()):
        pairs = [text.partition("=") for text in case]
        wrong = next((text for text, pair in zip(case, pairs, strict=True) if not pair[1]), None)
        if wrong is not None:
            raise CommandError(f"--case {wrong} says no value; expected COLUMN=VALUE.")
        texts = {name.strip(): value for name, _, value in pairs}
        return lambda monitor: read_case_fields(monitor, texts)
    pasted = _read_text(case[0])
    return lambda monitor: read_pasted_case(monitor, pasted)


def _read_text(name: str) -> str:
    try:
        if name == "-":
            return sys.stdin.read(_MOST_BYTES)
        with Path(name).open(encoding="utf-8") as file:
            return file.read(_MOST_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(
            f"--case {name} cannot be read: {error}. Expected a file of JSON, - or COLUMN=VALUE."
        ) from None


def _ask_ledger(
    path: Path,
    rule: Path | None,
    quick: o.RuleOptions,
    trust_code: bool,
    make_case: "MakeCase",
    limit: int,
    model: str | None,
) -> "LookedUp":
    from likewise.auditing.look_up import look_up_in_ledger
    from likewise.cli.open_ledger import open_for_reading
    from likewise.cli.rule_options import check_trusted_code

    if rule is not None or quick != o.RuleOptions():
        raise CommandError("a ledger has a rule of its own: leave out --rule, --epsilon and so on.")
    with open_for_reading(path) as opened:
        own = check_trusted_code(opened.rule, f"the rule of {path}", trust_code)
    with progress(f"reading {path}"):
        return look_up_in_ledger(path, own, make_case, limit=limit, model=model)


def _ask_file(
    data: str,
    rule: Path | None,
    quick: o.RuleOptions,
    reading: ReadingOptions,
    trust_code: bool,
    make_case: "MakeCase",
    limit: int,
    model: str | None,
    model_column: str | None,
) -> "LookedUp":
    from likewise.auditing.look_up import look_up_in_file
    from likewise.cli.rule_options import bind_rule

    with reading.open(data) as source, progress(f"reading {source.name}") as bar:
        binding = bind_rule(
            rule,
            quick,
            source.columns,
            source.name,
            [] if model_column is None else [model_column],
            left_out=source.left_out,
            trust_code=trust_code,
        )
        o.require_model_column(binding.rule, model_column)
        return look_up_in_file(
            source,
            binding,
            make_case,
            model_column=model_column,
            skip=reading.skips_bad_rows,
            progress=bar.update,
            limit=limit,
            model=model,
        )


def _print(looked_up: "LookedUp") -> None:
    """Print a sentence, and a table of the cases, nearest first."""
    from likewise.tables.printing import display_value, format_number, shorten

    found = looked_up.found
    say(looked_up.describe())
    if not len(found):
        return
    say()
    columns: dict[str, list[Any]] = {
        looked_up.unit: [f"{row:,}" for row in found.rows.tolist()],
        "distance": [format_number(float(f"{one:.3g}")) for one in found.input_distances],
        "decided": [display_value(looked_up.name_output(one)) for one in found.outputs],
    }
    if any(key is not None for key in found.keys):
        columns["key"] = [display_value(key) for key in found.keys]
    cases = found.to_dict()["cases"]
    for name in ("time", "model"):
        if any(name in case for case in cases):
            columns[name] = [str(case.get(name, "")) for case in cases]
    if any(found.reviews):
        columns["review"] = [each[-1].disposition if each else "" for each in found.reviews]
    if any(found.superseded):
        columns["overrules"] = ["" if one is None else f"{one.row:,}" for one in found.superseded]
    lines = [
        list(columns),
        *([shorten(cell, 40) for cell in line] for line in zip(*columns.values(), strict=True)),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        say(
            "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        )
    if found.near > len(found):
        say(f"and {found.near - len(found):,} more; --limit lists more of them")
