"""Forty ways of bad input: each one message that names what is wrong, where, and what to do."""

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest

from likewise.cli import main
from tests.support.lazily import polars as pl
from tests.support.rule_texts import rule_text

RULE = rule_text(
    {
        "id": "key",
        "age": 5,
        "job": "category",
        "grade": {"kind": "ordinal", "order": [1, 2, 3]},
        "sex": {"kind": "protected", "values": ["f", "m"]},
    },
    output={"column": "approved", "favourable": "yes"},
    metric="linf",
)
HEADER = "id,age,job,grade,sex,approved"
GOOD = ["a,41,nurse,1,f,yes", "b,44,nurse,2,m,no", "c,30,cook,3,f,yes"]


def csv(*lines, header=HEADER, end="\n"):
    return end.join([header, *lines, ""]).encode()


def columns():
    """Return the good rows as columns."""
    table = [line.split(",") for line in GOOD]
    named = dict(zip(HEADER.split(","), zip(*table, strict=True), strict=True))
    table = {name: list(values) for name, values in named.items()}
    return table | {"age": [41.0, 44.0, 30.0], "grade": [1, 2, 3]}


def rows(**changes):
    """Return the good rows as a frame, some columns changed."""
    return pl.DataFrame({**columns(), **changes}, strict=False)


def jsonl(*lines):
    named = columns()
    good = [
        json.dumps(dict(zip(named, row, strict=True))) for row in zip(*named.values(), strict=True)
    ]
    return "\n".join([*good, *lines, ""]).encode()


def parquet(frame, where):
    frame.write_parquet(where)
    return where.read_bytes()


def arrow_stream(where):
    rows().write_ipc_stream(where)
    return where.read_bytes()


AUDIT = ["audit", "data.csv", "--rule", "rule.toml"]
QUICK = ["audit", "data.csv", "--epsilon", "0.1", "--output-column", "z"]

# name: (what data.csv holds, arguments, exit code, what the message says)
DATA = {
    "no such file": (None, AUDIT, 3, "data.csv is not there"),
    "a folder": ("folder", AUDIT, 3, "data.csv is a folder"),
    "empty file": (b"", AUDIT, 3, "data.csv is empty"),
    "blank lines only": (b"\n\n\r\n", AUDIT, 3, "data.csv is empty"),
    "header only": (csv(), AUDIT, 3, "data.csv has a header and no rows"),
    "missing column": (
        csv("a,41,nurse,1,yes", header="id,age,job,grade,approved"),
        AUDIT,
        3,
        "not in data.csv: 'sex'",
    ),
    "missing output": (
        csv("a,41,nurse,1,f", header="id,age,job,grade,sex"),
        AUDIT,
        3,
        "not in data.csv: 'approved'",
    ),
    "unknown column": (
        csv("a,41,nurse,1,f,yes,7", header=HEADER + ",postcode"),
        AUDIT,
        3,
        r'does not know: .postcode.\. .*\[features.postcode\] and kind = "ignore"',
    ),
    "rule for other columns": (
        csv("1,2", header="x,y"),
        AUDIT,
        3,
        "rule.toml names columns that are not in data.csv",
    ),
    "an option for another column": (
        csv("1,2", header="x,y"),
        QUICK,
        3,
        "the command line names a column that is not in data.csv: 'z'",
    ),
    "semicolons": (
        csv(header=HEADER.replace(",", ";")),
        [*AUDIT, "--delimiter", ","],
        3,
        r"data.csv, line 1: .*a semicolon is meant: say --delimiter ';'",
    ),
    "tabs": (
        csv(header=HEADER.replace(",", "\t")),
        [*AUDIT, "--delimiter", ","],
        3,
        "say --delimiter tab",
    ),
    "wrong delimiter given": (csv(*GOOD), [*AUDIT, "--delimiter", ";"], 3, "say --delimiter ','"),
    "duplicate column": (
        csv(header="id,age,age,job,grade,sex,approved"),
        AUDIT,
        3,
        "data.csv, line 1: two columns are called 'age', columns 2 and 3",
    ),
    "column without a name": (csv(header=HEADER + ","), AUDIT, 3, "column 7 of the header has no"),
    "UTF-16 without its end": (
        csv(*GOOD).decode().encode("utf-16")[:-1],
        AUDIT,
        3,
        "data.csv is not UTF-16.*copy the file again",
    ),
    "Latin-1 in UTF-8": (
        csv(*GOOD, "d,50,Köchin,1,f,yes") + "e,50,Köchin,1,f,yes\n".encode("latin-1"),
        AUDIT,
        3,
        "data.csv, line 6: byte 0xF6 .*not UTF-8.*--encoding latin-1",
    ),
    "Latin-1 header in UTF-8": (
        csv(header="prénom,z").decode().encode("latin-1") + "é,1\n".encode(),
        QUICK,
        3,
        "data.csv, line 1: byte 0xE9",
    ),
    "too few fields": (csv(*GOOD, "d,50,cook"), AUDIT, 3, "data.csv, line 5: 3 fields.*has 6"),
    "too many fields": (
        csv(GOOD[0], "d,50,cook,1,f,yes,maybe", *GOOD[1:]),
        AUDIT,
        3,
        "data.csv, line 3: 7 fields",
    ),
    "quote never closed": (
        csv(GOOD[0], 'd,50,"cook,1,f,yes', *GOOD[1:]),
        AUDIT,
        3,
        "data.csv, line 3: a quotation mark is opened and never closed",
    ),
    "quote inside a field": (
        csv(*GOOD, 'd,50,"co"ok,1,f,yes'),
        AUDIT,
        3,
        "data.csv, line 5: its quotation marks",
    ),
    "no number": (
        csv(*GOOD, "d,old,cook,1,f,yes"),
        AUDIT,
        3,
        "data.csv, line 5: 'age' is 'old'; expected a number.*--missing 'old'",
    ),
    "decimal comma among decimal points": (
        csv(*GOOD, "d,50.5,cook,1,f,yes", 'e,"50,5",cook,1,f,yes'),
        AUDIT,
        3,
        r"line 6: 'age' is '50,5'.*decimal point: 50\.5; or say --decimal comma",
    ),
    "NaN": (csv(*GOOD, "d,NaN,cook,1,f,yes"), AUDIT, 3, "data.csv, line 5: 'age' is missing"),
    "infinite": (csv(*GOOD, "d,inf,cook,1,f,yes"), AUDIT, 3, "line 5: 'age' is infinite"),
    "empty number": (
        csv(*GOOD, "d,,cook,1,f,yes"),
        AUDIT,
        3,
        "line 5: 'age' is missing.*missing =",
    ),
    "empty output": (
        csv(*GOOD, "d,50,cook,1,f,"),
        AUDIT,
        3,
        "line 5: the output 'approved' is mis",
    ),
    "unlisted value": (
        csv(*GOOD, "d,50,cook,1,x,yes"),
        AUDIT,
        3,
        "line 5: 'sex' is 'x'; expected one of 'f', 'm'",
    ),
    "unlisted number": (csv(*GOOD, "d,50,cook,4,f,yes"), AUDIT, 3, "line 5: 'grade' is 4"),
    "duplicate key": (csv(*GOOD, GOOD[0]), AUDIT, 3, "line 5: the key 'a' was given to row 0"),
    "lines end in CR": (
        csv(*GOOD, end="\r"),
        AUDIT,
        3,
        "data.csv, line 1: lines end in a carriage",
    ),
    "huge line": (
        csv(*GOOD, "d," + "9" * (33 << 20)),
        AUDIT,
        3,
        "data.csv, line 5 is longer than 32 MB",
    ),
    "not text": (b"\x00\x01\x02" * 50 + b"\n", AUDIT, 3, "data.csv is not text"),
    "a spreadsheet": (
        b"PK\x03\x04" + bytes(40),
        AUDIT,
        3,
        "data.csv is a zip .*save the sheet as CSV",
    ),
    "truncated gzip": (
        gzip.compress(csv(*GOOD * 500, header=HEADER))[:-20],
        AUDIT,
        3,
        "data.csv ends too early",
    ),
    "damaged gzip": (
        gzip.compress(csv(*GOOD))[:-8] + bytes(8),
        AUDIT,
        3,
        "data.csv is damaged",
    ),
    "no numbers without a rule": (
        csv("1,x,yes", header="a,b,z"),
        QUICK,
        3,
        "data.csv, line 2: 'b' is 'x'; expected a number",
    ),
    "only the output": (csv("yes", header="z"), QUICK, 3, "data.csv has no column but the output"),
    "every row bad": (
        csv(*["d,old,cook,1,f,yes"] * 300),
        [*AUDIT, "--on-bad-row", "skip"],
        3,
        "data.csv: none of the first .* rows can be used. The first, line 2: 'age'",
    ),
}

OTHER_FORMATS = {
    "JSON that is none": ("data.jsonl", jsonl("{'age': 4}"), "data.jsonl, line 4: not JSON"),
    "JSON array": ("data.json", b'[{"a": 1}]', "data.json is one JSON array.*jq -c"),
    "JSON without objects": ("data.jsonl", b"1\n2\n", "data.jsonl, line 1: 1 is no object"),
    "JSON, mixed types": (
        "data.jsonl",
        jsonl('{"id": "d", "age": "41", "job": "cook", "grade": 1, "sex": "f", "approved": "no"}'),
        "data.jsonl, line 4: 'age' is '41'; expected a number",
    ),
    "JSON, nested": (
        "data.jsonl",
        jsonl('{"id": "d", "age": [41], "job": "cook", "grade": 1, "sex": "f", "approved": "no"}'),
        r"data.jsonl, line 4: 'age' is \[41\]; expected a plain value",
    ),
    "JSON, a name twice": (
        "data.jsonl",
        jsonl('{"id": "d", "age": 41, "age": 14, "job": "cook", "grade": 1, "sex": "f"}'),
        "data.jsonl, line 4: 'age' is given twice; expected every name once",
    ),
    "JSON, true for a number": (
        "data.jsonl",
        jsonl('{"id": "d", "age": true, "job": "cook", "grade": 1, "sex": "f", "approved": "no"}'),
        "line 4: 'age' is true; expected a number. For yes and no, say kind",
    ),
    "JSON, true for a listed number": (
        "data.jsonl",
        jsonl('{"id": "d", "age": 41, "job": "cook", "grade": true, "sex": "f", "approved": "no"}'),
        "line 4: 'grade' is true; expected a number",
    ),
    "JSON, half a character": (
        "data.jsonl",
        jsonl('{"id": "\\ud800", "age": 1, "job": "x", "grade": 1, "sex": "f", "approved": "no"}'),
        "line 4: 'id' is '.ud800', which holds half a character",
    ),
    "Parquet with true for a number": (
        "data.parquet",
        lambda p: parquet(rows(age=[True, False, True]), p),
        "data.parquet, row 1: 'age' is True; expected a number. For yes and no",
    ),
    "JSON, a key missing": ("data.jsonl", jsonl('{"id": "d"}'), "line 4: column 'age' is missing"),
    "Parquet by name alone": ("data.parquet", csv(*GOOD), "data.parquet is not parquet"),
    "truncated Parquet": (
        "data.parquet",
        lambda p: parquet(rows(), p)[:-40],
        "data.parquet is dam",
    ),
    "Parquet with NaN": (
        "data.parquet",
        lambda p: parquet(rows(age=[41.0, np.nan, 30.0]), p),
        "data.parquet, row 2: 'age' is missing",
    ),
    "Parquet with text for numbers": (
        "data.parquet",
        lambda p: parquet(rows(age=["41", "44", "30"]), p),
        "data.parquet, row 1: 'age' is '41'; expected a number",
    ),
    "truncated Arrow stream": (
        "data.arrow",
        lambda p: arrow_stream(p)[:-300],
        "data.arrow is damaged",
    ),
}

RULES = {
    "no such rule": (None, "the rule rule.toml does not exist.*likewise init"),
    "rule that is no TOML": (
        "metric = \nepsilon = 1",
        r"the rule rule.toml: .*not valid TOML.*line 1",
    ),
    "rule with an unknown key": ("metrik = 'linf'", "rule.toml: .*unknown key 'metrik'"),
    "rule with a bad kind": (
        RULE.replace('"category"', '"kategory"'),
        "feature 'job': kind is 'kat",
    ),
    "rule without tolerance": (
        RULE.replace("tolerance = 5", ""),
        "feature 'age': a number needs a",
    ),
    "rule that is not UTF-8": (b"# \xff\xfe", "rule.toml is not UTF-8"),
    "rule without features": ("epsilon = 1", "rule.toml has no features.*--output-column"),
}

USAGE = {
    "unknown command": (["ordit"], "No such command 'ordit'"),
    "unknown option": ([*AUDIT, "--reprot", "x.html"], "--reprot"),
    "no data": (["audit"], "DATA"),
    "nothing said": (["audit", "data.csv"], "--rule likewise.toml.*--epsilon"),
    "rule and metric": ([*AUDIT, "--metric", "l1"], "--metric is given, and so is a rule"),
    "metric unknown": ([*QUICK, "--metric", "l7"], "metric is 'l7'; expected one of linf"),
    "epsilon negative": (["audit", "data.csv", "--epsilon", "-1", "--output-column", "approved"],
                         "epsilon is -1"),
    "epsilon no number": (["audit", "data.csv", "--epsilon", "near"], "value for '--epsilon'"),
    "rate beyond 1": ([*AUDIT, "--max-rate", "7"], "--max-rate"),
    "report in no folder": ([*AUDIT, "--report", "no/page.html"], "no does not exist.*mkdir"),
    "report that is a folder": ([*AUDIT, "--report", "place.html"], "place.html is a folder"),
    "report that is no page": ([*AUDIT, "--report", "page.docx"], r"ends in \.html"),
    "pairs of no kind": ([*AUDIT, "--out", "pairs.xls"], r"ends in \.xlsx or \.csv or"),
    "bad rows to be mended": ([*AUDIT, "--on-bad-row", "mend"], "expected fail or skip"),
    "long delimiter": ([*AUDIT, "--delimiter", "::"], "expected one character"),
    "format unknown": ([*AUDIT, "--format", "xml"], "expected csv, tsv, jsonl, parq"),
    "init over a file": (["init", "data.csv", "--out", "rule.toml"], "rule.toml is there already"),
}  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("rule.toml").write_text(RULE)
    Path("place.html").mkdir()
    return tmp_path


def told(capsys, arguments, code, says):
    """The message of a command that fails as it should."""
    assert main(arguments) == code, capsys.readouterr()
    message = capsys.readouterr().err
    assert "Traceback" not in message
    assert message.startswith("likewise: ")
    assert len(message) < 1200 and message.count("\n") < 20, "more than one screen"
    assert re.search(says, " ".join(message.split())), message


@pytest.mark.parametrize("case", DATA)
def test_bad_file_is_told_with_its_name_and_line(case, here, capsys):
    content, arguments, code, says = DATA[case]
    if content == "folder":
        Path("data.csv").mkdir()
    elif content is not None:
        Path("data.csv").write_bytes(content)
    told(capsys, arguments, code, says)


@pytest.mark.parametrize("case", OTHER_FORMATS)
def test_bad_file_of_another_format_is_told_with_its_name_and_row(case, here, capsys):
    name, content, says = OTHER_FORMATS[case]
    Path(name).write_bytes(content(here / name) if callable(content) else content)
    for command in ("audit", "calibrate"):
        told(capsys, [command, name, "--rule", "rule.toml"], 3, says)


@pytest.mark.parametrize("case", RULES)
def test_bad_rule_is_told_with_its_name(case, here, capsys):
    content, says = RULES[case]
    Path("data.csv").write_bytes(csv(*GOOD))
    Path("rule.toml").unlink()
    if content is not None:
        Path("rule.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
    told(capsys, AUDIT, 2, says)


@pytest.mark.parametrize("case", USAGE)
def test_bad_usage_is_told_with_what_to_do(case, here, capsys):
    arguments, says = USAGE[case]
    Path("data.csv").write_bytes(csv(*GOOD) if arguments[-1] != "l7" else csv("1,y", header="a,z"))
    told(capsys, arguments, 2, says)


def test_rule_that_a_folder_hides_is_told(here, capsys):
    Path("data.csv").write_bytes(csv(*GOOD))
    told(capsys, ["audit", "data.csv", "--rule", "place.html"], 2, "place.html cannot be read")


@pytest.mark.parametrize("option", ["--report", "--out"])
def test_full_disk_is_told(option, here, capsys, monkeypatch):
    """A limit on the size of files stands for a disk without room."""
    Path("data.csv").write_bytes(csv(*GOOD))
    name = {"--report": "page.html", "--out": "pairs.csv"}[option]
    assert main([*AUDIT, option, name]) == 0  # whatever is compiled is compiled now
    Path(name).unlink()
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal = pytest.importorskip("signal")
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))  # every file is full after 20 bytes
    try:
        code = main([*AUDIT, option, name])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    message = capsys.readouterr().err
    assert code == 2 and name in message and "cannot" in message, message
    assert not Path(name).exists()
    assert not [one for one in here.iterdir() if one.name.startswith(".")], "something was left"


def test_no_case_is_bad_for_another_reason(here, capsys):
    """The good rows, from which the bad cases are made, are good."""
    Path("data.csv").write_bytes(b"\xef\xbb\xbf" + csv(*GOOD, end="\r\n"))
    assert main(AUDIT) == 0
    Path("data.jsonl").write_bytes(jsonl())
    assert main(["audit", "data.jsonl", "--rule", "rule.toml"]) == 0
    parquet(rows(), Path("data.parquet"))
    assert main(["audit", "data.parquet", "--rule", "rule.toml"]) == 0
    arrow_stream(Path("data.arrow"))
    assert main(["audit", "data.arrow", "--rule", "rule.toml"]) == 0
    assert len(DATA) + len(OTHER_FORMATS) + len(RULES) + len(USAGE) >= 70
