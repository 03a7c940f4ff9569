"""Find bearer tokens, of which the settings have only hashes.

A token is 32 random bytes, so one round of SHA-256 is enough; it is looked up by that hash, whose
timing says nothing about the token. Headers with a known token are cached, so that the next
request costs no hash; Python's own hash of them is keyed with a secret of the process.
Not here: what a token allows (settings.py), refusing a request (request_guard.py).
"""

import hashlib
import secrets
from collections.abc import Iterable, Mapping

from likewise.service.settings import Token

_PREFIX = "lw_"
_HEADERS = 1024  # headers that are cached; then the cache is cleared


def new_token() -> tuple[str, str]:
    """Make a token, which a client gets, and its hash, which the settings get."""
    token = _PREFIX + secrets.token_urlsafe(32)
    return token, hash_of(token)


def hash_of(token: str) -> str:
    return "sha256:" + hashlib.sha256(token.encode()).hexdigest()


class Tokens:
    """Finds the tokens of the settings."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._by_hash: Mapping[str, Token] = {token.hash: token for token in tokens}
        self._by_header: dict[bytes | None, Token] = {}
        self.is_empty = not self._by_hash

    def find_current(self, token: Token) -> Token | None:
        """Return the token with the same secret in the current settings; None if it is gone."""
        return self._by_hash.get(token.hash)

    def find(self, authorization: bytes | None) -> Token | None:
        """Return the token of an Authorization header; None if it is missing or not known."""
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
