"""The browser in which reports are opened."""

import os
from collections.abc import Iterator

import pytest

from browser import Browser, find

MISSING = (
    "no chromium here, so no report was opened in a browser: apt install chromium, or set"
    " LIKEWISE_CHROMIUM to one"
)


def pytest_terminal_summary(terminalreporter):
    if find() is None:
        terminalreporter.write_line(MISSING)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Headless Chromium; where there is none, a skip, or where it is required a failure."""
    program = find()
    if program is None:
        if os.environ.get("LIKEWISE_BROWSER") == "required":
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    opened = Browser(program)
    yield opened
    opened.close()
