"""From a call to a method of a client: one signature and one docstring for both kinds of client.

A function of api_calls.py says what is sent. `waiting` makes of it a method that sends it and
waits for the answer, `awaiting` one that is to be awaited.
"""

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args

from likewise.client.api_calls import Call

P = ParamSpec("P")
T = TypeVar("T")


def make_method(make: Callable[P, Call[T]]) -> Callable[Concatenate[Any, P], T]:
    """A method that makes a call and waits for its answer."""

    def method(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        answer: T = client._make(make(*args, **kwargs))
        return answer

    _describe(method, make)
    return method


def make_async_method(
    make: Callable[P, Call[T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A method that makes a call and has its answer awaited."""

    async def method(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        answer: T = await client._make(make(*args, **kwargs))
        return answer

    _describe(method, make)
    return method


def _describe(method: Any, make: Callable[..., Any]) -> None:
    """Give a method the name, the docstring and the signature of what it is made of."""
    client = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    told = inspect.signature(make)
    method.__name__ = method.__qualname__ = make.__name__
    method.__doc__ = make.__doc__
    method.__signature__ = told.replace(
        parameters=[client, *told.parameters.values()],
        return_annotation=_answer_type(told.return_annotation),
    )


def _answer_type(annotation: Any) -> Any:
    """What a call is answered with: T of Call[T]."""
    if isinstance(annotation, str):
        return annotation.removeprefix("Call[").removesuffix("]")
    (answer,) = get_args(annotation)
    return None if answer is type(None) else answer
