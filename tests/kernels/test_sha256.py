"""Many hashes at once are those that hashlib makes one by one."""

import hashlib

import numpy as np
import pytest

from likewise.ledger import hashes
from likewise.ledger.hashes import DIGEST, digest_each, digest_spans, digest_texts


def hashed(messages):
    return b"".join(hashlib.sha256(message).digest() for message in messages)


def matrix(count, width, seed=0):
    return np.random.default_rng([seed, count, width]).integers(0, 256, (count, width), np.uint8)


@pytest.fixture
def by_kernel(monkeypatch):
    """How many messages the kernel has hashed."""
    counts, kernel = [], hashes._kernel()

    def counting(messages, blocks):
        counts.append(len(messages))
        return kernel(messages, blocks)

    monkeypatch.setattr(hashes, "_kernel", lambda: counting)
    return counts


# Around the ends of blocks, and around where the length no longer fits behind the message
@pytest.mark.parametrize("width", [0, 1, 8, 54, 55, 56, 63, 64, 65, 119, 120, 128, 183, 184, 1024])
def test_rows_of_every_length(width, by_kernel):
    for count in (16, 21):
        rows = matrix(count, width)
        assert digest_each(rows) == hashed([row.tobytes() for row in rows])
    assert by_kernel == [16, 21]


@pytest.mark.parametrize(("count", "width"), [(0, 5), (1, 5), (15, 5), (16, 1025)])
def test_few_or_long_messages_are_hashed_one_by_one(count, width, by_kernel):
    rows = matrix(count, width)
    assert digest_each(rows) == hashed([row.tobytes() for row in rows])
    assert by_kernel == []


def test_matrices_side_by_side(by_kernel):
    parts = [matrix(19, width) for width in (16, 32, 0, 8, 100)]
    wide = np.asfortranarray(matrix(19, 40))[:, 3:33]
    messages = [row.tobytes() for row in np.concatenate([*parts, wide], axis=1)]
    assert digest_each(*parts, wide) == hashed(messages)
    assert by_kernel == [19]


def test_spans_of_words_and_texts_of_any_length(by_kernel):
    rng = np.random.default_rng(3)
    sizes = rng.integers(0, 5, 150)
    words = rng.integers(0, 2**63, sizes.sum(), np.int64)
    starts = np.cumsum(sizes) - sizes
    messages = [words[at : at + size].tobytes() for at, size in zip(starts, sizes, strict=True)]
    assert digest_spans(words, starts, sizes) == hashed(messages)
    assert sum(by_kernel) == 150
    texts = [rng.bytes(size) for size in [*[20] * 30, *range(40)]]
    assert digest_texts(texts) == hashed(texts)
    assert by_kernel[-1] == 31
    assert digest_texts([]) == b""


def test_without_a_kernel_the_library_hashes(monkeypatch):
    monkeypatch.setattr(hashes, "_kernel", lambda: None)
    rows = matrix(40, 100)
    assert digest_each(rows) == hashed([row.tobytes() for row in rows])


def test_long_texts_are_not_laid_out(by_kernel):
    texts = [bytes([i]) * 2000 for i in range(20)]
    assert digest_texts(texts) == hashed(texts)
    assert by_kernel == []


def test_known_answers():
    """The examples of the standard (FIPS 180-4), sixteen of each."""
    known = {
        b"abc": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq": (
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        ),
    }
    for message, digest in known.items():
        rows = np.frombuffer(message * 16, np.uint8).reshape(16, -1)
        assert digest_each(rows) == bytes.fromhex(digest) * 16
    assert len(bytes.fromhex(digest)) == DIGEST
