"""What takes longer the longer the history is, or the more witnesses there are, leaves the loop.

Each test holds such a piece of work until /healthz has answered: on the event loop it never could.
"""

import asyncio
import json
import threading

import numpy as np
import pytest

from likewise.monitor.readers.protocol import Decision
from likewise.service import served_monitor as hosting
from likewise.service.routes import decisions
from likewise.service.served_monitor import ServedMonitor
from tests.service.asgi_calls import call, serving

ONE = b'{"x":[0.5],"z":"b"}'
MANY = json.dumps({"x": [[0.5]] * 5, "z": ["b"] * 5}).encode()
HELD = {
    "judging of a stream": ("stream", ONE, "core", "observe_each"),
    "judging of one decision": ("observe", ONE, "core", "observe_each"),
    "checking": ("check", ONE, "monitor", "check"),
    "judging of a batch": ("batch", MANY, "monitor", "observe_many"),
    "answer of a stream": ("stream", ONE, ServedMonitor, "encode_verdict"),
    "answer of one decision": ("observe", ONE, ServedMonitor, "encode_verdict"),
    "answer of a check": ("check", ONE, ServedMonitor, "encode_verdict"),
    "answer of a batch": ("batch", MANY, decisions, "encode_batch"),
    "ring after a stream": ("stream", ONE, hosting, "trim_verdict"),
    "ring after one decision": ("observe", ONE, hosting, "trim_verdict"),
    "ring after a batch": ("batch", MANY, hosting, "trim_verdicts"),
}


class Held:
    """A function that waits until it is let go of."""

    def __init__(self, function):
        self._function = function
        self.begun, self.let_go = threading.Event(), threading.Event()

    def __call__(self, *given, **named):
        self.begun.set()
        assert self.let_go.wait(10), "nobody else was answered meanwhile"
        return self._function(*given, **named)

    def __get__(self, one, _):  # as a method
        return lambda *given, **named: self(one, *given, **named)


@pytest.mark.parametrize("what", HELD)
def test_health_is_answered_during(what, tmp_path, monkeypatch):
    verb, body, owner, name = HELD[what]

    async def run():
        async with serving(tmp_path) as app:
            served = app.service.monitors["default"]
            x = np.full((500, 1), 0.5)
            await served.observe_many(
                len(x), lambda: served.monitor.observe_many(x, ["a"] * len(x))
            )
            with monkeypatch.context() as slow:  # so that all wait from now on
                slow.setattr(hosting, "_SLOW", 0.0)
                for _ in range(2):
                    await call(app, "POST", "/v1/monitors/default/observe", b'{"x":[9.0],"z":"a"}')
            monitor = served.monitor
            place = {"monitor": monitor, "core": monitor.core}.get(owner, owner)
            held = Held(getattr(place, name))
            monkeypatch.setattr(place, name, held)
            asked = asyncio.create_task(call(app, "POST", f"/v1/monitors/default/{verb}", body))
            while not held.begun.is_set():
                await asyncio.sleep(0.001)
            assert (await call(app, "GET", "/healthz")).status == 200
            held.let_go.set()
            answer = await asked
            assert answer.status == 200 and f'"count":{len(x)}' in answer.body.decode()
            monkeypatch.undo()

    asyncio.run(run())


def test_verdicts_of_a_long_batch_are_told_in_order_and_others_get_their_turn(tmp_path):
    async def run():
        async with serving(tmp_path) as app:
            served = app.service.monitors["default"]
            told, turns = [], []
            served.listeners.append(lambda _, verdict: told.append(verdict.row))

            async def others():
                while len(told) < 1999:
                    turns.append(len(told))
                    await asyncio.sleep(0)

            turn = asyncio.create_task(others())
            x, z = np.arange(1000).repeat(2)[:, None].astype(float), list("ab") * 1000
            await served.observe_many(2000, lambda: served.monitor.observe_many(x, z))
            assert told == list(range(1, 2000, 2))
            told.extend(range(999))
            await turn
            assert max(np.diff(turns)) <= hosting._VERDICTS_PER_TURN

    asyncio.run(run())


FAST, SLOW = 1e9, 0.0


@pytest.mark.parametrize(
    ("paces", "judged_now"),
    [
        ((FAST, SLOW, SLOW, FAST, FAST, FAST, FAST), (1, 1, 1, 0, 0, 0, 1)),
        ((SLOW, FAST, FAST, FAST, SLOW, FAST), (1, 1, 1, 1, 1, 1)),
    ],
    ids=["two close to each other", "two apart"],
)
def test_after_slow_decisions_the_next_ones_leave_the_loop(
    paces, judged_now, tmp_path, monkeypatch
):
    monkeypatch.setattr(hosting, "_ASIDE", 3)
    monkeypatch.setattr(hosting, "_CLOSE", 2)

    async def run():
        async with serving(tmp_path) as app:
            served = app.service.monitors["default"]
            now = []
            for seconds in paces:
                monkeypatch.setattr(hosting, "_SLOW", seconds)
                now.append(served._can_judge_now)
                await served.observe(Decision([0.5], "a"))
                while served._queue_task is not None:
                    await asyncio.sleep(0)
            assert now == [bool(one) for one in judged_now]

    asyncio.run(run())
