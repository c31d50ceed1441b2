"""The outbox of channels: written with the alert, bounded, and only for channels that take the message."""

from __future__ import annotations

import pytest

from edge.audit import actors
from edge.database.connection import writing
from edge.errors import Conflict, NotFound
from edge.events.family import Destination
from edge.outbound import Network
from edge.rules.channels import channels, outbox
from edge.rules.channels.channels import NewChannel, Schedule
from edge.rules.channels.outbox import Message
from tests.conftest import Cast

NEW = NewChannel("email", "Shift lead", {"host": "mail.example.com"}, b"", Schedule(), Network.PRIVATE)
MESSAGE = Message("Pallet left", "Pallet 1 left hall 2", 1, 7, 12, 1_000, is_over=False, is_late=False)


def add(cast: Cast, new: NewChannel = NEW) -> Destination:
    return channels.add(actors.shell(cast.acme), new)


def test_a_message_waits_as_it_was_written(cast: Cast) -> None:
    row = add(cast)
    outbox.enqueue(cast.acme, row.no, MESSAGE, 5_000)
    (one,) = outbox.due(row.id, 6_000, 10)
    assert (one.message, one.enqueued_at, one.attempts) == (MESSAGE, 5_000, 0)
    outbox.remove(row.id, [one.number])
    assert outbox.due(row.id, 6_000, 10) == []


def test_a_message_is_undone_with_the_transaction_of_the_alert(cast: Cast) -> None:
    row = add(cast)

    def decide() -> None:
        with writing():
            outbox.enqueue(cast.acme, row.no, MESSAGE, 5_000)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        decide()
    assert outbox.count_waiting(row) == 0


def test_channels_of_others_and_removed_ones_get_nothing(cast: Cast) -> None:
    row = add(cast)
    outbox.enqueue(cast.rival, row.no, MESSAGE, 5_000)
    assert outbox.count_waiting(row) == 0
    outbox.enqueue(cast.acme, row.no, MESSAGE, 5_000)
    channels.remove(actors.shell(cast.acme), row.no)
    outbox.enqueue(cast.acme, row.no, MESSAGE, 5_000)
    assert outbox.count_waiting(row) == 0


def test_the_second_message_is_left_out_if_it_is_not_wanted(cast: Cast) -> None:
    row = add(cast, NEW._replace(schedule=Schedule(is_sent_when_over=False)))
    outbox.enqueue(cast.acme, row.no, MESSAGE._replace(is_over=True), 5_000)
    assert outbox.count_waiting(row) == 0


def test_the_oldest_message_goes_first_and_is_counted_as_lost(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MOST_WAITING", 3)
    row = add(cast)
    for at in range(5):
        outbox.enqueue(cast.acme, row.no, MESSAGE, at)
    assert [one.enqueued_at for one in outbox.due(row.id, 10, 10)] == [2, 3, 4]
    assert channels.get(cast.acme, row.no).lost == 2


def test_a_postponed_message_does_not_hold_up_others(cast: Cast) -> None:
    row = add(cast)
    outbox.enqueue(cast.acme, row.no, MESSAGE, 1)
    outbox.postpone(row.id, outbox.due(row.id, 1, 10), 500)
    outbox.enqueue(cast.acme, row.no, MESSAGE, 2)
    assert [one.enqueued_at for one in outbox.due(row.id, 400, 10)] == [2]
    assert [(one.enqueued_at, one.attempts) for one in outbox.due(row.id, 500, 10)] == [(1, 1), (2, 0)]


def test_a_name_is_used_once_and_channels_belong_to_an_organization(cast: Cast) -> None:
    row = add(cast)
    with pytest.raises(Conflict):
        add(cast, NEW._replace(name="shift LEAD"))
    with pytest.raises(NotFound):
        channels.get(cast.rival, row.no)
