"""Who may do what: bearer tokens, of which the server keeps hashes only.

A token is 32 random bytes, so one round of SHA-256 is enough: there is nothing to guess. It is
looked up by its hash, whose time says nothing about the token.
"""

import hashlib
import secrets
from collections.abc import Iterable, Mapping

from likewise.service.settings import Token

_PREFIX = "lw_"


def new_token() -> tuple[str, str]:
    """A token, to be given to a client, and its hash, for the settings."""
    token = _PREFIX + secrets.token_urlsafe(32)
    return token, hash_of(token)


def hash_of(token: str) -> str:
    return "sha256:" + hashlib.sha256(token.encode()).hexdigest()


class Tokens:
    """The tokens of the settings."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._by_hash: Mapping[str, Token] = {token.hash: token for token in tokens}

    def __bool__(self) -> bool:
        return bool(self._by_hash)

    def of(self, authorization: bytes | None) -> Token | None:
        """The token of an Authorization header; None if there is none, or it is not known."""
        if authorization is None or authorization[:7].lower() != b"bearer ":
            return None
        try:
            return self._by_hash.get(hash_of(authorization[7:].strip().decode("ascii")))
        except UnicodeDecodeError:
            return None
