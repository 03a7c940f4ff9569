"""Chromium for the pages, driven by Playwright, which fails a test on anything that complains."""

import os

import pytest

from tests.conftest import NO_BROWSER
from tests.pages.looking import Looker
from tests.support.browser import find


@pytest.fixture(scope="module")  # Playwright keeps a running event loop while it is there
def chromium():
    """Debian's Chromium; where there is none, a skip, or where it is required a failure."""
    program = find()
    if program is None:
        if os.environ.get("LIKEWISE_BROWSER") == "required":
            pytest.fail(NO_BROWSER)
        pytest.skip(NO_BROWSER)
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            args=[
                *("--no-sandbox", "--disable-dev-shm-usage"),
                "--host-resolver-rules=MAP rebound.example 127.0.0.1",
            ],
        )
        yield browser
        browser.close()


@pytest.fixture
def looker(chromium):
    """Opens pages; at the end nothing may have complained."""
    looker = Looker(chromium)
    yield looker
    looker.close()
    assert looker.complaints == []
