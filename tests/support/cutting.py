"""A proxy that cuts connections: before the request, after it was sent, in the middle of an answer.

It passes bytes between a client and a real server, and knows no HTTP. `cut` says where each
connection ends: so many bytes of the request, or so many of the answers, then it is closed at once.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import NamedTuple


class Cut(NamedTuple):
    """After how many bytes a connection is cut, in each direction; None: never."""

    request: int | None = None
    answer: int | None = None


class Proxy:
    """Passes connections on to a port of 127.0.0.1.

    cuts    for each connection that is made, in turn; when they end, nothing is cut any more
    hold    whether after a cut new connections wait until `gate` is set
    """

    def __init__(self, port: int, cuts: Iterator[Cut], *, hold: bool = False) -> None:
        self.target = port
        self.gate = threading.Event()
        self.gate.set()
        self._hold = hold
        self._cuts = cuts
        self._open: set[socket.socket] = set()
        self.connections = 0
        self.cut = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                self.connections += 1
                cut = next(self._cuts, Cut())
                self.gate.wait(20)
                try:
                    far = socket.create_connection(("127.0.0.1", self.target), 5)
                except OSError:
                    near.close()
                    continue
                for one in (near, far):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open |= {near, far}
                for args in ((near, far, cut.request), (far, near, cut.answer)):
                    threading.Thread(target=self._pass, args=args, daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, most: int | None) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if most is not None and passed + len(data) >= most:
                    if self._hold:
                        self.gate.clear()
                    sink.sendall(data[: most - passed])
                    self.cut += 1
                    break
                sink.sendall(data)
                passed += len(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
            self._open.discard(one)

    def end_all(self) -> None:
        """End all connections that are open."""
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.gate.set()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._accepting.join(5)
        self.end_all()
