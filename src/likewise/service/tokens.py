"""Who may do what: bearer tokens, of which the settings have hashes only.

A token is 32 random bytes, so one round of SHA-256 is enough: there is nothing to guess. It is
looked up by its hash, whose time says nothing about the token. Headers whose token was known are
remembered, so that the next request costs no hash; the dictionary finds them by Python's own hash,
which has a secret of its process.

Bound: `_HEADERS` headers are remembered; then all of them are forgotten.
"""

import hashlib
import secrets
from collections.abc import Iterable, Mapping

from likewise.service.settings import Token

_PREFIX = "lw_"
_HEADERS = 1024


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
        self._by_header: dict[bytes | None, Token] = {}

    def __bool__(self) -> bool:
        return bool(self._by_hash)

    def find_current(self, token: Token) -> Token | None:
        """The token with the same secret, as the settings have it now; None if it is gone."""
        return self._by_hash.get(token.hash)

    def find(self, authorization: bytes | None) -> Token | None:
        """The token of an Authorization header; None if there is none, or it is not known."""
        token = self._by_header.get(authorization)
        if token is not None:
            return token
        if authorization is None or authorization[:7].lower() != b"bearer ":
            return None
        try:
            token = self._by_hash.get(hash_of(authorization[7:].strip().decode("ascii")))
        except UnicodeDecodeError:
            return None
        if token is not None:
            if len(self._by_header) >= _HEADERS:
                self._by_header.clear()
            self._by_header[authorization] = token
        return token
