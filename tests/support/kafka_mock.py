"""The mock cluster of librdkafka in a process of its own; says where it listens, then waits."""

import json
import signal

from confluent_kafka import Producer

cluster = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 0})
brokers = cluster.list_topics(timeout=30).brokers.values()
print(json.dumps(",".join(f"{one.host}:{one.port}" for one in brokers)), flush=True)
signal.pause()
