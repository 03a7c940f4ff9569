"""What a share is a share of: comparable decisions, all of them, and pairs in any order.

Each count is stated, or computed by looking at every pair.
"""

import datetime
import hashlib
import itertools
import json

import numpy as np
import pytest

from likewise.cli import main
from tests.support.commands import likewise
from tests.support.lazily import polars as pl
from tests.support.rule_texts import rule_text

RULE = rule_text(
    {"id": "key", "amount": 10, "years": 1, "region": "category"},
    output={"column": "answer", "favourable": "yes"},
)
START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


def found(capsys, *arguments, code=0):
    assert main(["audit", *map(str, arguments), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def said(capsys, *arguments, code=0):
    assert main(["audit", *map(str, arguments)]) == code
    return capsys.readouterr()


@pytest.fixture
def rule(tmp_path):
    path = tmp_path / "rule.toml"
    path.write_text(RULE)
    return path


def applicants(count, first=0):
    """Decisions that are all unlike each other: amounts are a thousand apart."""
    return [
        {
            "id": f"p{i}",
            "amount": 1_000 * i,
            "years": i % 7,
            "region": "north",
            "answer": "yes" if i % 3 else "no",
        }
        for i in range(first, first + count)
    ]


def written(path, rows):
    pl.DataFrame(rows).write_csv(path)
    return path


# Nothing is alike


@pytest.fixture
def unlike(tmp_path):
    return written(tmp_path / "unlike.csv", applicants(300))


def test_nothing_comparable_is_said_aloud_and_what_to_loosen(unlike, rule, capsys):
    lines = said(capsys, unlike, "--rule", rule).out.splitlines()
    assert lines[0] == (
        "Nothing could be compared, so nothing follows: none of 300 decisions had an earlier"
        " similar case."
    )
    # Of years 0, 1, 2 … the first has no earlier similar case; each after it has the one before.
    assert "would make comparable: 299 without amount." in lines[1]
    assert not any("contradict" in line and "%" in line for line in lines[:3])


def test_nothing_comparable_in_json_has_no_share(unlike, rule, capsys):
    told = found(capsys, unlike, "--rule", rule)
    assert (told["rows"], told["with_earlier"], told["violations"], told["in_any_pair"]) == (
        300,
        0,
        0,
        0,
    )
    assert told["rate_among_comparable"] is None
    assert [name for name, _ in told["loosening"]["columns"]] == ["amount"]
    # 1,000 apart is 100 tolerances of 10, and every other one has the years of the one before it
    assert all(epsilon >= 100 / 1.001 for epsilon, _ in told["loosening"]["epsilons"])


@pytest.mark.parametrize("of", ["any-pair", "later", "comparable", "disagreement", "opposed"])
def test_limit_says_nothing_where_nothing_is_comparable(of, unlike, rule, capsys):
    limit = ("--max-rate", "0.5", "--max-rate-of", of)
    assert "so --max-rate says nothing" in said(capsys, unlike, "--rule", rule, *limit, code=3).err
    told = found(capsys, unlike, "--rule", rule, *limit, code=3)
    assert (told["limited_rate"], told["limit_exceeded"]) == (None, None)


def test_page_of_nothing_comparable_claims_nothing(unlike, rule, tmp_path, capsys):
    said(capsys, unlike, "--rule", rule, "--report", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    top = page[page.index("<header") : page.index("</header>")]
    assert 'class="hero nothing"' in top and "of 300 decisions could be compared" in top
    assert "Nothing could be compared, so nothing follows" in top and "None of" not in top


# Few are alike


@pytest.fixture
def few(tmp_path):
    """4,454 decisions: 32 have an earlier similar case, and 14 of these contradict it."""
    rows = applicants(4_422)
    for i in range(32):
        like = {**rows[100 * i], "id": f"q{i}", "amount": rows[100 * i]["amount"] + 10}
        if i < 14:
            like["answer"] = "no" if like["answer"] == "yes" else "yes"
        rows.append(like)
    assert len(rows) == 4_454
    return written(tmp_path / "few.csv", rows)


def test_few_comparable_decisions_are_the_headline(few, rule, capsys):
    told = found(capsys, few, "--rule", rule)
    assert (told["rows"], told["with_earlier"], told["violations"]) == (4_454, 32, 14)
    assert told["rate_among_comparable"] == 14 / 32 and told["in_any_pair"] == 28
    lines = said(capsys, few, "--rule", rule).out.splitlines()
    assert "Agreement index 0.11 (95% interval -0.41 to 0.43)" in lines[0]
    assert lines[1].endswith("cannot be told from answers dealt at random.")
    start = next(i for i, line in enumerate(lines) if "of the comparable decisions (" in line)
    first, second, third, *_ = lines[start:]
    assert first == (
        "43.8% of the comparable decisions (14 of 32) contradict an earlier one about a similar"
        " case; that is 0.31% of all 4,454."
    )
    assert second.startswith("Only 32 of 4,454 decisions (0.72%) had an earlier similar case")
    assert "; the other 4,422 had none, so nothing follows about them." in second
    assert third.startswith("28 of 4,454 decisions (0.63%) belong to at least one")


def test_few_comparable_decisions_are_counted_on_the_page_beside_a_wide_interval(
    few, rule, tmp_path, capsys
):
    said(capsys, few, "--rule", rule, "--report", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    top = page[page.index("<header") : page.index("</header>")]
    assert '<p class="big">0.11 <span>agreement index, 95% interval -0.41 to 0.43</span>' in top
    for number in ("32", "14", "64 of 4,454"):
        assert f"<dd>{number}</dd>" in top
    assert "of the comparable decisions (14 of 32) contradict" in page[page.index("</header>") :]


@pytest.mark.parametrize(
    "of, rate",
    [
        ("any-pair", 28 / 4_454),
        ("later", 14 / 4_454),
        ("comparable", 14 / 32),
        ("disagreement", 28 / 64),
    ],
)
def test_limit_is_of_what_it_says(of, rate, few, rule, capsys):
    share = {"any-pair": "0.63%", "later": "0.31%"}.get(of, "43.8%")
    for limit, code in ((rate + 1e-6, 0), (rate - 1e-6, 1)):
        more = ("--max-rate", f"{limit:.9f}", "--max-rate-of", of)
        told = found(capsys, few, "--rule", rule, *more, code=code)
        assert told["limited_rate"] == rate
        assert (told["max_rate_of"], told["limit_exceeded"]) == (of, bool(code))
        last = said(capsys, few, "--rule", rule, *more, code=code).out.splitlines()[-1]
        assert last.startswith(f"{share} of ") and ("more than" in last) == bool(code)


def test_limit_is_of_pairs_in_any_order_unless_told(few, rule, capsys):
    assert found(capsys, few, "--rule", rule, "--max-rate", "0.5")["max_rate_of"] == "any-pair"


def test_share_opposed_by_most_is_limited_where_there_are_enough_similar_cases(
    few, rule, tmp_path, capsys
):
    limit = ("--max-rate", "0.2", "--max-rate-of", "opposed")
    told = found(capsys, few, "--rule", rule, *limit, code=3)
    assert (told["limited_rate"], told["agreement"]["opposed_of"]) == (None, 0)
    assert "too few similar cases" in said(capsys, few, "--rule", rule, *limit, code=3).err
    rows = [{**applicants(1)[0], "id": f"a{i}", "answer": "yes"} for i in range(9)]
    rows[4]["answer"] = rows[5]["answer"] = "no"
    nine = written(tmp_path / "nine.csv", rows)
    for share, code in (("0.23", 0), ("0.22", 1)):
        told = found(capsys, nine, "--rule", rule, "--max-rate", share, *limit[2:], code=code)
        assert told["limited_rate"] == 2 / 9
    last = said(capsys, nine, "--rule", rule, *limit, code=1).out.splitlines()[-1]
    assert (
        last.startswith("22.2% of the decisions with at least 5 similar cases") and "2 of 9" in last
    )


def test_least_index_is_compared_with_the_lower_limit(few, unlike, rule, capsys):
    low = found(capsys, few, "--rule", rule)["agreement"]["low"]
    for least, code in ((low - 1e-6, 0), (low + 1e-6, 1)):
        told = found(capsys, few, "--rule", rule, "--min-index", f"{least:.9f}", code=code)
        assert (told["min_index"], told["limit_exceeded"]) == (round(least, 9), bool(code))
    both = ("--min-index", "0.9", "--max-rate", "0.5")
    lines = said(capsys, few, "--rule", rule, *both, code=1).out.splitlines()[-2:]
    assert "within the 50.0%" in lines[0] and "less than the 0.9" in lines[1]
    told = found(capsys, unlike, "--rule", rule, "--min-index", "0.1", code=3)
    assert (told["agreement"]["low"], told["limit_exceeded"]) == (None, None)
    assert (
        "--min-index says nothing"
        in said(capsys, unlike, "--rule", rule, "--min-index", "0.1", code=3).err
    )


# The order of lines


def stream(count=500, seed=3):
    """Decisions with similar cases on boundaries, and times that are all different."""
    random = np.random.default_rng(seed)
    when = random.permutation(count)
    return [
        {
            "id": f"p{i}",
            "amount": int(10 * random.integers(0, 12)),  # exactly a tolerance apart
            "years": int(random.integers(0, 6)),
            "region": str(random.choice(["north", "south"])),
            "answer": "yes" if i % 3 else "no",
            "made": (START + datetime.timedelta(minutes=int(when[i]))).isoformat(),
        }
        for i in range(count)
    ]


def like(a, b):
    return (
        a["region"] == b["region"]
        and abs(a["amount"] - b["amount"]) <= 10
        and abs(a["years"] - b["years"]) <= 1
    )


def truth(rows):
    """Comparable, flagged, and in any pair, by looking at every pair of rows in their order."""
    comparable, flagged, either = set(), set(), set()
    for (j, earlier), (i, later) in itertools.combinations(enumerate(rows), 2):
        if like(earlier, later):
            comparable.add(i)
            if earlier["answer"] != later["answer"]:
                flagged.add(i)
                either |= {i, j}
    return {"with_earlier": len(comparable), "violations": len(flagged), "in_any_pair": len(either)}


COUNTS = ("with_earlier", "violations", "in_any_pair", "pairs", "by_time", "by_row", "margins")


@pytest.fixture
def timed_rule(tmp_path):
    path = tmp_path / "timed.toml"
    path.write_text(RULE + '[features.made]\nkind = "ignore"\n')
    return path


@pytest.mark.parametrize("end", ["csv", "jsonl", "parquet"])
def test_lines_in_any_order_are_judged_in_order_of_time(end, timed_rule, tmp_path, capsys):
    rows = stream()
    by_time = sorted(rows, key=lambda row: row["made"])
    expected = truth(by_time)
    assert expected != truth(rows), "the order of lines is another one"
    told = {}
    for name, some, done in (
        ("in order", by_time, "as it is"),
        ("reversed", by_time[::-1], "newest first"),
        ("mixed", rows, "sorted"),
    ):
        path, frame = tmp_path / f"{name}.{end}", pl.DataFrame(some)
        {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[end](
            path
        )
        told[name] = found(capsys, path, "--rule", timed_rule, "--time-column", "made")
        assert {key: told[name][key] for key in expected} == expected
        assert told[name]["computed"]["order"] == {
            "column": "made", "file": done, "ties": 0, "lines": True,
            "within": None,
        }  # fmt: skip
        for pair in told[name]["worst"]:
            place = (
                pair["row_row"] - 1 if end == "parquet" else pair["row_line"] - 1 - (end == "csv")
            )
            assert some[place]["id"] == by_time[pair["row"]]["id"]
    for name in ("reversed", "mixed"):
        assert {key: told[name][key] for key in COUNTS} == {
            key: told["in order"][key] for key in COUNTS
        }


def test_equal_times_go_by_line_and_from_the_end_where_the_newest_come_first(
    timed_rule, tmp_path, capsys
):
    """A file of days, and the same upside down: identical, though most times are shared."""
    rows = sorted(stream(), key=lambda row: row["made"])
    for i, row in enumerate(rows):
        row["made"] = (START + datetime.timedelta(days=i // 50)).date().isoformat()
    expected = truth(rows)
    for name, some in (("down.csv", rows), ("up.csv", rows[::-1])):
        path = written(tmp_path / name, some)
        told = found(capsys, path, "--rule", timed_rule, "--time-column", "made")
        assert {key: told[key] for key in expected} == expected
        assert told["computed"]["order"]["ties"] == 490
        page = said(capsys, path, "--rule", timed_rule, "--time-column", "made").out
        assert "490 have the same time as the one before" in page


def test_without_times_only_what_is_free_of_order_stays_the_same(timed_rule, tmp_path, capsys):
    rows = stream()
    down, up = (
        found(capsys, written(tmp_path / name, some), "--rule", timed_rule)
        for name, some in (("down.csv", rows), ("up.csv", rows[::-1]))
    )
    assert {key: down[key] for key in truth(rows)} == truth(rows)
    assert {key: up[key] for key in truth(rows)} == truth(rows[::-1])
    assert (down["in_any_pair"], down["pairs"]) == (up["in_any_pair"], up["pairs"])
    assert down["violations"] != up["violations"]
    text = said(capsys, tmp_path / "up.csv", "--rule", timed_rule).out
    assert 'No time column is named, so "earlier" means "above in the file".' in text


def test_standard_input_is_sorted_too(timed_rule):
    rows = stream()
    text = pl.DataFrame(rows).write_csv()
    done = likewise(
        "audit", "-", "--rule", timed_rule, "--time-column", "made", "--json", given=text
    )
    told = json.loads(done.stdout)
    expected = truth(sorted(rows, key=lambda row: row["made"]))
    assert {key: told[key] for key in expected} == expected
    assert told["computed"]["order"]["file"] == "sorted"
    assert told["computed"]["sha256"] == hashlib.sha256(text.encode()).hexdigest()


def test_rows_without_a_time_are_bad_rows(timed_rule, tmp_path, capsys):
    rows = stream(60)
    rows[7]["made"], rows[30]["made"] = "", "soon"
    path = written(tmp_path / "gaps.csv", rows)
    arguments = (path, "--rule", timed_rule, "--time-column", "made")
    message = said(capsys, *arguments, code=3).err
    assert "gaps.csv, line 9: 'made' is missing, so it has no place in the order" in message
    told = found(capsys, *arguments, "--on-bad-row", "skip")
    good = [row for row in rows if row["made"] not in ("", "soon")]
    expected = truth(sorted(good, key=lambda row: row["made"]))
    assert {key: told[key] for key in expected} == expected
    assert [one["line"] for one in told["bad_row_examples"]] == [9, 32] and told[
        "without_time"
    ] == 0


def test_ledger_of_a_file_that_is_not_in_order_has_its_times_in_order(timed_rule, tmp_path, capsys):
    rows = stream(200)
    path = written(tmp_path / "mixed.csv", rows)
    told = found(
        capsys, path, "--rule", timed_rule, "--time-column", "made", "--ledger", tmp_path / "kept"
    )
    expected = truth(sorted(rows, key=lambda row: row["made"]))
    assert {key: told[key] for key in expected} == expected
    assert main(["verify", str(tmp_path / "kept")]) == 0


# How it was computed


def test_evidence_names_bytes_command_order_and_what_was_left_out(timed_rule, tmp_path, capsys):
    rows = stream(120)
    rows[3]["years"], rows[4]["years"], rows[50]["amount"] = "many", "few", ""
    path = written(tmp_path / "d.csv", [{k: str(v) for k, v in row.items()} for row in rows])
    page = tmp_path / "page.html"
    arguments = [
        "audit", str(path), "--rule", str(timed_rule), "--time-column", "made",
        "--on-bad-row", "skip", "--report", str(page), "--json",
    ]  # fmt: skip
    assert main(arguments) == 0
    done = json.loads(capsys.readouterr().out)["computed"]
    data = path.read_bytes()
    assert (done["sha256"], done["size_bytes"]) == (hashlib.sha256(data).hexdigest(), len(data))
    assert done["command"].startswith("likewise audit ") and "--time-column made" in done["command"]
    assert done["order"]["file"] == "sorted"
    assert [(one["rows"], one["place"]) for one in done["skipped"]] == [(2, 5), (1, 52)]
    assert done["machine_load"] is None or done["machine_load"] >= 1
    assert {name for name, _ in done["packages"]} == {"numpy", "polars"}
    text = page.read_text()
    for words in (done["sha256"], "by “made” (UTC)", "2, the first in line 5:", "3 rows that"):
        assert words in text, words


def test_curve_from_a_part_says_so_among_how_it_was_computed(
    timed_rule, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("likewise.auditing.pipeline.FIRST_ROWS", 100)
    page = tmp_path / "page.html"
    path = written(tmp_path / "d.csv", stream(300))
    said(capsys, path, "--rule", timed_rule, "--report", page)
    assert (
        "<dt>Curve</dt><dd>a part: the first 100 of 300 decisions judged</dd>" in page.read_text()
    )
