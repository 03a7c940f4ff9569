"""Reads a whole column of times, as a file is read in one chunk."""

from likewise.errors import BadFile
from likewise.sources.time_columns import detect_form


def parse_times(values, *, column="time", source="the table", unit="row", places=None, dates=None):
    """Return the moments of a column, None where a value is missing; raise BadFile."""
    form = detect_form(values, column=column, source=source, unit=unit, places=places, dates=dates)
    moments, unfit = form.parse(values)
    if unfit:
        where = unfit[0].at + 1 if places is None else int(places[unfit[0].at])
        more = f" So are {len(unfit) - 1:,} more." if len(unfit) > 1 else ""
        raise BadFile(f"{source}, {unit} {where:,}: {unfit[0].why}.{more}", path=source)
    return moments
