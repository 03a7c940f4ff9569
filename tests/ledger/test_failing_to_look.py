"""A failure to look is raised; it is not an answer to whether the ledger was altered."""

import errno
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import likewise as lw
from likewise.errors import CannotRead
from tests.support.commands import COMMAND, likewise

RULE = lw.Rule("linf", 0.1)
RECORDS = "000000000000.rows"


def make(folder):
    with lw.open(folder, RULE) as monitor:
        for i in range(50):
            monitor.observe([0.1 * (i % 7)], i % 3, key=f"k{i}")
    return folder


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path / "ledger")


class NoFiles:
    """No file can be opened in here."""

    def __enter__(self):
        self._limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(int(one.name) for one in Path("/proc/self/fd").iterdir())
        self._held = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 2, self._limits[1]))
        while True:
            try:
                self._held.append(os.open(os.devnull, os.O_RDONLY))
            except OSError as error:
                assert error.errno == errno.EMFILE
                return self

    def __exit__(self, *_):
        for one in self._held:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, self._limits)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_without_file_descriptors_verify_fails_and_does_not_answer(folder):
    with lw.open(folder) as monitor, lw.Ledger(folder) as ledger:
        assert monitor.ledger.verify().ok and ledger.verify().ok
        for one in (monitor.ledger, ledger):
            with NoFiles(), pytest.raises(CannotRead):
                one.verify()
        with NoFiles(), pytest.raises(CannotRead):
            lw.Ledger(folder)
        assert monitor.ledger.verify().ok and ledger.verify().ok
        assert monitor.observe([0.1], 1).row == 50
    with NoFiles(), pytest.raises(lw.errors.BadFile):
        lw.open(folder)
    with lw.open(folder) as monitor:
        assert monitor.rows == 51 and monitor.ledger.verify().ok


def test_closed_ledger_gives_no_answer(folder):
    ledger = lw.Ledger(folder)
    ledger.close()
    with pytest.raises(CannotRead):
        ledger.verify()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to be root, to become nobody")
@pytest.mark.parametrize("name", [RECORDS, "lock", "ledger.sqlite", "."])
def test_file_that_may_not_be_read_is_no_alteration(name):
    place = Path(tempfile.mkdtemp())
    try:
        place.chmod(0o755)
        folder = make(place / "ledger")
        folder.chmod(0o777)
        for path in folder.iterdir():
            path.chmod(0o666)
        (folder / name).chmod(0)
        os.seteuid(65534)
        try:
            with pytest.raises(CannotRead), lw.Ledger(folder) as ledger:
                ledger.verify()
            with pytest.raises(lw.errors.BadFile):
                lw.open(folder)
        finally:
            os.seteuid(0)
        (folder / name).chmod(0o777)
        with lw.Ledger(folder) as ledger:
            assert ledger.verify().ok
    finally:
        shutil.rmtree(place)


PROGRAM = """
import sys
import likewise as lw
from likewise.errors import CannotRead
try:
    with lw.Ledger(sys.argv[1]) as ledger:
        print("answered", ledger.verify().ok)
except CannotRead:
    print("raised")
"""
STRACE = shutil.which("strace")


def under_strace(log, injected, *command):
    return subprocess.run(
        [
            STRACE,
            "-f",
            "-qq",
            "-o",
            str(log),
            "-e",
            "trace=pread64,read,openat",
            *injected,
            *command,
        ],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def tracing(tmp_path_factory):
    if STRACE is None:
        pytest.skip("needs strace")
    log = tmp_path_factory.mktemp("log") / "log"
    if under_strace(log, [], "true").returncode != 0:
        pytest.skip("needs the right to trace")
    return log


@pytest.mark.parametrize("error", ["EIO", "ENOMEM", "EACCES", "ENFILE"])
@pytest.mark.parametrize("name", [RECORDS, "ledger.sqlite"])
def test_system_that_fails_is_no_alteration(folder, tracing, name, error):
    call = "openat" if error in ("EACCES", "ENFILE") else "read,pread64"
    injected = ["-P", str(folder / name), "-e", f"inject={call}:error={error}"]
    done = under_strace(tracing, injected, sys.executable, "-c", PROGRAM, str(folder))
    assert re.search(r"\(INJECTED\)", tracing.read_text()), done.stderr
    assert done.stdout == "raised\n", (done.stdout, done.stderr)
    with lw.Ledger(folder) as ledger:
        assert ledger.verify().ok


def test_system_that_is_only_watched_gives_an_answer(folder, tracing):
    done = under_strace(tracing, [], sys.executable, "-c", PROGRAM, str(folder))
    assert done.stdout == "answered True\n", done.stderr


@pytest.mark.long
def test_command_tells_a_failure_from_an_alteration(folder, tracing):
    injected = ["-P", str(folder / RECORDS), "-e", "inject=openat:error=EIO"]
    done = under_strace(tracing, injected, *COMMAND, "verify", str(folder))
    assert done.returncode == 2 and "says nothing about what is in it" in done.stderr, done
    likewise("verify", folder)
    content = bytearray((folder / RECORDS).read_bytes())
    content[100] ^= 1
    (folder / RECORDS).write_bytes(content)
    assert "not verified" in likewise("verify", folder, code=3).stdout


@pytest.mark.parametrize("damage", ["missing", "cut", "a folder"])
def test_file_of_records_that_is_not_there_is_an_alteration(folder, damage):
    path = folder / RECORDS
    with lw.Ledger(folder) as ledger:
        if damage == "cut":
            os.truncate(path, 200)
        else:
            path.unlink()
        if damage == "a folder":
            path.mkdir()
        found = ledger.verify()
        assert not found.ok and RECORDS in found.problem
    with pytest.raises(lw.errors.BadFile) as told:
        lw.Ledger(folder)
    assert not isinstance(told.value, CannotRead)
    likewise("verify", folder, code=3)
