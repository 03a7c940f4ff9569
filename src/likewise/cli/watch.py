"""`likewise watch`: decisions as JSON lines in, a verdict line for each out, as long as they come.

It parses options and handles signals. follow_sources.py says what is promised about lines, and the
loop is in sources/follower.py.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from likewise.cli import options as o
from likewise.cli.exit_codes import DATA, FINE, INTERRUPTED
from likewise.cli.terminal import say_on_stderr
from likewise.cli.watch_options import WatchOptions
from likewise.tables.printing import json_text


@o.with_option_groups("person")
def watch(
    options: WatchOptions,
    json: bool = o.option(
        "Print the summary as JSON, too: the last line on standard error.", "--json", default=False
    ),
) -> int:
    """Watch decisions as they are made: JSON lines on standard input, a verdict line for each.

    tail -f decisions.jsonl | likewise watch --rule likewise.toml --ledger decisions.ledger

    Each line out is {"line", "row", "key", "violation", "count", "witnesses": [...]}, or {"line",
    "code", "error"} for a line that cannot be judged. A new verdict also says whether there was an
    earlier similar case of any output, "comparable", and with --model-column which "model" decided.
    Ends with its input, or with SIGTERM. With --burst each new verdict also says how many of the
    last N decisions had a near input, and whether that raises an alarm: "neighbours" and
    "alarm".

    No line ends the stream: one that is longer than 32 MB, is no JSON object, has a name twice, has
    other columns than the rule, or has true where a number is expected, is answered by an error.
    Without a rule that names them, the columns are those of the first line that can be judged.

    With a ledger, every answer is on disk, and a run that was killed continues where it was: send
    again what was not answered. A decision is recognised by the rule's key; without a key, start
    the input from its beginning with --resume.

    With --from, decisions come from a stream, and a run continues where the ledger ends: positions
    are stored with the decisions. A message is judged once, or is a dead letter with the reason.
    If a server is unreachable, watch waits for it.

    likewise watch --from 'redis://127.0.0.1:6379/0?stream=decisions' --rule likewise.toml --ledger
    decisions.ledger --to 'redis://127.0.0.1:6379/0?stream=verdicts'

    Without --rule a ledger continues under its own rule. If that names code, add --trust-code.

    Exit codes: 0 fine, 2 bad usage, 3 bad data: none of the lines could be judged, or one could
    not and --on-bad-row is fail.
    """
    from likewise.cli.follow_sources import follow

    interrupted: list[int] = []
    result = follow(options, lambda stop: _handle_signals(stop, interrupted.append))
    unit = "line" if options.source is None else "message"
    say_on_stderr(json_text(result.to_dict()) if json else result.in_words(unit))
    if signal.SIGINT in interrupted:
        return INTERRUPTED
    return DATA if result.has_only_bad else FINE


@contextmanager
def _handle_signals(stop: Callable[[], None], note: Callable[[int], None]) -> Iterator[None]:
    """Stop after the current batch on the first signal; on the second, at once."""

    def handle(number: int, _: Any) -> None:
        note(number)
        stop()
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
