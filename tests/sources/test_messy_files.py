"""Forty messy files and more: what must come out of each stands in a table, then each is read.

Every file holds the same applications (messy_files.py). A file is either READ, and then its values
are those of the table and the remarks say what was noticed; or TOLD, and then the message says what
to do, and doing it reads the file.
"""

import dataclasses
import datetime
import json
import re
from pathlib import Path

import pytest

import likewise as lw
from likewise.cli import main
from likewise.proposing.first_rows import first_rows
from likewise.sources.file_source import open_source
from tests.sources.messy_files import COUNT, NAMES, Style, packed, workbook, write
from tests.sources.reading_times import parse_times
from tests.support.lazily import polars as pl
from tests.support.looping import each
from tests.support.refusals import raises

GERMAN = {"delimiter": ";", "decimal": ","}
SEMICOLON = r"^fields are separated by a semicolon"
COMMA = r"'income': numbers are read with a decimal comma"
SHARE = r"'share': numbers are read with a decimal comma"

# name of the file: (how it is written, what is remarked); values are those of the table
READ = {
    # One kind alone
    "plain.csv": (Style(), []),
    "decimal comma.csv": (Style(decimal=","), [COMMA, SHARE]),
    "1,234.56.csv": (Style(group=","), ["'income': .*read with commas between thousands"]),
    "1.234,56.csv": (
        Style(decimal=",", group="."),
        ["'income': numbers are read with a decimal comma, dots between thousands", SHARE],
    ),
    "1 234,56.csv": (
        Style(decimal=",", group=" "),
        ["decimal comma, spaces between thousands", SHARE],
    ),
    "narrow spaces.csv": (
        Style(decimal=",", group="\u202f"),
        ["decimal comma, spaces between thousands", SHARE],
    ),
    "1'234.56.csv": (Style(group="'"), ["'income': .* apostrophes between thousands"]),
    "euro behind.csv": (Style(currency="{} €"), ["'income': numbers are read with EUR left out"]),
    "dollar before.csv": (Style(currency="${}"), ["'income': .*USD left out"]),
    "code before.csv": (Style(currency="CHF {}"), ["'income': .*CHF left out"]),
    "code behind.csv": (Style(currency="{} GBP"), ["'income': .*GBP left out"]),
    "percent.csv": (Style(percent="{} %"), [r"'share': .*percent sign left out \(12 % is 12\)"]),
    "brackets.csv": (
        Style(less="({})", negative_every=9),
        ["'income': .*brackets or a minus at the end for less than zero"],
    ),
    "minus behind.csv": (
        Style(less="{}-", negative_every=9),
        ["'income': .*brackets or a minus at the end"],
    ),
    "zones.csv": (Style(dates="%Y-%m-%dT%H:%M:%SZ"), []),
    "dots in dates.csv": (Style(dates="%d.%m.%Y %H:%M:%S"), []),
    "day first.csv": (Style(dates="%d/%m/%Y %H:%M:%S"), []),
    "month first.csv": (Style(dates="%m/%d/%Y %I:%M:%S %p"), []),
    "mark.csv": (Style(encoding="utf-8-sig"), []),
    "utf-16.csv": (Style(encoding="utf-16"), ["^the text is UTF-16"]),
    "windows.csv": (
        Style(encoding="cp1252"),
        [r"^the text is no UTF-8 and is read as Windows-1252 \(such as 'Köchin'\)"],
    ),
    "semicolon.csv": (Style(delimiter=";"), [SEMICOLON]),
    "tab.csv": (Style(delimiter="\t"), ["^fields are separated by a tab"]),
    "tab.tsv": (Style(delimiter="\t"), []),
    "bar.csv": (Style(delimiter="|"), ["^fields are separated by a bar"]),
    "quotes.csv": (Style(quoted=True), []),
    "blank end.csv": (Style(last="\r\n\r\n\n"), []),
    "spaced.csv": (Style(behind=" "), ["^the space behind each delimiter is left out"]),
    "empty.csv": (Style(missing_every=7), []),
    "index.csv": (Style(index=""), ["^the first column counts the lines.* left out"]),
    "pandas.csv": (Style(index="Unnamed: 0"), ["'Unnamed: 0': the first column counts the lines"]),
    "from R.csv": (Style(index="R"), ["^the first column counts the lines"]),
    "trailing.csv": (Style(trailing=True), ["^a delimiter at the end of every line"]),
    "sep.csv": (Style(delimiter=";", first="sep=;\r\n"), []),
    **{
        f"{name}.csv": (Style(missing=word), [rf"'income': {re.escape(repr(word))} stands among "
                                              r"numbers and is taken as missing \(9 values\)"])
        for name, word in {
            "NA": "NA", "n-a": "n/a", "NaN": "NaN", "null": "null", "none": "None", "dash": "-",
            "question": "?", "missing": "missing", "keine": "k.A.", "excel na": "#N/A",
        }.items()
    },
    # Two together
    "german.csv": (Style(**GERMAN), [SEMICOLON, COMMA, SHARE]),
    "german euros.csv": (
        Style(**GERMAN, group=".", currency="{} €"),
        [SEMICOLON, "decimal comma, dots between thousands, EUR left out", SHARE],
    ),
    "german windows.csv": (
        Style(**GERMAN, encoding="cp1252"),
        ["Windows-1252", SEMICOLON, COMMA, SHARE],
    ),
    "german dates.csv": (Style(**GERMAN, dates="%d.%m.%Y"), [SEMICOLON, COMMA, SHARE]),
    "german missing.csv": (
        Style(**GERMAN, missing="k.A."),
        [SEMICOLON, COMMA, SHARE, "'k.A.' stands among numbers"],
    ),
    "german percent.csv": (
        Style(**GERMAN, percent="{}%"),
        [SEMICOLON, COMMA, "'share': .*decimal comma, the percent sign left out"],
    ),
    "unicode text.txt": (
        Style(delimiter="\t", encoding="utf-16"),
        ["^the text is UTF-16"],
    ),
    "swiss.csv": (
        Style(delimiter=";", group="'", currency="CHF {}"),
        [SEMICOLON, "apostrophes between thousands, CHF left out"],
    ),
    "accountant.csv": (
        Style(group=",", less="({})", negative_every=5),
        ["commas between thousands, brackets or a minus"],
    ),
    "index, semicolon.csv": (Style(delimiter=";", index=""), [SEMICOLON, "counts the lines"]),
    "trailing semicolon.csv": (
        Style(delimiter=";", trailing=True),
        [SEMICOLON, "^a delimiter at the end of every line"],
    ),
    "spaced missing.csv": (
        Style(behind=" ", missing="?"),
        ["^the space behind", r"'income': '\?' stands among numbers"],
    ),
    "mark, semicolon.csv": (Style(delimiter=";", encoding="utf-8-sig"), [SEMICOLON]),
    "windows, tab.csv": (
        Style(delimiter="\t", encoding="cp1252"),
        ["Windows-1252", "separated by a tab"],
    ),
    "quotes, bar.csv": (Style(delimiter="|", quoted=True), ["separated by a bar"]),
    "windows.csv.gz": (Style(encoding="cp1252"), ["Windows-1252"]),
    "dots alone, commas beside.csv": (
        Style(**GERMAN, group=".", digits=0, thousands_only=True),
        [SEMICOLON, "dots between thousands, since column 'share' has a decimal comma", SHARE],
    ),
    "commas alone, points beside.csv": (
        Style(group=",", digits=0, thousands_only=True),
        ["commas between thousands, since column 'share' has a decimal point"],
    ),
    # Workbooks
    "cells.xlsx": (Style(), []),
    "index.xlsx": (Style(index=""), ["counts the lines"]),
    "missing.xlsx": (Style(missing="n/a"), ["'income': 'n/a' stands among numbers"]),
    "text.xlsx": (Style(decimal=",", group="."), ["decimal comma, dots between thousands", SHARE]),
    "sheets.xlsx": (Style(), ["^the first sheet, 'Applications', is read; there are 'Notes'"]),
}  # fmt: skip

AMBIGUOUS = {"group": ",", "digits": 0, "thousands_only": True, "percent": "{} x"}
# name: (how it is written, what the message says, what to do then)
TOLD = {
    "no header.csv": (
        Style(header=False),
        r"no header.csv, line 1: the file seems to have no header: '20', .*--no-header.*--header",
        ["--no-header"],
    ),
    "no header, semicolon.csv": (
        Style(header=False, **GERMAN),
        r"line 1: the file seems to have no header.*say --no-header",
        ["--no-header"],
    ),
    "utf-16 without mark.csv": (
        Style(encoding="utf-16-le"),
        r"is not text.*say --encoding utf-16-le",
        ["--encoding", "utf-16-le"],
    ),
}


def make(name, style):
    if name.endswith(".xlsx"):
        workbook(
            name, style, ["Notes"] if name.startswith("sheets") else [], name.startswith("text")
        )
        return
    data = write(style)
    Path(name).write_bytes(packed(data) if name.endswith(".gz") else data)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def said(remarks, expected):
    """As many remarks as expected, each one of them."""
    told = [str(one) for one in remarks]
    assert len(told) == len(expected), told
    for pattern in expected:
        assert any(re.search(pattern, one) for one in told), (pattern, told)


def check_values(table, style, names=NAMES):
    """The values that are meant, whatever is written."""
    rows = style.rows()
    columns = dict(zip(NAMES, names, strict=True))
    assert table[columns["age"]].to_list() == [row.age for row in rows]
    assert table[columns["income"]].to_list() == [row.income for row in rows]
    assert table[columns["share"]].to_list() == [row.share for row in rows]
    for name in ("job", "sex", "approved", "number"):
        assert table[columns[name]].to_list() == [getattr(row, name) for row in rows]
    moments = parse_times(table[columns["applied"]].to_list())
    days_only = style.dates.endswith("%Y")
    meant = [row.applied.replace(tzinfo=datetime.UTC) for row in rows]
    assert moments == [one.replace(hour=0, minute=0) if days_only else one for one in meant]


@each("name", READ)
def test_messy_file_is_read_as_it_is_meant(name):
    style, remarks = READ[name]
    make(name, style)
    source = open_source(name)
    table, refused = first_rows(source, 1_000)
    source.close()
    assert source.columns == NAMES and not refused
    check_values(table, style)
    said(source.remarks, remarks)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] * (i % 6 > 0)) for i, name in enumerate(READ)],
)
def test_messy_file_reaches_a_rule_and_an_audit(name, capsys):
    """What init wrote is a rule for the same file, and remarks are the same wherever it is read."""
    style, remarks = READ[name]
    make(name, style)
    assert main(["init", name, "--output-column", "approved", "--json"]) == 0
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    rule = lw.Rule.from_toml(told["rule"])
    assert rule.features["income"].kind == "number"
    assert rule.features["share"].kind == "number"
    for remark in told["remarks"]:
        assert remark["what"].split("\n")[0] in printed.err
    assert main(["audit", name, "--rule", "likewise.toml", "--json"]) == 0
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert (told["rows"], told["bad_rows"]) == (COUNT, 0)
    assert len(told["remarks"]) == len(remarks)
    assert printed.err.count("\n  ") + (not remarks) >= len(remarks)
    assert main(["calibrate", name, "--rule", "likewise.toml", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["remarks"]) == len(remarks)


@pytest.mark.parametrize("name", TOLD)
def test_message_of_a_messy_file_says_what_to_do_and_doing_it_helps(name, capsys):
    style, message, options = TOLD[name]
    make(name, style)
    names = NAMES if style.header else [f"column_{i + 1}" for i in range(len(NAMES))]
    asked = ["init", name, "--output-column", names[-1], "--out", "rule.toml"]
    assert main(asked) == 3
    assert re.search(message, " ".join(capsys.readouterr().err.split()))
    assert main([*asked, *options]) == 0
    capsys.readouterr()
    assert main(["audit", name, "--rule", "rule.toml", "--json", *options]) == 0
    assert json.loads(capsys.readouterr().out)["bad_rows"] == 0
    settings = {"--no-header": {"header": False}, "--encoding": {"encoding": options[-1]}}
    source = open_source(name, **settings[options[0]])
    table, _ = first_rows(source, 1_000)
    source.close()
    check_values(table, style, names)


def test_number_of_messy_files():
    assert len(READ) + len(TOLD) >= 40
    assert len({*map(dataclasses.astuple, (one[0] for one in READ.values()))}) > 40


# What cannot be read in one way only


def write_column(values, name="income", **columns):
    pl.DataFrame(
        {name: values, **columns, "approved": ["yes", "no"] * (len(values) // 2)}
    ).write_csv("t.csv")


def rule_for(kind='kind = "number"\ntolerance = 1'):
    Path("rule.toml").write_text(
        f'[output]\ncolumn = "approved"\nfavourable = "yes"\n[features.income]\n{kind}\n'
    )


def command(capsys, *arguments):
    code = main(list(arguments))
    printed = capsys.readouterr()
    return code, printed.out, " ".join(printed.err.split())


def test_comma_that_may_be_either_is_asked_about(capsys):
    write_column(["1,234", "2,345", "3,456", "999"], age=[41, 42, 43, 45])
    rule_for('kind = "number"\ntolerance = 1\n[features.age]\nkind = "ignore"')
    code, _, error = command(capsys, "audit", "t.csv", "--rule", "rule.toml")
    assert code == 3
    assert "'1,234' may be a decimal comma or a comma between thousands. Say --decimal" in error
    code, out, error = command(capsys, "init", "t.csv", "--json")
    assert code == 0 and "Say --decimal comma or --decimal point" in error
    assert lw.Rule.from_toml(json.loads(out)["rule"]).features["income"].kind != "number"
    for sign, numbers in ((",", [1.234, 2.345, 3.456, 999]), (".", [1234, 2345, 3456, 999])):
        source = open_source("t.csv", decimal=sign)
        (chunk,) = source.chunks({"income": "number"}, ["income"])
        source.close()
        assert chunk.table["income"].to_list() == numbers
        for said_as in (sign, {",": "comma", ".": "point"}[sign]):
            asked = ["audit", "t.csv", "--rule", "rule.toml", "--decimal", said_as]
            assert command(capsys, *asked)[0] == 0


def test_dots_that_may_be_thousands_are_read_as_before_and_remarked():
    write_column(["1.234", "2.345", "3.456", "999"])
    source = open_source("t.csv")
    (chunk,) = source.chunks({"income": "number"}, ["income"])
    source.close()
    assert chunk.table["income"].to_list() == [1.234, 2.345, 3.456, 999]
    (remark,) = source.remarks
    assert remark.example == "1.234" and "--decimal comma" in remark.do
    source = open_source("t.csv", decimal=",")
    (chunk,) = source.chunks({"income": "number"}, ["income"])
    source.close()
    assert chunk.table["income"].to_list() == [1234, 2345, 3456, 999]


@pytest.mark.parametrize("values, says", [
    (["1,5", "2.5", "3", "4"], "look like numbers and are read as words, since they are not"),
    (["1 €", "2 $", "3", "4"], "look like numbers and are read as words, since they are not"),
    (["1 %", "2", "3 %", "4"], "look like numbers and are read as words, since they are not"),
    (["1", "2", "3", "old"], r"most values look like numbers, .* since 1 of 4 is none \(such as "
                             r"'old', 1 value\)\. .*say --missing 'old'"),
    (["1,5", "2,5", "3,5", "a lot"], r"most values look like numbers, .* 'a lot'"),
    (["1,5", "2,55", "1,2345,6", "7,5"], r"most values look like numbers, .* '1,2345,6'"),
])  # fmt: skip
def test_words_that_look_like_numbers_are_remarked(values, says, capsys):
    write_column(values, age=[41, 42, 43, 45])
    code, out, error = command(capsys, "init", "t.csv", "--json")
    assert code == 0 and re.search(f"column 'income': .*{says}", error)
    assert json.loads(out)["remarks"][0]["column"] == "income"
    assert lw.Rule.from_toml(json.loads(out)["rule"]).features["income"].kind != "number"


def test_category_of_a_rule_that_looks_like_numbers_is_remarked(capsys):
    rule_for('kind = "category"')
    write_column(["1,5", "2,5", "3,5", "4,5"])
    _, _, error = command(capsys, "audit", "t.csv", "--rule", "rule.toml")
    assert "look like numbers and are read as words, as the rule says" in error
    write_column(["1", "2", "3", "4"])  # codes
    assert command(capsys, "audit", "t.csv", "--rule", "rule.toml")[2] == ""


def test_word_in_a_category_stays_a_word_and_is_remarked(capsys):
    rule_for('kind = "category"')
    write_column(["NA", "home", "none", "NA"])
    _, out, error = command(capsys, "audit", "t.csv", "--rule", "rule.toml", "--json")
    assert "column 'income': 'NA' stays a word like any other (2 values)" in error
    assert "say --missing 'NA'" in error
    assert json.loads(out)["rows"] == 4
    code, _, error = command(
        capsys, "audit", "t.csv", "--rule", "rule.toml", "--missing", "NA", "--on-bad-row", "skip"
    )
    assert code == 0 and "stays a word" not in error


def test_later_value_that_does_not_fit_is_a_bad_row_with_its_line(capsys, monkeypatch):
    monkeypatch.setattr("likewise.sources.delimited.SAMPLE", 4)
    rule_for()
    write_column(["1,5", "2,5", "3,5", "4,5", "5.5", "6,5", "1.234,5", "7,5"])
    code, _, error = command(capsys, "audit", "t.csv", "--rule", "rule.toml")
    assert code == 3
    assert "t.csv, line 6: 'income' is '5.5'; expected a number with a decimal comma" in error
    asked = ["audit", "t.csv", "--rule", "rule.toml", "--on-bad-row", "skip", "--json"]
    told = json.loads(command(capsys, *asked)[1])
    assert [one["line"] for one in told["bad_row_examples"]] == [6, 8]
    assert told["rows"] == 6


def test_reading_does_not_depend_on_the_size_of_chunks():
    style = Style(**GERMAN, group=".", missing="k.A.", encoding="cp1252")
    make("t.csv", style)
    found = []
    for rows in (7, 1_000):
        source = open_source("t.csv")
        chunks = list(source.chunks({"income": "number"}, ["income", "job"], rows))
        source.close()
        found.append((pl.concat([one.table for one in chunks]).rows(), source.remarks))
    assert found[0] == found[1]
    assert [row[0] for row in found[0][0]] == [row.income for row in style.rows()]


# Columns and lines


def test_index_counts_if_the_rule_names_it(capsys):
    make("t.csv", Style(index="Unnamed: 0"))
    rule_for('kind = "number"\ntolerance = 1\n[features."Unnamed: 0"]\nkind = "key"')
    text = Path("rule.toml").read_text()
    Path("rule.toml").write_text('extra = "ignore"\n' + text)
    code, _, error = command(capsys, "audit", "t.csv", "--rule", "rule.toml")
    assert code == 0, error


def test_first_column_without_a_name_that_is_no_index_is_told():
    Path("t.csv").write_text(",a\nx,1\ny,2\n")
    with raises(lw.errors.BadFile):
        open_source("t.csv")


def test_value_behind_the_last_column_is_a_bad_row(monkeypatch):
    monkeypatch.setattr("likewise.sources.file_layout.LOOKED_AT", 3)
    Path("t.csv").write_text("a,b,\n1,2,\n3,4,\n5,6,7\n8,9,\n")
    source = open_source("t.csv")
    (chunk,) = source.chunks({}, ["a", "b"])
    source.close()
    assert chunk.table.rows() == [("1", "2"), ("3", "4"), ("8", "9")]
    assert [(one.place, one.why) for one in chunk.refused] == [
        (4, "a value stands behind the last column")
    ]


@pytest.mark.parametrize("text", [
    "0,1,2,z\n5,6,7,yes\n8,9,1,no\n",  # as arrays are written
    "2019,2020,z\n1,2,yes\n3,4,no\n", "age,job\n41,nurse\n50,cook\n", "a\nb\nc\n",
    "0,prediction\n1,yes\n2,no\n3,yes\n",
])  # fmt: skip
def test_names_of_columns_are_taken_as_such(text):
    Path("t.csv").write_text(text)
    source = open_source("t.csv")
    source.close()
    assert source.columns == text.split("\n")[0].split(",")


@pytest.mark.parametrize("text", [
    "39,State-gov,77516,yes\n50,State-gov,83311,no\n38,Private,215646,yes\n",
    "1.5,2.5\n3.5,4.5\n", "a,x\na,y\nb,x\n", "5,17,Ann\n6,18,Bob\n",
])  # fmt: skip
def test_file_without_a_header_is_asked_about(text):
    Path("t.csv").write_text(text)
    with raises(lw.errors.BadFile):
        open_source("t.csv")
    source = open_source("t.csv", header=True)
    assert source.columns == text.split("\n")[0].split(",")
    source.close()
    source = open_source("t.csv", header=False)
    (chunk,) = source.chunks({}, source.columns)
    source.close()
    assert source.columns[0] == "column_1"
    assert [",".join(row) for row in chunk.table.rows()] == text.split("\n")[:-1]
    assert chunk.places.tolist() == list(range(1, text.count("\n") + 1))


@pytest.mark.parametrize("text, delimiter", [
    ("a;b\n1,5;2\n", ";"), ("a,b;c\n1;2\n3;4\n", ";"), ("a,b\n1;2,3\n", ","), ("a\n1\n", ","),
    ('a|b\n"1|2"|3\n', "|"), ("a,b;c\n1,2;3\n", ","), ("x y;z\n1;2,5\n2;3,5\n", ";"),
])  # fmt: skip
def test_delimiter_is_the_usual_one_unless_another_makes_the_table(text, delimiter):
    Path("t.csv").write_text(text)
    source = open_source("t.csv")
    source.close()
    assert source.columns == text.split("\n")[0].split(delimiter)


def test_quotes_behind_a_space_are_quotes():
    Path("t.csv").write_text('a, b\n1, "x, y"\n2, "z"\n')
    source = open_source("t.csv")
    (chunk,) = source.chunks({}, ["a", "b"])
    source.close()
    assert chunk.table.rows() == [("1", "x, y"), ("2", "z")]


def test_byte_that_windows_does_not_define_is_a_bad_row():
    Path("t.csv").write_bytes("a,b\n1,Köln\n2,".encode("cp1252") + b"\x81\n3,caf\xe9\n")
    source = open_source("t.csv")
    (chunk,) = source.chunks({}, ["a", "b"])
    source.close()
    assert chunk.table.rows() == [("1", "Köln"), ("3", "café")]
    assert [one.place for one in chunk.refused] == [3]


def test_encoding_that_nobody_knows_is_told():
    Path("t.csv").write_text("a,b\n1,2\n")
    with raises(lw.errors.BadFile):
        open_source("t.csv", encoding="klingon")


@pytest.mark.parametrize("options, says", [
    (["--decimal", ";"], r"--decimal is ';'; expected point or comma"),
    (["--dates", "soon"], "--dates is 'soon'; expected day-first or month-first"),
])  # fmt: skip
def test_option_that_makes_no_sense_is_told(options, says, capsys):
    write_column(["1", "2"])
    code, _, error = command(capsys, "init", "t.csv", *options)
    assert code == 2 and re.search(says, error)


def test_next_command_reads_the_file_in_the_same_way(capsys):
    make("t.csv", Style(header=False))
    options = ["--no-header", "--decimal", ".", "--missing", "no idea"]
    _, out, _ = command(capsys, "init", "t.csv", "--output-column", "column_8", *options)
    assert "t.csv --missing 'no idea' --decimal . --no-header" in " ".join(out.split())


# Favourable


@pytest.mark.parametrize("outputs, favourable, says", [
    (["yes", "no"], '"Yes"', "favourable = 'Yes', and no decision of t.csv has that output:"
                             " 'approved' is 'no', 'yes'"),
    (["1", "0"], '"yes"', "'approved' is '0', '1'"),
    (["1", "2"], "3", "'approved' is 1, 2"),
])  # fmt: skip
def test_favourable_that_never_occurs_is_told(outputs, favourable, says, capsys):
    pl.DataFrame({"income": range(20), "approved": outputs * 10}).write_csv("t.csv")
    rule_for()
    text = Path("rule.toml").read_text().replace('"yes"', favourable)
    Path("rule.toml").write_text(text)
    code, _, error = command(capsys, "audit", "t.csv", "--rule", "rule.toml")
    assert code == 3 and says in error


@pytest.mark.parametrize("outputs, favourable", [(["yes", "no"], '"no"'), (["1", "0"], "1")])
def test_favourable_that_occurs_late_is_fine(outputs, favourable, capsys):
    few = [outputs[0] if favourable.strip('"') != outputs[0] else outputs[1]] * 300
    pl.DataFrame({"income": range(301), "approved": [*few, favourable.strip('"')]}).write_csv(
        "t.csv"
    )
    rule_for()
    Path("rule.toml").write_text(Path("rule.toml").read_text().replace('"yes"', favourable))
    assert command(capsys, "audit", "t.csv", "--rule", "rule.toml")[0] == 0


# Workbooks


def test_sheet_is_the_one_asked_for():
    workbook("t.xlsx", Style(), ["Notes"])
    with raises(lw.errors.BadFile):
        open_source("t.xlsx", sheet="Notiz")
    source = open_source("t.xlsx", sheet="Applications")
    source.close()
    assert source.columns == NAMES and not source.remarks


def test_rows_of_a_workbook_are_those_that_excel_shows():
    import xlsxwriter

    book = xlsxwriter.Workbook("t.xlsx")
    sheet = book.add_worksheet()
    for at, row in {
        3: ["a", "b"],
        4: [0.1234567890123, "x"],
        6: [2.5, "y"],
        8: [1e300, "z"],
    }.items():
        sheet.write_row(at, 0, row)
    sheet.write_formula(9, 0, "=1/0", None, "#DIV/0!")
    sheet.write(9, 1, "w")
    book.close()
    source = open_source("t.xlsx")
    (chunk,) = source.chunks({"a": "number"}, ["a", "b"])
    source.close()
    assert chunk.places.tolist() == [5, 7, 9, 10]
    assert chunk.table["a"].to_list() == [0.1234567890123, 2.5, 1e300, None]
    assert source.unit == "row" and source.describe_place(5) == "t.xlsx, row 5"
    said(
        source.remarks,
        [r"^cells hold an error, such as #DIV/0!, and are taken as missing \(1 value"],
    )


def test_numbers_beside_words_keep_all_their_digits():
    import xlsxwriter

    book = xlsxwriter.Workbook("t.xlsx")
    sheet = book.add_worksheet()
    for at, row in enumerate([["a", "b"], [0.1234567890123, 1], ["k.A.", 2], [7, 3], ["n/a", 4]]):
        sheet.write_row(at, 0, row)
    book.close()
    source = open_source("t.xlsx")
    (chunk,) = source.chunks({"a": "number"}, ["a", "b"])
    source.close()
    assert chunk.table.rows() == [(0.1234567890123, 1), (None, 2), (7.0, 3), (None, 4)]
    said(source.remarks, [r"'k.A.', 'n/a' stand among numbers and are taken as missing \(2 values"])


def test_bad_cell_is_told_with_its_row(capsys):
    workbook("t.xlsx", Style(missing="a lot", missing_every=50))
    text = 'extra = "ignore"\n[output]\ncolumn = "approved"\n[features.income]\nkind = "number"\n'
    Path("rule.toml").write_text(text + "tolerance = 1\n")
    code, _, error = command(capsys, "audit", "t.xlsx", "--rule", "rule.toml")
    assert code == 3 and "t.xlsx, row 4: 'income' is 'a lot'; expected a number" in error


def test_workbook_without_its_reader_is_told(monkeypatch):
    workbook("t.xlsx", Style())
    monkeypatch.setitem(__import__("sys").modules, "fastexcel", None)
    with raises(lw.errors.BadFile):
        open_source("t.xlsx")


def test_value_that_is_no_number_far_below_is_remarked(monkeypatch):
    monkeypatch.setattr("likewise.sources.delimited.SAMPLE", 4)
    write_column(["1,5", "2,5", "3,5", "4,5", "a lot", "6,5"])
    source = open_source("t.csv")
    table, _ = first_rows(source, 100)
    source.close()
    assert table["income"].dtype == pl.String
    said(source.remarks, [r"all are read as words, since 1 of 6 is none \(such as 'a lot', 1 val"])


def test_whole_numbers_of_many_digits_stay_what_they_are():
    long = ["12345678901234567890", "12345678901234567891"]
    write_column(long, short=["9007199254740993", "9007199254740995"])
    source = open_source("t.csv")
    table, _ = first_rows(source, 100)
    source.close()
    assert table["income"].to_list() == long
    assert table["short"].to_list() == [9007199254740993, 9007199254740995]
    said(source.remarks, ["'income': whole numbers of many digits are read as words"])


def test_remarks_obey_no_text_from_the_file(capsys):
    odd = {"x\x1b]0;y\x07": ["?", "b", "c", "d"], "age": [41, 42, 43, 45]}
    write_column(["1,5", "2,5\x1b[31m", "3,5", "4,5"], **odd)
    code, _, error = command(capsys, "init", "t.csv", "--output-column", "approved")
    assert code == 0 and "\x1b" not in error and "\x07" not in error
    assert "How t.csv was read" in error
