"""Spam, watched: two filters, spammers who dodge them, and a warning where one got through.

    python examples/spam.py [FOLDER]

A filter learns from a third of the messages (messages.py), epsilon is chosen on the next, and the
last is the traffic that a monitor watches. Then comes the spam that was caught, in disguises. What
is near, by a text embedding, and got another answer is flagged; a burst of near ones is noticed.
FOLDER (build/examples) gets spam.html, the report, and spam.csv, every decision, to count again.
"""

import random
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from gallery import Gallery
from messages import disguised, given
from sklearn import linear_model, naive_bayes
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

import likewise as lw

RATE, LAST = 0.01, 10  # of ordinary messages may be flagged; messages that may be a burst
NGRAMS = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5))
FILTERS = {
    "words": make_pipeline(TfidfVectorizer(), naive_bayes.MultinomialNB(alpha=0.1)),
    "characters": make_pipeline(NGRAMS, linear_model.LogisticRegression(C=100)),
}
COLUMNS = ["disguise", "sent", "got through", "of these flagged", "original named", "moved by"]
BUDGETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
LEAD = """Two spam filters, {}, and spam in disguise. What means nearly the same as an earlier
message and got another answer is flagged. Nearly: within ε, which is as large as it may be if at
most 1% of the messages that it is chosen on are flagged."""
BLIND = """An embedding knows pieces of words. Where telling words are torn into letters, digits
or another alphabet, a text may lie beyond ε, however well a person reads it."""
COST = "Without disguise. Such a pair is an error of the filter, or a likeness that means nothing."


def counted_again(vectors: np.ndarray, answers: np.ndarray, reach: float):
    """Of each row its witnesses, and how many of the last are near: all against all."""
    for row, vector in enumerate(vectors):
        near = np.linalg.norm(vectors[:row] - vector, axis=1) <= reach
        yield np.flatnonzero(near & (answers[:row] != answers[row])).tolist(), near[-LAST:].sum()


def watch(name: str, messages: pd.DataFrame) -> pd.DataFrame:
    """Each decision of a filter, on ordinary and then on disguised messages, and its verdict."""
    learnt, chosen, live = (messages[i::3].reset_index(drop=True) for i in range(3))
    model, rng = FILTERS[name].fit(learnt.text, learnt.truth), random.Random(1)
    rule = lw.Rule("l2", 1, embed="wordllama")
    epsilon = lw.calibrate(rule, chosen.text, model.predict(chosen.text)).epsilon_for(RATE)
    rule = lw.Rule("l2", epsilon, embed="wordllama")
    usual = lw.Monitor(rule, burst=lw.Burst(LAST)).observe_many(chosen.text, chosen.truth)
    alarm = 1 + int(np.sort(usual.neighbours)[-1 - int(RATE * len(chosen))])
    ham = learnt.text[learnt.truth == "ham"].tolist()
    stream = [("plain", row, text) for row, text in live.text.items()]
    for row, one in live[(live.truth == "spam") & (model.predict(live.text) == "spam")].iterrows():
        told = disguised(one.text, ham, rng) | {"recorded": one.recorded}
        stream += [(kind, row, text) for kind, text in told.items() if text != one.text]
    table = pd.DataFrame(stream, columns=["disguise", "original", "text"])
    table["truth"], table["answer"] = live.truth[table.original].array, model.predict(table.text)
    monitor = lw.Monitor(rule, burst=lw.Burst(LAST, alarm))
    verdicts = monitor.observe_many(table.text, table.answer)
    vectors = monitor.past.inputs(np.arange(len(table))).astype(float)
    again = counted_again(vectors, table.answer.to_numpy(), monitor.explain().reach)
    assert list(again) == [(one.witnesses.rows.tolist(), one.neighbours) for one in verdicts]
    table["through"] = (table.disguise != "plain") & (table.answer == "ham")
    table["flagged"], table["warned"] = verdicts.violations, table.through & verdicts.violations
    table["neighbours"], table["alarm"] = verdicts.neighbours, verdicts.alarms
    table["named"] = [table.original[i] in one.witnesses.rows for i, one in enumerate(verdicts)]
    table["moved"] = np.linalg.norm(vectors - vectors[table.original], axis=1)
    nearest = lw.calibrate(rule, table.text, table.answer)  # beyond epsilon, too
    table["nearest"], table["away"] = nearest.rows, nearest.distances
    return table.assign(filter=name, epsilon=epsilon)


def tally(table: pd.DataFrame) -> pd.DataFrame:
    """Counts by disguise, and by how much the median text moved."""
    kinds = {"text": "size", "through": "sum", "warned": "sum", "named": "sum", "moved": "median"}
    counts = table[table.disguise != "plain"].groupby("disguise", sort=False).agg(kinds).round(3)
    return counts.reset_index().set_axis(COLUMNS, axis=1)


def summary(table: pd.DataFrame) -> dict[str, str]:
    ordinary, sent = table[table.disguise == "plain"], table[table.disguise != "plain"]
    flagged, bursts = ordinary[ordinary.flagged], sent.groupby("original").alarm.any()
    erred = flagged.truth.array == ordinary.truth[flagged.nearest].array
    return {
        "epsilon": f"{table.epsilon[0]:.4f}",
        "ordinary messages told rightly": f"{(ordinary.answer == ordinary.truth).mean():.1%}",
        "disguised messages that got through": f"{sent.through.sum():,} of {len(sent):,}",
        "of these flagged": f"{sent.warned.sum():,} of {sent.through.sum():,}",
        "ordinary messages flagged": f"{len(flagged)} of {len(ordinary):,}",
        "of these with the filter wrong about one of the two": f"{erred.sum()} of {len(flagged)}",
        "spammers whose probing raised an alarm": f"{bursts.sum()} of {len(bursts)}",
        "ordinary messages that raised one": f"{ordinary.alarm.sum()} of {len(ordinary):,}",
    }


def pairs(page: Gallery, title: str, words: str, rows: pd.DataFrame, table: pd.DataFrame):
    page.section(title, words)
    for row, one in rows.iterrows():
        other, away = (one.original, one.moved) if one.original != row else (one.nearest, one.away)
        told = f"this looks like row {other}, which you called {table.answer[other]}."
        note = f"{away:.3f} apart, ε = {one.epsilon:.3f}: {told if one.flagged else 'no warning.'}"
        names, outputs = (f"row {other}", f"row {row}"), (table.answer[other], one.answer)
        texts = table.text[other], one.text
        page.pair(*texts, one.disguise, note=note, names=names, outputs=outputs)


def report(source: str, tables: dict[str, pd.DataFrame]) -> Gallery:
    page = Gallery("This looks like row 17, which you called spam", LEAD.format(source))
    told, shares = pd.DataFrame({name: summary(table) for name, table in tables.items()}), {}
    for what in ("disguised messages that got through", "of these flagged"):
        page.figures([(f"{what}: filter by {name}", told[name][what]) for name in tables])
    page.table(told.reset_index().to_numpy().tolist(), ["", *tables], "Both filters")
    page.section("By disguise", "The last column: how far its disguise moves the median text.")
    for name, table in tables.items():
        page.table(tally(table).to_numpy().tolist(), COLUMNS, f"The filter by {name}")
        near = np.quantile(table.away[table.disguise == "plain"], BUDGETS, method="lower")
        shares[name] = [(table.away[table.through] <= epsilon).mean() for epsilon in near]
    at, title = [f"{budget:.1%}" for budget in BUDGETS], "What another ε would find"
    page.lines(shares, at, title, across="of ordinary messages flagged", up="of what got through")
    table = tables["words"]
    first = table[table.through].groupby(["disguise", "flagged", "named"], sort=False).head(1)
    pairs(page, "Got through, and flagged", "Past the filter by words.", first[first.named], table)
    pairs(page, "Got through, and missed", BLIND, first[~first.flagged], table)
    ordinary = table[table.flagged & (table.disguise == "plain")]
    pairs(page, "Ordinary, and flagged", COST, ordinary.head(4), table)
    return page


def main(arguments: list[str]) -> None:
    folder = Path(arguments[0] if arguments else "build/examples")
    folder.mkdir(parents=True, exist_ok=True)
    source, messages = given()
    tables = {name: watch(name, messages) for name in FILTERS}
    pd.concat(tables.values()).to_csv(folder / "spam.csv", index_label="row")
    for name, table in tables.items():
        told = pd.Series(summary(table)).to_string()
        print(f"The filter by {name}", told, tally(table).to_string(index=False), "", sep="\n")
    report(source, tables).write(folder / "spam.html")
    print(f"Messages: {source}. Open {folder / 'spam.html'}")


if __name__ == "__main__":
    main(sys.argv[1:])
