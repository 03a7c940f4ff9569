"""Text from outside, through every command: whatever it holds, a terminal obeys nothing of it.

Names of columns, keys, labels, categories, names of files, folders, options and commands: each
holds escapes, controls of both sets, marks that turn the direction of writing, line feeds, markup.
Looked at are the bytes that each command prints, in a pipe and at a terminal, when it works and
when it fails.
"""

import csv
import io
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

import likewise as lw
from likewise.cli import main
from tests.support.commands import at_a_terminal
from tests.support.lazily import polars as pl
from tests.support.refusals import raises

EVIL = (
    "\x1b]0;owned\x07"  # the title of the window
    "\x1b[2J\x1b[7;41m"  # an empty screen, and colours that we never use
    "\x9b7;41m\x9downed\x9c\x85"  # the same by single characters
    "\x7f\x08\x0b\x0c\x0e"
    "\u202e\u2066\u200b\ufeff\u2028"
    "[bold red]marked[/bold red] :smile: {0} %s"
)
LINES = f"{EVIL}\nFORGED \r\nFORGED\r"
OURS = re.compile(r"\x1b\[(?:\d+(?:;\d+)*)?m|\x1b\[\?25[lh]|\x1b\[\d*[AK]|\r")
"""What Rich sends for the styles and the bar that we ask for."""
FLAT = "[bold red]marked[/bold red] :smile: {0} %s"


def column(name):
    return f"{name}{LINES}"


RULE = lw.Rule(
    features={
        column("id"): lw.Feature("key"),
        column("age"): lw.Feature("number", tolerance=5),
        column("job"): lw.Feature("category"),
        column("grade"): lw.Feature("ordinal", order=[column("low"), column("high")]),
        column("sex"): lw.Feature("protected"),
        column("note"): lw.Feature("ignore"),
    },
    output_column=column("approved"),
    favourable=column("yes"),
)


def people(count=60):
    """Decisions with hostile text in every column; groups that are treated differently."""
    return [
        {
            column("id"): column(f"p{i}"),
            column("age"): 30 + i % 3,
            column("job"): column("cook"),
            column("grade"): column("low"),
            column("sex"): column("f" if i % 2 else "m"),
            column("note"): column("n"),
            column("approved"): column("no" if i % 2 else "yes"),
        }
        for i in range(count)
    ]


def bad_rows():
    good = people(70)[60:]
    names = list(good[0])
    return [
        {**good[0], names[1]: LINES},
        {**good[1], names[1]: None},
        {**good[2], names[3]: column("unheard of")},
        {name: one for name, one in good[5].items() if name != names[2]},
        {**good[6], names[2]: [LINES]},
    ]


def lines_of(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a file, a rule and a ledger, each of hostile name and content."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    names = {"data": f"d{LINES}.jsonl", "rule": f"r{LINES}.toml", "bad": f"b{LINES}.jsonl"}
    names = {name: one.replace("/", "|") for name, one in names.items()}
    Path(names["data"]).write_text(lines_of(people()))
    Path(names["bad"]).write_text(lines_of([*people(), *bad_rows()]) + "{" + EVIL + "}\n")
    Path(names["rule"]).write_text(RULE.to_toml())
    return {**names, "led": f"led{LINES}".replace("/", "|")}


@pytest.fixture
def printed(capsysbinary, monkeypatch, tmp_path):
    """What a command prints in this process: stdout and stderr, which no terminal obeys."""

    def run(*arguments, code=0, given=""):
        (tmp_path / "given").write_text(given)
        with (tmp_path / "given").open() as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            ended = main([*map(str, arguments)])
        out, err = (one.decode() for one in capsysbinary.readouterr())
        assert ended == code, (ended, out, err)
        for text in (out, err):
            assert_tame(text)
        return out, err

    return run


def assert_tame(text):
    obeyed = sorted({one for one in text if not one.isprintable() and one != "\n"})
    assert not obeyed, (obeyed, text)
    forged = [line for line in text.split("\n") if line.startswith("FORGED")]
    assert not forged, text


def begun(here, printed):
    printed("audit", here["data"], "--rule", here["rule"], "--ledger", here["led"])
    return here["led"]


# Commands that work


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["words", "JSON"])
def test_audit(more, here, printed):
    page, pairs = f"page{LINES}.html".replace("/", "|"), f"pairs{LINES}.csv".replace("/", "|")
    places = ("--report", page, "--out", pairs, "--ledger", here["led"])
    out, _ = printed("audit", here["data"], "--rule", here["rule"], *places, *more)
    assert FLAT in out
    if not more:  # every name and value is in the summary
        for name in ("id", "age", "job", "grade", "sex", "note", "approved", "low", "yes", "no"):
            assert f"{name}\\x1b]0;owned\\x07\\x1b[2J" in out or name == "id", name
        for name in ("page", "pairs", "led", "d"):
            assert f"{name}\\x1b]0;owned" in out
    else:
        found = json.loads(out)
        assert any(one["column"] == column("job") for one in found["worst"][0]["columns"])
        assert found["computed"]["source"] == here["data"]


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["words", "JSON"])
@pytest.mark.parametrize("command", ["audit", "calibrate"])
def test_bad_rows(command, more, here, printed):
    skip = ("--on-bad-row", "skip")
    out, _ = printed(command, here["bad"], "--rule", here["rule"], *skip, *more)
    if more:
        assert json.loads(out)["bad_rows"] == 6
    else:
        assert "6 bad rows were left out" in out and FLAT in out


def test_init(here, printed, tmp_path):
    output = ("--output-column", column("approved"))
    out, _ = printed("init", here["data"], *output, "--out", f"new{EVIL}.toml".replace("/", "|"))
    assert FLAT in out
    text, _ = printed("init", here["data"], *output, "--out", "-")
    written = Path(f"new{EVIL}.toml".replace("/", "|")).read_text()
    assert text == written
    assert_tame(written)
    assert set(lw.Rule.from_toml(text).features) == set(RULE.features)
    out, _ = printed("init", here["data"], *output, "--out", "-", "--json")
    Path("n.csv").write_text(f'"x{EVIL}",y\n{EVIL},1\n1,"{EVIL}",3\n')
    printed("init", "n.csv", "--out", "n.toml")


@pytest.mark.parametrize("ledger", [False, True], ids=["memory", "ledger"])
def test_watch(ledger, here, printed):
    kept = ("--ledger", here["led"]) if ledger else ()
    more = [{**people(70)[69], LINES: 1}, {**people(1)[0], column("age"): 99}]
    given = lines_of([*people(), *bad_rows(), *more]) + "{" + EVIL + "}\n" + EVIL + "\n"
    out, _ = printed("watch", "--rule", here["rule"], *kept, given=given)
    told = [json.loads(line) for line in out.splitlines()]
    assert [one["line"] for one in told] == list(range(1, 70))
    assert told[1]["key"] == column("p1") and told[1]["witnesses"][0]["key"] == column("p0")
    assert sum("error" in one for one in told) == 9
    fail = ("--on-bad-row", "fail")
    _, err = printed("watch", "--rule", here["rule"], *fail, given=EVIL, code=3)
    assert "owned" in err


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["words", "JSON"])
def test_ledgers(more, here, printed):
    led = begun(here, printed)
    out, _ = printed("show", led, "5", *more)
    if more:
        assert json.loads(out)["key"] == column("p5")
    else:
        shown = out.replace("\\\\", "\\")
        assert FLAT in shown and "job\\x1b]0;owned" in shown and "p5\\x1b]0;owned" in shown
    assert printed("show", led, "--key", column("p5"), *more)[0] == out
    out, _ = printed("report", led, "--out", f"p{LINES}.html".replace("/", "|"), *more)
    assert json.loads(out)["groups"] if more else "By sex\\x1b]0;owned" in out
    printed("verify", led, *more)
    printed("replay", led, *more)
    printed("erase", led, "--key", column("p5"), "--yes", *more)
    printed("show", led, "5", *more)


# Commands that fail


@pytest.mark.long
def test_errors_about_files_and_rules(here, printed):
    data, rule = here["data"], here["rule"]
    _, err = printed("audit", f"no{LINES}", "--rule", rule, code=3)
    assert "no\\x1b]0;owned" in err and FLAT in err and err.startswith("likewise: ")
    cases = [
        (("audit", here["bad"], "--rule", rule), 3),
        (("audit", data, "--rule", f"no{LINES}"), 2),
        (("audit", data), 2),
        (("audit", data, "--epsilon", "1", "--output-column", f"no{LINES}"), 3),
        (("audit", data, "--epsilon", "1", "--output-column", column("approved")), 3),
        (("audit", data, "--rule", rule, "--out", f"{EVIL}.xls"), 2),
        (("audit", data, "--rule", rule, "--report", f"{EVIL}.html/{EVIL}.html"), 2),
        (("audit", data, "--rule", rule, "--format", LINES), 2),
        (("audit", data, "--rule", rule, "--delimiter", LINES), 2),
        (("audit", data, "--rule", rule, "--on-bad-row", LINES), 2),
        (("audit", data, "--rule", rule, f"--{EVIL}"), 2),
        (("audit", data, "--epsilon", EVIL), 2),
        (("audit", data, LINES), 2),
        ((EVIL,), 2),
        (("init", data), 2),
        (("init", data, "--output-column", LINES), 3),
        (("init", data, "--output-column", column("approved"), "--out", rule), 2),
        (("calibrate", here["bad"], "--rule", rule), 3),
        (("demo", "--folder", f"no{EVIL}"), 2),
        (("watch", "--rule", f"no{LINES}"), 2),
        (("watch", "--rule", rule, "--ledger", data), 3),
        (("watch", "--rule", rule, "--ledger", here["led"], "--durability", LINES), 2),
        (("watch", "--rule", rule, "--ledger", here["led"], "--window", LINES), 2),
    ]
    for arguments, code in cases:
        _, err = printed(*arguments, code=code)
        assert err.strip(), arguments
    Path("damaged.parquet").write_bytes(b"PAR1" + EVIL.encode() * 10)
    printed("audit", "damaged.parquet", "--rule", rule, code=3)
    Path("header.csv").write_text(f"{EVIL},{EVIL},x\n1,2,3\n")
    printed("audit", "header.csv", "--rule", rule, code=3)
    Path("odd.csv").write_text(f'a,z\n{EVIL},1\n"{LINES}",2\n')
    quick = ("--epsilon", "1", "--output-column", "z")
    _, err = printed("audit", "odd.csv", *quick, code=3)
    assert "owned" in err
    Path("latin.csv").write_bytes(b"a,z\n\x1b]0;owned\x07\xff\x9b7m,1\n")
    printed("audit", "latin.csv", *quick, code=3)
    for text in (
        f'"{EVIL}" = 1\n'.replace("\x1b", "\\u001b").replace("\x7f", "\\u007f"),
        RULE.to_toml().replace('"ordinal"', '"ordeal"'),
        RULE.to_toml().replace("tolerance = 5.0", 'tolerance = "x"'),
        EVIL,
    ):
        Path("odd.toml").write_text(text)
        _, err = printed("audit", data, "--rule", "odd.toml", code=2)
        assert "odd.toml" in err


def test_errors_about_ledgers(here, printed):
    led = begun(here, printed)
    cases = [
        (("show", f"no{LINES}", "1"), 3),
        (("show", here["data"], "1"), 3),
        (("show", led, "--key", LINES), 3),
        (("show", led, "999"), 3),
        (("show", led, EVIL), 2),
        (("verify", led, "--head", LINES), 2),
        (("erase", led, "--key", LINES, "--yes"), 3),
        (("erase", led, "--key", column("p1")), 2),
        (("report", led, "--out", f"{EVIL}.doc"), 2),
        (("replay", f"no{LINES}"), 3),
        (("audit", here["data"], "--rule", here["rule"], "--ledger", led), 2),
    ]
    for arguments, code in cases:
        _, err = printed(*arguments, code=code)
        assert err.startswith("likewise: "), arguments
    Path("other.toml").write_text(RULE.to_toml().replace("tolerance = 5", "tolerance = 6"))
    _, err = printed("watch", "--rule", "other.toml", "--ledger", led, code=2)
    assert "was begun under another rule" in err and FLAT in err


def test_name_of_a_file_that_is_no_text_is_shown(here, printed):
    name = os.fsdecode(b"\xff\x9b\x1b.jsonl")
    _, err = printed("audit", name, "--rule", here["rule"], code=3)
    assert r"\udcff\udc9b\x1b.jsonl is not there" in err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_screen_without_the_letters_of_the_data_shows_them_as_escapes(
    encoding, here, tmp_path, monkeypatch
):
    with (tmp_path / "screen").open("w", encoding=encoding, newline="") as screen:
        monkeypatch.setattr(sys, "stdout", screen)
        assert main(["audit", here["data"], "--rule", here["rule"]]) == 0
        assert main(["audit", here["data"], "--rule", here["rule"], "--json"]) == 0
    shown = (tmp_path / "screen").read_bytes().decode(encoding)
    assert_tame(shown)
    assert FLAT in shown


# At a terminal


def assert_tame_at_a_terminal(sent):
    assert_tame(OURS.sub("", sent.replace("\r\n", "\n")))


@pytest.mark.long
def test_at_a_terminal_nothing_but_our_own_styles_is_sent(here, printed, tmp_path):
    sent, code = at_a_terminal(
        "audit", here["bad"], "--rule", here["rule"], "--on-bad-row", "skip", "--max-rate", "0.1"
    )  # fmt: skip
    assert code == 1 and "bold red" in sent and "\x1b[1m" in sent
    assert_tame_at_a_terminal(sent)
    sent, code = at_a_terminal("calibrate", here["data"], "--rule", here["rule"])
    assert code == 0
    assert_tame_at_a_terminal(sent)
    led = begun(here, printed)
    for arguments, expected in (
        (("show", led, "5"), 0),
        (("report", led), 0),
        (("show", led, "--key", LINES), 3),
        (("audit", f"no{LINES}", "--rule", here["rule"]), 3),
        (("init", here["data"], "--output-column", column("approved"), "--out", "-"), 0),
        (("audit", f"--{EVIL}"), 2),
    ):
        sent, code = at_a_terminal(*arguments)
        assert code == expected, sent
        assert_tame_at_a_terminal(sent)
    sent, code = at_a_terminal("erase", led, "--key", column("p1"), typed=b"n\n")
    assert code == 130 and "for ever?" in sent and "nothing was erased" in sent
    assert_tame_at_a_terminal(sent)
    with lw.Ledger(led) as opened:
        assert not opened.entry(1).erased
    shutil.copytree(led, "plain")
    sent, code = at_a_terminal("erase", "plain", "--row", "1", typed=b"y\n")
    assert code == 0 and "1 decision erased" in sent


# In Python


def test_explanation_in_python_is_text(here):
    verdict = lw.Monitor(RULE).observe_many(people(2))[1]
    told = verdict.explain()
    assert FLAT in str(told)
    for one in (told, *told.pairs):
        for text in (str(one), repr(one), f"{one}"):
            assert_tame(text)
    assert_tame(json.dumps(told.to_dict()))
    groups = lw.Monitor(RULE).observe_many(people(20)).by_group(column("sex"))
    assert FLAT in str(groups)
    assert_tame(str(groups))


def test_error_about_another_rule_in_python_is_text(here):
    with lw.open("ledger", RULE) as monitor:
        monitor.observe(people(1)[0])
    other = lw.Rule.from_toml(RULE.to_toml().replace("tolerance = 5", "tolerance = 6"))
    with raises(lw.errors.BadRule) as raised:
        lw.open("ledger", other)
    assert FLAT in str(raised.value)
    assert_tame(str(raised.value))


def test_explanation_printed_with_rich_is_no_markup(here):
    rich = pytest.importorskip("rich.console")
    told = lw.Monitor(RULE).observe_many(people(2))[1].explain()
    for one in (told, *told.pairs):
        screen = rich.Console(width=2_000, file=io.StringIO())
        screen.print(one)
        assert FLAT in screen.file.getvalue()


# Formulas

KEYS = [
    "=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "=cmd|' /C calc'!A0", "-",
    "=1", "'=1", "''=1", "＝1", "-2+3+cmd", "+49 30 12", "--", "=", "@",
]  # fmt: skip
PLAIN = ["p7", "-1.5", "+3", "1e-5", "-1E+5", "a=b", "'tis", "", "x-1", "7", " x", "-.5"]


def test_keys_that_look_like_formulas_are_marked_in_csv_and_in_no_other_file(here, tmp_path):
    keys = [*KEYS, *PLAIN]
    rows = [{"id": key, "a": 1.0, "z": str(i % 2)} for i, key in enumerate(keys)]
    Path("k.jsonl").write_text(lines_of(rows))
    rule = '[output]\ncolumn = "z"\n[features.a]\nkind = "number"\ntolerance = 1\n'
    Path("k.toml").write_text(rule + '[features.id]\nkind = "key"\n')
    for name in ("o.csv", "o.jsonl", "o.parquet"):
        assert main(["audit", "k.jsonl", "--rule", "k.toml", "--out", name]) == 0
    with Path("o.csv").open(newline="") as file:
        cells = list(csv.DictReader(file))
    assert len(cells) > len(keys)
    for cell in cells:
        for side in ("later", "earlier"):
            given, key = keys[int(cell[f"{side}_row"])], cell[f"{side}: id"]
            assert key == (f"'{given}" if given in KEYS else given)
    seen = {cell["later: id"] for cell in cells} | {cell["earlier: id"] for cell in cells}
    assert len(seen) == len(keys), "two keys look the same"
    others = [json.loads(line) for line in Path("o.jsonl").read_text().splitlines()]
    for table in (others, pl.read_parquet("o.parquet").to_dicts()):
        assert [one["later: id"] for one in table] == [keys[one["later_row"]] for one in table]


def test_numbers_stay_numbers_in_csv(here):
    rows = [{"id": -i, "a": -1.5 * i, "z": -(i % 2)} for i in range(1, 5)]
    Path("k.jsonl").write_text(lines_of(rows))
    rule = '[output]\ncolumn = "z"\nkind = "number"\n[features.a]\nkind = "number"\ntolerance = 9\n'
    Path("k.toml").write_text(rule + '[features.id]\nkind = "key"\n')
    assert main(["audit", "k.jsonl", "--rule", "k.toml", "--out", "o.csv"]) == 0
    frame = pl.read_csv("o.csv")
    keys = frame["later: id"]
    assert keys.dtype == pl.Int64 and set(keys) <= {-1, -2, -3, -4}
    assert frame["input_distance"].dtype == pl.Float64
