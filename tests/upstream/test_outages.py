"""Outages, limits and deaths: nothing is lost, and nothing is written twice."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge import clock, listeners
from edge.database import change_log
from edge.database.change_log import Kind
from edge.errors import EdgeError
from edge.events.checked_connection import Answer, CheckedConnection
from edge.memory_budget import WORK
from edge.people import api_keys
from edge.records import assets, locations
from edge.records.record import RecordFilter
from edge.records.tags import NewTag
from edge.upstream import answers, rounds, upstreams
from edge.upstream import worker as upstream_worker
from edge.upstream.answers import Away, Record
from edge.upstream.client import Client
from edge.upstream.standby import UpstreamStandby
from edge.upstream.upstreams import Upstream
from edge.upstream.worker import UpstreamWorker
from tests.sync.world import Box
from tests.upstream.service import Service
from tests.upstream.world import Clock, Sender, asset_of, scenario


@pytest.fixture
def worker() -> Iterator[UpstreamWorker]:
    one = UpstreamWorker(None, lambda: False)
    yield one
    one.close()


def run_all(worker: UpstreamWorker) -> None:
    while worker.work_once(upstreams.all_upstreams()):
        pass


def change_something(sender: Sender, chance: random.Random) -> None:
    """Do what people do with records. Some of it is refused, which changes nothing."""
    actor, number = sender.actor, chance.randrange(30)
    key = f"P-{number}"
    ids = {row.external_key: row for row in assets.list_page(actor.organization_id, RecordFilter(), limit=200).rows}
    row = ids.get(key)
    tag = NewTag("rfid", f"E{chance.randrange(40)}")
    try:
        if row is None:
            assets.create(actor, name=f"Pallet {number}", external_key=key, tags=[tag])
            return
        choice = chance.randrange(6)
        if choice == 0:
            assets.delete(actor, row.id)
        elif choice == 1:
            assets.rename(actor, row.id, f"P-{chance.randrange(30)}")
        elif choice == 2:
            assets.attach_tag(actor, row.id, tag)
        elif choice == 3 and row.tags:
            assets.detach_tag(actor, row.id, row.tags[0].id)
        else:
            assets.patch(actor, row.id, {"name": f"Pallet {chance.randrange(1000)}", "description": None})
    except EdgeError:
        return


def test_two_days_of_outage(sender: Sender, worker: UpstreamWorker) -> None:
    """People work on. The service is asked at most every few minutes, and has everything soon after its return."""
    chance = random.Random(1)
    for _ in range(20):
        change_something(sender, chance)
    run_all(worker)
    sender.assert_equal()
    sender.service.stop()
    attempts, outage = 0, 48 * clock.HOUR
    began = clock.now()
    while clock.now() - began < outage:
        if chance.random() < 0.5:
            change_something(sender, chance)
        before = sender.row.failures
        run_all(worker)
        attempts += sender.row.failures - before
        sender.clock.advance(60 * clock.SECOND)
    assert sender.row.last_error
    assert "cannot be reached" in sender.row.last_error
    assert upstreams.troubles()
    assert 48 * 6 * 0.8 < attempts < 48 * 6 * 1.4, "about every ten minutes"
    sender.service.start()
    sender.clock.advance(12 * 60 * clock.SECOND)
    run_all(worker)
    sender.assert_equal()
    assert upstreams.troubles() == []
    row = sender.row
    assert (row.failures, row.failing_since, row.last_error) == (0, None, None)


def test_the_limit_of_the_service_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a 429 no request is sent before the time that the service asks for."""
    listeners.connect()
    service = Service(tmp_path / "service", rate_per_second=1, rate_burst=5)
    service.start()
    box = Box(tmp_path / "box", "box")
    worker = UpstreamWorker(None, lambda: False)
    with box.in_use():
        sender = Sender(box, service, Clock(monkeypatch))
        try:
            for number in range(20):
                assets.create(sender.actor, name=f"Pallet {number}")
            run_all(worker)
            assert sender.row.last_error == "The service limits requests (429)"
            wait = sender.row.next_try_at - clock.now()
            assert 0 < wait < 60 * clock.SECOND
            sent = sum_of_requests(worker)
            run_all(worker)
            assert sum_of_requests(worker) == sent, "not before its time"
        finally:
            worker.close()
            sender.client.close()
            service.stop()


def sum_of_requests(worker: UpstreamWorker) -> int:
    return sum(client.requests for _, client in worker._clients.values())


def test_rejected_credentials_wait_for_new_ones(sender: Sender, worker: UpstreamWorker) -> None:
    with sender.elsewhere():
        api_keys.revoke_key(sender.service.actor, sender.service.access.client_id)
    assets.create(sender.actor, name="Pallet")
    run_all(worker)
    assert sender.row.last_error == "The service rejects the credentials (401). Run: edge upstream new-secret"
    assert sender.row.next_try_at > clock.now() + 200 * clock.SECOND


def test_a_token_is_used_until_it_ends(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = []
    exchange = Client._exchange

    def counted(client: Client) -> None:
        tokens.append(1)
        exchange(client)

    monkeypatch.setattr(Client, "_exchange", counted)
    for number in range(10):
        assets.create(sender.actor, name=f"Pallet {number}")
        sender.settle()
    assert len(tokens) == 1
    sender.client._token_ends = 0.0
    sender.settle()
    assets.create(sender.actor, name="Last")
    sender.settle()
    assert len(tokens) == 2


class Died(Exception):
    """Stands for a power cut."""


@pytest.mark.parametrize("is_answer_lost", [False, True])
@pytest.mark.parametrize("is_changed_meanwhile", [False, True])
def test_a_death_at_any_request(
    sender: Sender, monkeypatch: pytest.MonkeyPatch, is_answer_lost: bool, is_changed_meanwhile: bool
) -> None:
    """Every request dies once, before or after the service has acted, and nothing is doubled or in conflict."""
    exchanged, count, next_death = Client._exchanged, 0, 2

    def mortal(client: Client, *arguments: object) -> object:
        nonlocal count, next_death
        count += 1
        is_fatal = count == next_death
        if is_fatal and not is_answer_lost:
            next_death, count = next_death + 1, 0
            raise Died
        answer = exchanged(client, *arguments)  # type: ignore[arg-type]
        if is_fatal:
            next_death, count = next_death + 1, 0
            raise Died
        return answer

    monkeypatch.setattr(Client, "_exchanged", mortal)
    steps = scenario(sender.actor)
    deaths = 0
    while steps:
        steps.pop(0)()
        while True:
            try:
                sender.settle()
                break
            except Died:
                deaths += 1
                if is_changed_meanwhile and steps:
                    steps.pop(0)()
    monkeypatch.setattr(Client, "_exchanged", exchanged)
    upstreams.retry(sender.actor)
    sender.settle()
    sender.assert_equal()
    assert deaths > 3


def test_a_death_before_the_results_are_stored(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    store = rounds.Work.store
    for step in scenario(sender.actor):
        step()

        def dead(*_: object) -> None:
            raise Died

        monkeypatch.setattr(rounds.Work, "store", dead)
        with pytest.raises(Died):
            sender.settle()
        monkeypatch.setattr(rounds.Work, "store", store)
        sender.settle()
        sender.assert_equal()


def test_changes_that_the_feed_has_lost_are_compared(sender: Sender) -> None:
    row = assets.create(sender.actor, name="Pallet", external_key="P-1")
    sender.settle()
    assets.delete(sender.actor, row.id)
    assets.create(sender.actor, name="Other", external_key="P-2")
    change_log.trim(change_log.newest(), 1000)
    locations.create(sender.actor, name="Dock")
    sender.settle()
    sender.assert_equal()


def test_another_program_at_the_address(
    sender: Sender, worker: UpstreamWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A captive portal answers 200 to everything."""
    monkeypatch.setattr(Client, "_exchanged", lambda *_: Answer(200, {}, b"<html>Please sign in"))
    assets.create(sender.actor, name="Pallet")
    run_all(worker)
    assert sender.row.last_error == "Another program, perhaps a proxy, responds at the address of the service"


def test_the_connection_is_kept(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    connect, connections = CheckedConnection.connect, []

    def counted(connection: CheckedConnection) -> None:
        connections.append(1)
        connect(connection)

    monkeypatch.setattr(CheckedConnection, "connect", counted)
    for number in range(10):
        assets.create(sender.actor, name=f"Pallet {number}")
    sender.settle()
    assert len(connections) == 1


def test_a_write_without_an_answer_is_recognized(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    """The values there are those of the lost answer, and not a change by others, although they are newer here."""
    row = assets.create(sender.actor, name="One", external_key="P-1", tags=[NewTag("rfid", "E1")])
    sender.settle()
    assets.patch(sender.actor, row.id, {"name": "Two"})
    assets.attach_tag(sender.actor, row.id, NewTag("rfid", "E2"))
    attach = Client.attach

    def lose(client: Client, *arguments: object) -> None:
        attach(client, *arguments)  # type: ignore[arg-type]
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(Client, "attach", lose)
        with pytest.raises(Died):
            sender.settle()
    assert sender.there("P-1") == ("Two", sender.service.rows("SELECT id FROM asset")[0][0])
    assets.patch(sender.actor, row.id, {"name": "Three"})
    assets.detach_tag(sender.actor, row.id, asset_of(sender.actor, "P-1").tags[1].id)
    sender.settle()
    sender.assert_equal()


@pytest.mark.parametrize("fault", [KeyError("id"), OverflowError("int too large"), RecursionError("nested")])
def test_a_service_with_unexpected_answers_pauses_alone(
    sender: Sender, worker: UpstreamWorker, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """Before, the services of other organizations behind it were never served."""
    served = []

    def run(_client: Client, row: Upstream) -> bool:
        served.append(row.no)
        if row.no == sender.row.no:
            raise fault
        return False

    monkeypatch.setattr(rounds, "run", run)
    other = sender.row._replace(no=sender.row.no + 1)
    assert not worker.work_once([sender.row, other])
    assert served == [sender.row.no, other.no]
    assert "unexpected form" in str(sender.row.last_error)
    assert sender.row.next_try_at > clock.now() + 50 * clock.SECOND


def test_an_answer_that_takes_much_memory_is_not_parsed(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    """16 MB of brackets would take 400 MB."""
    content = b'{"data":[' + b"[]," * 1_000_000 + b"[]]}"
    monkeypatch.setattr(sender.client, "_token_ends", float("inf"))
    monkeypatch.setattr(sender.client, "_send", lambda *_: Answer(200, {}, content))
    monkeypatch.setattr("edge.upstream.answers.json.loads", lambda _: pytest.fail("it was parsed"))
    with pytest.raises(Away, match="too much memory"):
        sender.client.organization()
    assert WORK.used == 0


def test_a_record_by_which_the_service_fails_does_not_stop_the_others(
    sender: Sender, worker: UpstreamWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = Client.create

    def fail(client: Client, kind: Kind, body: dict[str, Any]) -> Record:
        if body["external_key"] == "P-1":
            raise answers.error_of(Answer(500, {}, b""))
        return create(client, kind, body)

    with monkeypatch.context() as patched:
        patched.setattr(Client, "create", fail)
        for number in range(3):
            assets.create(sender.actor, name="Pallet", external_key=f"P-{number}")
        for _ in range(rounds.MOST_FAILURES):
            run_all(worker)
            assert sender.row.last_error
            sender.clock.advance(clock.HOUR)
        run_all(worker)
    assert sender.troubles() == [
        "refused: The service responded 500 without an error message of the API, perhaps a proxy"
    ]
    assert sender.there("P-0")
    assert sender.there("P-2")
    assert sender.row.last_error is None
    sender.clock.advance(clock.HOUR)
    run_all(worker)
    sender.assert_equal()


@pytest.mark.parametrize(
    "record", [{}, {"id": "1"}, [], {"id": 1, "external_key": "P-1", "tags": [{}]}, {"id": 1, "tags": None}]
)
def test_a_record_without_its_fields_is_of_another_program(sender: Sender, record: object) -> None:
    with pytest.raises(Away, match="Another program"):
        answers.checked(Kind.ASSET, record)


def test_the_thread_runs_while_there_is_an_upstream(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    run, is_settled = rounds.run, threading.Event()

    def watched(client: Client, row: Upstream) -> bool:
        has_more = run(client, row)
        if not has_more:
            is_settled.set()
        return has_more

    monkeypatch.setattr(rounds, "run", watched)
    monkeypatch.setattr(upstream_worker, "LOOK_SECONDS", 0.01)
    assets.create(sender.actor, name="Pallet")
    standby = UpstreamStandby(None, lambda: False)
    assert not standby.is_running()
    standby.start_if_needed()
    assert is_settled.wait(60)
    sender.assert_equal()
    upstreams.remove(sender.actor)
    standby.join(60)
    assert not standby.is_running(), "it ends by itself"
    standby.start_if_needed()
    assert not standby.is_running()
    standby.stop()
