"""The browser in which reports are opened, and the data that is hardest to show."""

import os
from collections.abc import Iterator

import pytest

from browser import Browser, find


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Headless Chromium; where there is none, a skip, or where it is required a failure."""
    program = find()
    if program is None:
        why = "no chromium here: apt install chromium, or set LIKEWISE_CHROMIUM to a browser"
        if os.environ.get("LIKEWISE_BROWSER") == "required":
            pytest.fail(why)
        pytest.skip(why)
    opened = Browser(program)
    yield opened
    opened.close()
