"""One test over many cases: `each` runs all of them and names every case that failed.

For checks that are quick and alike, such as lints over files: as items of their own they would cost
more to collect than to run. `pytest.mark.parametrize` is for tests that take fixtures of their own
or deserve a line in the report.
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

under_way: list[str] = []
"""The case that runs now, and those of the loops around it."""


def each(
    names: str | tuple[str, ...],
    cases: Iterable[Any],
    ids: Iterable[str] | Callable[[Any], str] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for every case, as `parametrize` would, within one item."""
    parameters = (
        [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    )
    listed = list(cases)
    assert listed, "a loop over nothing proves nothing"
    labels = map(ids, listed) if callable(ids) else ids or map(repr, listed)
    named = list(zip(map(str, labels), listed, strict=True))

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def loop(**fixtures: Any) -> None:
            failures = []
            for label, case in named:
                values = (case,) if len(parameters) == 1 else case
                under_way.append(label)
                try:
                    test(**dict(zip(parameters, values, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"case: {label}")
                    failures.append((label, error))
                finally:
                    under_way.pop()
            if failures:
                which = ", ".join(label for label, _ in failures)
                raise BaseExceptionGroup(
                    f"{len(failures)} of {len(named)} cases failed: {which}",
                    [error for _, error in failures],
                )

        signature = inspect.signature(test)
        left = [one for name, one in signature.parameters.items() if name not in parameters]
        loop.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return loop

    return decorate
