"""Verify a ledger without likewise: python verify_ledger.py FOLDER (see ledger-format.md)."""

import json
import math
import re
import sqlite3
import sys
import tomllib
from hashlib import sha256
from pathlib import Path
from struct import pack, unpack

folder = Path(sys.argv[1])
db = sqlite3.connect(f"{(folder / 'ledger.sqlite').absolute().as_uri()}?mode=ro", uri=True)
assert db.execute("PRAGMA user_version").fetchone() == (2,), "a ledger of another format"
known = """event event_kind key key_key member note note_other note_row
verdict verdict_distance verdict_model verdict_review violations word word_code"""
there = db.execute("SELECT name FROM sqlite_master WHERE substr(name, 1, 7) != 'sqlite_'")
assert sorted(name for (name,) in there) == known.split(), "tables, or triggers, of another format"
said = db.execute("SELECT number, kind, body FROM event WHERE first IS NULL ORDER BY 1")
events = [(n, kind, json.loads(body)) for n, kind, body in said]
layout = next((about for _, kind, about in reversed(events) if kind == "layout"), {})
rule = next(tomllib.loads(about["rule"]) for _, kind, about in reversed(events) if kind == "rule")
erased = {row for _, kind, about in events if kind == "erased" for row in about["rows"]}
dropped = next((about for _, kind, about in reversed(events) if kind == "dropped"), None)
words_said = {about["words"]: about["link"] for _, kind, about in events if kind == "words"}


def event_link(before, n, at_row, time, kind, body):
    content = body if isinstance(body, bytes) else body.encode()
    event = b"E" + pack("<QQq", n, at_row, time) + kind.encode() + b"\0" + content
    return sha256(before + event).digest()


first, link, number = 0, bytes(32), 0
if dropped:
    first, link, number = dropped["first"], bytes.fromhex(dropped["link"]), dropped["event"]
    words_said[dropped["words"]] = dropped["words_link"]
    erased |= set(dropped.get("erased", ()))
columns = "number, at_row, time, kind, body, link, coalesce(first, stop, latest)"
kept = db.execute(f"SELECT {columns} FROM event WHERE number < ?", (number,)).fetchall()
digests = {str(n): event_link(link, n, *rest).hex() for n, *rest, link, _ in kept}
assert digests == (dropped or {}).get("kept", {}), "events that stayed are others"
assert all(run is None for *_, run in kept), "events that stayed are no runs of rows"

words = bytes(32)
for n, column, code, value, salt, commitment, stored in db.execute("SELECT * FROM word ORDER BY 1"):
    assert value is None or len(salt) == 16, f"word {n}"
    assert value is None or sha256(salt + value.encode()).digest() == commitment, f"word {n}"
    words = sha256(words + b"W" + pack("<QQ", n, code) + commitment + column.encode()).digest()
    assert words == stored and words_said.get(n + 1, words.hex()) == words.hex(), f"word {n}"

begin = at = 128 + 8 * layout.get("outputs", 1)  # of the input in a record
protected = []  # columns, and where their codes are in a record
for name, kind in layout.get("columns", [("", layout.get("type", "<f0"))]):
    if rule.get("features", {}).get(name, {}).get("kind") == "protected":
        protected.append((name, at))
    for many, width in re.findall(r"(?:\((\d+),\))?[<|]\w(\d+)", kind):
        at += int(many or 1) * int(width)
size = (at - begin) * math.prod(layout.get("shape", ()))
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
    made = sha256(data[:16] + named + data[128 : begin + size]).digest()
    unfinished = any(data[:16])  # the salt goes last: this erasure was interrupted
    gone = row in erased and key is None and (unfinished or not any(data[128:]))
    assert made == data[16:48] or gone, f"row {row}"
    return key is not None


def verdict(row, data):
    """The pairs that are kept of a verdict, and the commitment to their distances."""
    time, _, model, count = unpack("<q16xii8xq", data[48:96])
    if count <= 0:
        return b"", b""
    query = "SELECT time, model, count, distance, witnesses, distances, salt, commitment"
    *same, nearest, named, distances, salt, commitment = db.execute(
        f"{query} FROM verdict WHERE row = ?", (row,)
    ).fetchone()
    others = unpack(f"<{len(named) // 8}q", named)
    assert list(others) == sorted(set(others)), f"row {row}: witnesses are named by row"
    assert same == [time, model, count], f"row {row}: time, model or count"
    if row not in erased:
        groups.update((name, unpack("<i", data[at : at + 4])[0], row) for name, at in protected)
    if distances is salt is nearest is None and erased & {row, *others}:
        pass  # destroyed with what they could tell
    else:
        assert (len(salt), len(distances)) == (16, 2 * len(named)), f"row {row}: distances"
        assert sha256(salt + distances).digest() == commitment, f"row {row}: distances"
        told = unpack(f"<{len(named) // 4}d", distances)[: len(others)]
        assert nearest == min(told, default=None), f"row {row}: the nearest distance"
    return b"".join(pack("<qq", row, other) for other in others), commitment


groups = set()
rows = judged = first
latest = dropped["latest"] if dropped else 0
flagged = named_rows = 0
query = "SELECT number, at_row, time, kind, body, first, stop, latest, link FROM event"
for *event, start, stop, last, stored in db.execute(
    f"{query} WHERE number >= ? ORDER BY 1", (number,)
):
    n, at_row, _, kind, body = event
    link, number = event_link(link, *event), number + 1
    assert link == stored and n == number - 1, f"event {n}"
    if start is None or stop <= first:
        assert start is not None or stop is last is None, f"event {n}"
        continue
    data = [record(row) for row in range(start, stop)]
    bounds = {"decisions": slice(16, 80), "verdicts": slice(80, 128), "judged": slice(16, 128)}[
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
            latest = max(latest, unpack("<q", one[48:56])[0])
        assert last == latest, f"rows {start} to {stop - 1}: the latest time"
        rows = stop
assert db.execute("SELECT count(*) FROM key").fetchone() == (named_rows,), "keys of no decision"
assert db.execute("SELECT count(*) FROM verdict").fetchone() == (flagged,), "verdicts of none"
there = set(db.execute('SELECT "column", code, row FROM member'))
assert there == groups, f"the table member: {sorted(map(str, there ^ groups))[0]}"

notes = {n: rest for n, *rest in db.execute("SELECT * FROM note")}
reviews = {}
for n, kind, about in events:
    if kind in ("review", "superseded", "truth") and about["row"] >= first:
        row, other, text, salt = notes.pop(n)
        rows_said = about["row"], about.get("by_row" if kind == "superseded" else "witness")
        assert (row, other) == rows_said, f"the note of event {n}"
        assert text is salt is None or len(salt) == 16, f"the note of event {n}"
        made = text is not None and sha256(salt + text.encode()).hexdigest()
        assert made in (False, about["note"]), f"the note of event {n}"
        if kind == "review":
            reviews[row] = about["disposition"]
assert not notes, "notes of no event"
marked = dict(db.execute("SELECT row, review FROM verdict WHERE review IS NOT NULL"))
assert marked == {row: one for row, one in reviews.items() if one != "open"}, "reviews"
print(f"likewise-head 2 {rows} {number} {link.hex()}")
