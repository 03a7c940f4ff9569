"""What a server remembers of traffic without end is bounded: its memory is flat."""

import json
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.support.serving import serving, settings

LIMITS = "[limits]\nlabels = 200\nrecent = 100\n"
MONITORS = '[monitors.default]\nrule = "rule.toml"\nledger = "ledger"\nwindow = "2000 rows"\n'


def resident(process):
    """Bytes of a process that are in memory and its own, without files that are mapped."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the system does not say")


def traffic(server, connection, number, rng):
    """A batch with keys, models and contradictions; single decisions; strangers' labels."""
    x = rng.random((400, 4)).round(2).tolist()
    z = [str(label) for label in rng.integers(0, 3, 400)]
    keys = [f"key {number} {i}" for i in range(400)]
    models = [f"m{i % 5}" for i in range(400)]
    batch = {"x": x, "z": z, "keys": keys, "models": models}
    answer = server.post("batch", batch, connection=connection)
    assert answer.status == 200, answer
    for i in range(20):
        one = {"x": x[i], "z": z[i], "key": f"single {number} {i}"}
        assert server.post("observe", one, connection=connection).status == 200
    hostile = [
        {"x": x[0], "z": f"hostile {number} {i}" + "x" * 500, "model": f"hostile {number} {i}"}
        for i in range(80)
    ]
    lines = b"".join(json.dumps(one).encode() + b"\n" for one in hostile)
    answer = server.post("stream", lines, connection=connection)
    told = [json.loads(line) for line in answer.body.splitlines()]
    return 420 + sum("violation" in one for one in told)


def grown(folder, rounds):
    """Bytes by which a server grew in the last two thirds of so many rounds, and decisions."""
    rng, taken, sizes = np.random.default_rng(4), 0, []
    with serving(settings(folder, LIMITS, monitors=MONITORS)) as server:
        with closing(server.connection()) as connection:
            for number in range(rounds):
                taken += traffic(server, connection, number, rng)
                if number + 1 in (rounds // 3, rounds):
                    time.sleep(0.5)
                    sizes.append(resident(server.process))
        stored = server.get().json()
        assert stored["rows"] == taken and stored["remembered"] <= 2 * 2000 + 4096
    return sizes[1] - sizes[0], taken


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
@pytest.mark.slow
def test_memory_is_flat_over_an_hour_of_traffic_with_hostile_labels(tmp_path):
    more, taken = grown(tmp_path, 860)
    assert taken > 360_000, "a hundred decisions a second for an hour"
    assert more < 12 << 20, f"{more / 2**20:.1f} MB more over {taken * 2 // 3:,} decisions"
