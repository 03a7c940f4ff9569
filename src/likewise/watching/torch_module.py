"""Watches a torch module by hooks; the module itself is used as before.

One hook copies the input before the module can change it, one tells the watcher the answer. Only a
module in eval mode is watched: what it answers during training is no decision.
Invariant: no gradient passes through here, and no tensor of the model is changed. A copy of the
module, or a pickle of it, is not watched, and says so at its first call.
Not here: torch is not imported; whoever has a module has imported it.
"""

import threading
from typing import Any

from likewise.errors import HintWarning
from likewise.runtime.log import logger
from likewise.watching.caller_warning import warn
from likewise.watching.watcher import Watcher


class ModuleHooks:
    """Holds the two hooks of one module."""

    def __init__(self, module: Any, watcher: Watcher) -> None:
        self._watcher: Watcher | None = watcher
        self._copy_of: str | None = None
        self._latest = threading.local()
        self._handles = (
            module.register_forward_pre_hook(self.capture_input, with_kwargs=True),
            module.register_forward_hook(self.observe_answer, with_kwargs=True),
        )

    def _active_watcher(self, module: Any) -> Watcher | None:
        watcher = self._watcher
        if self._copy_of is not None and not module.training:
            name, self._copy_of = self._copy_of, None
            _warn_not_watched(name)
        return None if watcher is None or watcher.closed or module.training else watcher

    def capture_input(self, module: Any, args: Any, kwargs: Any) -> None:
        watcher = self._active_watcher(module)
        if watcher is not None:
            # One place for each thread: if the module raises, the next call takes it.
            self._latest.call = (args, watcher.capture_input(args, kwargs))

    def observe_answer(self, module: Any, args: Any, kwargs: Any, answer: Any) -> None:
        watcher = self._active_watcher(module)
        if watcher is None:
            return
        latest_args, captured = getattr(self._latest, "call", (None, None))
        self._latest.call = (None, None)
        if captured is None or latest_args is not args:  # a module within itself, or another's hook
            captured = watcher.capture_input(args, kwargs)
        watcher.observe_answer(captured, answer)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def __reduce__(self) -> Any:
        return _hooks_of_copy, (self._copy_of if self._watcher is None else self._watcher.name,)


def _hooks_of_copy(name: str | None = None) -> ModuleHooks:
    """Return the hooks of a copy of a watched module, which only say once that it is one."""
    hooks = ModuleHooks.__new__(ModuleHooks)
    hooks._watcher = None
    hooks._copy_of = name
    return hooks


def _warn_not_watched(name: str) -> None:
    text = (
        f"this {name} is a copy of a watched module, and is not watched. To have it watched, say"
        " lw.watch(copy, rule)."
    )
    logger.warning("%s", text)
    warn(HintWarning(text), {})
