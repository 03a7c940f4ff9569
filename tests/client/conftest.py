"""A service of its own for each test, and clients that do not wait long before they ask again."""

import pytest

from tests.support.served_monitors import Serving


@pytest.fixture
def no_pauses(monkeypatch):
    for name in ("client.exchange._PAUSE", "queueing.delivering._FIRST_PAUSE"):
        monkeypatch.setattr(f"likewise.{name}", 0.001)
    for name in ("client.exchange._LONGEST", "queueing.delivering._LONGEST_PAUSE"):
        monkeypatch.setattr(f"likewise.{name}", 0.02)


@pytest.fixture
def serving():
    server = Serving()
    yield server
    server.close()
