"""`likewise watch`: decisions as JSON lines in, a verdict line for each out, as long as they come.

Thin: it parses options and handles signals. What is promised of lines is in follow_sources.py, and
the loop in sources/follower.py.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options as o


@o.with_option_groups("person")
def watch(
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="ADDRESS",
            help="Read a stream (redis://…, nats://…, kafka://…) or a file of JSON lines, not"
            " standard input.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="With --from: a stream for verdict lines; else standard output."
        ),
    ] = None,
    dead_letters: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="With --from: a stream for messages that cannot be judged; else standard output.",
        ),
    ] = None,
    gaps: Annotated[
        str | None,
        typer.Option(
            metavar="lost|stop",
            help="With --from: count messages that are gone as lost (unless told otherwise), or"
            " end with an error.",
        ),
    ] = None,
    rule: o.RuleFile = None,
    trust_code: o.TrustCode = False,
    ledger: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Keep decisions and verdicts in a ledger, begun or gone on with."
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="The input begins again at its first line: lines that the ledger has are not"
            " judged again.",
        ),
    ] = False,
    durability: Annotated[
        str,
        typer.Option(
            metavar="commit|batch|off", help="Whether an answer waits until it is safely on disk."
        ),
    ] = "commit",
    window: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help='How much a ledger keeps: "100000 rows", "24 hours".'),
    ] = None,
    witnesses: Annotated[
        int, typer.Option(min=0, help="How many of a decision's nearest witnesses are named.")
    ] = 10,
    on_bad_row: Annotated[
        str,
        typer.Option(
            metavar="skip|fail",
            help="Tell of a line that cannot be judged and go on, or end there.",
        ),
    ] = "skip",
    model_column: o.ModelColumn = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json", help="Say how it went as JSON, too: the last line on standard error."
        ),
    ] = False,
    *,
    quick: o.RuleOptions,
    burst: o.Last = None,
    alarm: o.Alarm = None,
) -> int:
    """Watch decisions as they are made: JSON lines on standard input, a verdict line for each.

    tail -f decisions.jsonl | likewise watch --rule likewise.toml --ledger decisions.ledger

    Each line out is {"line", "row", "key", "violation", "count", "witnesses": [...]}, or {"line",
    "code", "error"} for a line that cannot be judged. A new verdict also says whether there was an
    earlier like case of any output, "comparable", and with --model-column which "model" decided.
    Ends with its input, or with SIGTERM. With --burst each new verdict also says how many of the
    last N decisions had a near input, and whether that raises an alarm: "neighbours" and
    "alarm".

    No line ends the stream: one that is longer than 32 MB, is no JSON object, has a name twice, has
    other columns than the rule, or has true where a number is expected, has an error for an answer.
    Without a rule that names them, the columns are those of the first line that can be judged.

    With a ledger, what was answered is on disk, and a run that was killed goes on where it was:
    send again what was not answered. A decision is known again by the rule's key; without a key,
    start the input from its beginning with --resume.

    With --from, decisions come from a stream, and a run goes on where the ledger ends: positions
    are stored with the decisions. A message is judged once, or is a dead letter with the reason.
    It waits for a server that is away.

    likewise watch --from 'redis://127.0.0.1:6379/0?stream=decisions' --rule likewise.toml --ledger
    decisions.ledger --to 'redis://127.0.0.1:6379/0?stream=verdicts'

    Without --rule a ledger goes on under its own. If that names code, watch asks for --trust-code.

    Exit codes: 0 fine, 2 bad usage, 3 bad data: there were lines and none could be judged, or one
    could not and --on-bad-row is fail.
    """
    from likewise.cli.exit_codes import DATA, FINE, INTERRUPTED
    from likewise.cli.follow_sources import WatchOptions, follow
    from likewise.cli.input_files import ReadingOptions
    from likewise.cli.options import make_burst
    from likewise.cli.terminal import json_text, say_on_stderr

    options = WatchOptions(
        from_,
        to,
        dead_letters,
        gaps,
        rule,
        quick,
        ledger,
        resume,
        durability,
        window,
        witnesses,
        ReadingOptions(on_bad_row=on_bad_row).skips_bad_rows,
        make_burst(burst, alarm),
        model_column,
        trust_code,
    )
    interrupted: list[int] = []
    result = follow(options, lambda stop: _handle_signals(stop, interrupted.append))
    unit = "line" if from_ is None else "message"
    say_on_stderr(json_text(result.to_dict()) if json else result.in_words(unit))
    if signal.SIGINT in interrupted:
        return INTERRUPTED
    return DATA if result.has_only_bad else FINE


@contextmanager
def _handle_signals(stop: Callable[[], None], note: Callable[[int], None]) -> Iterator[None]:
    """Asked to end, end after what is in hand; asked twice, at once."""

    def handle(number: int, _: Any) -> None:
        note(number)
        stop()
        signal.signal(number, signal.SIG_DFL)

    before = {one: signal.signal(one, handle) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
