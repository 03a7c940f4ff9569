"""SHA-256 of many messages of one length, eight at a time.

A library hashes one message to a call, and a call takes longer than a hundred bytes do. Here the
same word of eight messages is one vector, so that every step of FIPS 180-4 is done for all of them,
without the interpreter's lock.

Invariant: the digests that hashlib makes of the same messages.
Not here: laying messages out in blocks, and which are worth it (ledger/hashes.py).
"""

from typing import Any

import numpy as np

from likewise.kernels.compile import entry, of_lanes, small, view

LANES = 8
_STATE, _WORDS, _ROUNDS = 8, 16, 64
ROOM = (_STATE + _WORDS) * LANES
"""Words of 4 bytes that the kernel wants to itself."""


def _fraction_of_root(number: int, degree: int) -> int:
    """The first 32 bits behind the point of a root, which is less than 32."""
    wanted, root = number << 32 * degree, 0
    for bit in reversed(range(32 + 5)):
        if (root | 1 << bit) ** degree <= wanted:
            root |= 1 << bit
    return root & 0xFFFFFFFF


_PRIMES = [n for n in range(2, 312) if all(n % k for k in range(2, n))]
_BEGIN = tuple(_fraction_of_root(prime, 2) for prime in _PRIMES[:_STATE])
_CONSTANTS = tuple(_fraction_of_root(prime, 3) for prime in _PRIMES[:_ROUNDS])


def _turned(x: Any, bits: int) -> Any:
    return x >> bits | x << 32 - bits


def _compressed(*given: Any) -> list[Any]:
    """The state after a block; given the state before it, and the words of the block."""
    before, words = given[:_STATE], list(given[_STATE:])
    a, b, c, d, e, f, g, h = before
    for t in range(_ROUNDS):
        word = words[t % _WORDS]
        if t >= _WORDS:
            old, new = words[(t + 1) % _WORDS], words[(t + 14) % _WORDS]
            word = word + (_turned(old, 7) ^ _turned(old, 18) ^ old >> 3) + words[(t + 9) % _WORDS]
            word = word + (_turned(new, 17) ^ _turned(new, 19) ^ new >> 10)
            words[t % _WORDS] = word
        one = word + _CONSTANTS[t] + h + (_turned(e, 6) ^ _turned(e, 11) ^ _turned(e, 25))
        one = one + (g ^ e & (f ^ g))
        two = (_turned(a, 2) ^ _turned(a, 13) ^ _turned(a, 22)) + (a & b ^ c & (a ^ b))
        a, b, c, d, e, f, g, h = one + two, a, b, c, d + one, e, f, g
    return [old + new for old, new in zip(before, (a, b, c, d, e, f, g, h), strict=True)]


_compress = of_lanes(_compressed, LANES, _STATE + _WORDS)


@small
def _swapped(word: Any) -> Any:
    """The four bytes of a word the other way round."""
    middle = (word >> np.uint32(8)) & np.uint32(0xFF00)
    middle |= (word << np.uint32(8)) & np.uint32(0xFF0000)
    return np.uint32((word >> np.uint32(24)) | middle | (word << np.uint32(24)))


@entry
def digest_rows(
    messages_address: int, count: int, blocks: int, into_address: int, room_address: int
) -> int:
    """The digests of `count` messages of so many blocks of 64 bytes each, one behind the other."""
    messages = view(messages_address, np.uint32)
    into, room = view(into_address, np.uint32), view(room_address, np.uint32)
    for first in range(0, count, LANES):
        for i in range(_STATE):
            for lane in range(LANES):
                room[i * LANES + lane] = _BEGIN[i]
        for block in range(blocks):
            for lane in range(LANES):
                row = min(first + lane, count - 1)  # the last of them more than once
                at = (row * blocks + block) * _WORDS
                for i in range(_WORDS):
                    room[(_STATE + i) * LANES + lane] = _swapped(messages[at + i])
            _compress(room_address)
        for lane in range(min(LANES, count - first)):
            for i in range(_STATE):
                into[(first + lane) * _STATE + i] = _swapped(room[i * LANES + lane])
    return count
