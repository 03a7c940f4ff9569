"""Whether anybody listens at an address, before a library is asked that would try for minutes."""

import socket

_SECONDS = 5.0


def why_not_listening(address: str) -> str | None:
    """Why nobody can be reached at "host:port", with a scheme before it or not; None: somebody can.

    An address without a port, such as "auto", says nothing that can be asked.
    """
    host, colon, port = address.rpartition("://")[2].partition("/")[0].rpartition(":")
    if not colon or not port.isdigit():
        return None
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS).close()
    except (OSError, OverflowError) as error:
        return getattr(error, "strerror", None) or type(error).__name__
    return None
