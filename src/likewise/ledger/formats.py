"""The formats of a ledger that this version of likewise reads and writes, by version."""

from likewise.errors import BadFile
from likewise.ledger import format2
from likewise.ledger.protocol import Format

FORMATS: dict[int, Format] = {2: format2}


def format_of(version: int) -> Format:
    """Return the format with this version; raise BadFile if there is none."""
    try:
        return FORMATS[version]
    except KeyError:
        raise BadFile(f"there is no format {version!r} of a ledger: it was altered.") from None
