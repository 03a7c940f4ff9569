"""A real `likewise serve`, killed again and again while clients tell it decisions."""

import random
import socket
import subprocess
import sys
import threading
import time

import pytest

import likewise as lw
from tests.client.test_retries import RULE, decisions

KILLS, EACH = 4, 60


@pytest.mark.slow
def test_each_decision_with_a_key_is_stored_once_and_answered_whatever_is_killed(tmp_path):
    (tmp_path / "rule.toml").write_text(RULE.to_toml())
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "likewise", "serve", "--rule", "rule.toml", "--ledger", "l"]

    def start():
        return subprocess.Popen([*command, "--port", str(port)], cwd=tmp_path)

    process = start()
    x, z = decisions(4 * EACH)
    answers: dict[int, lw.Verdict] = {}

    def tell(places):
        with lw.connect(f"http://127.0.0.1:{port}", retries=400, make_keys=True) as client:
            for i in places[: EACH // 2]:
                answers[i] = client.observe(x[i], z[i])
                time.sleep(0.02)
            rest = places[EACH // 2 :]
            for start in range(0, len(rest), 5):
                some = rest[start : start + 5]
                several = client.observe_many(x[some], [z[i] for i in some])
                answers.update(zip(some, several, strict=True))
                time.sleep(0.05)

    threads = [threading.Thread(target=tell, args=(list(range(i, 4 * EACH, 4)),)) for i in range(4)]
    rng = random.Random(3)
    try:
        for thread in threads:
            thread.start()
        killed = 0
        while any(thread.is_alive() for thread in threads) and killed < KILLS:
            before = len(answers)
            while len(answers) < before + 15 and any(thread.is_alive() for thread in threads):
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.05))
            process.kill()
            process.wait(30)
            process = start()
            killed += 1
        for thread in threads:
            thread.join(120)
    finally:
        process.terminate()
        process.wait(30)
    assert killed == KILLS and len(answers) == 4 * EACH
    assert sorted(verdict.row for verdict in answers.values()) == list(range(4 * EACH))
    order = sorted(answers, key=lambda i: answers[i].row)
    alone = lw.Monitor(RULE)
    with lw.open(tmp_path / "l") as stored:
        assert stored.rows == 4 * EACH and stored.ledger.verify().ok
        assert stored.past.outputs(range(4 * EACH)) == [z[i] for i in order]
    for i in order:
        assert alone.observe(x[i], z[i]).count == answers[i].count
