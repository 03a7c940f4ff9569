"""Runs the tasks of an audit in this process, in several on this machine, or on a Ray cluster.

A task is a function of this package and plain arguments. It reads and writes the job's folder and
returns nothing, so any process that sees the folder can run it, and run it again after one was
killed.

Invariant: when `run` returns, every task is done; the first failure ends the rest.
"""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from likewise.errors import BadFile, BadRule
from likewise.runtime.port_check import explain_unreachable

Task = tuple[Any, ...]
_WATCH_SECONDS = 0.5


class TaskRunner(Protocol):
    """Runs tasks."""

    def run(self, function: Callable[..., None], tasks: Sequence[Task]) -> Iterator[Task]:
        """Run all tasks, in the order of the list; yield each once it is done."""


def make_runner(processes: int = 1, ray: str | None = None) -> "TaskRunner":
    """Return a runner: a Ray cluster at an address, several processes, or this process."""
    if ray is not None:
        return RayRunner(ray)
    return InlineRunner() if processes == 1 else ProcessRunner(processes)


@dataclass(frozen=True)
class InlineRunner:
    """Runs one task after the other in this process."""

    def run(self, function: Callable[..., None], tasks: Sequence[Task]) -> Iterator[Task]:
        for task in tasks:
            function(*task)
            yield task


@dataclass(frozen=True)
class ProcessRunner:
    """Runs tasks in several processes on this machine."""

    count: int

    def run(self, function: Callable[..., None], tasks: Sequence[Task]) -> Iterator[Task]:
        if len(tasks) <= 1:
            yield from InlineRunner().run(function, tasks)
            return
        threads = max(1, (os.cpu_count() or 1) // self.count)
        context = multiprocessing.get_context("spawn")
        stop = context.Event()
        with (
            _set_environment("POLARS_MAX_THREADS", str(threads)),
            ProcessPoolExecutor(
                min(self.count, len(tasks)), context, _exit_with_parent, (os.getpid(), stop)
            ) as pool,
        ):
            running = {pool.submit(function, *task): task for task in tasks}
            try:
                while running:
                    for done in wait(running, return_when=FIRST_COMPLETED).done:
                        task = running.pop(done)
                        done.result()
                        yield task
            except BaseException as error:
                stop.set()  # so that nobody waits for the remaining tasks
                if isinstance(error, BrokenProcessPool):
                    raise BadFile(
                        "a worker process was killed, most likely because memory ran out. Finished"
                        " steps are kept: use fewer --workers or a smaller --cell-rows, and start"
                        " again."
                    ) from None
                raise
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


def _exit_with_parent(parent: int, stop: Any) -> None:
    """End this worker once `stop` is set, or the process that started it is gone."""

    def watch() -> None:
        while os.getppid() == parent and not stop.wait(_WATCH_SECONDS):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _set_environment(name: str, value: str) -> Iterator[None]:
    """Set an environment variable for the processes that are started in this context."""
    before = os.environ.get(name)
    os.environ.setdefault(name, value)
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]


@dataclass(frozen=True)
class RayRunner:
    """Runs tasks on a Ray cluster, whose machines all see files and folder under the same paths.

    address: of the cluster; "auto" for the one on this machine, "local" for a new one
    """

    address: str

    def run(self, function: Callable[..., None], tasks: Sequence[Task]) -> Iterator[Task]:
        ray = _import_ray()
        started_here = not ray.is_initialized()
        if started_here:
            why = explain_unreachable(self.address)
            if why is not None:
                raise BadRule(
                    f"--ray is {self.address}, and nothing answers there ({why}). Finished steps"
                    " are kept: start Ray there (ray start --head), or give the address that it"
                    " prints."
                )
            own = {"include_dashboard": False} if self.address == "local" else {}
            ray.init(address=self.address, log_to_driver=False, **own)
        try:
            remote = ray.remote(num_cpus=1, max_retries=3)(function)
            most = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
            waiting = list(reversed(tasks))
            running: dict[Any, Task] = {}
            while waiting or running:
                while waiting and len(running) < most:
                    task = waiting.pop()
                    running[remote.remote(*task)] = task
                for done in ray.wait(list(running), num_returns=1)[0]:
                    task = running.pop(done)
                    try:
                        ray.get(done)
                    except ray.exceptions.RayTaskError as error:
                        raise getattr(error, "cause", error) from None
                    yield task
        finally:
            if started_here:
                ray.shutdown()


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise BadRule(
            "--ray needs the package ray: pip install '.[ray]' in the clone of likewise"
        ) from None
    return ray
