"""Records are equal at a service that is not edge, whatever the network between them does."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edge import clock
from edge.events import checked_connection
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.upstream import answers, rounds, upstreams
from edge.upstream import client as client_module
from edge.upstream.answers import Away
from tests.upstream import strict_service
from tests.upstream.strict_records import number
from tests.upstream.strict_service import Fault, StrictService, cut, expired, limited, page
from tests.upstream.strict_world import StrictSender, strict_sender
from tests.upstream.world import asset_of, scenario

RESET = [Fault(lambda handler, _: handler.reset()), Fault(lambda handler, _: handler.reset(), is_after=True)]
FAULTS = {
    "proxy has no server": page(503),
    "bad gateway": page(502),
    "timeout of a gateway": page(504),
    "not found by a proxy": page(404),
    "sign-in page": page(200),
    "firewall": page(403),
    "error without text": page(500),
    "limit": limited("1"),
    "limit until a date": limited("Fri, 31 Dec 2027 23:59:59 GMT"),
    "token refused": Fault(expired),
    "reset before": RESET[0],
    "reset after": RESET[1],
    "cut": Fault(cut, is_after=True),
    "redirect": page(301, ("Location", "http://elsewhere.example/")),
    "moved": page(308, ("Location", "/api/v2/")),
}


@pytest.fixture
def sender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StrictSender]:
    with strict_sender(tmp_path, monkeypatch, StrictService()) as one:
        yield one


def test_records_are_copied_and_changed(sender: StrictSender) -> None:
    actor = sender.actor
    dock = locations.create(actor, name="Dock", external_key="DOCK", tags=[NewTag("barcode", "D 1\n&=?#ü")])
    gates = [locations.create(actor, name=f"Gate {one}", parent_id=dock.id) for one in range(70)]
    asset = assets.create(
        actor,
        name="Pallet",
        external_key="P-1",
        description="blue\nwood",
        metadata='{"b":1.0,"a":[12345678901234567890123,1e22,"ü"],"c":0.1}',
        valid_to=clock.now() + clock.DAY,
        tags=[NewTag("rfid", "E2801"), NewTag("ble", "AA:BB")],
    )
    assets.create(actor, name="Plain")
    sender.settle()
    assert sender.troubles() == {}
    [there] = [row for row in sender.records.rows["assets"].values() if row.key == "P-1"]
    assert there.values["metadata"] == {"b": 1, "a": [number("12345678901234567890123"), 1e22, "ü"], "c": 0.1}
    assets.patch(actor, asset.id, {"metadata": "{}", "description": None, "valid_to": None})
    locations.patch(actor, gates[0].id, {"name": "First", "parent_id": None})
    locations.delete(actor, gates[1].id)
    sender.settle()
    sender.assert_equal()
    writes = sender.records.writes
    sender.settle_again()
    assert sender.records.writes == writes, "numbers in another form are no change"


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_the_network(sender: StrictSender, fault: str) -> None:
    """Every second and third request fails once. Afterwards both ends are equal, and nothing is doubled or listed."""
    failed = 0

    def decide(number: int, _method: str, path: str) -> Fault | None:
        nonlocal failed
        if number % 3 == 0 or failed >= 60:
            return None
        failed += 1
        return FAULTS[fault]

    steps = scenario(sender.actor)
    for step in steps:
        step()
        failed, sender.service.fault = 0, decide
        sender.persist()
        sender.service.fault = lambda *_: None
        sender.persist()
    sender.settle_again()
    sender.assert_equal()
    assert len(sender.records.rows["assets"]) == 2


@pytest.mark.parametrize("fault", RESET, ids=["before", "after"])
def test_a_reset_at_each_request(sender: StrictSender, fault: Fault) -> None:
    """Each request is cut off once, before or after the service has acted."""
    first, last = 1, 1

    def decide(count: int, *_: str) -> Fault | None:
        nonlocal first, last
        if count - first + 1 != last:
            return None
        first, last = count + 1, last + 1
        return fault

    for step in scenario(sender.actor):
        step()
        sender.service.fault = decide
        sender.persist()
    assert last > 5
    sender.service.fault = lambda *_: None
    sender.settle_again()
    sender.assert_equal()


def test_a_page_of_a_proxy_is_no_answer_about_a_record(sender: StrictSender) -> None:
    """A 404 of a proxy does not say that others have deleted a record, nor a 204 or 200 that it is deleted now."""
    asset = assets.create(sender.actor, name="Pallet", external_key="P-1")
    sender.settle()
    assets.patch(sender.actor, asset.id, {"name": "Box"})
    sender.service.fault = lambda *_: page(404)
    with pytest.raises(Away, match="responded 404 without an error message of the API"):
        sender.settle()
    assert sender.troubles() == {}
    assets.delete(sender.actor, asset.id)
    sender.service.fault = lambda _, method, __: page(200) if method == "DELETE" else None
    with pytest.raises(Away, match="Another program"):
        sender.settle()
    sender.service.fault = lambda *_: None
    sender.settle()
    sender.assert_equal()


def test_texts_of_an_error_are_printable(sender: StrictSender) -> None:
    sender.service.fault = lambda *_: page(301, ("Location", "http://x.example/\x1b[31m"))
    assets.create(sender.actor, name="Pallet")
    with pytest.raises(Away, match=r"redirects to http://x.example/\\x1b") as caught:
        sender.settle()
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("do", [strict_service.packed, strict_service.chunked], ids=["gzip", "chunked"])
def test_answers_in_another_form(sender: StrictSender, do: Callable[..., None]) -> None:
    sender.service.fault = lambda *_: Fault(do, is_after=True)
    for step in scenario(sender.actor):
        step()
        sender.settle()
    sender.assert_equal()


def test_an_answer_without_end_is_cut(sender: StrictSender) -> None:
    assets.create(sender.actor, name="Pallet")
    sender.service.fault = lambda number, *_: Fault(strict_service.huge) if number > 1 else None
    tracemalloc.start()
    try:
        with pytest.raises(Away):
            sender.settle()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60 << 20


def test_a_slow_answer_is_cut(sender: StrictSender, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte arrives in time, but the answer does not."""
    assets.create(sender.actor, name="Pallet")
    monkeypatch.setattr(client_module, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(checked_connection, "ANSWER_SECONDS", 5.0)
    sender.service.fault = lambda *_: Fault(strict_service.slow)
    with pytest.raises(Away, match="no response within"):
        sender.settle()
    sender.service.fault = lambda *_: None
    sender.settle()
    sender.assert_equal()


def test_records_that_fill_the_memory_are_read_one_by_one(
    sender: StrictSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """50 of them with 30,000 numbers each take 200 MB. Before, no other record was written after them."""
    monkeypatch.setattr(answers, "MOST_MEMORY", 100_000)
    metadata = '{"x":[' + ",".join(["1"] * 300) + "]}"
    for one in range(50):
        assets.create(sender.actor, name="Large", external_key=f"L-{one}", metadata=metadata)
    sender.settle()
    upstreams.retry(sender.actor)
    assets.create(sender.actor, name="Small", external_key="S")
    sender.settle()
    sender.assert_equal()


def test_tokens_end_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with strict_sender(tmp_path, monkeypatch, StrictService(token_seconds=1)) as sender:
        for step in scenario(sender.actor):
            step()
            sender.settle()
            sender.service.tokens = dict.fromkeys(sender.service.tokens, 0.0)
        sender.assert_equal()
        exchanges = sum(path.endswith("/token") for _, path in sender.service.requests)
        assert 1 < exchanges < len(sender.service.requests) / 2, "not for each request"


def test_a_record_that_breaks_the_connection_is_set_aside(sender: StrictSender) -> None:
    """The others continue, although the service dies by this record each time."""
    for one in range(5):
        assets.create(sender.actor, name=f"Pallet {one}", external_key=f"P-{one}")
    hall = locations.create(sender.actor, name="Hall", external_key="HALL")
    create = sender.records.create

    def die(kind: str, body: dict[str, object]) -> object:
        if body["external_key"] == "P-2":
            raise ConnectionResetError
        return create(kind, body)

    sender.records.create = die  # type: ignore[assignment, method-assign]
    errors = sender.persist()
    assert len(errors) == rounds.MOST_FAILURES
    [trouble] = sender.troubles().values()
    assert trouble.startswith("refused: ")
    assert {key for kind, key in sender.there() if kind == "assets"} == {"P-0", "P-1", "P-3", "P-4"}
    assert hall.external_key == "HALL"
    sender.records.create = create  # type: ignore[method-assign]
    sender.settle_again()
    sender.assert_equal()


def test_two_days_of_outage(sender: StrictSender) -> None:
    steps = scenario(sender.actor)
    steps.pop(0)()
    sender.settle()
    sender.service.fault = lambda *_: page(503)
    for step in steps:
        step()
        for _ in range(10):
            sender.advance(5400 * clock.SECOND)
            with pytest.raises(Away):
                rounds.run(sender.client, sender.row)
    sender.service.fault = lambda *_: None
    sender.persist()
    sender.settle_again()
    sender.assert_equal()
    assert asset_of(sender.actor, "B-1").name == "New"
