"""The demo prints what is true of its stream."""

import contextlib
import io
import re
import subprocess
import sys

import numpy as np
import pytest

import likewise as lw
from likewise.cli import demo


def likewise(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "likewise", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def done():
    return likewise("demo")


@pytest.fixture(scope="module")
def page(done):
    return " ".join(done.stdout.split())


@pytest.fixture(scope="module")
def stream():
    return demo.stream()


def contradictions(applicants, answers):
    """For each decision its witnesses and their distances, by looking at the whole past."""
    weights = np.array([1 / tolerance for tolerance in demo.TOLERANCES])
    codes = np.array([answer == "approved" for answer in answers])
    found = []
    for i, x in enumerate(applicants):
        distances = (weights * np.abs(applicants[:i] - x)).max(axis=1, initial=0.0)
        rows = np.flatnonzero((distances <= 1 + 1e-9) & (codes[:i] != codes[i]))
        found.append((rows, distances[rows]))
    return found


@pytest.fixture(scope="module")
def truth(stream):
    return contradictions(stream.applicants, stream.answers)


def violations(found):
    return np.array([len(rows) > 0 for rows, _ in found])


def test_page_counts_every_violation(page, truth):
    decisions = int(violations(truth).sum())
    pairs = sum(len(rows) for rows, _ in truth)
    assert decisions > 0
    assert f"{decisions:,} decisions contradict an earlier one, in {pairs:,} pairs" in page


def test_page_counts_violations_stretch_by_stretch(done, truth):
    lines = re.findall(r"rows +([\d,]+) to +([\d,]+) +(\d+)", done.stdout)
    covered = 0
    for first, last, count in lines:
        start, stop = int(first.replace(",", "")), int(last.replace(",", "")) + 1
        assert start == covered
        assert int(count) == violations(truth)[start:stop].sum()
        covered = stop
    assert covered == demo.DECISIONS


def test_page_tells_the_rate_before_and_after(page, stream, truth):
    found = violations(truth)
    alone = violations(contradictions(stream.applicants, stream.model))
    harbour = stream.branches == demo.HARBOUR
    after = np.arange(demo.DECISIONS) >= demo.PLANTED
    shares = [
        found[~after].mean(),
        found[after].mean(),
        found[after & harbour].mean(),
        found[after & ~harbour].mean(),
        alone[after].mean(),
    ]
    told = re.search(
        r"Before row .*? (\S+)% of .*? from there on (\S+)%"
        r" \((\S+)% at Harbour, (\S+)% elsewhere\).*?model: (\S+)%\.",
        page,
    )
    assert told, page
    assert list(told.groups()) == [f"{100 * share:.1f}" for share in shares]


def test_planted_unfairness_shows(truth):
    found = violations(truth)
    assert found[demo.PLANTED :].mean() > 3 * found[: demo.PLANTED].mean()


def test_pairs_are_the_nearest_ones(done, stream, truth):
    nearest = sorted(
        (distances.min(), i, int(rows[distances.argmin()]))
        for i, (rows, distances) in enumerate(truth)
        if len(rows)
    )[:3]
    cells = {
        name: re.search(rf"^  {name} +(.*)$", done.stdout, re.MULTILINE)[1].split()
        for name in ("row", "distance", "answer", *demo.COLUMNS)
    }
    rows = [row for _, later, earlier in nearest for row in (earlier, later)]
    assert cells["row"] == [f"{row:,}" for row in rows]
    assert cells["distance"] == [f"{distance:.2f}" for distance, _, _ in nearest]
    assert cells["answer"] == [stream.answers[row] for row in rows]
    for j, column in enumerate(demo.COLUMNS):
        assert cells[column] == [f"{stream.applicants[row, j]:,.0f}" for row in rows]


def test_page_is_plain_and_fits_a_terminal(done):
    assert done.stdout.isascii()
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stderr.strip() in ("", "compiling, once per machine ...")


def test_lines_to_try_next_run(done):
    start = done.stdout.index("  import likewise")
    lines = done.stdout[start:].splitlines()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec("\n".join(line.strip() for line in lines), {})
    assert printed.getvalue().startswith("True [0]\nindex")


def test_version_is_told_without_loading_numpy():
    assert likewise("--version").stdout == f"likewise {lw.__version__}\n"
    code = (
        "import sys\n"
        "from likewise.cli import main\n"
        "try:\n"
        "    main(['--version'])\n"
        "finally:\n"
        "    assert not {'numpy', 'numba'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120, check=True)
