"""Times on a page: in UTC as they are written, in the reader's zone once the script has run."""

from datetime import UTC, datetime

from likewise.values.safe import safe


def iso(seconds: float) -> str:
    """Seconds since 1970 as ISO text, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def moment(iso: str | None) -> str:
    """A time as HTML; the script says it in the reader's zone.

    >>> moment("2026-04-06T09:00:00+00:00")
    '<time datetime="2026-04-06T09:00:00+00:00">2026-04-06 09:00:00 UTC</time>'
    """
    if iso is None:
        return "–"
    plain = iso.replace("T", " ").removesuffix("+00:00").removesuffix("Z").removesuffix(" UTC")
    return f'<time datetime="{safe(machine_readable(iso))}">{safe(plain)} UTC</time>'


def machine_readable(iso: str) -> str:
    """A time of a ledger, which is in UTC, as a browser reads it."""
    bare = iso.removesuffix(" UTC").removesuffix("Z").removesuffix("+00:00").replace(" ", "T", 1)
    return f"{bare}+00:00"


def ago(seconds: float) -> str:
    """How long that is, in words.

    >>> ago(4.2), ago(200), ago(90_000)
    ('4 seconds ago', '3 minutes ago', '25 hours ago')
    """
    for size, name in ((86_400 * 3, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
        unit = 86_400 if name == "day" else size
        if seconds >= size:
            many = int(seconds // unit)
            return f"{many:,} {name}{'s' if many > 1 else ''} ago"
    return "just now"
