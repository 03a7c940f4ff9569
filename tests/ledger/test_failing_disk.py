"""Every write and every fsync of a ledger fails in turn, or is the last thing that happens.

The system itself refuses them (strace injects the fault), so all of Python, SQLite and likewise is
what it is in use. In `make test` some of the calls are drawn; the slow tests take every one.
"""

import random
import re
import shutil
import subprocess

import pytest

from tests.ledger import fed, feeding

NAMES = ("pwrite64", "fdatasync", "fsync", "ftruncate", "fallocate", "unlink")
SYNCS = ("fsync", "fdatasync")
SYNCS_OF_OPENING = 3  # at least so many are made before the first decision
FEWEST = 150
"""At least so many calls are made by an undisturbed run."""


def _strace():
    """The command, or None where there is none that may trace."""
    found = shutil.which("strace")
    if found is None:
        return None
    works = subprocess.run([found, "-qq", "-o", "/dev/null", "true"], check=False).returncode == 0
    return found if works else None


STRACE = _strace()
pytestmark = pytest.mark.skipif(STRACE is None, reason="needs strace, and the right to trace")


def traced(log, *injected):
    faults = [word for one in injected for word in ("-e", f"inject={one}")]
    return [STRACE, "-f", "-qq", "-o", str(log), "-e", f"trace={','.join(NAMES)}", *faults]


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """The names of all calls of an undisturbed run, in order."""
    folder = tmp_path_factory.mktemp("whole")
    status, said, errors = fed.feed(folder / "ledger", *traced(folder / "log"))
    assert (status, said[-1:], errors) == (0, ["end"], "")
    assert fed.check(folder / "ledger", said) == fed.ENDS[-1]
    made = re.findall(r"^\d+ +(\w+)\(", (folder / "log").read_text(), re.MULTILINE)
    assert len(made) > FEWEST
    return made


def drawn(seed, calls, most):
    return sorted(random.Random(seed).sample(range(len(calls)), most))


def failed_once(tmp_path, calls, place, error):
    """One call fails, and the program asks again; whether anything had to be refused."""
    name, number = calls[place], calls[: place + 1].count(calls[place])
    folder, log = tmp_path / f"{place}", tmp_path / "log"
    fault = f"{name}:error={error}:when={number}"
    status, said, errors = fed.feed(folder, *traced(log, fault))
    assert (status, said[-1:], errors) == (0, ["end"], ""), (place, fault, said)
    assert log.read_text().count("(INJECTED)") == 1, (place, fault)
    assert fed.check(folder, said) == fed.ENDS[-1], (place, fault)
    shutil.rmtree(folder)
    return any(line.startswith("refused") for line in said)


def failed_for_good(tmp_path, calls, place, error):
    """From one call on, all fail; then the disk is mended and another process goes on."""
    folder, log = tmp_path / f"{place}", tmp_path / "log"
    faults = [f"{name}:error={error}:when={calls[:place].count(name) + 1}+" for name in NAMES]
    status, said, errors = fed.feed(folder, *traced(log, *faults))
    assert (status in (0, 3), errors) == (True, ""), (place, said)  # refusals, and no traceback
    assert "(INJECTED)" in log.read_text()
    return goes_on(folder, said)


def killed(tmp_path, calls, place):
    """A call is the last thing that the process does."""
    folder, log = tmp_path / f"{place}", tmp_path / "log"
    name, number = calls[place], calls[: place + 1].count(calls[place])
    fault = f"{name}:signal=SIGKILL:when={number}"
    status, said, _ = fed.feed(folder, *traced(log, fault))
    assert status not in (0, 3), (place, fault, said)
    assert "killed by SIGKILL" in log.read_text(), (place, fault)
    return goes_on(folder, said)


def goes_on(folder, said):
    """Check what is there, then have another process finish the work; rows that were there."""
    rows = fed.check(folder, said)
    status, said, errors = fed.feed(folder)
    assert (status, said[-1:], errors) == (0, ["end"], "")
    assert not any(line.startswith("refused") for line in said), said
    assert fed.check(folder, said) == fed.ENDS[-1]
    assert fed.traces(folder, feeding.ERASED) == []
    shutil.rmtree(folder)
    return rows


@pytest.mark.long
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_a_call_that_fails_once(tmp_path, calls, error):
    for place in drawn(error, calls, 4):
        failed_once(tmp_path, calls, place, error)


@pytest.mark.long
def test_a_disk_that_fails_from_some_call_on(tmp_path, calls):
    for place in drawn(1, calls, 4):
        failed_for_good(tmp_path, calls, place, "ENOSPC")


@pytest.mark.parametrize("place", [0, 1, 2, 3, 6])
def test_nothing_is_acknowledged_once_the_disk_cannot_be_forced(tmp_path, calls, place):
    """Writing works on, but whatever is forced to disk fails: what is read back proves nothing."""
    folder, log = tmp_path / "ledger", tmp_path / "log"
    opened = [name for name in calls if name in SYNCS][: SYNCS_OF_OPENING + place]
    faults = [f"{name}:error=EIO:when={opened.count(name) + 1}+" for name in SYNCS]
    status, said, errors = fed.feed(folder, *traced(log, *faults))
    assert (status, said[-1:], errors) == (3, ["gave up"], ""), said
    refused = next(i for i, line in enumerate(said) if line.startswith("refused"))
    assert not [line for line in said[refused:] if line.startswith("done")], said
    assert goes_on(folder, said[:refused]) in fed.ENDS


@pytest.mark.long
def test_a_call_that_is_the_last(tmp_path, calls):
    rows = {killed(tmp_path, calls, place) for place in drawn(2, calls, 5)}
    assert len(rows) > 1  # it was not always the same moment


@pytest.mark.slow
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_every_call_fails_once(tmp_path, calls, error):
    refused = [failed_once(tmp_path, calls, place, error) for place in range(len(calls))]
    assert sum(refused) > FEWEST // 3


@pytest.mark.slow
def test_the_disk_fails_from_every_call_on(tmp_path, calls):
    places = range(len(calls))
    rows = {failed_for_good(tmp_path, calls, place, "ENOSPC") for place in places}
    assert rows == set(fed.ENDS)


@pytest.mark.slow
def test_every_call_is_the_last(tmp_path, calls):
    rows = {killed(tmp_path, calls, place) for place in range(len(calls))}
    assert rows == set(fed.ENDS)
