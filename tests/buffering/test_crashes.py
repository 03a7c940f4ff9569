"""A process that submits to a ledger through a spilling buffer is killed at random instants.

The slow tier kills it hundreds of times: tests/contracts/test_crashes.py.
"""

from tests.buffering.crash_checks import crash, finish


def test_killed(tmp_path):
    said, answered, during, spilled = crash(tmp_path, 1, 12)
    rows, missing = finish(tmp_path, 1, said, answered)
    assert rows > 50 and missing > 0 and len(answered) > 20, "a test on nothing"
    assert spilled > 2 and len(set(during)) >= 2, (spilled, during)
