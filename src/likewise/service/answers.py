"""The verdict of a single decision as it is sent.

Most have no witness and nothing beside it; these are written without making a dictionary first.

Invariant: the bytes are those that `Verdict.to_dict()` would become, without `over`.
"""

from likewise.intake.verdict_json import answer
from likewise.service.wire import encode
from likewise.values.verdicts import NO_WITNESSES, Verdict

_PLAIN = {
    None: b'{"row":%d,"violation":false,"count":0,"witnesses":[]}',
    True: b'{"row":%d,"violation":false,"comparable":true,"count":0,"witnesses":[]}',
    False: b'{"row":%d,"violation":false,"comparable":false,"count":0,"witnesses":[]}',
}


def verdict_bytes(verdict: Verdict, witnesses: int) -> bytes:
    """A verdict as JSON, with so many of its nearest witnesses."""
    beside = verdict.beside
    if (
        verdict.row is not None
        and (verdict.witnesses is NO_WITNESSES or len(verdict.witnesses) == 0)
        and beside.witness_keys is None
        and beside.witness_models is None
        and beside.neighbours is None
        and not (beside.known or beside.missing or beside.omitted or beside.incomplete)
    ):
        return _PLAIN[beside.comparable] % verdict.row
    return encode(answer(verdict, witnesses, keyed=True))
