"""Clients of a service: `lw.connect`, and `AsyncClient` for event loops."""

from likewise.client.async_client import AsyncClient
from likewise.client.client import Client, connect

__all__ = ["AsyncClient", "Client", "connect"]
