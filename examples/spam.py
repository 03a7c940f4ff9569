"""Spam, watched: two filters, spammers who dodge them, and a warning where one got through.

    python examples/spam.py [FOLDER]

A filter learns from a third of the messages, epsilon is chosen on the second, and the last is the
traffic that a monitor watches. Then come the spam messages that the filter caught, each disguised
in several ways. The monitor compares by meaning (a text embedding) and warns where a message like
an earlier one gets another answer; it counts near messages too, since probing comes in bursts.

Messages are made up (messages.toml). With the data folder (LIKEWISE_DATA, or ../shared/data beside
the checkout) they are the SMS Spam Collection, with disguises that were recorded for it. FOLDER
(build/examples) gets spam.html, the report, and spam.csv, every decision, to count again.
"""

import gzip
import os
import random
import re
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

import likewise as lw

RATE = 0.01  # of ordinary messages may be flagged, and as many may raise an alarm
LAST = 10  # messages back in which near ones are counted
HERE = Path(__file__).resolve()
WORDS = tomllib.loads((HERE.parent / "messages.toml").read_text(encoding="utf-8"))
TELLING = re.compile(rf"\b({'|'.join(WORDS['synonyms'])})\b", re.IGNORECASE)
LEET = str.maketrans("aeiostAEIOST", "431057431057")
TWINS = str.maketrans("aceiopxyACEIOPXT", "асеіорхуАСЕІОРХТ")  # Cyrillic, and look the same
DISGUISES = {  # of words that tell; the rest stays as it is, to be read
    "leetspeak": lambda word, rng: word.translate(LEET),
    "spaces or dots": lambda word, rng: rng.choice(" .").join(word),
    "lookalike letters": lambda word, rng: word.translate(TWINS),
    "misspelling": lambda word, rng: word[0] + word[2] + word[1] + word[3:],
    "synonyms": lambda word, rng: WORDS["synonyms"][word.lower()],
}
BY_CHARACTERS = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5))
FILTERS = {
    "words": make_pipeline(TfidfVectorizer(), MultinomialNB(alpha=0.1)),
    "characters": make_pipeline(BY_CHARACTERS, LogisticRegression(C=100)),
}


def made_up(rng: random.Random, count: int):
    """What messages are, and what they say: some sentences. Spam may begin like a friend."""
    for label in rng.choices(["ham", "spam"], [2, 1], k=count):
        told = rng.sample(WORDS["ham"], rng.choice([2, 3] if label == "ham" else [0, 1]))
        told += rng.sample(WORDS["spam"], rng.choice([1, 2]) if label == "spam" else 0)
        fill = {slot: rng.choice(values) for slot, values in WORDS["slots"].items()}
        fill |= {"phone": f"0{rng.randrange(10**9, 10**10)}", "code": rng.randrange(80000, 90000)}
        yield label, " ".join(told).format(**fill)


def read(path: Path) -> list[list[str]]:
    return [line.split("\t", 1) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]


def given() -> tuple[str, np.ndarray, dict[int, str]]:
    """Where the messages are from, what they are and say, and recorded disguises by message."""
    folder = Path(os.environ.get("LIKEWISE_DATA") or HERE.parents[2] / "shared" / "data")
    real = folder / "SMSSpamCollection.tsv.gz"
    if not real.is_file():
        return "made-up messages", np.array(list(made_up(random.Random(0), 1800)), object), {}
    recorded = {int(row): text for row, text in read(folder / "spam_variants.txt.gz")}
    return "the SMS Spam Collection", np.array(read(real), object), recorded


def disguised(text: str, ham: np.ndarray, rng: random.Random) -> dict[str, str]:
    told = {k: TELLING.sub(lambda m, f=f: f(m[0], rng), text) for k, f in DISGUISES.items()}
    return told | {"innocent words": f"{text} {rng.choice(ham)}"}


def counted_again(vectors: np.ndarray, answers: np.ndarray, reach: float):
    """Of each row its witnesses, and how many of the last were near: all against all."""
    for row, vector in enumerate(vectors):
        near = np.linalg.norm(vectors[:row] - vector, axis=1) <= reach
        yield np.flatnonzero(near & (answers[:row] != answers[row])).tolist(), near[-LAST:].sum()


def watch(name, messages, recorded) -> tuple[lw.Calibration, pd.DataFrame]:
    """How epsilon was chosen, and each decision of a filter with what the monitor said."""
    (known, learnt), (_, choosing), (truth, traffic) = (messages[i::3].T for i in range(3))
    model, rng = FILTERS[name].fit(learnt, known.astype(str)), random.Random(1)
    rule = lw.Rule("l2", 1, embed="wordllama")
    past = lw.calibrate(rule, choosing, model.predict(choosing).tolist())
    rule = replace(rule, epsilon=past.epsilon_for(RATE))
    usual = lw.Monitor(rule, burst=lw.Burst(LAST)).observe_many(choosing, choosing).neighbours
    burst = lw.Burst(LAST, alarm=int(np.quantile(usual, 1 - RATE, method="higher")) + 1)
    stream = [("none", row, text) for row, text in enumerate(traffic)]
    for row in np.flatnonzero((model.predict(traffic) == "spam") & (truth == "spam")).tolist():
        told = disguised(traffic[row], learnt[known == "ham"], rng)
        told["recorded"] = recorded.get(3 * row + 2, traffic[row])
        stream += [(kind, row, text) for kind, text in told.items() if text != traffic[row]]
    table = pd.DataFrame(stream, columns=["disguise", "original", "text"])
    table["truth"], table["answer"] = truth[table.original], model.predict(table.text)
    monitor = lw.Monitor(rule, burst=burst)
    verdicts = monitor.observe_many(table.text, table.answer)
    vectors = monitor.inputs(np.arange(len(table))).astype(float)
    again = counted_again(vectors, table.answer.to_numpy(), monitor.explain().reach)
    assert [(one.witnesses.rows.tolist(), one.neighbours) for one in verdicts] == list(again)
    nearest = lw.calibrate(rule, table.text, table.answer)
    table["witnesses"], table["nearest"], table["away"] = verdicts.counts, nearest.rows, nearest.distances
    table["moved"] = np.linalg.norm(vectors - vectors[table.original], axis=1)
    table["named"] = [row in one.witnesses.rows for row, one in zip(table.original, verdicts)]
    table["neighbours"], table["alarm"] = verdicts.neighbours, verdicts.alarms
    return past, table.assign(filter=name, flagged=verdicts.violations)


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0] if arguments else "build/examples")
    folder.mkdir(parents=True, exist_ok=True)
    source, messages, recorded = given()
    tables = []
    for name in FILTERS:
        past, table = watch(name, messages, recorded)
        tables.append(table)
        e = table[(table.disguise != "none") & (table.answer == "ham")]
        o = table[table.disguise=="none"]
        print(name, past.epsilon_for(RATE), (o.truth==o.answer).mean(), "ordinary", o.flagged.sum(), o.alarm.sum(), len(o))
        print(table.groupby("disguise", sort=False)[["moved"]].describe())
        print(table.groupby("disguise",sort=False).agg(sent=("text","size"),alarm=("alarm","sum"),nb=("neighbours","mean"),nbm=("neighbours","max")))
        print(e.groupby("disguise",sort=False).agg(through=("text","size"),flagged=("flagged","sum"),named=("named","sum"),alarm=("alarm","sum")))
        print("either", (e.flagged|e.alarm).sum(), e.flagged.sum(), e.named.sum(), len(e))
    pd.concat(tables).to_csv(folder / "spam.csv")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
