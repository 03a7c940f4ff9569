"""A process forks while a thread is inside a monitor: python -m tests.monitor.forked WHAT
FOLDER, which prints "done".

The child goes on with its copy, which has to answer as an oracle does, or refuse clearly.
"""

import sys
import threading
import warnings
from pathlib import Path

import numpy as np

import likewise as lw
from tests.support.oracle import Oracle
from tests.support.programs import answer_in_child

RULE = lw.Rule("linf", 0.1)
PEOPLE = lw.Rule(
    features={"age": lw.Feature("number", tolerance=5), "job": lw.Feature("category")},
    output_column="z",
)
TIMES = 12


def busy(action):
    """Run an action over and over in a thread; what ends it."""
    over = threading.Event()

    def run():
        while not over.is_set():
            action()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def end():
        over.set()
        thread.join()

    return end


def forks_often(action, expected):
    for _ in range(TIMES):
        said = answer_in_child(action)
        assert expected in said, said


class Stream:
    """Decision after decision, the same in every process; with models where the rule asks."""

    def __init__(self, monitor):
        rng = np.random.default_rng(3)
        self.x, self.z = rng.random((200_000, 3)), rng.integers(0, 3, 200_000).tolist()
        self.monitor, self.at = monitor, 0
        self.models = [None] * 200_000
        if monitor.rule.compare != "all":
            self.models = [("a", "b", None)[i] for i in rng.integers(0, 3, 200_000)]

    def observe(self):
        self.monitor.observe(self.x[self.at], self.z[self.at], model=self.models[self.at])
        self.at += 1

    def batch(self):
        part = slice(self.at, self.at + 500)
        models = self.models[part] if self.monitor.rule.compare != "all" else None
        self.monitor.observe_many(self.x[part], self.z[part], models=models)
        self.at += 500

    def agrees(self):
        """Judge as a copy of the first rows would be judged, and go on."""
        rows, oracle = self.monitor.rows, Oracle(self.monitor.rule)
        oracle.load(self.x[:rows], self.z[:rows], models=self.models[:rows])
        found = 0
        for i in range(rows, rows + 20):
            told = {"model": self.models[i]}
            verdict = self.monitor.observe(self.x[i], self.z[i], **told)
            expected = oracle.observe(self.x[i], self.z[i], **told)
            assert verdict.witnesses.rows.tolist() == expected.rows.tolist()
            assert verdict.witness_models == tuple(self.models[row] for row in expected.rows)
            found += len(verdict.witnesses)
        return f"agrees on {'some' if found else 'no'} witnesses"


def a_copy_goes_on(folder):
    for verb in ("observe", "batch"):
        stream = Stream(lw.Monitor(RULE))
        stream.batch()
        end = busy(getattr(stream, verb))
        forks_often(stream.agrees, "agrees on some")
        end()
        assert "agrees on some" in stream.agrees()


def a_copy_with_models_goes_on(folder):
    for verb in ("observe", "batch"):
        stream = Stream(lw.Monitor(lw.Rule("linf", 0.1, compare="within")))
        stream.batch()
        end = busy(getattr(stream, verb))
        forks_often(stream.agrees, "agrees on some")
        end()
        assert "agrees on some" in stream.agrees()


def a_table_can_be_forked(folder):
    monitor = lw.Monitor(PEOPLE)
    monitor.observe({"age": 30, "job": "a", "z": 1})
    found = answer_in_child(lambda: monitor.observe({"age": 31, "job": "a", "z": 2}).witnesses.rows)
    assert found == "[0]", found


def a_watched_model_answers(folder):
    model = lw.watch(lambda x: int(x[0] > 0.5), RULE)
    rng = np.random.default_rng(1)
    end = busy(lambda: model(rng.random(3)))
    forks_often(lambda: f"answers {model([0.7, 0.1, 0.2])}", "answers 1")
    end()


def a_watched_ledger_leaves_the_model_alone(folder):
    ledger = lw.open(folder / "ledger", RULE, durability="batch", batch_seconds=0.01)
    model = lw.watch(lambda x: int(x[0] > 0.5), ledger, on_failure="record", wait_seconds=20)
    rng = np.random.default_rng(1)
    end = busy(lambda: model(rng.random(3)))
    forks_often(
        lambda: f"answers {model([0.7, 0.1, 0.2])}, {type(model.failures[-1].error).__name__}",
        "answers 1, BadFile",
    )
    end()
    ledger.close()
    with lw.open(folder / "ledger") as again:
        assert again.ledger.verify().ok and again.rows == model.counts.decisions


def a_ledger_refuses(folder):
    for durability in ("commit", "batch", "off"):
        ledger = lw.open(folder / durability, RULE, durability=durability)
        stream = Stream(ledger)
        stream.batch()
        end = busy(stream.observe)
        calls = {
            "observe": lambda stream=stream: stream.observe(),
            "observe_many": lambda stream=stream: stream.batch(),
            "check": lambda ledger=ledger: ledger.check([0.1, 0.2, 0.3], 1),
            "erase": lambda ledger=ledger: ledger.erase(rows=[1]),
            "flush": ledger.flush,
            "rows": lambda ledger=ledger: ledger.rows,
            "verify": ledger.ledger.verify,
        }
        for _ in range(4):
            for name, call in calls.items():
                said = answer_in_child(call)
                assert said.startswith("BadFile: ") and "was forked from" in said, (name, said)
        assert answer_in_child(ledger.close) == "None"
        end()
        rows = ledger.rows
        ledger.close()
        with lw.open(folder / durability) as again:
            assert again.rows == rows == stream.at and again.ledger.verify().ok


def a_file_of_rows_stays_with_its_process(folder):
    monitor = lw.Monitor(RULE, row_file=folder / "rows")
    stream = Stream(monitor)
    stream.batch()
    said = answer_in_child(stream.observe)
    assert said.startswith("BadDecision: ") and "forked" in said, said
    assert "agrees on some" in stream.agrees()


if __name__ == "__main__":
    warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)
    globals()[sys.argv[1]](Path(sys.argv[2]))
    print("done")
