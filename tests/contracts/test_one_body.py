"""The body of a verdict is equal whether the verdict is live, answered again, or read from disk."""

import http.client
import json
from contextlib import closing

import numpy as np
import pytest

import likewise as lw
from likewise.service.settings import Limits
from likewise.sources.follower import Follower
from likewise.sources.judge_messages import StreamJudge, make_binder
from likewise.sources.protocol import Record, make_poll_result
from likewise.sources.sinks import StreamSink
from likewise.verdict.verdict_body import write_body
from tests.support.commands import likewise
from tests.support.rule_texts import rule_text
from tests.support.served_monitors import Serving

KEPT, COUNT = 3, 60
X = np.random.default_rng(3).random((COUNT, 2)).round(2).tolist()
Z = np.random.default_rng(4).choice(["a", "b"], COUNT, p=[0.75, 0.25]).tolist()
KEYS = [f"k{i}" if i % 3 else None for i in range(COUNT)]
MODELS = [("old", None, "new")[i % 3] if i > 10 else None for i in range(COUNT)]
SETTINGS = {"witnesses": KEPT, "support": True, "burst": lw.Burst(last=20, alarm=2)}


@pytest.fixture(scope="module")
def server():
    with closing(Serving(Limits(skew_seconds=1e10, witnesses=KEPT, recent=4))) as server:
        yield server


def ask(server, method, path, body=None):
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
        headers = {"content-type": "application/json"}
        connection.request(method, path, body and json.dumps(body), headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        return json.loads(answer.read())


def events(server, name, count):
    """So many verdicts, from the ledger where they have left the ring."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
        connection.request("GET", f"/v1/monitors/{name}/events?after=0")
        answer, found = connection.getresponse(), []
        while len(found) < count:
            line = answer.readline()
            assert line and not line.startswith(b"event: gap"), found
            if line.startswith(b"data: "):
                found.append(json.loads(line[6:]))
        answer.close()
        return found


def decision(i):
    said = {"key": KEYS[i], "model": MODELS[i]}
    return {"x": X[i], "z": Z[i], **{name: one for name, one in said.items() if one is not None}}


def test_body_is_the_same_live_again_in_events_in_pages_and_from_the_ledger(server, tmp_path):
    monitor = lw.open(tmp_path / "ledger", lw.Rule("linf", 0.2), **SETTINGS)
    name = server.host(monitor, server.limits)
    path = f"/v1/monitors/{name}"
    live = [ask(server, "POST", f"{path}/observe", decision(i)) for i in range(30)]
    rest = range(30, COUNT)
    columns = {"x": [X[i] for i in rest], "z": [Z[i] for i in rest]}
    columns |= {"keys": [KEYS[i] for i in rest], "models": [MODELS[i] for i in rest]}
    live += ask(server, "POST", f"{path}/batch?verdicts=all", columns)["verdicts"]
    told = [one for one in live if one["violation"] or one["alarm"]]
    assert any(one["alarm"] and not one["violation"] for one in told)
    assert any("omitted_witnesses" in one for one in told) and any("model" in one for one in told)
    assert {one["comparable"] for one in live} == {True, False}
    assert events(server, name, len(told)) == told
    page = ask(server, "GET", f"{path}/verdicts?limit=1000")["verdicts"]
    beside = {"time", "output", "review"}
    assert [{key: one[key] for key in one if key not in beside} for one in page] == [
        one for one in live if one["violation"]
    ]
    keyed = [i for i in range(COUNT) if KEYS[i] is not None]
    for i in keyed:
        again = ask(server, "POST", f"{path}/observe", decision(i))
        assert again.pop("repeated") is True and again == live[i]
    with closing(lw.Ledger(tmp_path / "ledger")) as ledger:
        stored = [ledger.verdict_of(entry) for entry in ledger.entries()]
    assert [write_body(one, compared_with=False) for one in stored] == live
    server.service.monitors[name].close()
    del server.service.monitors[name]


def test_body_in_python_is_the_same_from_a_single_call_a_batch_and_the_ledger(tmp_path):
    rule = lw.Rule("linf", 0.2)
    with lw.open(tmp_path / "one", rule, **SETTINGS) as monitor:
        single = [
            monitor.observe(X[i], Z[i], key=KEYS[i], model=MODELS[i]).to_dict(KEPT)
            for i in range(COUNT)
        ]
    with lw.open(tmp_path / "many", rule, **SETTINGS) as monitor:
        batch = monitor.observe_many(X, Z, keys=KEYS, models=MODELS)
    assert batch.to_dicts(KEPT) == single
    for name in ("one", "many"):
        with closing(lw.Ledger(tmp_path / name)) as ledger:
            stored = [ledger.verdict_of(entry) for entry in ledger.entries()]
        assert [write_body(one) for one in stored] == [write_body(v, KEPT) for v in batch]


class Lines(list):
    """A target in memory that says which line it holds last."""

    name, knows_last_line = "memory", True

    def send(self, lines):
        self.extend(lines)

    def read_last_line(self):
        return self[-1] if self else None

    def close(self):
        """Nothing to let go of."""


class Messages:
    """A source that has all its records at once."""

    name = "test"

    def __init__(self, bodies):
        self._records = [Record("test", i + 1, body) for i, body in enumerate(bodies)]

    def owns(self, source):
        return source == "test"

    def seek(self, positions):
        behind = positions.get("test", 0)
        self._records = [one for one in self._records if one.position > behind]

    def poll(self, most, seconds):
        return make_poll_result(self._records, ended=True)

    def close(self):
        """Nothing to let go of."""


RULE = rule_text({"id": "key", "a": 0.1, "b": 0.1}, output={"column": "z"}, metric="linf")


def test_lines_that_a_crash_kept_back_are_those_that_were_not_sent(tmp_path):
    rows = [
        {"id": f"k{i}", "a": X[i][0], "b": X[i][1], "z": Z[i], "by": MODELS[i] or "first"}
        for i in range(COUNT)
    ]
    bodies = [json.dumps(row).encode() for row in rows]
    sent, rule = Lines(), lw.Rule.from_toml(RULE)

    def follow(source, target, folder):
        with lw.open(folder, rule, **SETTINGS) as monitor:
            bind = make_binder(rule, model_column="by")
            Follower(
                source,
                StreamJudge(monitor, bind, "by"),
                StreamSink(target, None, KEPT),
                tell=print,
            ).run()

    follow(Messages(bodies), sent, tmp_path / "ledger")
    assert len(sent) == COUNT
    kept_back = Lines(sent[:17])
    follow(Messages([]), kept_back, tmp_path / "ledger")
    assert [json.loads(one) for one in kept_back] == [json.loads(one) for one in sent]
    assert kept_back == sent
    assert all(json.loads(one)["model"] for one in sent)


FOUR_ROWS = [
    {"id": "p", "a": 1.0, "z": "x"},
    {"id": "q", "a": 1.5, "z": "y"},
    {"id": 7, "a": 1.25, "z": "x"},
    {"id": "s", "a": 1.375, "z": "z"},
]
TABLE = lw.Rule(
    features={"id": lw.Feature("key"), "a": lw.Feature("number", tolerance=1)}, output_column="z"
)
ALARMING = lw.Burst(last=3, alarm=2)


@pytest.mark.parametrize("burst", [None, ALARMING], ids=["alone", "burst"])
@pytest.mark.parametrize("ledger", [False, True], ids=["memory", "ledger"])
@pytest.mark.parametrize("most", [0, 1, 10])
def test_dictionary_of_a_verdict_is_what_watch_prints(most, ledger, burst, tmp_path):
    (tmp_path / "rule.toml").write_text(TABLE.to_toml())
    options = ["--rule", tmp_path / "rule.toml", "--witnesses", most]
    options += ["--ledger", tmp_path / "led"] if ledger else []
    options += ["--burst", burst.last, "--alarm", burst.alarm] if burst else []
    given = "".join(json.dumps(row) + "\n" for row in FOUR_ROWS)
    told = likewise("watch", *options, given=given).stdout.splitlines()
    verdicts = lw.Monitor(TABLE, burst=burst, comparable=True).observe_many(FOUR_ROWS)
    wanted = [{"line": i, **fields} for i, fields in enumerate(verdicts.to_dicts(most), 1)]
    assert told == [json.dumps(fields) for fields in wanted]
