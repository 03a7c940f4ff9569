"""Verdict lines that wait for their target do not tell of what was erased meanwhile."""

import json

import pytest

from likewise.errors import Unreachable
from likewise.sources import sinks
from likewise.sources.follower import Follower
from likewise.sources.judge_messages import StreamJudge, make_binder
from likewise.sources.protocol import PollResult, Record
from likewise.sources.sinks import StreamSink
from tests.sources.streaming import Told, bodies, opened


class Once:
    """A source that gives its messages and ends."""

    def __init__(self, messages):
        self._records = [Record("s", i + 1, body) for i, body in enumerate(messages)]

    def owns(self, name):
        return name == "s"

    def seek(self, positions):
        """From the start."""

    def poll(self, most, seconds):
        return PollResult(self._records, ended=True)


class Away(Told):
    """A target that is away at first; meanwhile something is erased."""

    def __init__(self, meanwhile):
        super().__init__()
        self._meanwhile = meanwhile

    def send(self, lines):
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            meanwhile()
            raise Unreachable("away")
        super().send(lines)


@pytest.mark.parametrize("key", ["secret", None])
def test_lines_that_waited_tell_nothing_of_erased_decisions(tmp_path, monkeypatch, key):
    monkeypatch.setattr(sinks, "_FIRST_PAUSE", 0.0)
    ids = ("a", "secret", "c", "d")
    sent = [{"id": one, "a": i / 8, "b": 0.0, "z": "yn"[i % 2]} for i, one in enumerate(ids)]
    with opened(tmp_path / "ledger") as monitor:
        target = Away(lambda: key and monitor.erase(key=key))
        follower = Follower(
            Once(bodies(sent)),
            StreamJudge(monitor, make_binder(monitor.rule)),
            StreamSink(target, None),
            tell=lambda line: None,
            format="json",
        )
        follower.run()
    assert [one["row"] for one in target] == [0, 1, 2, 3]
    assert [one["position"] for one in target] == [1, 2, 3, 4]
    assert [len(one["witnesses"]) for one in target] == [0, 1, 1, 2]
    distances = [one["input_distance"] for line in target for one in line["witnesses"]]
    if key is None:
        assert distances.count(None) == 0
    else:
        assert "secret" not in json.dumps(target)
        assert distances.count(None) == 2 and target[2]["witnesses"][0]["row"] == 1
