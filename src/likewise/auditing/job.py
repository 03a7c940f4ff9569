"""A job: what is audited, by which rule, and how it is read; every task gets one.

A job is sent to other processes and machines, so it holds plain values only, and paths that are
valid wherever its tasks run.
"""

import datetime
import glob
import hashlib
import json
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from likewise.errors import BadFile, BadRule
from likewise.rule.burst import Burst
from likewise.rule.rule import Rule
from likewise.runtime.machine import explain_unreachable
from likewise.sources.binding import Binding, read_models
from likewise.sources.file_source import BY_NAME, PACKED, DecisionFile, open_source
from likewise.sources.time_columns import DayOrder

Task = tuple[Any, ...]
Progress = Callable[[int, int | None, str], None]
"""Receives how much is done, of how much if that is known, and what is being done."""
_WATCH_SECONDS = 0.5


# Runs the tasks of an audit in this process, in several on this machine, or on a Ray cluster.
# A task is a function of this package and plain arguments. It reads and writes the job's folder and
# returns nothing, so any process that sees the folder can run it, and run it again after one was
# killed.
#
# Invariant: when `run` returns, every task is done; the first failure ends the rest.


class TaskRunner(Protocol):
    """Runs tasks."""

    def run(self, function: Callable[..., None], tasks: Sequence[Task]) -> Iterator[Task]:
        """Run all tasks, in the order of the list; yield each once it is done."""


def ignore_progress(done: int, total: int | None, step: str) -> None:
    """Tell nobody."""


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


CELL_ROWS = 1_000_000
"""How many decisions a cell should have at most, copies included."""


@dataclass(frozen=True)
class PartitionOptions:
    """Says how files larger than memory are audited.

    folder    where cells and results are stored
    files     in the order in which their lines count
    reading   how files are read: the settings of `open_source`
    workers   how many processes judge cells
    ray       the address of a Ray cluster that judges them instead
    rows      how many decisions a cell should have at most, as far as space can be cut
    """

    folder: Path
    files: tuple[str, ...]
    reading: dict[str, Any]
    workers: int = 1
    ray: str | None = None
    rows: int = CELL_ROWS


@dataclass(frozen=True)
class AuditOptions:
    """Says how decisions are judged, and what is computed beside the verdicts.

    time_column    judge decisions in the order of these times, not in that of the lines
    dates          the order of day and month, where the values do not tell
    within         compare a decision only with those at most this long before it
    model_column   the column that names the model which decided
    skip           leave out and count bad rows; else the first one is an error
    burst          how many near inputs, among how many decisions, raise an alarm
    for_report     compute curves too, and keep the columns that the rule ignores
    pairs_path     the file of all contradicting pairs to write
    keeps_pairs    keep in memory what a page and a frame of pairs need, to make them on request
    command        the command line, for someone who wants to repeat the audit
    cells          for files larger than memory
    """

    time_column: str | None = None
    dates: DayOrder | None = None
    within: str | None = None
    model_column: str | None = None
    skip: bool = False
    burst: Burst | None = None
    for_report: bool = False
    pairs_path: Path | None = None
    keeps_pairs: bool = False
    command: str | None = None
    cells: PartitionOptions | None = None


def collect_metadata(
    options: AuditOptions, table: Any, times: Any, *, ledger: bool = False
) -> dict[str, Any]:
    """Return what a monitor gets beside the values of rows: times and models.

    ledger: whether the monitor stores all times; else only a limit in time needs them
    """
    settings: dict[str, Any] = {}
    if ledger and options.time_column is not None:
        settings["times"] = [moment.replace(tzinfo=datetime.UTC) for moment in times.tolist()]
    elif options.within is not None:
        settings["times"] = times
    if options.model_column is not None:
        settings["models"] = read_models(table, options.model_column)
    return settings


def ignored_columns(binding: Binding, options: AuditOptions) -> list[str]:
    """Return the columns that a pair shows although the monitor does not remember them."""
    hidden = (*binding.remembered_columns, options.time_column, options.model_column)
    return [name for name in binding.columns if name not in hidden]


@dataclass(frozen=True)
class Job:
    """Describes one partitioned audit.

    folder        where cells and results are stored
    files         in the order in which their lines count
    binding       the rule, and the columns that it takes
    options       times, models and bad rows, as for any audit; nothing else in them counts here
    reading       how files are read: the settings of `open_source`
    cell_rows     how many decisions a cell should have at most, as far as space can be cut
    threads       cores that one task may use; all of them by default
    first_rows    how many decisions to keep, the first in order, for what is computed from a part
    pairs         whether every pair is written to the folder, too
    base          the folder that names of files are relative to
    """

    folder: Path
    files: tuple[str, ...]
    binding: Binding
    options: AuditOptions = field(default_factory=AuditOptions)
    reading: dict[str, Any] = field(default_factory=dict)
    cell_rows: int = CELL_ROWS
    threads: int | None = None
    first_rows: int = 200_000
    pairs: bool = False
    base: Path = field(default_factory=Path.cwd)

    @property
    def rule(self) -> Rule:
        return self.binding.rule

    def path(self, number: int) -> Path:
        return self.base / self.files[number]

    def open(self, number: int) -> DecisionFile:
        """Open one of its files."""
        source = open_source(str(self.path(number)), **self.reading)
        missing = [name for name in self.binding.columns if name not in source.columns]
        if missing:
            source.close()
            raise BadFile(
                f"{source.name} has no column {missing[0]!r}, which {self.files[0]} has; expected"
                " files with the same columns.",
                path=source.name,
            )
        return source

    def _settings(self) -> dict[str, Any]:
        """Return how files are read, without settings that say nothing."""
        return {name: value for name, value in self.reading.items() if value not in (None, [], ())}

    def identity(self) -> dict[str, Any]:
        """Return what the files in its folder depend on, for JSON."""
        options = ("dates", "time_column", "within", "model_column", "skip")
        return {
            "format": 1,
            "rule": self.rule.fingerprint,
            "files": [_stamp(self.path(number)) for number in range(len(self.files))],
            "columns": list(self.binding.columns),
            "types": dict(self.binding.types),
            "reading": json.loads(json.dumps(self._settings())),
            **{name: getattr(self.options, name) for name in options},
            "cell_rows": self.cell_rows,
            "first_rows": self.first_rows,
            "pairs": self.pairs,
        }


def _stamp(path: Path) -> list[Any]:
    """Return a file's name, and what changes when it is written to."""
    try:
        status = path.stat()
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}.", path=path) from None
    return [str(path), status.st_size, status.st_mtime_ns]


def expand_files(names: Sequence[str]) -> tuple[str, ...]:
    """Return the files that are named: folders and patterns give theirs sorted by name.

    In a folder and those below it, files count whose names end as those of tables do.
    """
    files: list[str] = []
    for name in names:
        if name == "-":
            raise BadFile("standard input is read once; expected files, a folder or a pattern.")
        if Path(name).is_dir():
            matching = [str(path) for path in sorted(Path(name).rglob("*")) if _is_table(path)]
        elif glob.has_magic(name) and not Path(name).exists():
            every = glob.glob(name, recursive=True)  # noqa: PTH207 - keeps names as they are given
            matching = sorted(path for path in every if Path(path).is_file())
        else:
            matching = [name]
        if not matching:
            raise BadFile(f"{name} has no tables; expected files such as .parquet or .csv.")
        files += matching
    twice = [one for one in files if files.count(one) > 1] if len(files) < 10_000 else []
    if twice:
        raise BadFile(f"{twice[0]} is named twice; expected each file once.")
    return tuple(files)


def _is_table(path: Path) -> bool:
    if path.name.startswith((".", "_")) or not path.is_file():
        return False
    suffix = Path(path.stem).suffix if path.suffix.lower() in PACKED else path.suffix
    return suffix.lower() in BY_NAME


def name_of(files: Sequence[str]) -> str:
    """Return what messages call the files."""
    return files[0] if len(files) == 1 else f"{len(files):,} files from {files[0]} on"


def digest_of(digests: Sequence[tuple[str, str]]) -> str:
    """Return one checksum for several files: that of `sha256sum FILES | sha256sum`."""
    if len(digests) == 1:
        return digests[0][1]
    listed = "".join(f"{sha256}  {name}\n" for name, sha256 in digests)
    return hashlib.sha256(listed.encode()).hexdigest()
