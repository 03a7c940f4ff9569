"""Verify a ledger without likewise: python verify_ledger.py FOLDER (see ledger-format.md)."""

import json
import math
import re
import sqlite3
import sys
from hashlib import sha256
from pathlib import Path
from struct import pack, unpack

folder = Path(sys.argv[1])
db = sqlite3.connect(f"{(folder / 'ledger.sqlite').absolute().as_uri()}?mode=ro", uri=True)
assert db.execute("PRAGMA user_version").fetchone() == (2,), "a ledger of another format"
known = """erased_key event event_kind key key_key member note note_other note_row
verdict verdict_distance verdict_model verdict_review violations word word_code"""
there = db.execute("SELECT name FROM sqlite_master WHERE substr(name, 1, 7) != 'sqlite_'")
assert sorted(name for (name,) in there) == known.split(), "tables, or triggers, of another format"
said = [
    (n, kind, body)
    for n, kind, body in db.execute(
        "SELECT number, kind, body FROM event WHERE first IS NULL ORDER BY 1"
    )
]
events = [(n, kind, body, json.loads(body)) for n, kind, body in said]
layout = next((about for _, kind, _, about in reversed(events) if kind == "layout"), {})
erased = {row for _, kind, _, about in events if kind == "erased" for row in about["rows"]}
dropped = next((about for _, kind, _, about in reversed(events) if kind == "dropped"), None)
words_said = {about["words"]: about["link"] for _, kind, _, about in events if kind == "words"}
first, link, number = 0, bytes(32), 0
if dropped:
    first, link, number = dropped["first"], bytes.fromhex(dropped["link"]), dropped["event"]
    words_said[dropped["words"]] = dropped["words_link"]
    erased |= set(dropped.get("erased", ()))
    for n, kind, body, _ in events:
        digest = sha256(f"{kind}\0{body}".encode()).hexdigest()
        assert n >= number or dropped["kept"][str(n)] == digest, f"event {n}"

words = bytes(32)
for n, column, code, value, salt, commitment, stored in db.execute("SELECT * FROM word ORDER BY 1"):
    assert value is None or sha256(salt + value.encode()).digest() == commitment, f"word {n}"
    words = sha256(words + b"W" + pack("<QQ", n, code) + commitment + column.encode()).digest()
    assert words == stored and words_said.get(n + 1, words.hex()) == words.hex(), f"word {n}"

kinds = [kind for _, kind in layout.get("columns", [(None, layout.get("type", "<f0"))])]
parts = [part for kind in kinds for part in re.findall(r"(?:\((\d+),\))?[<|]\w(\d+)", kind)]
size = sum(int(many or 1) * int(width) for many, width in parts) * math.prod(
    layout.get("shape", ())
)
begin = 112 + 8 * layout.get("outputs", 1)  # of the input in a record
record_bytes = begin + size + -size % 8


def record(row):
    segment = row // layout["segment_rows"] * layout["segment_rows"]
    with (folder / f"{segment:012}.rows").open("rb") as file:
        file.seek((row - segment) * record_bytes)
        return file.read(record_bytes)


def check_values(row, data):
    (key,) = db.execute("SELECT key FROM key WHERE row = ?", (row,)).fetchone() or (None,)
    name = b"t" + key.encode() if isinstance(key, str) else b"i" + pack("<q", key or 0)
    named = bytes(32) if key is None else sha256(name).digest()
    made = sha256(data[:16] + named + data[112 : begin + size]).digest()
    unfinished = any(data[:16])  # the salt goes last: this erasure was interrupted
    gone = row in erased and key is None and (unfinished or not any(data[112:]))
    assert made == data[16:48] or gone, f"row {row}"
    return key is not None


def verdict(row, data):
    """The pairs that are kept of a verdict, and the commitment to their distances."""
    if unpack("<q", data[88:96])[0] <= 0:
        return b"", b""
    query = "SELECT witnesses, distances, salt, commitment FROM verdict WHERE row = ?"
    named, distances, salt, commitment = db.execute(query, (row,)).fetchone()
    others = unpack(f"<{len(named) // 8}q", named)
    assert list(others) == sorted(set(others)), f"row {row}: witnesses are named by row"
    gone = distances is salt is None and erased & {row, *others}
    assert gone or sha256(salt + distances).digest() == commitment, f"row {row}: distances"
    return b"".join(pack("<qq", row, other) for other in others), commitment


rows = judged = first
flagged = named_rows = 0
query = "SELECT number, at_row, time, kind, first, stop, body, link FROM event WHERE number >= ?"
for n, at_row, time, kind, start, stop, body, stored in db.execute(
    query + " ORDER BY 1", (number,)
):
    content = body if isinstance(body, bytes) else body.encode()
    head = b"E" + pack("<QQq", n, at_row, time) + kind.encode() + b"\0" + content
    link, number = sha256(link + head).digest(), number + 1
    assert link == stored and n == number - 1, f"event {n}"
    if start is None or stop <= first:
        continue
    data = [record(row) for row in range(start, stop)]
    bounds = {"decisions": slice(16, 80), "verdicts": slice(80, 112), "judged": slice(16, 112)}[
        kind
    ]
    told = pack("<QQ", start, stop) + b"".join(one[bounds] for one in data)
    if kind != "decisions":
        found = [verdict(start + i, one) for i, one in enumerate(data)]
        told += b"".join(pairs for pairs, _ in found) + b"".join(hidden for _, hidden in found)
        assert start == judged, f"row {judged} has no verdict, or two"
        judged, flagged = stop, flagged + sum(hidden != b"" for _, hidden in found)
    assert sha256(told).digest() == body, f"rows {start} to {stop - 1}"
    if kind != "verdicts":
        assert (start, at_row) == (rows, stop), f"row {rows} is missing"
        for i, one in enumerate(data):
            named_rows += check_values(start + i, one)
        rows = stop
assert db.execute("SELECT count(*) FROM key").fetchone() == (named_rows,), "keys of no decision"
assert db.execute("SELECT count(*) FROM verdict").fetchone() == (flagged,), "verdicts of none"
print(f"likewise-head 2 {rows} {number} {link.hex()}")
