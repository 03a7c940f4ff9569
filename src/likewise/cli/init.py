"""`likewise init`: a first rule for a file, written to be read and changed.

Kinds and tolerances come from the values (rules/proposal.py), the output, protected columns and
columns that hold the truth from their names. Whatever is a guess says so beside itself.
"""

import datetime
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options as o

SAMPLE = 100_000
_OUTPUTS = [
    "prediction",
    "pred",
    "predicted",
    "decision",
    "outcome",
    "output",
    "approved",
    "accepted",
    "granted",
    "hired",
    "score",
    "label",
    "class",
    "result",
    "response",
    "target",
    "y",
    "income",
]
_TRUTHS = ("label", "target", "truth", "true_label", "ground_truth", "y_true", "actual", "y")
_GOOD = ("yes", "true", "approved", "accepted", "accept", "granted", "hired", "good", "pass", "1")
_PROTECTED = re.compile(
    r"sex$|gender|(^|[_\W])rac(e|ial)|rac1p|ethni|hispan|religio|disab|handicap|national(?!_id)|native"
    r"|citizen|birth_?place|country_of|marital|married|pregnan|orientation|caste|veteran",
    re.IGNORECASE,
)
_DAY = re.compile(r"\d{4}-\d\d-\d\d([T ]|$)")
_AGE = re.compile(r"(^|[_\W])age([_\W]|$)|^agep$|birth", re.IGNORECASE)


def init(
    data: o.Data,
    output_column: Annotated[
        list[str],
        typer.Option(metavar="COLUMN", help="The column of the output; several for probabilities."),
    ] = [],  # noqa: B006 - the parser makes a new one
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Where to write the rule; - prints it.")
    ] = Path("likewise.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    json: o.Json = False,
    format: o.Format = None,
    delimiter: o.Delimiter = None,
    missing: o.Missing = [],  # noqa: B006
) -> int:
    """Propose a rule for a file of decisions: likewise.toml, with comments, to be edited.

    likewise init decisions.csv --output-column approved
    """
    from likewise.cli.endings import DATA, FINE, Stop
    from likewise.cli.places import check_place, write_text
    from likewise.cli.reading import Reading
    from likewise.cli.screen import progress, say_aside, say_lines
    from likewise.sources.guessing import first_rows

    printed = str(out) == "-"
    if not printed:
        check_place(out, "--out", (".toml",))
        if out.exists() and not force:
            raise Stop(f"{out} is there already. Write to another file with --out, or say --force.")
    with Reading(format, delimiter, missing).open(data) as source:
        name = source.name
        outputs = output_column or [_guess_output(source.columns, name)]
        absent = [one for one in outputs if one not in source.columns]
        if absent:
            raise Stop(
                f"{name} has no column {absent[0]!r}; it has"
                f" {', '.join(map(repr, source.columns))}.",
                DATA,
            )
        with progress(f"reading {name}", compiles=False):
            table, refused = first_rows(source, SAMPLE)
        told = f"{source.place(refused[0].place)}: {refused[0].why}" if refused else ""
    if len(table) == 0 and refused:
        raise Stop(told, DATA)
    if len(table) == 0:
        raise Stop(f"{name} has a header and no rows; a rule is proposed from values.", DATA)
    with progress(f"looking at {name}", compiles=False):
        rule, text = propose(table, outputs, name)
    if printed:
        say_lines(text.removesuffix("\n"), wrap=False)
    else:
        write_text(out, text)
    if json:
        _print_json(rule, text, None if printed else out)
    elif not printed:
        _print_next(rule, _again(data, format, delimiter, missing), out)
    if refused:
        say_aside(f"{len(refused):,} rows could not be read. The first: {told}")
    return FINE


def propose(table: Any, outputs: Sequence[str], name: str) -> tuple[Any, str]:
    """A rule for a table, and its text with comments."""
    from likewise.cli.proposing import commented
    from likewise.rules.feature import Feature
    from likewise.rules.proposal import comparable, mostly_rounded
    from likewise.rules.rule import Rule
    from likewise.values.frames import table_columns

    columns = table_columns(table)
    inputs = [one for one in columns if one not in outputs]
    nested = [one for one in inputs if not comparable(columns[one])]
    protected = [one for one in inputs if _PROTECTED.search(one) and one not in nested]
    output = outputs[0] if len(outputs) == 1 else list(outputs)
    rule = Rule.from_data(table, output=output, protected=protected)
    truths = {
        one: Feature("ignore") for one in inputs if one.lower() in _TRUTHS and one not in protected
    }
    times = {one: Feature("ignore") for one in inputs if _is_time(columns[one])}
    features: dict[str, Any] = {**(rule.features or {}), **truths, **times}
    favourable = _favourable(columns[outputs[0]]) if rule.output == "label" else None
    rule = replace(rule, features=features, favourable=favourable)
    ages = [one for one in inputs if _AGE.search(one) and one not in (*protected, *nested)]
    ignored = [one for one in inputs if features[one].kind == "ignore" and one not in nested]
    large = [one for one in ignored if mostly_rounded(columns[one])]
    notes = {
        **dict.fromkeys(nested, "It holds lists or the like, which cannot be compared."),
        **dict.fromkeys(large, "Whole numbers beyond 2**53 cannot be compared as float64."),
        **dict.fromkeys(truths, "By its name the true answer, which is no input."),
        **dict.fromkeys(times, "A time. `likewise audit --time-column` shows rates by it."),
        **dict.fromkeys(ages, 'Protected in some places: then kind = "protected" alone.'),
    }
    return rule, commented(rule, columns, name=name, notes=notes)


def _is_time(column: Any) -> bool:
    """Whether all values are times, or text that begins like one."""
    from likewise.values.frames import is_missing, values_of

    there = [value for value in values_of(column) if not is_missing(value)]
    return bool(there) and all(
        isinstance(value, datetime.date) or (isinstance(value, str) and _DAY.match(value))
        for value in there
    )


def _guess_output(columns: Sequence[str], name: str) -> str:
    from likewise.cli.endings import Stop

    by_name = {one.lower(): one for one in reversed(columns)}
    for one in _OUTPUTS:
        if one in by_name:
            return by_name[one]
    raise Stop(
        f"which column of {name} is the output, what was decided? Say --output-column; the columns"
        f" are {', '.join(map(repr, columns))}."
    )


def _favourable(column: Any) -> Any:
    """The output that its name says everyone wants, if one of two or three does."""
    from likewise.rules.feature import plain
    from likewise.values.frames import is_missing, values_of

    values = {plain(value) for value in values_of(column) if not is_missing(value)}
    if len(values) > 3:
        return None
    for value in values:
        number = float(value) if isinstance(value, int | float) else None
        if number == 1.0 or str(value).strip().lower() in _GOOD:
            return value
    return None


def _again(data: str, format: str | None, delimiter: str | None, missing: Sequence[str]) -> str:
    """How to read the same file in the same way."""
    options = [
        *(["--format", format] if format else []),
        *(["--delimiter", delimiter] if delimiter else []),
        *(word for one in missing for word in ("--missing", one)),
    ]
    return shlex.join([data, *options])


def _print_json(rule: Any, text: str, out: Path | None) -> None:
    from likewise.cli.screen import print_json

    kinds = {name: one.kind for name, one in rule.features.items()}
    told = {"out": None if out is None else str(out), "output_column": rule.output_column}
    print_json({**told, "kinds": kinds, "rule": text})


def _print_next(rule: Any, data: str, out: Path) -> None:
    from likewise.cli.screen import say

    def named(*kinds: str) -> str:
        names = [name for name, one in rule.features.items() if one.kind in kinds]
        return f"{len(names):,}" + (
            f" ({', '.join(names[:6])}{', …' * (len(names) > 6)})" if names else ""
        )

    say(f"Wrote {out}, a proposal: read it, and change what is not meant.")
    say()
    for words, kinds in (
        ("columns compared", ("number", "ordinal", "category")),
        ("protected, by their names", ("protected",)),
        ("not looked at", ("ignore", "key")),
    ):
        say(f"  {words}: {named(*kinds)}")
    say(f"  the output: {rule.output_column}")
    say()
    say(f"Then: likewise audit {data} --rule {out} --report page.html")
