"""Shared settings of the tests.

Helpers are imported from the folder of the project: `from tests.support.oracle import Oracle`.
Hypothesis runs the `quick` profile, with the same examples everywhere and every time;
`pytest --hypothesis-profile=thorough` runs every property forty times as long, with new examples
(see `strategies.examples`).
"""

import gc
import os
from collections.abc import Iterator
from importlib.machinery import PathFinder
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

from likewise.search.indexes import live_tree
from tests.support.browser import Browser, find
from tests.support.pairwise import items_beyond_pairs

pytest_plugins = ["tests.support.golden_files", "tests.support.refusals"]

PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "database": None}
settings.register_profile("quick", max_examples=50, derandomize=True, **PATIENT)
settings.register_profile("thorough", max_examples=2_000, print_blob=True, **PATIENT)
settings.load_profile("quick")

# Where the package dd was built without CUDD (it has wheels for some machines only), that index
# cannot be tested; everything else can.
DD = find_spec("dd")
NO_CUDD = DD is None or PathFinder.find_spec("dd.cudd", DD.submodule_search_locations) is None

# torch has an environment of its own, whose recipe says so: there a missing torch is an error.
NO_TORCH = find_spec("torch") is None and os.environ.get("LIKEWISE_TORCH") != "required"


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items):
    for item in items_beyond_pairs(items):
        item.add_marker(pytest.mark.long)
    for item in items:
        if {"browser", "chromium"} & set(item.fixturenames):
            item.add_marker(pytest.mark.long)
            item.add_marker(pytest.mark.xdist_group("browser"))
        # One process runs a module, so that its fixtures and caches are made once.
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
        if NO_TORCH and item.get_closest_marker("torch"):
            item.add_marker(
                pytest.mark.skip(reason="torch is not installed here; `make test-torch` runs this")
            )
        if NO_CUDD and "bdd" in item.nodeid:
            item.add_marker(pytest.mark.skip(reason="the package dd has no CUDD here"))


class LongestFirst:
    """Has the tests that take longest begin first, whatever the random order of the others."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        items.sort(key=lambda item: item.get_closest_marker("early") is None)


def pytest_configure(config):
    config.pluginmanager.register(LongestFirst())


# Threads share out a batch of thousands. Here they share out hundreds, so that short streams, which
# an oracle can follow, are judged by several of them.
live_tree._LEAST_ROUTED = live_tree.LiveTree._least_searched = live_tree._LEAST_ROWS = 256


def pytest_collection_finish():
    gc.freeze()  # packages and thousands of tests stay; the collector need not look at them again
    gc.set_threshold(20_000, 20, 50)


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
