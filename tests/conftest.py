"""Shared settings of the tests.

Helpers are imported from the folder of the project: `from tests.oracle import Oracle`.
Hypothesis runs the `quick` profile; `pytest --hypothesis-profile=thorough` runs every property
forty times as long (see `strategies.examples`).
"""

import gc
import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

from likewise.indexes import insertion, live
from tests.browser import Browser, find

PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=50, **PATIENT)
settings.register_profile("thorough", max_examples=2_000, **PATIENT)
settings.load_profile("quick")

# Where the package dd was built without CUDD (it has wheels for some machines only), that index
# cannot be tested; everything else can.
NO_CUDD = find_spec("dd") is None or find_spec("dd.cudd") is None

# torch has an environment of its own, whose recipe says so: there a missing torch is an error.
NO_TORCH = find_spec("torch") is None and os.environ.get("LIKEWISE_TORCH") != "required"


def pytest_collection_modifyitems(items):
    for item in items:
        if NO_TORCH and item.get_closest_marker("torch"):
            item.add_marker(
                pytest.mark.skip(reason="torch is not installed here; `make test-torch` runs this")
            )
        if NO_CUDD and "bdd" in item.nodeid:
            item.add_marker(pytest.mark.skip(reason="the package dd has no CUDD here"))


# Threads share out a batch of thousands. Here they share out hundreds, so that short streams, which
# an oracle can follow, are judged by several of them.
live._LEAST_ROUTED = live._LEAST_SEARCHED = insertion._LEAST_ROWS = 256


def pytest_collection_finish():
    gc.freeze()  # packages and thousands of tests stay; the collector need not look at them again


NO_BROWSER = (
    "no chromium here, so no page was opened in a browser: apt install chromium, or set"
    " LIKEWISE_CHROMIUM to one"
)


def pytest_terminal_summary(terminalreporter):
    skipped = terminalreporter.stats.get("skipped", [])
    if any(NO_BROWSER in str(one.longrepr) for one in skipped):
        terminalreporter.write_line(NO_BROWSER)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Headless Chromium; where there is none, a skip, or where it is required a failure."""
    program = find()
    if program is None:
        if os.environ.get("LIKEWISE_BROWSER") == "required":
            pytest.fail(NO_BROWSER)
        pytest.skip(NO_BROWSER)
    opened = Browser(program)
    yield opened
    opened.close()
