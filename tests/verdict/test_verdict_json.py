"""One schema of a verdict, in Python and on the command line."""

import json

import pytest

import likewise as lw
from likewise import Feature
from tests.support.commands import likewise

ROWS = [
    {"id": "p", "a": 1.0, "z": "x"},
    {"id": "q", "a": 1.5, "z": "y"},
    {"id": 7, "a": 1.25, "z": "x"},
    {"id": "s", "a": 1.375, "z": "z"},
]
RULE = lw.Rule(
    features={"id": Feature("key"), "a": Feature("number", tolerance=1)}, output_column="z"
)
BURST = lw.Burst(last=3, alarm=2)


@pytest.mark.parametrize("burst", [None, BURST], ids=["alone", "burst"])
@pytest.mark.parametrize("ledger", [False, True], ids=["memory", "ledger"])
@pytest.mark.parametrize("most", [0, 1, 10])
def test_dictionary_of_a_verdict_is_what_watch_prints(most, ledger, burst, tmp_path):
    (tmp_path / "rule.toml").write_text(RULE.to_toml())
    options = ["--rule", tmp_path / "rule.toml", "--witnesses", most]
    options += ["--ledger", tmp_path / "led"] if ledger else []
    options += ["--burst", burst.last, "--alarm", burst.alarm] if burst else []
    given = "".join(json.dumps(row) + "\n" for row in ROWS)
    told = likewise("watch", *options, given=given).stdout.splitlines()
    verdicts = lw.Monitor(RULE, burst=burst, comparable=True).observe_many(ROWS)
    wanted = [{"line": i, **fields} for i, fields in enumerate(verdicts.to_dicts(most), 1)]
    assert told == [json.dumps(fields) for fields in wanted]
