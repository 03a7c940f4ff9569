"""A client that sends decisions under keys, and sends again what it was not answered.

    python -m tests.service.crashing_clients PORT_FILE WORKER OUT

The port of the server stands in a file, since every server has another; "stop" ends the client.
What is answered goes to OUT, a line each, before the next decision is sent.
"""

import http.client
import json
import sys
import time
from pathlib import Path

import numpy as np


def decision(worker, number):
    """The same for whoever asks."""
    rng = np.random.default_rng([worker, number])
    x = rng.integers(0, 40, 2) / 10
    return {"x": x.tolist(), "z": "ab"[int(rng.integers(2))], "key": f"{worker}-{number}"}


JSON = {"content-type": "application/json"}


def run(port_file, worker, out):
    number, connection = 0, None
    with Path(out).open("w", encoding="utf-8") as told:
        while (port := Path(port_file).read_text()) != "stop" or connection is not None:
            body = json.dumps(decision(worker, number)).encode()
            try:
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", int(port or 0), timeout=20)
                connection.request("POST", "/v1/monitors/default/observe", body, JSON)
                response = connection.getresponse()
                answer = json.loads(response.read())
            except (OSError, ValueError, http.client.HTTPException):
                if connection is not None:
                    connection.close()
                connection = None
                time.sleep(0.01)
                continue
            if response.status == 503:
                time.sleep(0.02)
                continue
            assert response.status == 200, answer
            told.write(json.dumps(answer) + "\n")
            told.flush()
            number += 1
            if port == "stop":
                return
            time.sleep(0.002)


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]), sys.argv[3])
