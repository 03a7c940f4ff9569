"""Messages for the spam example, ham and spam, and the disguises that spammers use.

Made up of sentences with slots, always the same messages. Spam and ham share most of their words,
so a filter has to learn which of them tell, and sometimes errs. Where the data folder is present
(LIKEWISE_DATA, or ../shared/data beside the checkout), the messages are the SMS Spam Collection,
with disguises that were recorded for it.
"""

import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

HAM = [
    "Are you coming to {place} {when}?",
    "I left my {thing} at {place}, can you bring it {when}?",
    "Running late, see you {when}.",
    "Happy birthday {name}! Did you get the {thing}?",
    "{name} says hi.",
    "Call me when you get to {place}.",
    "Dinner at {place} {when}, {name} is cooking.",
    "Love you, sleep well.",
    "I won't make it {when}, sorry.",
    "Did {name} text you about the {thing}?",
    "No worries, take your time.",
    "Do you have a free hour {when}?",
    "I lost my mobile, my number is now {phone}.",
    "{name} wants {prize}!",
    "Your parcel arrives {when}. Call {phone} to change that.",
    "How much cash do you need for the {thing}?",
    "Reminder: your appointment is {when}. Reply YES.",
    "The {thing} from {firm} can be collected {when}.",
    "We could use {prize}, couldn't we?",
    "I am at {firm} with {name} now, what do you need?",
    "It is raining here, take the {thing} with you.",
    "The train is late again, start without me.",
    "{name} passed the exam, we are so proud!",
    "Can we talk about the holiday {when}?",
]
SPAM = [
    "You have won {prize} {when}! Call {phone} now.",
    "Text WIN to {code} and get {prize} for {name}!",
    "Your mobile was selected {when}, reply YES for {prize}.",
    "Can you claim your free ringtone {when}?",
    "URGENT! Did you get {prize}? Call {phone} {when}.",
    "{firm} has a prize for you, text {code} {when}.",
    "Do you need cash {when}? Reply YES to {firm}.",
    "{name} left a free phone for you at {firm}, claim it.",
    "Winner! Are you coming for {prize} {when}?",
    "This offer from {firm} is for you, call {phone}.",
    "Take your free {thing} to {place} {when}, text {code}.",
    "Guaranteed {prize}! Call {phone}, {name}.",
]
SLOTS = {
    "name": ["Anna", "Ben", "Carla", "David", "Emma", "Farid", "Grace", "Hugo"],
    "when": ["tonight", "tomorrow", "at noon", "on Friday"],
    "place": ["the station", "the office", "school", "the cinema", "the gym", "Mum's"],
    "thing": ["keys", "charger", "tickets", "notes", "camera"],
    "prize": ["£500 cash", "a new phone", "a holiday for two", "£1000 in vouchers"],
    "firm": ["BestMobile", "LuckyLine", "PrizeClub"],
}
SYNONYMS = {  # of words that tell: those that a spammer would disguise
    "awarded": "granted",
    "call": "ring",
    "cash": "money",
    "claim": "collect",
    "free": "complimentary",
    "guaranteed": "certain",
    "mobile": "handset",
    "offer": "deal",
    "phone": "handset",
    "prize": "gift",
    "reply": "answer",
    "ringtone": "melody",
    "selected": "picked",
    "stop": "end",
    "text": "message",
    "txt": "message",
    "urgent": "vital",
    "win": "gain",
    "winner": "champion",
    "won": "earned",
}
TELLING = re.compile(rf"\b({'|'.join(SYNONYMS)})\b", re.IGNORECASE)
LEET = str.maketrans("aeiostAEIOST", "431057431057")
TWINS = str.maketrans("aceiopxyACEIOPXT", "асеіорхуАСЕІОРХТ")  # Cyrillic, and look the same
DISGUISES = {  # of words that tell; the rest stays as it is, to be read
    "leetspeak": lambda word, rng: word.translate(LEET),
    "spaces or dots": lambda word, rng: rng.choice(" .").join(word),
    "lookalike letters": lambda word, rng: word.translate(TWINS),
    "misspelling": lambda word, rng: word[0] + word[2] + word[1] + word[3:],
    "synonyms": lambda word, rng: SYNONYMS[word.lower()],
}


def made_up(rng: random.Random, count: int) -> Iterator[tuple[str, str]]:
    """What messages are, and what they say. Spam may begin like a friend, and end in numbers."""
    for label in rng.choices(["ham", "spam"], [2, 1], k=count):
        told = rng.sample(HAM, rng.choice([2, 3] if label == "ham" else [0, 1]))
        told += rng.sample(SPAM, rng.choice([1, 2]) if label == "spam" else 0)
        told += ["{phone} {code}"] if rng.random() < (0.9 if label == "spam" else 0.2) else []
        fill = {slot: rng.choice(values) for slot, values in SLOTS.items()}
        fill |= {"phone": f"0{rng.randrange(10**9, 10**10)}", "code": rng.randrange(80000, 90000)}
        yield label, " ".join(told).format(**fill)


def given() -> tuple[str, pd.DataFrame]:
    """Where messages are from; for each what it is, its text, and a recorded disguise if any."""
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("LIKEWISE_DATA") or shared)
    if not (folder / "SMSSpamCollection.tsv.gz").is_file():
        made = pd.DataFrame(made_up(random.Random(0), 1800), columns=["truth", "text"])
        return "made-up messages", made.assign(recorded=made.text)
    as_it_is = {"sep": "\t", "quoting": 3, "header": None, "keep_default_na": False}
    real = pd.read_csv(folder / "SMSSpamCollection.tsv.gz", names=["truth", "text"], **as_it_is)
    known = pd.read_csv(folder / "spam_variants.txt.gz", index_col=0, **as_it_is)[1]
    recorded = known.reindex(real.index).fillna(real.text)
    return "messages of the SMS Spam Collection", real.assign(recorded=recorded)


def disguised(text: str, ham: list[str], rng: random.Random) -> dict[str, str]:
    """The same message, in each disguise."""
    told = {k: TELLING.sub(lambda m, f=f: f(m[0], rng), text) for k, f in DISGUISES.items()}
    return told | {"innocent words": f"{text} {rng.choice(ham)}"}
