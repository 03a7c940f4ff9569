"""Verify a ledger of format 1 without likewise: python verify_ledger_1.py FOLDER."""

import json
import math
import re
import sqlite3
import sys
from hashlib import sha256
from pathlib import Path
from struct import pack

folder = Path(sys.argv[1])
db = sqlite3.connect(f"{(folder / 'ledger.sqlite').absolute().as_uri()}?mode=ro", uri=True)
known = "decision decision_key decisions event witness word word_code"  # see the schema
there = db.execute(
    "SELECT name FROM sqlite_master WHERE substr(name, 1, 7) != 'sqlite_' ORDER BY 1"
)
assert " ".join(name for (name,) in there) == known, "tables, or triggers, of another format"
events = [(*event, json.loads(event[4])) for event in db.execute("SELECT * FROM event ORDER BY 1")]
layout = next((event[-1] for event in reversed(events) if event[3] == "layout"), {})
erased = {row for event in events if event[3] == "erased" for row in event[-1]["rows"]}
dropped = next((event[-1] for event in reversed(events) if event[3] == "dropped"), None)
said = {event[-1]["words"]: event[-1]["link"] for event in events if event[3] == "words"}
row, link, number = 0, bytes(32), 0
if dropped:
    row, link, number = dropped["first"], bytes.fromhex(dropped["link"]), dropped["event"]
    said[dropped["words"]] = dropped["words_link"]
    for event in events:
        digest = sha256(f"{event[3]}\0{event[4]}".encode()).hexdigest()
        assert event[0] >= number or dropped["kept"][str(event[0])] == digest, f"event {event[0]}"

words = bytes(32)
for n, column, code, value, salt, commitment, stored in db.execute("SELECT * FROM word ORDER BY 1"):
    assert value is None or sha256(salt + value.encode()).digest() == commitment, f"word {n}"
    words = sha256(words + b"W" + pack("<QQ", n, code) + commitment + column.encode()).digest()
    assert words == stored and said.get(n + 1, words.hex()) == words.hex(), f"word {n}"

kinds = [kind for _, kind in layout.get("columns", [(None, layout.get("type", "<f0"))])]
parts = [part for kind in kinds for part in re.findall(r"(?:\((\d+),\))?[<|]\w(\d+)", kind)]
size = sum(int(many or 1) * int(width) for many, width in parts)
size *= math.prod(layout.get("shape", ()))
record_bytes = 80 + size + -size % 8
waiting = [event for event in events if event[0] >= number]
witnesses = 0
for decision in [*db.execute("SELECT * FROM decision ORDER BY row"), None]:
    while waiting and waiting[0][1] == row:
        n, at_row, time, kind, body, stored, _ = waiting.pop(0)
        head = b"E" + pack("<QQq", n, at_row, time) + kind.encode() + b"\0" + body.encode()
        link, number = sha256(link + head).digest(), number + 1
        assert link == stored and n == number - 1, f"event {n}"
    if decision is None:
        break
    at, time, key, output, first, count = decision
    assert at == row, f"row {row} is missing"
    segment = row // layout["segment_rows"] * layout["segment_rows"]
    with (folder / f"{segment:012}.rows").open("rb") as file:
        file.seek((row - segment) * record_bytes)
        record = file.read(record_bytes)
    salt, commitment, stored, given = record[:16], record[16:48], record[48:80], record[80:][:size]
    numbers = output if isinstance(output, bytes) else pack("<d", output or 0)
    name = key.encode() if isinstance(key, str) else pack("<q", key or 0)
    name = b"" if key is None else (b"t" if isinstance(key, str) else b"i") + name
    made = sha256(salt + numbers + given + name).digest()
    gone = row in erased and (any(salt) or not any(given))  # salts go last: cut off, or done
    assert made == commitment or gone, f"row {row}"
    count = 2**64 - 1 if count is None else count
    head = b"D" + pack("<Qq", row, time) + commitment + pack("<QQ", first, count)
    query = "SELECT witness, input_distance, output_distance, place FROM witness WHERE row = ?"
    near = db.execute(query + " ORDER BY place", (row,)).fetchall()
    assert [one[3] for one in near] == list(range(len(near))), f"row {row}"
    witnesses += len(near)
    head += b"".join(pack("<qdd", *one[:3]) for one in near)
    link, row = sha256(link + head).digest(), row + 1
    assert link == stored, f"row {row - 1}"
assert db.execute("SELECT count(*) FROM witness").fetchone() == (witnesses,), "other witnesses"
assert not waiting, "an event stands at the wrong row"
print(f"likewise-head 1 {row} {number} {link.hex()}")
