"""Compare the words of a ledger with their chain, which `words` events pin down."""

from likewise.ledger.hashes import GENESIS, SALT, word_commitment, word_link
from likewise.ledger.protocol import Reading
from likewise.ledger.stored import Altered


def check_words(reader: Reading) -> None:
    """Raise Altered unless all words are as they were written, or were erased."""
    wanted = {0: GENESIS}
    erased = {word for event in reader.events("erased") for word in event.listed("words")}
    try:
        for event in reader.events("words"):
            wanted[int(event.body["words"])] = bytes.fromhex(event.body["link"])
        for event in reader.events("dropped")[-1:]:
            wanted[int(event.body["words"])] = bytes.fromhex(event.body["words_link"])
            erased |= set(event.body["erased_words"])
    except (KeyError, ValueError, TypeError):
        raise Altered(None, "an event about words cannot be read") from None
    link, count = GENESIS, 0
    for number, column, code, value, salt, commitment, stored in reader.words():
        problem = f"word {number} of {column or 'the output'!r} is not as it was written"
        if number != count or not isinstance(column, str) or not isinstance(code, int):
            raise Altered(None, problem)
        if value is None or salt is None:
            if number not in erased:
                raise Altered(None, problem)
        elif len(salt) != SALT or word_commitment(salt, value) != commitment:
            raise Altered(None, problem)
        link = word_link(link, number, column, code, commitment)
        count += 1
        if link != stored or wanted.get(count, link) != link:
            raise Altered(None, problem)
    if count != max(wanted):
        raise Altered(None, f"there are {count} words, and there should be {max(wanted)}")
