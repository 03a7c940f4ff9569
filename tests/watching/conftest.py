"""Watchers of these tests wait for verdicts as long as it takes, however busy the machine is.

How long a caller waits by default is tested in tests/contracts/test_delivery.py.
"""

import pytest

from likewise.watching.settings import WAIT_SECONDS, WatchSettings

PATIENT_SECONDS = 20.0


@pytest.fixture(autouse=True)
def patient_watchers(monkeypatch):
    """Replace the default of `wait_seconds`."""
    check = WatchSettings.__post_init__

    def wait_longer(self):
        check(self)
        if self.wait_seconds == WAIT_SECONDS:
            object.__setattr__(self, "wait_seconds", PATIENT_SECONDS)

    monkeypatch.setattr(WatchSettings, "__post_init__", wait_longer)
