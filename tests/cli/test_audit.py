"""`likewise audit`, as a user runs it: files and pipes in; a summary, pairs and a page out."""

import gzip
import json
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

import likewise as lw
from likewise.cli import main
from tests.support.commands import COMMAND, installed, likewise
from tests.support.lazily import polars as pl
from tests.support.rule_texts import rule_text
from tests.support.zstandard import zstd

QUICK = ("--epsilon", "0.05", "--output-column", "z")
RULE = rule_text(
    {
        "id": "key",
        "age": 3,
        "grade": {"kind": "category", "values": [1, 2, 3]},
        "sex": "protected",
        "note": "ignore",
    },
    output={"column": "approved", "favourable": 1},
    metric="linf",
)


def numbers(count=3_000):
    random = np.random.default_rng(5)
    x = random.random((count, 3))
    z = x.sum(axis=1) + random.normal(0, 0.1, count) > 1.5
    return pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "z": z.astype(int)})


def people(count=2_000):
    random = np.random.default_rng(6)
    age = random.integers(18, 80, count)
    return pl.DataFrame(
        {
            "id": [f"p{i}" for i in range(count)],
            "age": age,
            "grade": random.integers(1, 4, count),
            "sex": random.choice(["f", "m"], count),
            "note": ['said "hm",\nand left' if i % 7 == 0 else "" for i in range(count)],
            "approved": (age + random.normal(0, 5, count) > 45).astype(int),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("data")
    frame = numbers()
    frame.write_csv(where / "n.csv")
    frame.write_csv(where / "n.tsv", separator="\t")
    frame.write_ndjson(where / "n.jsonl")
    frame.write_parquet(where / "n.parquet", row_group_size=500)
    frame.write_ipc(where / "n.arrow")
    frame.write_ipc_stream(where / "n.arrows")
    for name in ("n.csv", "n.jsonl", "n.parquet", "n.arrows"):
        data = (where / name).read_bytes()
        (where / f"{name}.gz").write_bytes(gzip.compress(data))
        (where / f"{name}.zst").write_bytes(zstd.compress(data))
    people().write_csv(where / "people.csv")
    people().write_parquet(where / "people.parquet")
    (where / "rule.toml").write_text(RULE)
    return where


@pytest.fixture(scope="module")
def truth():
    """What a monitor finds in the numbers."""
    frame = numbers()
    return lw.Monitor(lw.Rule("linf", 0.05)).observe_many(
        frame.select("a", "b", "c").to_numpy(), frame["z"].to_list()
    )


def found(capsys, *arguments, code=0):
    assert main([*map(str, arguments), "--json"]) == code
    return json.loads(capsys.readouterr().out)


NAMES = ("n.csv", "n.tsv", "n.jsonl", "n.parquet", "n.arrow", "n.arrows")
PACKED = [
    f"n.{name}.{end}" for name in ("csv", "jsonl", "parquet", "arrows") for end in ("gz", "zst")
]


@pytest.mark.parametrize("name", [*NAMES, *PACKED])
def test_every_format_gives_the_same_findings(name, folder, truth, capsys):
    told = found(capsys, "audit", folder / name, *QUICK)
    assert (told["rows"], told["violations"]) == (len(truth), truth.violations.sum())
    assert told["pairs"] == truth.pairs > 100


@pytest.mark.long
@pytest.mark.parametrize("name", ["n.csv", "n.jsonl.gz", "n.parquet", "n.arrows.zst"])
def test_standard_input_gives_the_same_findings(name, folder, truth):
    run = installed if name == "n.csv" else likewise
    done = run("audit", "-", *QUICK, "--json", given=(folder / name).read_bytes())
    told = json.loads(done.stdout)
    assert (told["violations"], told["pairs"]) == (truth.violations.sum(), truth.pairs)
    assert done.stderr == b""


@pytest.mark.long
def test_summary_in_a_pipe_is_plain_text(folder, truth):
    done = installed("audit", folder / "n.csv", *QUICK)
    assert f" of the comparable decisions ({truth.violations.sum():,} of " in done.stdout
    assert "% of all 3,000." in done.stdout
    assert done.stderr == ""
    lines = done.stdout.split("\n")
    assert len(lines) > 5 and all(line.isprintable() for line in lines)


@pytest.mark.long
@pytest.mark.parametrize("limit, code", [("0.999", 0), ("0.001", 1)])
def test_rate_over_the_limit_is_exit_code_1(limit, code, folder):
    done = installed("audit", folder / "n.csv", *QUICK, "--max-rate", limit, code=code)
    assert ("more than" in done.stdout) == bool(code)


@pytest.mark.parametrize("end", ["csv", "jsonl", "parquet", "xlsx"])
def test_out_has_every_pair_with_its_places(end, folder, truth, tmp_path, capsys):
    out = tmp_path / f"pairs.{end}"
    assert main(["audit", str(folder / "n.csv"), *QUICK, "--out", str(out)]) == 0
    read = {"csv": pl.read_csv, "jsonl": pl.read_ndjson, "parquet": pl.read_parquet}
    pairs = (read | {"xlsx": pl.read_excel})[end](out)
    assert pairs["later_row"].to_list() == np.repeat(truth.rows, truth.counts).tolist()
    assert pairs["earlier_row"].to_list() == truth.witnesses.rows.tolist()
    exact = 1e-15 if end == "xlsx" else 0.0  # a workbook has 16 digits of a number
    distances = truth.witnesses.input_distances
    assert pairs["input_distance"].to_list() == pytest.approx(distances, rel=exact, abs=0)
    assert (pairs["later_line"] == pairs["later_row"] + 2).all()  # a header; lines count from 1
    assert list(tmp_path.iterdir()) == [out]


def test_pairs_are_named_by_line_and_key_where_records_have_several_lines(folder, tmp_path, capsys):
    out = tmp_path / "pairs.parquet"
    arguments = ["audit", folder / "people.csv", "--rule", folder / "rule.toml", "--out", out]
    told = found(capsys, *arguments)
    pairs = pl.read_parquet(out)
    assert pairs.height == told["pairs"] > 0
    lines = (folder / "people.csv").read_text().split("\n")
    for pair in pairs.head(50).to_dicts():
        assert lines[pair["later_line"] - 1].startswith(f"p{pair['later_row']},")
        assert lines[pair["earlier_line"] - 1].startswith(pair["earlier: id"] + ",")
    assert told["worst"][0]["row_line"] in pairs["later_line"]


def test_csv_and_parquet_are_judged_alike_under_a_rule(folder, capsys):
    told = [
        found(capsys, "audit", folder / name, "--rule", folder / "rule.toml")
        for name in ("people.csv", "people.parquet")
    ]
    for one in told:
        for key in ("computed", "worst"):
            one.pop(key)
    assert told[0] == told[1]
    assert told[0]["violations"] > 0 and told[0]["groups"][0]["column"] == "sex"


@pytest.mark.parametrize("values", ["", "values = [7, 9007199254740992]"], ids=["number", "code"])
@pytest.mark.parametrize("name", ["big.csv", "big.tsv", "big.jsonl", "big.parquet"])
def test_whole_numbers_that_float64_rounds_are_refused_by_their_place(
    name, values, tmp_path, capsys
):
    big, path, rule = 2**53, tmp_path / name, tmp_path / "rule.toml"
    frame = pl.DataFrame({"a": [7, big, big + 1, -big - 1], "z": ["x", "x", "y", "x"]})
    write = {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}
    write |= {"tsv": lambda path: frame.write_csv(path, separator="\t")}
    write[path.suffix[1:]](path)
    kind = 'kind = "category"' if values else 'kind = "number"\ntolerance = 0.5'
    rule.write_text(f'[output]\ncolumn = "z"\n[features.a]\n{kind}\n{values}\n')
    told = found(capsys, "audit", path, "--rule", rule, "--on-bad-row", "skip")
    assert (told["rows"], told["bad_rows"], told["violations"]) == (2, 2, 0)
    assert main(["audit", str(path), "--rule", str(rule)]) == 3
    line = {"parquet": "row 3", "jsonl": "line 3"}.get(path.suffix[1:], "line 4")
    message = capsys.readouterr().err
    assert f"{name}, {line}: 'a' is {big + 1}" in message
    assert "2**53" in message or values


def test_report_is_written_whole(folder, tmp_path, capsys):
    page = tmp_path / "page.html"
    told = found(capsys, "audit", folder / "n.csv", *QUICK, "--report", page)
    text = page.read_text()
    assert text.startswith("<!doctype html>") and text.endswith("</html>\n")
    assert f"{told['violations']:,}" in text and told["curve"] is not None
    assert list(tmp_path.iterdir()) == [page]


def test_curve_of_a_long_file_says_from_how_many_it_is(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("likewise.auditing.pipeline.FIRST_ROWS", 1_000)
    page = tmp_path / "page.html"
    told = found(capsys, "audit", folder / "n.csv", *QUICK, "--report", page)
    assert (told["rows"], told["curve"]["decisions"]) == (3_000, 1_000)
    assert "Computed from a part: the first 1,000 of 3,000 decisions judged." in page.read_text()


def test_epsilon_beside_a_rule_takes_its_place(folder, capsys):
    wide, narrow = (
        found(capsys, "audit", folder / "people.csv", "--rule", folder / "rule.toml", *more)
        for more in ((), ("--epsilon", "0.1"))
    )
    assert narrow["violations"] < wide["violations"]


@pytest.mark.parametrize("metric", ["linf", "l1", "l2", "cosine"])
def test_every_metric_needs_no_rule(metric, folder, capsys):
    frame = numbers()
    told = found(
        capsys, "audit", folder / "n.parquet", "--metric", metric, "--epsilon", "0.02",
        "--output-column", "z", "--ignore", "c",
    )  # fmt: skip
    verdicts = lw.Monitor(lw.Rule(metric, 0.02)).observe_many(
        frame.select("a", "b").to_numpy(), frame["z"].to_list()
    )
    assert (told["violations"], told["pairs"]) == (verdicts.violations.sum(), verdicts.pairs)


def test_vector_rule_from_a_file_takes_columns_in_order(folder, tmp_path, capsys):
    (tmp_path / "plain.toml").write_text('metric = "l1"\nepsilon = 0.05\nweights = [1, 0, 2]')
    told = found(
        capsys, "audit", folder / "n.csv", "--rule", tmp_path / "plain.toml",
        "--output-column", "z",
    )  # fmt: skip
    frame = numbers()
    verdicts = lw.Monitor(lw.Rule("l1", 0.05, weights=[1, 0, 2])).observe_many(
        frame.select("a", "b", "c").to_numpy(), frame["z"].to_list()
    )
    assert (told["violations"], told["pairs"]) == (verdicts.violations.sum(), verdicts.pairs)
    assert told["worst"][0]["columns"][1]["column"] in "abc"


# Bad rows


def test_bad_rows_are_left_out_and_counted_with_their_lines(folder, tmp_path, capsys):
    """Of every kind, those that the reader refuses and those that the monitor does."""
    lines = (folder / "n.csv").read_text().splitlines()
    bad = {40: "0.1,0.2", 41: "0.1,x,0.3,1", 1200: "0.1,,0.3,1", 2999: "0.1,inf,0.3,0"}
    mixed = []
    for line in lines:
        mixed.append(line)
        while len(mixed) + 1 in bad:
            mixed.append(bad[len(mixed) + 1])
    (tmp_path / "mixed.csv").write_text("\n".join(mixed) + "\n")
    clean = found(capsys, "audit", folder / "n.csv", *QUICK)
    told = found(capsys, "audit", tmp_path / "mixed.csv", *QUICK, "--on-bad-row", "skip")
    assert [one["line"] for one in told["bad_row_examples"]] == list(bad)
    assert told["bad_rows"] == len(bad)
    assert (told["rows"], told["violations"], told["pairs"]) == (
        clean["rows"],
        clean["violations"],
        clean["pairs"],
    )
    out = tmp_path / "pairs.csv"
    skip = ["--on-bad-row", "skip", "--out", str(out)]
    assert main(["audit", str(tmp_path / "mixed.csv"), *QUICK, *skip]) == 0
    for pair in pl.read_csv(out).to_dicts():
        assert mixed[pair["later_line"] - 1] == lines[pair["later_row"] + 1]
        assert mixed[pair["earlier_line"] - 1] == lines[pair["earlier_row"] + 1]
    summary = capsys.readouterr().out
    assert "4 bad rows were left out" in summary and "line 1,200: 'b' is missing" in summary


def test_many_bad_rows_are_counted_and_the_first_shown(tmp_path, capsys):
    rows = [f"{i},{'x' if i % 3 == 0 else i % 5},{i % 2}" for i in range(3_000)]
    (tmp_path / "bad.csv").write_text("\n".join(["a,b,z", *rows, ""]))
    told = found(capsys, "audit", tmp_path / "bad.csv", *QUICK, "--on-bad-row", "skip")
    assert (told["rows"], told["bad_rows"], len(told["bad_row_examples"])) == (2_000, 1_000, 10)


def test_text_for_nothing_known_is_missing(tmp_path, capsys):
    (tmp_path / "d.csv").write_text("a,b,z\n1,?,x\n1,NA,y\n1,,x\n")
    rule = """
        [output]
        column = "z"
        [features.a]
        kind = "number"
        tolerance = 1
        [features.b]
        kind = "number"
        tolerance = 1
        missing = "mismatch"
    """
    (tmp_path / "r.toml").write_text(rule)
    more = ("--missing", "?", "--missing", "NA")
    told = found(capsys, "audit", tmp_path / "d.csv", "--rule", tmp_path / "r.toml", *more)
    assert (told["rows"], told["violations"]) == (3, 2)


def test_times_of_a_column_beside_the_rule_are_counted(folder, tmp_path, capsys):
    frame = (
        people()
        .drop("note")
        .with_columns(
            when=pl.date_range(pl.date(2020, 1, 1), pl.date(2025, 6, 22), "1d", eager=True)
        )
    )
    frame.write_csv(tmp_path / "timed.csv")
    frame.write_parquet(tmp_path / "timed.parquet")
    rule = RULE.replace('[features.note]\nkind = "ignore"\n', "")
    (tmp_path / "rule.toml").write_text(rule)
    for name in ("timed.csv", "timed.parquet"):
        told = found(
            capsys, "audit", tmp_path / name, "--rule", tmp_path / "rule.toml",
            "--time-column", "when",
        )  # fmt: skip
        assert sum(one["decisions"] for one in told["by_time"]) == 2_000
        assert told["without_time"] == 0


# Hostile and unlucky


def test_escapes_in_the_data_do_not_reach_the_terminal(tmp_path, capsys):
    rows = ["a,b,z", "1,\x1b[31mred\x07,yes", "1,\x1b[31mred\x07,no", ""]
    (tmp_path / "d.csv").write_text("\n".join(rows))
    rule = '[output]\ncolumn = "z"\n[features.a]\nkind = "number"\ntolerance = 1\n'
    (tmp_path / "r.toml").write_text(rule + '[features.b]\nkind = "category"\n')
    assert main(["audit", str(tmp_path / "d.csv"), "--rule", str(tmp_path / "r.toml")]) == 0
    shown = capsys.readouterr().out
    assert "red" in shown and "\x1b" not in shown and "\x07" not in shown


def test_reader_that_leaves_is_no_error(folder):
    with subprocess.Popen(
        [*COMMAND, "audit", str(folder / "n.csv"), *QUICK, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        running.stdout.close()
        assert running.wait(timeout=120) == 141
        assert b"Traceback" not in running.stderr.read()


def wait_until_idle(running):
    """Until a process has taken no time of the processor for a second."""
    before, since, until = None, time.monotonic(), time.monotonic() + 120
    while time.monotonic() - since < 1.0:
        times = Path(f"/proc/{running.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
        if times != before:
            before, since = times, time.monotonic()
        assert running.poll() is None and time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.long
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ended_by_a_signal_it_leaves_nothing_half_written(number, code, folder, tmp_path):
    with subprocess.Popen(
        [*COMMAND, "audit", "-", "--epsilon", "1e-9", *QUICK[2:], "--out", tmp_path / "pairs.csv"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        header, rows = (folder / "n.csv").read_bytes().split(b"\n", 1)
        running.stdin.write(header + b"\n" + rows * (1 + (9 << 20) // len(rows)))
        running.stdin.flush()  # more than it takes at a time, and no end: it waits for more
        while not list(tmp_path.iterdir()):  # nothing is begun yet
            time.sleep(0.05)
            assert running.poll() is None
        wait_until_idle(running)
        running.send_signal(number)
        assert running.wait(timeout=60) == code
        assert b"Traceback" not in running.stderr.read()
    assert not list(tmp_path.iterdir())


def test_full_output_is_told(folder):
    if not Path("/dev/full").exists():
        pytest.skip("this system has no device that is always full")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "audit", str(folder / "n.csv"), *QUICK],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert "the disk is full" in done.stderr and "Traceback" not in done.stderr


def test_report_under_a_rule_without_features_leaves_the_times_out_of_the_inputs(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    days = [f"2024-01-{1 + i % 28:02}" for i in range(300)]
    numbers(300).with_columns(when=pl.Series(days)).write_csv(tmp_path / "d.csv")
    (tmp_path / "rule.toml").write_text('metric = "linf"\nepsilon = 0.05\n')
    likewise(
        "audit", "d.csv", "--rule", "rule.toml", "--output-column", "z",
        "--time-column", "when", "--report", "page.html",
    )  # fmt: skip
    assert (tmp_path / "page.html").stat().st_size > 0
