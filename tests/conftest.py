"""Shared settings of the tests.

`tests/` itself is importable, so that every folder of tests can say `from oracle import Oracle`.
Hypothesis runs the `quick` profile; `pytest --hypothesis-profile=thorough` runs every property
twenty times as long (see `strategies.examples`).
"""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)

PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=100, **PATIENT)
settings.register_profile("thorough", max_examples=2_000, **PATIENT)
settings.load_profile("quick")
