"""Embedders small enough to be checked by hand, and texts and pictures for them."""

import numpy as np

LETTERS = "abcdefgh"
ASKED = []
"""Every item that `letters` was asked about."""


def letters(batch):
    """How often each letter occurs, and a third of the length: float32."""
    ASKED.extend(batch)
    return np.array([letter_vector(one) for one in batch], np.float32)


def letter_vector(text):
    return [*map(text.count, LETTERS), len(text) / 3]


def pixels(batch):
    """The levels of a picture's first channel over 64: float64."""
    return np.array([pixel_vector(one) for one in batch], float)


def pixel_vector(picture):
    picture = np.asarray(picture, float)
    return (picture[..., 0] if picture.ndim == 3 else picture).reshape(-1) / 64


def some_texts(rng, count, longest=4):
    """Short texts of few letters: many are near others, some come twice."""
    lengths = rng.integers(1, longest + 1, count)
    return ["".join(rng.choice(list("abcd"), length)) for length in lengths]


def some_pictures(rng, count):
    return list(rng.integers(0, 4, (count, 2, 2), dtype=np.uint8) * np.uint8(32))
