"""The upgrade to one table of destinations keeps what waits, secrets and states, and a downgrade gives them back."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.database import migrate
from edge.database.connection import FILE_NAME, close_database, execute
from edge.database.downgrade import downgrade
from edge.events import destinations
from edge.events.delivery import Outcome, Result, Round
from edge.rules.channels import channels, outbox
from edge.rules.channels.kinds import KINDS
from edge.rules.channels.worker import Messages
from edge.rules.outputs import outputs
from tests.audit.stage import CHANNEL

BEFORE = 67  # the last schema with a table for each
# Rows of each table of the earlier release, in the order of its columns.
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "event_destination": [
        (
            2,
            1,
            "webhook",
            "ERP",
            "https://erp.example/hook",
            "",
            "asset.arrived asset.moved",
            None,
            "internet",
            b"sealed",
            *(10, None, None, 44, 2, 30, 40, "503", 20, 7, 1, 1, "edge"),
        ),
        (
            *(
                3,
                1,
                "mqtt",
                "Broker",
                "mqtts://edge@b.example",
                "edge/{type}",
                "asset.passed",
                None,
                "private",
                b"word",
            ),
            *(11, 60, "no delivery", 12, 0, None, 0, None, None, 0, 0, 0, "edge"),
        ),
        (
            *(7, 1, "webhook", "WMS", "https://wms.example/", "", "asset.passed", None, "internet", b"x"),
            *(12, None, None, 44, 0, None, 0, None, 21, 9, 0, 0, "epcis"),
        ),
    ],
    "event_retry": [(2, 40, 5, 25, 3, 90), (2, 41, 5, 26, 0, 26)],
    "event_attempt": [(1, 2, 20, 8, "evt_40_x", "asset.moved", 0, "400 Bad Request")],
    "channel": [
        (
            *(
                2,
                1,
                "email",
                "Lead",
                '{"host":"mail.example.com","port":25}',
                b"password",
                "private",
                900,
                1320,
                360,
                1,
            ),
            *(10, None, 3, 31, 99, "421", 15, 4, 2, 0, 50, 12, "accepted", 1),
        ),
        (
            *(3, 1, "ntfy", "Phones", '{"url":"https://ntfy.example/dock"}', b"", "internet", 0, None, None, 0),
            *(11, 70, 0, None, 0, None, None, 0, 0, 1, None, None, None, None),
        ),
    ],
    "channel_message": [
        (8, 2, 30, 2, 95, "Pallet 1 left", "Hall 2", 1, 5, 6, 29, 0, 0),
        (9, 2, 31, 0, 0, "Pallet 2 left", "Hall 2", 1, None, None, 30, 1, 1),
    ],
    "channel_file": [(9, "list.csv", b"a;b")],
    "output": [
        (
            *(
                2,
                1,
                "Horn",
                "shelly",
                "horn",
                1,
                "horn/rpc",
                "{on}",
                "{off}",
                10,
                10,
                4,
                None,
                None,
                "output-2",
                "$7$hash",
            ),
            *(1, 45, 41, "not acknowledged"),
        ),
        (
            5,
            1,
            "Lamp",
            "topic",
            "hall/lamp",
            0,
            "hall/lamp",
            "on",
            "",
            0,
            11,
            0,
            80,
            81,
            None,
            None,
            0,
            None,
            None,
            None,
        ),
    ],
    "saved_filter": [(1, 1, "Cold", "{}", 5, 2, 360, None, 77)],
}
NUMBERED = ("event_destination", "channel", "output", "channel_message", "saved_filter")


def contents(file: Path) -> dict[str, list[tuple[Any, ...]]]:
    with closing(sqlite3.connect(file)) as connection:
        return {table: sorted(connection.execute(f"SELECT * FROM {table}").fetchall()) for table in ROWS}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """Return a site of the earlier release, in which each table gave more numbers than it has rows."""
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        migrate.create_schema(connection, BEFORE)
        connection.execute("INSERT INTO organization (id, name, created_at) VALUES (1, 'Acme', 1)")
        for table, rows in ROWS.items():
            connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        for table in NUMBERED:
            connection.execute("UPDATE sqlite_sequence SET seq = 20 WHERE name = ?", (table,))
        connection.commit()
    yield tmp_path
    close_database()


def test_each_row_is_kept_by_the_upgrade_and_by_the_way_back(site: Path) -> None:
    before = contents(site / FILE_NAME)
    migrate.migrate(site, keeps_copy=False)
    assert execute("PRAGMA foreign_key_check").fetchall() == []
    close_database()
    assert contents(site / FILE_NAME) == before
    done = downgrade(site, BEFORE)
    assert {name: number for name, number in done.dropped.items() if number} == {}
    assert contents(site / FILE_NAME) == before
    with closing(sqlite3.connect(site / FILE_NAME)) as connection:
        numbers = dict(connection.execute("SELECT name, seq FROM sqlite_sequence"))
    assert {numbers[table] for table in NUMBERED} == {20}


def test_urls_secrets_and_what_waits_are_those_of_before(site: Path) -> None:
    migrate.migrate(site, keeps_copy=False)
    webhook, lead, horn = destinations.get(1, 2), channels.get(1, 2), outputs.get(1, 2)
    assert (webhook.name, webhook.secret, webhook.position, webhook.delivered) == ("ERP", b"sealed", 44, 7)
    assert (lead.name, lead.secret, lead.failures, outbox.count_waiting(lead)) == ("Lead", b"password", 3, 2)
    assert channels.schedule_of(lead) == channels.Schedule(900, 1320, 360, is_sent_when_over=True)
    assert [(one.number, one.attempts) for one in outbox.due(lead.id, 95, 10)] == [(8, 2), (9, 0)]
    assert [one.number for one in outbox.due(lead.id, 94, 10)] == [9]
    assert (horn.name, horn.settings["account"], horn.secret, horn.is_on) == ("Horn", "output-2", b"$7$hash", True)
    assert channels.add(shell(1), CHANNEL).no > 20, "no number is given again, also not in another family"


def test_a_removed_channel_is_removed_from_its_filters(site: Path) -> None:
    migrate.migrate(site, keeps_copy=False)
    channels.remove(shell(1), 3)
    outputs.remove(shell(1), 2)
    assert execute("SELECT channel_no FROM saved_filter").fetchone() == (2,)
    channels.remove(shell(1), 2)
    assert execute("SELECT channel_no FROM saved_filter").fetchone() == (None,)
    assert execute("SELECT count(*) FROM message").fetchone() == (0,)


class Sender:
    """A receiver that takes everything."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def send(self, message: Any) -> Outcome:
        self.sent.append(message.id)
        return Outcome(Result.DELIVERED, "accepted")

    def close(self) -> None: ...


def test_what_waited_is_sent_once_after_the_upgrade(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noon = clock.to_micros(datetime(2026, 3, 2, 12, 0, tzinfo=UTC))
    with closing(sqlite3.connect(site / FILE_NAME)) as connection:
        columns = "seq, nonce, organization_id, kind, subject_id, at, made_at, within, within_before, data"
        for seq in range(38, 48):
            values = (seq, "n", 1, "asset.moved", seq % 7, 1, noon, "[]", "[]", "{}")
            connection.execute(f"INSERT INTO event ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        connection.commit()
    migrate.migrate(site, keeps_copy=False)
    monkeypatch.setattr(clock, "now", lambda: noon)
    receiver = Sender()
    while Round(destinations.get(1, 2), receiver, threading.Event(), is_note_due=True).run():
        pass
    assert sorted(receiver.sent) == [f"evt_{seq}_n" for seq in (40, 41, 45, 46, 47)]

    server = Sender()
    monkeypatch.setattr("edge.rules.channels.worker.unseal", lambda _: "password")
    monkeypatch.setitem(KINDS, "email", replace(KINDS["email"], new_sender=lambda *_: server))
    while sum(turn.serve() for turn in Messages(lambda: UTC).due()):
        pass
    assert [one.rsplit(".", 1)[1] for one in server.sent] == ["8", "9"]
    assert (channels.get(1, 2).delivered, outbox.count_waiting(channels.get(1, 2))) == (6, 0)
