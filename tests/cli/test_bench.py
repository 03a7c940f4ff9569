"""`likewise bench` measures, and finds what it should."""

import json

import pytest

from tests.support.commands import installed


@pytest.mark.long
def test_bench_measures_beside_a_scan_that_finds_the_same():
    told = json.loads(installed("bench", "--quick", "--json").stdout)
    assert told["cores"] >= 1
    assert told["machine_load"] >= 1.0 and told["final"] == (told["machine_load"] <= 1.5)
    for one in told["workloads"]:
        assert 0 < one["violations"] < one["rows"]
        assert min(one["observe_many"], one["observe"], one["scan"]) > 0
