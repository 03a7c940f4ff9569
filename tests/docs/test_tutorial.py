"""README, tutorial, how-to and reference pages: every block runs, and prints what is shown."""

import os
import shutil
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from likewise.cli import main
from tests.support import documentation_pages
from tests.support.brokers import KINDS, broker

pytestmark = pytest.mark.early

ROOT = Path(__file__).resolve().parents[2]
HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))
WRITTEN = ("rules", "monitors", "ledgers", "python", "service")
REFERENCE = [ROOT / "docs" / "reference" / f"{name}.md" for name in WRITTEN]


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Path:
    """The files that `likewise demo` leaves behind; some pages begin with them."""
    folder = tmp_path_factory.mktemp("demo")
    assert main(["demo", "--folder", str(folder)]) == 0
    return folder


def read_and_do(page: Path) -> None:
    done = documentation_pages.run(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"))
    assert any(step.expected for step, _ in done), "no block of the page shows its output"
    for step, printed in done:
        if step.expected is not None:
            missing = documentation_pages.differing(step.expected, printed)
            assert missing is None, f"{step.place} shows\n{missing}\nand was printed\n{printed}"
    shown = [(step.expected, printed) for step, printed in done if step.expected is not None]
    assert documentation_pages.same_hashes(shown), "one hash on the page was two in the run"


def test_every_page_with_examples_is_run():
    docs = ROOT / "docs"
    shown = {
        page
        for page in docs.rglob("*.md")
        if any(documentation_pages.steps(page.name, page.read_text("utf-8")))
    }
    run_elsewhere = {docs / "tutorial.md", *(docs / "indexes").glob("*.md")}
    not_run = shown - run_elsewhere - {*PAGES}
    assert not_run == {docs / "reference" / "command-line.md"}  # its examples are of any file


@pytest.mark.long
def test_tutorial_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    read_and_do(ROOT / "docs" / "tutorial.md")


PAGES = [ROOT / "README.md", ROOT / "docs" / "faq.md", *HOW_TO, *REFERENCE]


STREAMS = "watch-streams"
"""The page that reads from servers, whose addresses it finds in the environment."""


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_page_prints_what_it_says(page, demo, tmp_path, monkeypatch, tmp_path_factory):
    for given in (*demo.glob("likewise-demo.*"), ROOT / "docs" / "verify_ledger.py"):
        shutil.copy(given, tmp_path)
    monkeypatch.chdir(tmp_path)
    if page.stem != STREAMS:
        read_and_do(page)
        return
    with ExitStack() as stack:
        for kind in KINDS:
            running = stack.enter_context(broker(kind, tmp_path_factory.mktemp(kind)))
            address = getattr(running, "brokers", None) or f"127.0.0.1:{running.port}"
            monkeypatch.setenv(kind.upper(), address)
        stack.callback(_end_watcher, tmp_path / "watch.pid")
        read_and_do(page)


def _end_watcher(noted: Path) -> None:
    """A page that fails half way leaves its watcher running."""
    if noted.exists():
        pid = noted.read_text().strip()
        command = Path("/proc") / pid / "cmdline"
        if command.exists() and b"likewise" in command.read_bytes():
            os.kill(int(pid), signal.SIGKILL)
