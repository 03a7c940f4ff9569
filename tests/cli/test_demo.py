"""The demo tells what is true of its stream, and leaves behind what it says."""

import csv
import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import likewise as lw
from likewise.auditing import demo_loans
from likewise.cli import demo, main
from likewise.tables.printing import percent
from tests.support.programs import run_python

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("demo"), pytest.mark.early]


def python(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_python(*arguments, code=None, cwd=folder, env={**os.environ, **environment})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def done(folder):
    done = python(folder, "-m", "likewise", "demo")
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def said(done):
    return " ".join(done.stdout.split())


@pytest.fixture(scope="module")
def decisions(done, folder):
    with (folder / demo.DATA).open(newline="", encoding="utf-8") as file:
        return [
            {name: int(one) if one.isdecimal() else one for name, one in row.items()}
            for row in csv.DictReader(file)
        ]


@pytest.fixture(scope="module")
def rule(done, folder):
    return lw.Rule.from_toml((folder / demo.RULE_FILE).read_text(encoding="utf-8"))


def near(a, b):
    """Likeness, as the rule's text says it."""
    return (
        a["purpose"] == b["purpose"]
        and max(a["income"], b["income"]) <= 1.05 * min(a["income"], b["income"]) * (1 + 1e-9)
        and abs(a["debt"] - b["debt"]) <= 1_000
        and abs(a["age"] - b["age"]) <= 5
        and abs(a["months_employed"] - b["months_employed"]) <= 12
    )


@pytest.fixture(scope="module")
def truth(decisions):
    """Every contradicting pair (later, earlier), by looking at all of the past."""
    by_purpose = {}
    pairs = []
    for i, one in enumerate(decisions):
        past = by_purpose.setdefault(one["purpose"], [])
        pairs += [
            (i, j)
            for j in past
            if decisions[j]["decision"] != one["decision"] and near(one, decisions[j])
        ]
        past.append(i)
    return pairs


@pytest.mark.long
def test_decisions_are_the_models_own(decisions):
    assert decisions == demo_loans.generate_decisions()
    assert len({row["application"] for row in decisions}) == demo_loans.DECISIONS
    assert {row["decision"] for row in decisions} == {"approved", "declined"}


@pytest.fixture(scope="module")
def comparable(decisions):
    """The decisions with an earlier similar case of any answer; similar cases have one purpose."""
    by_purpose, found = {}, set()
    for i, one in enumerate(decisions):
        past = by_purpose.setdefault(one["purpose"], [])
        if any(near(one, other) for other in past):
            found.add(i)
        past.append(one)
    return found


@pytest.mark.long
def test_demo_counts_every_violation_among_the_comparable(said, truth, comparable):
    flagged = {later for later, _ in truth}
    assert flagged < comparable
    share, of_all = len(flagged) / len(comparable), len(flagged) / demo_loans.DECISIONS
    assert (percent(share), percent(of_all)) == ("12.2%", "5.3%")
    assert (
        f"12.2% of the comparable decisions ({len(flagged):,} of {len(comparable):,}) contradict an"
        f" earlier one about a similar case; that is 5.3% of all {demo_loans.DECISIONS:,}." in said
    )


def test_demo_counts_decisions_in_any_pair(said, truth):
    either = {row for pair in truth for row in pair}
    assert len(either) == 857
    assert "857 of 8,000 decisions (10.7%) belong to at least one contradicting pair" in said


def test_demo_tells_the_rate_before_and_after_the_update(said, truth, comparable):
    flagged = {later for later, _ in truth}
    rates = []
    for part in (range(demo_loans.UPDATED), range(demo_loans.UPDATED, demo_loans.DECISIONS)):
        rates.append(sum(row in flagged for row in part) / sum(row in comparable for row in part))
    before, after = rates
    words = f"{percent(before)} of the comparable decisions contradicted an earlier one"
    assert f"Before the model was retrained, {words}; since then {percent(after)}." in said
    assert after > 2 * before, "what was planted shows"


def test_demo_tells_who_got_less(said, decisions, truth):
    lost = {"born abroad": 0, "born here": 0}
    for later, earlier in truth:
        one, other = decisions[later], decisions[earlier]
        if one["birthplace"] != other["birthplace"]:
            loser = one if one["decision"] == "declined" else other
            lost[loser["birthplace"]] += 1
    told = (
        "By birthplace: born abroad got the favourable answer less often than similar born here, by"
    )
    assert f"{told} 7.0 percentage points (chance alone: -1.8 to 2.0)." in said
    assert lost["born abroad"] > 2 * lost["born here"], "what was planted shows"


def test_update_is_on_the_day_that_is_told(said, decisions):
    assert decisions[demo_loans.UPDATED]["applied"] == demo_loans.UPDATED_ON.isoformat()
    assert decisions[demo_loans.UPDATED - 1]["applied"] < demo_loans.UPDATED_ON.isoformat()
    assert f"on {demo_loans.UPDATED_ON} the model is retrained" in said


def test_pair_is_a_true_one(done, decisions, truth):
    later, earlier = map(int, re.search(r"row (\d+) contradicts row (\d+)", done.stdout).groups())
    assert (later, earlier) in truth
    shown = done.stdout[done.stdout.index("The clearest pair") :]
    for name in ("income", "debt", "age", "months_employed", "purpose", "birthplace", "decision"):
        mine, other = decisions[later][name], decisions[earlier][name]
        mark = r"\s+\*" if mine != other else ""
        assert re.search(rf"^  {name}\s+{mine}\s+{other}{mark}$", shown, re.MULTILINE), name


def test_demo_prints_plain_text_that_fits_a_terminal(done):
    assert done.stdout.isascii()
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stderr == "" or re.fullmatch(
        r"On first use .* a minute or so \.\.\.\n+", done.stderr
    )


def test_demo_leaves_behind_what_it_says(done, folder, rule):
    files = {path.name for path in folder.iterdir()}
    assert files == {demo.REPORT, demo.DATA, demo.RULE_FILE}
    assert all(name in done.stdout for name in files)
    page = (folder / demo.REPORT).read_text(encoding="utf-8")
    assert rule.fingerprint in page
    assert "svg" in page and "born abroad" in page


def test_rule_left_behind_finds_the_same_again(rule, decisions, truth):
    verdicts = lw.Monitor(rule).observe_many(decisions)
    assert verdicts.pairs == len(truth)


@pytest.mark.long
def test_changed_rule_is_not_replaced(done, folder, tmp_path):
    for name in (demo.DATA, demo.RULE_FILE):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    edited = (tmp_path / demo.RULE_FILE).read_text().replace("tolerance = 1000", "tolerance = 500")
    (tmp_path / demo.RULE_FILE).write_text(edited)
    again = python(tmp_path, "-m", "likewise", "demo")
    assert again.returncode == 0
    assert (tmp_path / demo.RULE_FILE).read_text() == edited
    own = tmp_path / "likewise-demo-new.toml"
    assert own.read_bytes() == (folder / demo.RULE_FILE).read_bytes()
    text = " ".join(again.stdout.split())
    assert f"{demo.RULE_FILE} was changed since it was written, so it was kept" in text
    assert f"audit {demo.DATA} --rule {own.name}" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [demo.DATA, demo.RULE_FILE, own.name, demo.REPORT]
    )


@pytest.mark.long
def test_demo_as_json_is_the_findings(truth, comparable, tmp_path):
    told = json.loads(python(tmp_path, "-m", "likewise", "demo", "--json").stdout)
    assert (told["rows"], told["with_earlier"]) == (demo_loans.DECISIONS, len(comparable))
    assert (told["pairs"], told["in_any_pair"], told["files"]) == (len(truth), 857, [])
    data = (tmp_path / demo.DATA).read_bytes()
    assert told["computed"]["sha256"] == hashlib.sha256(data).hexdigest()
    assert told["computed"]["command"] == "likewise demo --json"


def test_audit_of_what_the_demo_left_behind_finds_the_same(done, folder, capsys):
    arguments = ["audit", str(folder / demo.DATA), "--rule", str(folder / demo.RULE_FILE), "--json"]
    assert main([*arguments, "--time-column", "applied"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["violations"], told["in_any_pair"]) == (424, 857)


def test_three_commands_to_try_next_are_printed(done):
    lines = [line.strip() for line in done.stdout.split("Try next")[1].strip().splitlines()]
    assert [line.split()[:3] for line in lines] == [
        ["likewise", command, demo.DATA] for command in ("init", "audit", "calibrate")
    ]


@pytest.mark.long
def test_demo_in_a_folder_that_is_not_there_says_so(tmp_path):
    code = "import sys, pathlib; from likewise.cli.demo import run_demo; "
    done = python(tmp_path, "-c", code + "sys.exit(run_demo(pathlib.Path('nowhere')))")
    assert done.returncode == 2
    assert "cannot write to" in done.stderr and "Traceback" not in done.stderr


def test_the_demos_model_is_scikit_learns_logistic_regression():
    linear_model = pytest.importorskip("sklearn.linear_model")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    random = np.random.default_rng(3)
    people = demo_loans.Applicants(3_000, random)
    seen, told = people.to_columns(district=True), demo_loans.past_decisions(people, random)
    scale = preprocessing.StandardScaler().fit(seen)
    peer = linear_model.LogisticRegression(tol=1e-10, max_iter=1_000).fit(
        scale.transform(seen), told
    )
    ours = demo_loans.LogisticRegression().fit(seen, told)
    assert np.allclose(ours.weights[1:], peer.coef_[0], atol=1e-6)
    assert np.isclose(ours.weights[0], peer.intercept_[0], atol=1e-6)
    assert 0.2 < told.mean() < 0.8
