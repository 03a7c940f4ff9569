"""The formats of a ledger that this version of likewise knows, by version."""

from likewise.ledger import format1, format2
from likewise.ledger.protocol import Format
from likewise.values.errors import BadFile

FORMATS: dict[int, Format] = {1: format1, 2: format2}


def format_of(version: int) -> Format:
    try:
        return FORMATS[version]
    except KeyError:
        raise BadFile(f"there is no format {version!r} of a ledger: it was altered.") from None
