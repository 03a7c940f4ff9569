"""The SMS Spam messages and their evasion variants, where the folder of real data is.

The folder is LIKEWISE_DATA, else ../shared/data beside the checkout. Row i of sms_minilm_f16.npz is
message i of SMSSpamCollection.tsv.gz, and after the last one the variants of spam_variants.txt.gz
in order; each begins with the row of the message that it was made of.
"""

import gzip
import json
import os
from pathlib import Path

import numpy as np

FOLDER = Path(
    os.environ.get("LIKEWISE_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
)
EXPECTED = FOLDER / "expected_derived.json"
HERE = EXPECTED.is_file()
KNOWN = json.loads(EXPECTED.read_text()) if HERE else []


def lines(name):
    with gzip.open(FOLDER / name, "rt", encoding="utf-8", newline="") as file:
        return [line.split("\t", 1) for line in file.read().split("\n")[:-1]]


def messages():
    """All 6,321 texts, and what the npz has of them."""
    plain, variants = lines("SMSSpamCollection.tsv.gz"), lines("spam_variants.txt.gz")
    data = np.load(FOLDER / "sms_minilm_f16.npz")
    labels = [kind == "spam" for kind, _ in plain]
    assert data["label"][: len(plain)].tolist() == labels
    assert data["source_row"].tolist() == [*range(len(plain)), *(int(row) for row, _ in variants)]
    return [text for _, text in (*plain, *variants)], data


def answers(decisions):
    """By radius: flagged rows and pairs of the SMS stream, under one filter's decisions."""
    (known,) = (
        one for one in KNOWN if "sms" in one["file"] and one["stream"].endswith(f"={decisions}")
    )
    return {one["eps"]: (one["flagged"], one["pairs"]) for one in known["result"]}
