"""Stores alerts, their deliveries, and how far each monitor was checked, in one SQLite file.

Invariant: the state of a monitor and the alerts that follow from it are one transaction, on disk
when `save_state` returns; a kill counts nothing twice and may only repeat a message. At most one
alert of a kind and monitor is open, and each receiver gets at least its latest state.
Bound: `waiting` undelivered alerts per receiver (the oldest is given up), `kept` ended alerts.
"""

import contextlib
import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from likewise.errors import BadFile
from likewise.runtime import private_files as private
from likewise.service.alerts.alert import Alert
from likewise.service.alerts.conditions import AlertChange, AlertState
from likewise.service.alerts.settings import AlertReceiver, AlertSettings

_VERSION = 1
_SCHEMA = """
CREATE TABLE seen (monitor TEXT PRIMARY KEY, rows INTEGER NOT NULL, body TEXT NOT NULL);
CREATE TABLE alert (
    number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, kind TEXT NOT NULL, monitor TEXT NOT NULL,
    began REAL NOT NULL, ended REAL, details TEXT NOT NULL,
    acknowledged REAL, acknowledged_by TEXT
);
CREATE UNIQUE INDEX open_alert ON alert (kind, monitor) WHERE ended IS NULL;
CREATE TABLE delivery (
    alert INTEGER NOT NULL, receiver TEXT NOT NULL,
    told TEXT, due REAL, since REAL NOT NULL,
    PRIMARY KEY (receiver, alert)
) WITHOUT ROWID;
CREATE INDEX due_delivery ON delivery (receiver, due) WHERE due IS NOT NULL;
CREATE TABLE given_up (receiver TEXT PRIMARY KEY, alerts INTEGER NOT NULL);
"""
_COLUMNS = "id, kind, monitor, began, ended, details, acknowledged, acknowledged_by"
_decode_state = msgspec.json.Decoder(AlertState).decode
_OPEN_SECONDS = 30.0  # of a rolling restart: the process before may still have it


class Outbox:
    """Reads and writes the file; may be called from any thread, and waits for the disk."""

    def __init__(self, settings: AlertSettings) -> None:
        self.settings = settings
        """May be replaced while alerts are sent."""
        self._lock = threading.Lock()
        self._database = _open_database(settings.outbox)

    def close(self) -> None:
        with self._lock:
            self._database.close()

    # The state of monitors

    def load_state(self, monitor: str) -> tuple[AlertState, int] | None:
        """Return the state of a monitor, and how many of its rows were checked."""
        for body, rows in self._read("SELECT body, rows FROM seen WHERE monitor = ?", monitor):
            return _decode_state(body), rows
        return None

    def save_state(
        self,
        monitor: str,
        state: AlertState,
        rows: int,
        changes: Sequence[AlertChange],
        *,
        now: float,
    ) -> None:
        """Store the state of a monitor, with the alerts that began, went on or ended.

        now: when they are due; they may have begun long before, while the service was down
        """
        with self._transaction() as database:
            for change in changes:
                if change.what == "begun":
                    self._begin_alert(monitor, change, now)
                elif change.what == "continued":
                    database.execute(
                        "UPDATE alert SET details = ?"
                        " WHERE kind = ? AND monitor = ? AND ended IS NULL",
                        (json.dumps(change.details), change.kind, monitor),
                    )
                else:
                    self._end_alert(monitor, change.kind, change.time, now)
            database.execute(
                "INSERT OR REPLACE INTO seen VALUES (?, ?, ?)",
                (monitor, rows, msgspec.json.encode(state).decode()),
            )
            if changes:
                self._prune()

    def end_unwatched(self, monitors: Sequence[str], kinds: Sequence[str], time: float) -> None:
        """End alerts of monitors and kinds that the settings no longer have."""
        with self._transaction() as database:
            alerts = database.execute("SELECT monitor, kind FROM alert WHERE ended IS NULL")
            for monitor, kind in alerts.fetchall():
                if monitor not in monitors or kind not in kinds:
                    self._end_alert(monitor, kind, time, time)

    def _begin_alert(self, monitor: str, change: AlertChange, now: float) -> None:
        details = json.dumps(change.details)
        number = self._database.execute(
            "INSERT INTO alert (id, kind, monitor, began, details) VALUES (?, ?, ?, ?, ?)",
            (secrets.token_hex(8), change.kind, monitor, change.time, details),
        ).lastrowid
        for receiver in self.settings.receivers:
            if receiver.covers(monitor):
                self._database.execute(
                    "INSERT INTO delivery VALUES (?, ?, NULL, ?, ?)",
                    (number, receiver.name, now, now),
                )
                self._give_up_excess(receiver)

    def _end_alert(self, monitor: str, kind: str, time: float, now: float) -> None:
        numbers = self._database.execute(
            "UPDATE alert SET ended = ? WHERE kind = ? AND monitor = ? AND ended IS NULL"
            " RETURNING number",
            (time, kind, monitor),
        ).fetchall()
        self._database.executemany(
            "UPDATE delivery SET due = ?, since = ? WHERE alert = ?",
            [(now, now, number) for (number,) in numbers],
        )

    def _give_up_excess(self, receiver: AlertReceiver) -> None:
        """Give up the oldest alerts if too many wait, ended ones first."""
        (count,) = self._database.execute(
            "SELECT count(*) FROM delivery WHERE receiver = ? AND due IS NOT NULL", (receiver.name,)
        ).fetchone()
        over = count - self.settings.waiting
        if over > 0:
            self._database.execute(
                "UPDATE delivery SET due = NULL WHERE receiver = ? AND alert IN (SELECT number FROM"
                " alert JOIN delivery ON number = alert WHERE receiver = ? AND due IS NOT NULL"
                " ORDER BY ended IS NULL, number LIMIT ?)",
                (receiver.name, receiver.name, over),
            )
            self._add_given_up(receiver, over)

    def _prune(self) -> None:
        """Delete the oldest alerts that have ended and were delivered."""
        self._database.execute(
            "DELETE FROM alert WHERE ended IS NOT NULL AND number NOT IN (SELECT number FROM alert"
            " WHERE ended IS NOT NULL ORDER BY number DESC LIMIT ?) AND number NOT IN (SELECT alert"
            " FROM delivery WHERE due IS NOT NULL)",
            (self.settings.kept,),
        )
        self._database.execute("DELETE FROM delivery WHERE alert NOT IN (SELECT number FROM alert)")

    def _add_given_up(self, receiver: AlertReceiver, count: int) -> None:
        self._database.execute(
            "INSERT INTO given_up VALUES (?, ?)"
            " ON CONFLICT (receiver) DO UPDATE SET alerts = alerts + excluded.alerts",
            (receiver.name, count),
        )

    # Delivery

    def find_due(self, receiver: AlertReceiver, now: float, most: int) -> list[Alert]:
        """Return the alerts that are due for a receiver, oldest first."""
        query = (
            f"SELECT {_COLUMNS} FROM delivery JOIN alert ON number = alert"
            " WHERE receiver = ? AND due <= ? ORDER BY number LIMIT ?"
        )
        return [_alert_of_row(row) for row in self._read(query, receiver.name, now, most)]

    def find_next_due(self, receiver: AlertReceiver) -> float | None:
        """Return when the next alert is due for a receiver."""
        query = "SELECT min(due) FROM delivery WHERE receiver = ? AND due IS NOT NULL"
        ((due,),) = self._read(query, receiver.name)
        return None if due is None else float(due)

    def mark_told(self, receiver: AlertReceiver, alerts: Sequence[Alert], now: float) -> None:
        """Record that a receiver has taken these alerts, in the state that they have here."""
        with self._transaction() as database:
            for alert in alerts:
                number, ended, acknowledged = database.execute(
                    "SELECT number, ended, acknowledged FROM alert WHERE id = ?", (alert.id,)
                ).fetchone()
                if ended is not None and alert.ended is None:
                    due: float | None = now  # it ended meanwhile, which has to be sent too
                else:
                    due = _repeat_time(receiver, ended, acknowledged, now)
                database.execute(
                    "UPDATE delivery SET told = ?, due = ?, since = ? WHERE alert = ?"
                    " AND receiver = ?",
                    (alert.status, due, now if due is None else due, number, receiver.name),
                )

    def give_up(self, receiver: AlertReceiver, now: float) -> int:
        """Give up alerts that could not be delivered for too long; return how many."""
        with self._transaction() as database:
            count = database.execute(
                "UPDATE delivery SET due = NULL WHERE receiver = ? AND due IS NOT NULL"
                " AND since < ? AND due <= ?",
                (receiver.name, now - receiver.give_up_seconds, now),
            ).rowcount
            if count:
                self._add_given_up(receiver, count)
        return count

    def count_given_up(self) -> dict[str, int]:
        """Count the alerts that were given up, by receiver."""
        return dict(self._read("SELECT receiver, alerts FROM given_up"))

    def count_waiting(self) -> dict[str, int]:
        """Count the alerts that are due or will be sent again, by receiver."""
        query = "SELECT receiver, count(*) FROM delivery WHERE due IS NOT NULL GROUP BY 1"
        return dict(self._read(query))

    # Reading and acknowledging

    def find_alerts(self, monitor: str, most: int = 100, status: str | None = None) -> list[Alert]:
        """Return alerts of one monitor, newest first."""
        query = (
            f"SELECT {_COLUMNS} FROM alert WHERE monitor = ? AND (? IS NULL OR ? = (ended IS NULL))"
            " ORDER BY number DESC LIMIT ?"
        )
        is_open = None if status is None else status == "firing"
        return [_alert_of_row(row) for row in self._read(query, monitor, is_open, is_open, most)]

    def acknowledge(self, monitor: str, id: str, by: str, now: float) -> Alert | None:
        """Acknowledge an alert, so that it is not repeated until it ends; None: no such alert.

        The first person counts. Alertmanager still gets it, and would otherwise take it for ended.
        """
        with self._transaction() as database:
            row = database.execute(
                "SELECT number, acknowledged FROM alert WHERE monitor = ? AND id = ?", (monitor, id)
            ).fetchone()
            if row is None:
                return None
            number, before = row
            if before is None:
                database.execute(
                    "UPDATE alert SET acknowledged = ?, acknowledged_by = ? WHERE number = ?",
                    (now, by, number),
                )
                for receiver in self.settings.receivers:
                    if receiver.kind != "alertmanager":
                        database.execute(
                            "UPDATE delivery SET due = NULL WHERE alert = ? AND receiver = ?"
                            " AND told = 'firing'"
                            " AND (SELECT ended FROM alert WHERE number = ?) IS NULL",
                            (number, receiver.name, number),
                        )
            query = f"SELECT {_COLUMNS} FROM alert WHERE number = ?"
            row = database.execute(query, (number,)).fetchone()
        return _alert_of_row(row)

    def forget_keys(self, monitor: str, rows: Sequence[int] | None) -> None:
        """Destroy the keys of these rows in alerts of a monitor, sent or not; None: all keys.

        They are in no file afterwards: SQLite overwrites what it frees, and its log is emptied.
        """
        gone = None if rows is None else set(rows)
        with self._transaction() as database:
            with_keys = database.execute(
                "SELECT number, details FROM alert WHERE monitor = ? AND details LIKE '%\"key\"%'",
                (monitor,),
            ).fetchall()
            changed = []
            for number, text in with_keys:
                details = json.loads(text)
                if gone is None or details.get("row") in gone:
                    details.pop("key", None)
                    changed.append((json.dumps(details), number))
            database.executemany("UPDATE alert SET details = ? WHERE number = ?", changed)
        with self._lock:  # even if nothing changed: the log may have keys of earlier details
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _read(self, query: str, *values: Any) -> list[Any]:
        with self._lock:
            return self._database.execute(query, values).fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise


def _repeat_time(
    receiver: AlertReceiver, ended: float | None, acknowledged: float | None, now: float
) -> float | None:
    """Return when an alert that was sent is sent again; None if it is not."""
    if ended is not None or not receiver.repeat_seconds:
        return None
    if acknowledged is not None and receiver.kind != "alertmanager":
        return None
    return now + receiver.repeat_seconds


def _open_database(path: Path) -> sqlite3.Connection:
    """Open the database; create it if it does not exist."""
    try:
        private.make_folder(path.parent)
        os.close(private.open_private(path))
        database = sqlite3.connect(
            path, timeout=_OPEN_SECONDS, isolation_level=None, check_same_thread=False
        )
    except OSError as error:
        raise BadFile(
            f"the alerts in {str(path)!r} cannot be stored: {private.explain_os_error(error)}.",
            path=path,
        ) from None
    try:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("PRAGMA secure_delete = ON")
        database.execute("BEGIN IMMEDIATE")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version == 0:
            for statement in _SCHEMA.split(";"):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {_VERSION}")
        database.execute("COMMIT")
    except sqlite3.Error as error:
        database.close()
        raise BadFile(
            f"the alerts in {str(path)!r} cannot be opened ({error}). Is another service using"
            " them? If the file is damaged, move it away: a new one is created.",
            path=path,
        ) from None
    if version not in (0, _VERSION):
        database.close()
        raise BadFile(
            f"the alerts in {str(path)!r} are of version {version}; this likewise knows"
            f" {_VERSION}. Use the newer one, or move the file away.",
            path=path,
        )
    return database


def _alert_of_row(row: tuple[Any, ...]) -> Alert:
    id, kind, monitor, began, ended, details, acknowledged, by = row
    return Alert(id, kind, monitor, began, ended, json.loads(details), acknowledged, by)
