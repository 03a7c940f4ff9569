"""Exceptions that arrive in the middle of a call: from a signal handler, or at a chosen bytecode.

`Interruptions` raises from the handler of a timer, as Ctrl-C, a timeout or a worker's time limit
does: at a random instant of a call. `at_step` raises at the n-th bytecode boundary of one.
"""

import _weakrefset
import dis
import gc
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import likewise as lw

PACKAGE = str(Path(lw.__file__).parent)
_UNHEARD = (weakref.__file__, _weakrefset.__file__, "<frozen importlib")


class Interrupted(BaseException):
    """What arrives; like KeyboardInterrupt, no `except Exception` catches it."""


def is_ours(frame: FrameType | None) -> bool:
    """Whether the package is at work in this frame, or called what is."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            return True
        frame = frame.f_back
    return False


def must_wait(frame: FrameType | None) -> bool:
    """Whether to interrupt later: errors of a weak reference's callback or of a finaliser reach
    nobody, and an import that is cut off leaves its file for the collector to complain about.
    """
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_UNHEARD) or code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


class Interruptions:
    """Raises in calls, each time after a random part of what such a call takes."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._armed = False
        self._seconds: dict[str, float] = {}
        self.inside = 0
        """How many arrived while the package was at work."""

    def __enter__(self) -> "Interruptions":
        # What is raised in a callback of the collector, such as Hypothesis has, reaches nobody.
        self._callbacks = gc.callbacks[:]
        gc.callbacks.clear()
        self._before = signal.signal(signal.SIGALRM, self._strike)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)
        gc.callbacks[:] = self._callbacks

    def _strike(self, _: int, frame: FrameType | None) -> None:
        if self._armed and must_wait(frame):
            signal.setitimer(signal.ITIMER_REAL, 1e-5)  # a little later, then
        elif self._armed:
            self._armed = False
            self.inside += is_ours(frame)
            raise Interrupted

    def call(self, name: str, action: Callable[[], Any]) -> Any:
        """What an action answers, or None if it was interrupted."""
        usual = self._seconds.get(name, 1e-3)
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, max(1e-6, self._rng.uniform(0, 1.3 * usual)))
                self._armed = True
                start = time.perf_counter()
                answer = action()
                self._armed = False
                self._seconds[name] = 0.8 * usual + 0.2 * (time.perf_counter() - start)
                return answer
            finally:
                self._armed = False
        except Interrupted:
            self._seconds[name] = 1.3 * usual  # so that some calls come to an end
            return None


_CHECKS = {dis.opmap[name] for name in ("RESUME", "CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD")}
"""Instructions after which Python looks whether a signal has come."""


@cache
def _handlers(code: CodeType) -> list[Any]:
    return dis._parse_exception_table(code)  # type: ignore[attr-defined]


def _same_handler(code: CodeType, *offsets: int) -> bool:
    """Whether what is raised at these instructions goes to the same place."""
    return len({_handler(code, offset) for offset in offsets}) == 1


def _handler(code: CodeType, offset: int) -> int | None:
    entries = _handlers(code)
    return next((one.target for one in entries if one.start <= offset < one.end), None)


def _is_finalizer(frame: FrameType | None) -> bool:
    return frame is not None and frame.f_code.co_name == "__del__"


class _Step:
    """Raises at the n-th bytecode that runs in frames of the package, or of `threading`.

    signals: count only places where a signal can arrive. At others, such as between the body of a
    `with` and the release of its lock, nothing can, so what another thread sees then says nothing.
    Python raises at the instruction that ended, and a trace at the one that follows. Where these
    have different handlers, as a call that ends a `with` and what releases its lock, a trace would
    raise where no signal can.
    """

    def __init__(self, at: int, signals: bool) -> None:
        self.left = at
        self.where = ""
        self._signals = signals
        self._last: dict[FrameType, tuple[int, int]] = {}  # instruction, and where it stands

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith((PACKAGE, threading.__file__)):
            return None  # what the package calls elsewhere is one step, but for locks in Python
        if _is_finalizer(frame) or _is_finalizer(frame.f_back):
            return None  # of garbage that is not the action's; Python ignores what is raised there
        frame.f_trace_opcodes = True
        if event == "opcode":
            last, before = self._last.get(frame, (-1, -1))
            self._last[frame] = frame.f_code.co_code[frame.f_lasti], frame.f_lasti
            if self._signals and last not in _CHECKS:
                return self
            if self._signals and not _same_handler(frame.f_code, before, frame.f_lasti):
                return self
            self._pass(f"{frame.f_code.co_qualname}:{frame.f_lineno}" if self.left <= 0 else "")
        return self

    def forget(self) -> None:
        """Let go of the frames, which no signal would keep."""
        self._last.clear()

    def _pass(self, where: str) -> None:
        if self.left == 0:
            self.where = where
            raise Interrupted
        self.left -= 1


class _Lines(_Step):
    """Raises nowhere, and notes at which step each line is reached first."""

    def __init__(self) -> None:
        super().__init__(0, signals=True)
        self.steps: dict[str, int] = {}

    def _pass(self, where: str) -> None:
        self.steps.setdefault(where, -self.left)
        self.left -= 1


def steps_of_lines(action: Callable[[], Any]) -> list[int]:
    """Run an action, and return for each line where a signal can arrive the first step there."""
    lines = _Lines()
    sys.settrace(lines)
    try:
        action()
    finally:
        sys.settrace(None)
    return list(lines.steps.values())


def at_step(at: int, action: Callable[[], Any], *, signals: bool = False) -> str:
    """Run an action that is interrupted at its `at`-th bytecode; where that was, "" if it ended."""
    step = _Step(at, signals)
    sys.settrace(step)
    try:
        action()
    except Interrupted:
        return step.where
    finally:
        sys.settrace(None)
        step.forget()
    return ""
