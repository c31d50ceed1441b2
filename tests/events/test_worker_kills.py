"""Events are delivered at least once and in order per asset, with kills at any time."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from edge.audit.actors import shell
from edge.database import migrate
from edge.database.connection import close_database
from edge.events import delivery, destinations, log, progress
from edge.events.progress import Progress
from edge.people import organizations
from tests.events.conftest import Warehouse, deliver, make_events
from tests.events.receiver import Received, Receiver
from tests.mosquitto import free_port
from tests.service import Service, wait_for

pytestmark = pytest.mark.slow


class Killed(BaseException):
    """Simulates a kill: no code runs after it."""


def first_times(received: list[Received]) -> list[str]:
    return list(dict.fromkeys(one.id for one in received))


def seqs(received: list[Received]) -> list[int]:
    return [int(event_id.split("_")[1]) for event_id in first_times(received)]


def test_a_kill_before_recording_progress_resends_in_order(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = warehouse.add_webhook(receiver.url)
    for number in range(30):
        warehouse.add_asset(f"P-{number}")
    make_events()
    monkeypatch.setattr(delivery, "ROUND_SECONDS", 60.0)  # all events in one round, even on a slow machine
    note = progress.record_progress

    def kill(_no: int, _progress: Progress) -> None:
        raise Killed

    for _ in range(3):
        monkeypatch.setattr(progress, "record_progress", kill)
        with pytest.raises(Killed):
            deliver(warehouse.again(row))
    monkeypatch.setattr(progress, "record_progress", note)
    deliver(warehouse.again(row))
    assert len(receiver.received) == 120
    assert len(first_times(receiver.received)) == 30
    assert seqs(receiver.received) == sorted(seqs(receiver.received))
    assert warehouse.again(row).delivered == 30


def test_random_answers_lose_nothing_and_keep_the_order_of_each_asset(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pause in ("FIRST_WAIT_SECONDS", "FIRST_RETRY_SECONDS"):
        monkeypatch.setattr(f"edge.events.retry_schedule.{pause}", 0.0)
    chance = random.Random(7)
    receiver.answer = lambda _: chance.choice([200, 200, 200, 400, 500, 503])
    row = warehouse.add_webhook(receiver.url)
    pallets = [warehouse.add_asset(f"P-{number}") for number in range(3)]
    for second in range(12):
        place = "south dock" if second % 2 else "north dock"
        warehouse.record([(pallet, place, second * 10) for pallet in pallets])
    make_events()
    taken: list[Received] = []
    answer = receiver.answer

    def note(one: Received) -> int:
        status: int = answer(one)
        if status == 200:
            taken.append(one)
        return status

    receiver.answer = note
    for _ in range(2000):
        deliver(warehouse.again(row))
        if not destinations.count_waiting(warehouse.again(row)):
            break
    made = log.after(warehouse.organization_id, 0, 1000)
    assert {one.id for one in taken} == {event.id for event in made}
    for pallet in pallets:
        of_it = [int(one.id.split("_")[1]) for one in taken if one.event["data"]["asset"]["id"] == pallet]
        assert all(before < after for before, after in pairwise(dict.fromkeys(of_it)))


def test_a_kill_during_delivery(tmp_path: Path, receiver: Receiver) -> None:
    migrate.migrate(tmp_path)
    organization_id = organizations.add_organization(shell(), "Acme").id
    warehouse = Warehouse(organization_id)
    row = warehouse.add_webhook(receiver.url)
    with Service(tmp_path, f"mqtt://127.0.0.1:{free_port()}") as service:
        service.start()
        wait_for(lambda: service.has_logged("event logging started"), 30, service.read_log)
        pallets = [warehouse.add_asset(f"P-{number}") for number in range(300)]
        for enough in (20, 150, 280):
            receiver.wait_for(enough)
            service.kill()
            service.start()
        warehouse.record([(pallet, "north dock", 1) for pallet in pallets])
        wait_for(lambda: warehouse.again(row).delivered and len(first_times(receiver.received)) == 600, 40)
    assert seqs(receiver.received) == sorted(seqs(receiver.received))
    close_database()
