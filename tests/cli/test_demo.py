"""The demo tells what is true of its stream, and leaves behind what it says."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import likewise as lw
from likewise.cli import demo, loans
from likewise.reports.words import percent

WITHOUT_SKLEARN = """
import sys
sys.modules["sklearn"] = None  # as if it were not installed
from likewise.cli.demo import run
sys.exit(run())
"""


def python(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **environment},
    )


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


def test_decisions_are_the_models_own(decisions):
    assert decisions == loans.stream()
    assert len({row["application"] for row in decisions}) == loans.DECISIONS
    assert {row["decision"] for row in decisions} == {"approved", "declined"}


def test_demo_counts_every_violation(said, truth):
    flagged = len({later for later, _ in truth})
    assert flagged > 0
    share = percent(flagged / loans.DECISIONS)
    assert f"{flagged:,} of {loans.DECISIONS:,} decisions ({share}) contradict" in said


def test_demo_tells_the_rate_before_and_after_the_update(said, truth):
    flagged = {later for later, _ in truth}
    before = sum(row < loans.UPDATED for row in flagged) / loans.UPDATED
    after = sum(row >= loans.UPDATED for row in flagged) / (loans.DECISIONS - loans.UPDATED)
    assert f"it was {percent(before)} of the decisions, since then {percent(after)}." in said
    assert after > 3 * before, "what was planted shows"


def test_demo_tells_who_got_less(said, decisions, truth):
    lost = {"born abroad": 0, "born here": 0}
    for later, earlier in truth:
        one, other = decisions[later], decisions[earlier]
        if one["birthplace"] != other["birthplace"]:
            loser = one if one["decision"] == "declined" else other
            lost[loser["birthplace"]] += 1
    assert (
        f"By birthplace: born abroad got less than a like born here in {lost['born abroad']:,}"
        f" pairs, the other way round in {lost['born here']:,}." in said
    )
    assert lost["born abroad"] > 2 * lost["born here"], "what was planted shows"


def test_update_is_on_the_day_that_is_told(said, decisions):
    assert decisions[loans.UPDATED]["applied"] == loans.UPDATED_ON.isoformat()
    assert decisions[loans.UPDATED - 1]["applied"] < loans.UPDATED_ON.isoformat()
    assert f"on {loans.UPDATED_ON} the model is trained anew" in said


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


def test_three_commands_to_try_next_are_printed(done):
    lines = [line.strip() for line in done.stdout.split("Try next")[1].strip().splitlines()]
    assert [line.split()[:3] for line in lines] == [
        ["likewise", command, demo.DATA] for command in ("init", "audit", "calibrate")
    ]


def test_demo_in_a_folder_that_is_not_there_says_so(tmp_path):
    code = "import sys, pathlib; from likewise.cli.demo import run; "
    done = python(tmp_path, "-c", code + "sys.exit(run(pathlib.Path('nowhere')))")
    assert done.returncode == 2
    assert "cannot write to" in done.stderr and "Traceback" not in done.stderr


def test_demo_without_scikit_learn_says_how_to_install_it(tmp_path):
    done = python(tmp_path, "-c", WITHOUT_SKLEARN)
    assert done.returncode == 2
    assert "pip install 'likewise[demo]'" in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_version_is_told_without_loading_numpy():
    code = (
        "import sys\n"
        "from likewise.cli import main\n"
        "try:\n"
        "    main(['--version'])\n"
        "finally:\n"
        "    assert not {'numpy', 'numba'} & set(sys.modules)"
    )
    done = python(Path.cwd(), "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"likewise {lw.__version__}\n"
