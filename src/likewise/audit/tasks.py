"""Who does the tasks of an audit: this process, several on this machine, or a Ray cluster.

A task is a function of this package and plain arguments. It reads and writes the job's folder and
answers nothing, so it may be done by any process that sees the folder, and done again after one
was killed.

Invariant: when `run` returns, every task was done; the first failure ends the rest.
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
from likewise.runtime.machine import explain_unreachable

Task = tuple[Any, ...]
_WATCH_SECONDS = 0.5


class TaskRunner(Protocol):
    """Who does tasks."""

    def run(self, function: Callable[..., None], tasks: Sequence[Task]) -> Iterator[Task]:
        """Do all tasks, those first in the list first; each comes out once it is done."""


def make_runner(processes: int = 1, ray: str | None = None) -> "TaskRunner":
    """Return who does tasks: a Ray cluster at an address, so many processes, or this one."""
    if ray is not None:
        return RayRunner(ray)
    return InlineRunner() if processes == 1 else ProcessRunner(processes)


@dataclass(frozen=True)
class InlineRunner:
    """This process, one task after the other."""

    def run(self, function: Callable[..., None], tasks: Sequence[Task]) -> Iterator[Task]:
        for task in tasks:
            function(*task)
            yield task


@dataclass(frozen=True)
class ProcessRunner:
    """Several processes on this machine."""

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
            doing = {pool.submit(function, *task): task for task in tasks}
            try:
                while doing:
                    for done in wait(doing, return_when=FIRST_COMPLETED).done:
                        task = doing.pop(done)
                        done.result()
                        yield task
            except BaseException as error:
                stop.set()  # nobody waits for tasks that are no longer wanted
                if isinstance(error, BrokenProcessPool):
                    raise BadFile(
                        "a worker process was ended, most likely for want of memory. What is done"
                        " is kept: say fewer --workers or a smaller --cell-rows, and start again."
                    ) from None
                raise
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


def _exit_with_parent(parent: int, stop: Any) -> None:
    """In a worker: end once it is told to, or the process that asked for it is gone, however."""

    def watch() -> None:
        while os.getppid() == parent and not stop.wait(_WATCH_SECONDS):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _set_environment(name: str, value: str) -> Iterator[None]:
    """A variable of the environment, for processes that are started meanwhile."""
    before = os.environ.get(name)
    os.environ.setdefault(name, value)
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]


@dataclass(frozen=True)
class RayRunner:
    """A Ray cluster, whose machines all see the files and the folder under the same paths.

    address   of the cluster, "auto" for the one on this machine, "local" for a new one
    """

    address: str

    def run(self, function: Callable[..., None], tasks: Sequence[Task]) -> Iterator[Task]:
        ray = _ray()
        begun = not ray.is_initialized()
        if begun:
            why = explain_unreachable(self.address)
            if why is not None:
                raise BadRule(
                    f"--ray is {self.address}, and nothing answers there ({why}). What is done is"
                    " kept: start Ray there (ray start --head), or give the address that it tells."
                )
            own = {"include_dashboard": False} if self.address == "local" else {}
            ray.init(address=self.address, log_to_driver=False, **own)
        try:
            remote = ray.remote(num_cpus=1, max_retries=3)(function)
            most = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
            waiting = list(reversed(tasks))
            doing: dict[Any, Task] = {}
            while waiting or doing:
                while waiting and len(doing) < most:
                    task = waiting.pop()
                    doing[remote.remote(*task)] = task
                for done in ray.wait(list(doing), num_returns=1)[0]:
                    task = doing.pop(done)
                    try:
                        ray.get(done)
                    except ray.exceptions.RayTaskError as error:
                        raise getattr(error, "cause", error) from None
                    yield task
        finally:
            if begun:
                ray.shutdown()


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise BadRule("--ray needs the package ray: pip install 'likewise[ray]'") from None
    return ray
