"""Kernels one by one: compiled by Numba, or as plain Python, and not from a library.

Where a library is loaded, as in most runs, only `test_ways.py` is collected here. It runs the rest
in processes of their own, each way in turn.
"""

from hypothesis import HealthCheck, settings

from likewise.search.kernels.compile import way

if way == "native":
    collect_ignore_glob = ["test_[!w]*.py"]
elif way == "plain":  # slow, so properties take fewer examples
    settings.register_profile(
        "uncompiled",
        max_examples=25,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("uncompiled")
