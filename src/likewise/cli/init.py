"""`likewise init`: propose a first rule for a file, to be read and changed.

Columns are classified by their values and names (proposing/proposal.py). The rule is then tried on
the first rows, and loosened where it would compare nothing (proposing/loosening.py). Comments in
the rule mark what is a guess. If names do not tell which column is the output, the user is asked.
"""

import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from likewise.cli import options as o
from likewise.cli.exit_codes import DATA, FINE, CommandError
from likewise.cli.input_files import ReadingOptions, check_output_path, write_text
from likewise.cli.terminal import (
    ask_text,
    is_interactive,
    print_json,
    progress,
    say,
    say_lines,
    say_on_stderr,
)

if TYPE_CHECKING:
    from likewise.proposing.output_column import OutputGuess
    from likewise.proposing.profile import Profile
    from likewise.proposing.propose_rule import ProposedRule
    from likewise.sources.remarks import Remark

SAMPLE = 100_000
_NAMES = 6  # of columns in a line


@o.with_option_groups("on_bad_row")
def init(
    data: o.Data,
    output_column: list[str] = o.option(
        "The column of the output; several for probabilities.", default=[], metavar="COLUMN"
    ),
    out: Path = o.option(
        "Where to write the rule; - prints it.", default=Path("likewise.toml"), metavar="FILE"
    ),
    force: bool = o.option("Replace an existing file.", "--force", default=False),
    json: o.Json = False,
    *,
    reading: ReadingOptions,
) -> int:
    """Propose a rule for a file of decisions: likewise.toml, with comments, for you to edit.

    likewise init decisions.csv --output-column approved
    """
    from likewise.proposing.output_column import OutputGuess
    from likewise.proposing.profile import profiles_of
    from likewise.proposing.propose_rule import propose_and_try
    from likewise.tables.frames import table_columns

    printed = str(out) == "-"
    if not printed:
        check_output_path(out, "--out", (".toml",))
        if out.exists() and not force:
            raise CommandError(
                f"{out} is there already. Write to another file with --out, or say --force."
            )
    data_words = reading.to_command(data)
    sample = _read_sample(reading, data, output_column)
    name = sample.name
    with progress(f"looking at {name}"):
        profiles = profiles_of(table_columns(sample.table))
    guess = (
        OutputGuess("", "")
        if output_column
        else _guess_output_column(profiles, name, data_words, ask=not json)
    )
    with progress(f"trying a rule on {name}"):
        outputs = output_column or [guess.column]
        proposed = propose_and_try(sample.table, profiles, outputs, name, guess.note)
    if printed:
        say_lines(proposed.text.removesuffix("\n"), wrap=False)
    else:
        write_text(out, proposed.text)
    if json:
        _print_json(proposed, None if printed else out, sample.remarks)
    elif not printed:
        _print_next(proposed, data_words, out)
    if sample.unreadable:
        say_on_stderr(sample.unreadable)
    return FINE


class _Sample(NamedTuple):
    """Holds the first rows of a file, and what to say about reading it."""

    name: str
    table: Any
    unreadable: str
    """What to say about rows that could not be read, if there are any."""
    remarks: "Sequence[Remark]"
    """Remarks on how the file was read."""


def _read_sample(reading: "ReadingOptions", data: str, outputs: Sequence[str]) -> _Sample:
    from likewise.proposing.first_rows import first_rows

    with reading.open(data) as source:
        name = source.name
        absent = [column for column in outputs if column not in source.columns]
        if absent:
            raise CommandError(_describe_absent(name, absent[0], source.columns), DATA)
        with progress(f"reading {name}"):
            table, refused = first_rows(source, SAMPLE)
        first = f"{source.describe_place(refused[0].place)}: {refused[0].why}" if refused else ""
    if len(table) == 0 and refused:
        raise CommandError(first, DATA)
    if len(table) == 0:
        raise CommandError(
            f"{name} has a header and no rows; a rule is proposed from values.", DATA
        )
    unreadable = f"{len(refused):,} rows could not be read. The first: {first}" if refused else ""
    return _Sample(name, table, unreadable, source.remarks)


def _describe_absent(source: str, column: str, columns: Collection[str]) -> str:
    from likewise.tables.known_names import did_you_mean

    listed, meant = ", ".join(map(repr, columns)), did_you_mean(column, columns) or "."
    return f"{source} has no column {column!r}; it has {listed}{meant}"


def _guess_output_column(
    profiles: "Mapping[str, Profile]", name: str, data_words: str, *, ask: bool
) -> "OutputGuess":
    """Find the output column by its name, or ask at the terminal."""
    from likewise.proposing.output_column import OutputGuess, candidates, guess_output

    guess = guess_output(profiles)
    if guess is not None:
        return guess
    likely = candidates(profiles)
    question = f"which column of {name} is the output, what was decided?"
    if ask and is_interactive():
        listed = [f"{i}  {column}" for i, column in enumerate(likely, 1)]
        say_on_stderr("\n".join([f"The names do not tell {question}", *listed]))
        answer = ask_text("A number, or the name of a column")
        by_number = {str(i): column for i, column in enumerate(likely, 1)}
        column = answer if answer in profiles else by_number.get(answer, answer)
        if column in profiles:
            return OutputGuess(column, "")
        raise CommandError(_describe_absent(name, answer, profiles))
    example = likely[0] if likely else next(iter(profiles))
    raise CommandError(
        f"{question} The names do not tell. Say it: likewise init {data_words}"
        f" --output-column {shlex.quote(example)}. By their values it may be"
        f" {', '.join(map(repr, likely)) or 'none of them'}; the columns are"
        f" {', '.join(map(repr, profiles))}."
    )


def _print_json(proposed: "ProposedRule", out: Path | None, remarks: "Sequence[Remark]") -> None:
    rule = proposed.rule
    print_json(
        {
            "out": None if out is None else str(out),
            "output_column": rule.output_column,
            "output": rule.output,
            "delta": rule.delta,
            "kinds": {name: feature.kind for name, feature in (rule.features or {}).items()},
            "notes": [note.to_dict() for note in proposed.notes],
            "trial": proposed.loosened and proposed.loosened.to_dict(),
            "rule": proposed.text,
            "remarks": [remark.to_dict() for remark in remarks],
        }
    )


def _print_next(proposed: "ProposedRule", data: str, out: Path) -> None:
    features = proposed.rule.features or {}
    say(f"Wrote {out}, a proposal: read it, and correct what is wrong.")
    say()
    for words, kinds in (
        ("columns compared", ("number", "ordinal", "category")),
        ("protected, by their names", ("protected",)),
        ("not compared", ("ignore", "key")),
    ):
        names = [name for name, feature in features.items() if feature.kind in kinds]
        say(f"  {words}: {len(names):,}" + (f" ({_join_names(names)})" if names else ""))
    say(f"  the output: {_join_names(proposed.rule.output_columns)}")
    say()
    _print_notes(proposed)
    if loosened := proposed.loosened:
        for line in loosened.sentences():
            say(line, "bold" if loosened.trial.comparable else "bold red")
    say()
    say(f"Then: likewise audit {data} --rule {out} --report page.html")


def _print_notes(proposed: "ProposedRule") -> None:
    """Print the notes, with one line for all columns that have the same note."""
    columns_by_text: dict[str, list[str]] = {}
    for note in proposed.notes:
        columns_by_text.setdefault(note.text, []).extend(note.columns)
    if not columns_by_text:
        return
    say("Check these:")
    for text, columns in columns_by_text.items():
        say(f"  {_join_names(columns)}: {text}")
    say()


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMES]) + ", …" * (len(names) > _NAMES)
