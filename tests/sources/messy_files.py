"""Files as people have them: one table of applications, written in many ways.

`Style` says how a file is written, `write` writes it. The table itself is plain numbers and words,
so what must come out of any of the files is known before it is read.
"""

import csv
import datetime
import gzip
import io
from dataclasses import dataclass

COUNT = 60
JOBS = ("nurse", "Köchin", "clerk", "Bäcker")
START = datetime.datetime(2024, 1, 20, 9, 30)
NAMES = ["number", "age", "income", "share", "applied", "job", "sex", "approved"]


@dataclass(frozen=True)
class Application:
    """One row, as it is meant."""

    number: str
    age: int
    income: float | None
    share: float
    applied: datetime.datetime
    job: str
    sex: str
    approved: str


def table(missing_every=0, negative_every=0, thousands_only=False):
    """The rows that are meant; some incomes missing, or less than zero."""
    rows = []
    for i in range(COUNT):
        income = round(180.25 + 467.5 * i + (i * 37 % 100) / 100, 2)
        if thousands_only:
            income = 1000.0 + 113 * i
        if negative_every and i % negative_every == 3:
            income = -income
        rows.append(
            Application(
                f"A-{1000 + i}",
                20 + i * 7 % 50,
                None if missing_every and i % missing_every == 2 else income,
                round((i * 13 % 100) + 0.5, 1),
                START + datetime.timedelta(days=i, minutes=i),
                JOBS[i % 4],
                "fm"[i % 2],
                "yes" if i * 7 % 3 else "no",
            )
        )
    return rows


@dataclass(frozen=True)
class Style:
    """How a file is written; as it stands, a plain CSV file."""

    delimiter: str = ","
    decimal: str = "."
    group: str = ""
    digits: int = 2
    """Decimals of an income."""
    currency: str = "{}"
    percent: str = "{}"
    less: str = "-{}"
    """How a number below zero is written."""
    dates: str = "%Y-%m-%d %H:%M:%S"
    missing: str = ""
    """What stands where nothing is known, if anything does."""
    encoding: str = "utf-8"
    index: str | None = None
    """The name of an index; "R": as R writes one, without a name in the header."""
    header: bool = True
    quoted: bool = False
    behind: str = ""
    """What stands behind each delimiter."""
    trailing: bool = False
    first: str = ""
    last: str = ""
    missing_every: int = 0
    negative_every: int = 0
    thousands_only: bool = False

    def rows(self):
        every = self.missing_every or (7 if self.missing else 0)
        return table(every, self.negative_every, self.thousands_only)

    def number(self, value, digits):
        if value is None:
            return self.missing
        text = f"{abs(value):,.{digits}f}"
        text = text.replace(",", "\0").replace(".", self.decimal).replace("\0", self.group)
        return self.less.format(text) if value < 0 else text

    def fields(self, row):
        income = self.number(row.income, self.digits)
        return [
            row.number,
            str(row.age),
            self.currency.format(income) if row.income is not None else income,
            self.percent.format(self.number(row.share, 1)),
            row.applied.strftime(self.dates),
            row.job,
            row.sex,
            row.approved,
        ]


def write(style):
    """The bytes of a file."""
    records = [NAMES] if style.header else []
    records += [style.fields(row) for row in style.rows()]
    if style.index is not None:
        first = [] if style.index == "R" else [style.index]
        start = 1 if style.index == "R" else 0
        records = [first + records[0]] + [
            [str(i), *record] for i, record in enumerate(records[1:], start)
        ]
    written = io.StringIO()
    written.write(style.first)
    quoting = csv.QUOTE_ALL if style.quoted else csv.QUOTE_MINIMAL
    for record in records:
        line = io.StringIO()
        csv.writer(line, delimiter=style.delimiter, lineterminator="", quoting=quoting).writerow(
            record
        )
        text = line.getvalue()
        if style.behind:
            text = text.replace(style.delimiter, style.delimiter + style.behind)
        written.write(text + style.delimiter * style.trailing + "\r\n")
    written.write(style.last)
    return written.getvalue().encode(style.encoding)


def workbook(path, style, other_sheets=(), as_text=False):
    """The same table as an Excel workbook: cells with types, or all of them text."""
    import xlsxwriter

    book = xlsxwriter.Workbook(str(path))
    sheet = book.add_worksheet("Applications")
    day = book.add_format({"num_format": "dd.mm.yyyy hh:mm"})
    names = NAMES if style.index is None else [style.index, *NAMES]
    sheet.write_row(0, 0, names)
    for at, row in enumerate(style.rows(), 1):
        cells = style.fields(row)
        if not as_text:
            income = style.missing if row.income is None else row.income
            cells = [row.number, row.age, income, row.share, row.applied, *cells[5:]]
        if style.index is not None:
            cells = [at - 1, *cells]
        for column, cell in enumerate(cells):
            if isinstance(cell, datetime.datetime):
                sheet.write_datetime(at, column, cell, day)
            elif isinstance(cell, str):
                sheet.write_string(at, column, cell)
            else:
                sheet.write_number(at, column, cell)
    for name in other_sheets:
        book.add_worksheet(name).write(0, 0, "notes")
    book.close()


def packed(data):
    return gzip.compress(data)
