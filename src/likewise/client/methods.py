"""Makes methods of clients from the functions of api_calls.py, which say what is sent.

`make_method` makes one that waits for the answer, `make_async_method` one that is to be awaited.
Both have the signature and the docstring of the function.
"""

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args

from likewise.client.api_calls import Call

P = ParamSpec("P")
T = TypeVar("T")


def make_method(make: Callable[P, Call[T]]) -> Callable[Concatenate[Any, P], T]:
    """Return a method that makes a call and waits for its answer."""

    def method(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        answer: T = client._make(make(*args, **kwargs))
        return answer

    _describe(method, make)
    return method


def make_async_method(
    make: Callable[P, Call[T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a method that makes a call and awaits its answer."""

    async def method(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        answer: T = await client._make(make(*args, **kwargs))
        return answer

    _describe(method, make)
    return method


def _describe(method: Any, make: Callable[..., Any]) -> None:
    """Give a method the name, docstring and signature of the function that makes its call."""
    client = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.signature(make)
    method.__name__ = method.__qualname__ = make.__name__
    method.__doc__ = make.__doc__
    method.__signature__ = signature.replace(
        parameters=[client, *signature.parameters.values()],
        return_annotation=_answer_type(signature.return_annotation),
    )


def _answer_type(annotation: Any) -> Any:
    """Return the type of a call's answer: T of Call[T]."""
    if isinstance(annotation, str):
        return annotation.removeprefix("Call[").removesuffix("]")
    (answer,) = get_args(annotation)
    return None if answer is type(None) else answer
