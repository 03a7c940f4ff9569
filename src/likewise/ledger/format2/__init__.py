"""Implement format 2: decisions are accepted, then judged; the chain consists of runs of rows."""

from likewise.ledger.format2.chain import record_type as record_type
from likewise.ledger.format2.reading import EVENTS as EVENTS
from likewise.ledger.format2.reading import decisions as decisions
from likewise.ledger.format2.reading import erased_keys as erased_keys
from likewise.ledger.format2.reading import has_keys as has_keys
from likewise.ledger.format2.reading import key_marks as key_marks
from likewise.ledger.format2.reading import row_of as row_of
from likewise.ledger.format2.reading import runs_since as runs_since
from likewise.ledger.format2.reading import state as state
from likewise.ledger.format2.walk import walk as walk
from likewise.ledger.format2.writing import ERASED_FIELDS as ERASED_FIELDS
from likewise.ledger.format2.writing import add_event as add_event
from likewise.ledger.format2.writing import add_note as add_note
from likewise.ledger.format2.writing import anchor as anchor
from likewise.ledger.format2.writing import anchor_fields as anchor_fields
from likewise.ledger.format2.writing import append as append
from likewise.ledger.format2.writing import drop as drop
from likewise.ledger.format2.writing import erase as erase
from likewise.ledger.format2.writing import first_body as first_body
from likewise.ledger.format2.writing import judge as judge

VERSION = 2
