"""Which column of the rule matters most: the page, the terminal and JSON say what all pairs say."""

import datetime
import html
import json
import re
from dataclasses import replace

import numpy as np
import pytest

import likewise as lw
from likewise.cli import main
from likewise.monitor import sensitivity
from likewise.reports.sensitivity_section import describe_omitted, lines_of
from tests.support.lazily import polars as pl
from tests.support.varied_oracle import N, changed, expected, outcome, people, rule_of

START = datetime.datetime(2024, 1, 1)


def told(capsys, *arguments):
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def counts(varied):
    found = {(None, None): (varied["comparable"], varied["violations"])}
    for one in varied["variants"]:
        found[one["column"], one["change"]] = (one["comparable"], one["violations"])
    return found


def table_of(page):
    """The lines of the table on a page: words, and what stands behind them."""
    (table,) = re.findall(r'<table class="varied">(.*?)</table>', page, re.DOTALL)
    lines = {}
    for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)[1:]:
        words, *cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        numbers = [int(cell.replace(",", "")) for cell in cells[:2]]
        lines[html.unescape(re.sub("<.*?>", "", words))] = (*numbers, cells[2])
    return lines


@pytest.fixture
def stream(tmp_path):
    """A file in reverse order of time, and a rule."""
    rows = people(21)
    rule = rule_of(rows, 21)
    timed = [{**row, "when": START + datetime.timedelta(days=i)} for i, row in enumerate(rows)]
    pl.DataFrame(timed[::-1]).write_parquet(tmp_path / "d.parquet")
    (tmp_path / "r.toml").write_text(rule.to_toml())
    return tmp_path, rule, rows


@pytest.mark.long
def test_audit_counts_in_order_of_time_and_the_page_has_the_counts(stream, capsys):
    folder, rule, rows = stream
    arguments = ("audit", folder / "d.parquet", "--rule", folder / "r.toml")
    found = told(capsys, *arguments, "--time-column", "when", "--report", folder / "page.html")
    by_hand = expected(rule, rows)
    assert counts(found["varied"]) == by_hand
    assert by_hand[None, None] == (found["with_earlier"], found["violations"])
    assert by_hand != expected(rule, rows[::-1])  # the order of the lines
    assert (found["varied"]["decisions"], found["varied"]["decisions_given"]) == (N, N)

    page = (folder / "page.html").read_text()
    assert f"Computed from all {N} decisions, in the order judged." in page
    lines = table_of(page)
    assert next(iter(lines)) == "the rule as it is"
    ignored = {name: found for (name, how), found in by_hand.items() if how == "ignored"}
    base = by_hand[None, None]
    most = max(ignored, key=lambda one: max(abs(np.subtract(ignored[one], base))))
    assert (
        f"The most important column is <bdi>{most}</bdi>: without it {ignored[most][0]} instead of"
        f" {base[0]} of {N} decisions would be comparable, and {ignored[most][1]} instead of"
        f" {base[1]} would"
    ) in page
    for (name, how), (comparable, contradicting) in by_hand.items():
        if name is None:
            words = "the rule as it is"
        elif how == "ignored":
            words = f"without {name}"
        else:
            before = [one.split(":")[0] for one in lines]
            assert name in before
            factor = {"halved": 0.5, "doubled": 2}[how]
            size = {"income": 1, "months": 6, "grade": 2}.get(name, 1) * factor
            size *= rule.features["income"].tolerance if name == "income" else 1
            words = {
                "debt": f"debt: {10 * factor:g}% instead of 10%",
                "job": f"job: a mismatch costs {1.5 / factor:g} instead of 1.5",
                "grade": f"grade: {size:g} steps instead of 2",
            }.get(name, f"{name}: {size:g} instead of {size / factor:g}")
        assert lines[words][:2] == (comparable, contradicting), words
    assert len(lines) == len(by_hand)


def test_audit_without_a_page_varies_nothing(stream, capsys):
    folder, _, _ = stream
    assert told(capsys, "audit", folder / "d.parquet", "--rule", folder / "r.toml",
                "--time-column", "when")["varied"] is None  # fmt: skip


@pytest.fixture
def plain(tmp_path):
    """A file and a rule by which nearness is a distance, as calibrate wants it."""
    rows = [{**row, "job": row["job"] or "a", "region": row["region"] or "n"} for row in people(22)]
    rule = rule_of(rows, 22)
    pl.DataFrame(rows).write_parquet(tmp_path / "d.parquet")
    (tmp_path / "r.toml").write_text(rule.to_toml())
    return tmp_path, rule, rows


def test_calibrate_counts_and_prints_what_all_pairs_say(plain, capsys):
    folder, rule, rows = plain
    arguments = ("calibrate", folder / "d.parquet", "--rule", folder / "r.toml")
    by_hand = expected(rule, rows)
    assert counts(told(capsys, *arguments)["varied"]) == by_hand
    assert main([*map(str, arguments), "--report", str(folder / "curve.html")]) == 0
    printed = capsys.readouterr().out
    assert f"Which column of the rule matters most\nComputed from all {N} decisions:\n" in printed
    for words, key in (
        ("the rule as it is", (None, None)),
        ("without home", ("home", "ignored")),
        ("debt: 20% instead of 10%", ("debt", "doubled")),
    ):
        comparable, contradicting = by_hand[key]
        share = f"{100 * contradicting / comparable:.1f}%"
        (line,) = (one for one in printed.splitlines() if one.endswith(f"  {words}"))
        assert line.split()[:3] == [str(comparable), str(contradicting), share]
        page = table_of((folder / "curve.html").read_text())
        assert page[words] == (comparable, contradicting, share)


def test_what_rests_on_a_part_says_so(plain, capsys, monkeypatch):
    monkeypatch.setattr(sensitivity, "LEAST_ROWS", 100)
    monkeypatch.setattr(
        sensitivity, "MOST_CELLS", 100 * 10 * 7 * 3
    )  # decisions, columns, seven varied
    folder, rule, rows = plain
    arguments = [str(folder / "d.parquet"), "--rule", str(folder / "r.toml")]
    assert main(["calibrate", *arguments]) == 0
    part = f"Computed from a part: the first 100 of {N} decisions"
    assert f"matters most\n{part}:\n" in capsys.readouterr().out
    found = told(capsys, "audit", *arguments, "--report", folder / "page.html")
    assert counts(found["varied"]) == expected(rule, rows, 100)
    assert found["varied"]["decisions"] == 100
    page = (folder / "page.html").read_text()
    assert page.count(part) == 2  # under the table, and in how this was computed


def test_without_a_column_a_decision_that_is_zero_then_is_left_out_and_this_is_said(
    tmp_path, capsys
):
    rows = [{"a": i % 3, "b": 1 + i % 2, "z": i % 2} for i in range(12)]
    rows.append({"a": 1, "b": 0, "z": 1})
    pl.DataFrame(rows).write_csv(tmp_path / "d.csv")
    (tmp_path / "r.toml").write_text(lw.Rule("cosine", 0.01).to_toml())
    asked = (tmp_path / "d.csv", "--output-column", "z", "--rule", tmp_path / "r.toml")
    for command in ("calibrate", "audit"):
        page = tmp_path / f"{command}.html"
        found = told(capsys, command, *asked, "--report", page)["varied"]
        gone = {one["column"]: one["without_direction"] for one in found["variants"]}
        assert gone == {"a": 1, "b": 4}
        assert {"without a (1 decision is zero then and left out)"} <= set(
            table_of(page.read_text())
        )


def test_coordinates_of_a_file_are_varied_by_their_names(tmp_path, capsys):
    rows = people(23)
    frame = pl.DataFrame(rows).select("income", "debt", "z")
    frame.write_csv(tmp_path / "d.csv")
    (tmp_path / "r.toml").write_text(lw.Rule("linf", 2).to_toml())
    asked = ("calibrate", tmp_path / "d.csv", "--output-column", "z")
    found = told(capsys, *asked, "--rule", tmp_path / "r.toml")["varied"]
    same = {name: lw.Feature("number", tolerance=2) for name in ("income", "debt")}
    rule = lw.Rule(features=same, output_column="z")
    outputs = [row["z"] for row in rows]
    assert counts(found) == {
        (None, None): outcome(rule, rows, outputs),
        **{
            (name, how): outcome(changed(rule, name, how), rows, outputs)
            for name in same
            for how in ("ignored", "halved", "doubled")
        },
    }
    assert {one["tolerance"] for one in found["variants"]} == {None, 1.0, 4.0}
    made_up = told(capsys, *asked, "--metric", "linf", "--epsilon", 2)["varied"]
    assert counts(made_up) == counts(found)
    assert told(capsys, *asked)["varied"] is None  # nobody has said what is near


def test_many_columns_fold_and_what_does_nothing_is_named():
    rows = [{**{f"c{j}": i % (j + 2) for j in range(12)}, "same": 1, "z": i % 3} for i in range(80)]
    features = {name: lw.Feature("number", tolerance=1) for name in rows[0] if name != "z"}
    rule = lw.Rule(features=features, output_column="z")
    found = lw.vary(rule, rows, most_columns=13)
    assert "same" not in " ".join(line.text for line in lines_of(found))
    assert "same" in describe_omitted(found)[0].removeprefix(
        "No change of these makes a difference"
    )
    few = lw.vary(rule, rows, most_columns=2)
    assert describe_omitted(few)[-1].startswith(
        "Not tried, since there are too many columns: c2, c3,"
    )


def test_epsilon_is_part_of_a_tolerance_as_it_is_in_the_words_of_the_rule():
    rows = people(24)
    rule = replace(rule_of(rows, 24), epsilon=2.0)
    texts = [line.text for line in lines_of(lw.vary(rule, rows))]
    income = rule.features["income"].tolerance
    assert f"income: {income:g} instead of {2 * income:g}" in texts
    assert "debt: 10.25% instead of 21%" in texts
    bare = lw.vary(lw.Rule("linf", 0.16), [[0.1 * i] for i in range(9)], list("aabbaabba"))
    assert [line.text for line in lines_of(bare)][1:] == [
        "epsilon 0.08 instead of 0.16",
        "epsilon 0.32 instead of 0.16",
    ]
