"""Settings of the kernel tests: uncompiled kernels are slow, so properties take fewer examples."""

from hypothesis import HealthCheck, settings
from numba import config

if config.DISABLE_JIT:
    settings.register_profile(
        "uncompiled",
        max_examples=10,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("uncompiled")
