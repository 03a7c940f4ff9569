"""Is anybody listening at "host:port"?"""

import socket

_TIMEOUT_SECONDS = 5.0


def explain_unreachable(address: str) -> str | None:
    """Return why nobody can be reached at "host:port"; None if somebody can.

    A scheme may stand before it. An address without a port, such as "auto", cannot be checked.
    """
    host, colon, port = address.rpartition("://")[2].partition("/")[0].rpartition(":")
    if not colon or not port.isdigit():
        return None
    try:
        socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_SECONDS).close()
    except (OSError, OverflowError) as error:
        return getattr(error, "strerror", None) or type(error).__name__
    return None
