"""The outbox of channels: written with the alert, bounded, and only for channels that take the message."""

from __future__ import annotations

import pytest

from edge.audit import actors
from edge.database.connection import writing
from edge.errors import Conflict, NotFound
from edge.outbound import Network
from edge.rules.channels import channels, outbox
from edge.rules.channels.channels import NewChannel, Schedule
from edge.rules.channels.outbox import Message
from tests.conftest import Cast

NEW = NewChannel("email", "Shift lead", {"host": "mail.example.com"}, b"", Schedule(), Network.PRIVATE)
MESSAGE = Message("Pallet left", "Pallet 1 left hall 2", 1, 7, 12, 1_000, is_over=False, is_late=False)


def add(cast: Cast, new: NewChannel = NEW) -> int:
    return channels.add(actors.shell(cast.acme), new).no


def test_a_message_waits_as_it_was_written(cast: Cast) -> None:
    no = add(cast)
    outbox.enqueue(cast.acme, no, MESSAGE, 5_000)
    (row,) = outbox.due(no, 6_000, 10)
    assert (row.message, row.enqueued_at, row.attempts) == (MESSAGE, 5_000, 0)
    outbox.remove([row.number])
    assert outbox.due(no, 6_000, 10) == []


def test_a_message_is_undone_with_the_transaction_of_the_alert(cast: Cast) -> None:
    no = add(cast)

    def decide() -> None:
        with writing():
            outbox.enqueue(cast.acme, no, MESSAGE, 5_000)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        decide()
    assert outbox.count_waiting(no) == 0


def test_channels_of_others_and_removed_ones_get_nothing(cast: Cast) -> None:
    no = add(cast)
    outbox.enqueue(cast.rival, no, MESSAGE, 5_000)
    assert outbox.count_waiting(no) == 0
    outbox.enqueue(cast.acme, no, MESSAGE, 5_000)
    channels.remove(actors.shell(cast.acme), no)
    outbox.enqueue(cast.acme, no, MESSAGE, 5_000)
    assert outbox.count_waiting(no) == 0


def test_the_second_message_is_left_out_if_it_is_not_wanted(cast: Cast) -> None:
    no = add(cast, NEW._replace(schedule=Schedule(is_sent_when_over=False)))
    outbox.enqueue(cast.acme, no, MESSAGE._replace(is_over=True), 5_000)
    assert outbox.count_waiting(no) == 0


def test_the_oldest_message_goes_first_and_is_counted_as_lost(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MOST_WAITING", 3)
    no = add(cast)
    for at in range(5):
        outbox.enqueue(cast.acme, no, MESSAGE, at)
    assert [row.enqueued_at for row in outbox.due(no, 10, 10)] == [2, 3, 4]
    assert channels.get(cast.acme, no).lost == 2


def test_a_postponed_message_does_not_hold_up_others(cast: Cast) -> None:
    no = add(cast)
    outbox.enqueue(cast.acme, no, MESSAGE, 1)
    outbox.postpone(outbox.due(no, 1, 10), 500)
    outbox.enqueue(cast.acme, no, MESSAGE, 2)
    assert [row.enqueued_at for row in outbox.due(no, 400, 10)] == [2]
    assert [(row.enqueued_at, row.attempts) for row in outbox.due(no, 500, 10)] == [(1, 1), (2, 0)]


def test_a_name_is_used_once_and_channels_belong_to_an_organization(cast: Cast) -> None:
    no = add(cast)
    with pytest.raises(Conflict):
        add(cast, NEW._replace(name="shift LEAD"))
    with pytest.raises(NotFound):
        channels.get(cast.rival, no)
