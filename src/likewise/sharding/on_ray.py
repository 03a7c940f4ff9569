"""Runs shards as Ray actors: detached and named, so that they outlive a coordinator.

Ray restarts a lost actor, empty. It retries no call, since the order of calls would not hold then:
fleet.py sends again what was not answered.
Invariant: calls of one actor are made in the order in which they were sent, each at most once.
Cost: about two milliseconds of CPU for a call; 50 MB for an actor in addition to its rows.
Not here: durability. What an actor holds can be lost at any time; the ledger has everything.
"""

import contextlib
import logging
import os
import pickle
import secrets
import sys
import time
from collections.abc import Collection, Iterator
from typing import Any

from likewise.errors import BadRule, LikewiseError, Unreachable
from likewise.runtime.log import logger
from likewise.runtime.machine import explain_unreachable
from likewise.sharding.protocol import Fenced, OutOfStep, ShardDown
from likewise.sharding.shard import Shard

NAMESPACE = "likewise"
_PAUSE_SECONDS = 0.1  # between two pings of an actor that does not answer
_PING_SECONDS = 5.0  # that one ping may take
_LOG_SECONDS = 10.0  # of waiting, after which the log says so
_OBJECT_STORE = 128 << 20  # bytes: batches pass through it, rows do not stay there

SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_max_direct_call_object_size": "2000000",
    "RAY_worker_niceness": "0",
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "500",
    "RAY_health_check_failure_threshold": "2",
}
"""What Ray is told before it is loaded, unless the environment says otherwise.

Health checks notice a lost machine within seconds; shards have usual priority, since callers wait
for them."""


class _RayState:
    """Counts the monitors of this process that use Ray, and says whether it was joined for them."""

    users = 0
    started_here = False


def set_ray_environment(environment: "os._Environ[str] | dict[str, str]") -> None:
    """Add Ray's settings to an environment in which it will be started or joined."""
    for name, value in SETTINGS.items():
        environment.setdefault(name, value)
    if "RAY_AUTH_MODE" not in environment:
        environment["RAY_AUTH_MODE"] = "token"
        environment.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


def _join(address: str | None) -> Any:
    """Return Ray, connected to the cluster at an address or to one that is started here."""
    if address is None and "ray" not in sys.modules:  # it reads its settings when it is loaded
        set_ray_environment(os.environ)
    else:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise BadRule(
            "a cluster needs the package ray, which is not installed."
            " Install it with: pip install '.[ray]' in the clone of likewise"
        ) from None
    if not ray.is_initialized():
        _require_listener(address)
        local: dict[str, Any] = {}
        if address is None:
            local = {"include_dashboard": False, "object_store_memory": _OBJECT_STORE}
        try:
            ray.init(
                address="local" if address is None else address,
                namespace=NAMESPACE,
                log_to_driver=False,
                logging_level=logging.WARNING,
                **local,
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise Unreachable(
                f"Ray at {address or 'this machine'} cannot be joined ({type(error).__name__})."
                " Nothing was stored: is it running, and is RAY_AUTH_TOKEN the one of the cluster?"
            ) from None
        _RayState.started_here = True
    _RayState.users += 1
    return ray


def _require_listener(address: str | None) -> None:
    """Raise Unreachable if nothing listens where Ray is said to be; Ray would try for minutes."""
    where = os.environ.get("RAY_ADDRESS") if address == "auto" else address
    why = None if where is None else explain_unreachable(where)
    if why is not None:
        raise Unreachable(
            f"nothing answers at {where}, where Ray was said to be ({why}). Nothing was stored:"
            " start Ray there (ray start --head), or give the address that it tells."
        )


@contextlib.contextmanager
def join_ray(address: str | None) -> Iterator[None]:
    """Stay connected to Ray meanwhile; BadRule or Unreachable if that is impossible."""
    ray = _join(address)
    try:
        yield
    finally:
        _leave(ray)


def _leave(ray: Any) -> None:
    _RayState.users -= 1
    if _RayState.users == 0 and _RayState.started_here:
        _RayState.started_here = False
        ray.shutdown()


class PackedShard(Shard):
    """Takes a call as one piece of bytes, and answers with one.

    Ray packs each argument on its own, which takes several times as long for arrays.
    """

    def call_packed(self, call: bytes) -> bytes:
        return pickle.dumps(self.call(*pickle.loads(call)), pickle.HIGHEST_PROTOCOL)


class RayShards:
    """Runs shards as actors under a name of the cluster.

    cpus    how many cores of a machine Ray reserves for each shard
    """

    def __init__(self, name: str, count: int, *, address: str | None, cpus: float) -> None:
        self._name = name
        self._count = count
        self._address = address
        self._ray: Any = _join(address)
        self._errors = self._ray.exceptions
        self._make = self._ray.remote(
            num_cpus=cpus, max_restarts=-1, max_task_retries=0, scheduling_strategy="SPREAD"
        )(PackedShard)
        self._actors: dict[int, Any] = {}

    def actor_name(self, shard: int) -> str:
        """Return the name of an actor."""
        return f"{self._name}/{shard}"

    def _actor(self, shard: int) -> Any:
        if not self._ray.is_initialized():
            raise Unreachable(
                "Ray was shut down in this process. Nothing was stored: open the ledger again."
            )
        actor = self._actors.get(shard)
        if actor is None:
            actor = self._make.options(
                name=self.actor_name(shard),
                namespace=NAMESPACE,
                lifetime="detached",
                get_if_exists=True,
            ).remote()
            self._actors[shard] = actor
        return actor

    def send(self, shard: int, call: str, *arguments: Any) -> Any:
        try:
            packed = pickle.dumps((call, *arguments), pickle.HIGHEST_PROTOCOL)
            return self._actor(shard).call_packed.remote(packed)
        except self._errors.RayError as error:
            raise ShardDown(type(error).__name__) from None

    def result(self, handle: Any, seconds: float | None = None) -> Any:
        errors = self._errors
        try:
            return pickle.loads(self._ray.get(handle, timeout=seconds))
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, OutOfStep | Fenced):
                raise cause from None
            if isinstance(cause, LikewiseError):
                raise cause from error
            raise Unreachable(
                f"a shard failed: {type(cause).__name__}. Nothing was stored."
            ) from error
        except errors.RayError as error:
            raise ShardDown(type(error).__name__) from None

    def ensure_running(self, shard: int, seconds: float | None) -> None:
        began = logged = time.monotonic()
        while True:
            waited = time.monotonic() - began
            left = _PING_SECONDS if seconds is None else min(_PING_SECONDS, seconds - waited)
            if left <= 0:
                raise ShardDown("it does not come back")
            try:
                self._ray.get(self._actor(shard).ping.remote(), timeout=left)
                return
            except self._errors.ActorDiedError:
                self._actors.pop(shard, None)  # it will not return: another takes its name
            except (self._errors.RayError, ValueError):
                pass
            if time.monotonic() - logged > _LOG_SECONDS:
                logged = time.monotonic()
                logger.warning("shard %d has not answered for %.0f s", shard, waited)
            time.sleep(_PAUSE_SECONDS)

    def processes(self) -> list[int]:
        """Return the process id of each shard, on its own machine."""
        handles = [self._actor(shard).process.remote() for shard in range(self._count)]
        return [int(number) for number in self._ray.get(handles)]

    def describe(self) -> str:
        where = "this machine" if self._address is None else self._address
        return f"{self._count} shards on Ray at {where}"

    def end(self, shard: int, coordinators: Collection[str]) -> None:
        if not self._ray.is_initialized():  # `get_actor` would start it
            return
        with contextlib.suppress(self._errors.RayError, ValueError):  # it is not there
            actor = self._ray.get_actor(self.actor_name(shard), namespace=NAMESPACE)
            if self._ray.get(actor.owner.remote(), timeout=_PING_SECONDS) in (None, *coordinators):
                self._ray.kill(actor)

    def close(self) -> None:
        self._actors.clear()
        _leave(self._ray)
