"""Repeated creates with an Idempotency-Key get the stored response (interface: Additions)."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from edge import clock
from edge.api.operations import OPERATIONS
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.errors import Unavailable
from edge.people import people
from edge.people.people import Role
from edge.records import idempotency
from edge.records.record import Kind
from edge.tracking import deletion
from tests.api.conftest import Api, codes, data, error, refresh, sign_up, works
from tests.api.contract import DOCUMENT, resolve
from tests.api.test_authentication import session_token_of
from tests.conftest import Cast

KEY = {"Idempotency-Key": "order 4711/line-3"}
PATIENCE = 60


def answer(response: TestResponse) -> tuple[int, bytes, str | None, str | None]:
    return response.status_code, response.data, response.headers["Content-Type"], response.headers.get("Location")


def total(api: Api, path: str = "/assets") -> int:
    number: int = (api.get(path).json or {})["total_count"]
    return number


def kept() -> int:
    number: int = execute("SELECT count(*) FROM idempotent_answer").fetchone()[0]
    return number


def creates(api: Api) -> list[tuple[str, dict[str, Any]]]:
    asset, place = api.make("/assets")["id"], api.make("/locations")["id"]
    return [
        ("/assets", {"name": "Pallet", "metadata": {"z": 1, "a": [1.50, "ü"]}}),
        ("/locations", {"name": "Dock"}),
        (f"/assets/{asset}/tags", {"tag_type": "rfid", "value": "E2001"}),
        (f"/locations/{place}/tags", {"tag_type": "barcode", "value": "DOCK"}),
    ]


def test_every_post_that_creates_gives_its_first_answer_again(acme: Api) -> None:
    for number, (path, body) in enumerate(creates(acme)):
        headers = {"Idempotency-Key": f"key-{number}"}
        first = acme.post(path, body, headers=headers)
        assert first.status_code == 201
        assert "Idempotent-Replayed" not in first.headers
        for _ in range(2):
            again = acme.post(path, body, headers=headers)
            assert answer(again) == answer(first)
            assert again.headers["Idempotent-Replayed"] == "true"
    assert (total(acme), total(acme, "/locations")) == (2, 2)


def test_the_response_is_the_first_one_after_any_change(acme: Api) -> None:
    first = acme.post("/assets", {"name": "Pallet", "external_key": "P-1"}, headers=KEY)
    acme.patch(f"/assets/{data(first)['id']}", {"name": "Changed"})
    acme.delete(f"/assets/{data(first)['id']}")
    again = acme.post("/assets", {"name": "Pallet", "external_key": "P-1"}, headers=KEY)
    assert answer(again) == answer(first)
    assert total(acme) == 0


def test_a_new_token_of_the_same_key_is_the_same_credential(acme: Api) -> None:
    first = acme.post("/assets", {"name": "Pallet"}, headers=KEY)
    pair = acme.exchange().json or {}
    acme.token = (refresh(acme, pair["refresh_token"]).json or {})["access_token"]
    assert works(acme)
    assert answer(acme.post("/assets", {"name": "Pallet"}, headers=KEY)) == answer(first)


def test_the_same_key_for_another_request_is_a_conflict(acme: Api) -> None:
    acme.make("/locations", external_key="DOCK")
    raw = b'{"name":"Pallet"}'
    assert acme.post("/assets", None, raw=raw, headers=KEY).status_code == 201
    for path, other in (("/assets", b'{"name": "Pallet"}'), ("/assets", b'{"name":"Box"}'), ("/locations", raw)):
        response = acme.post(path, None, raw=other, headers=KEY)
        assert (response.status_code, error(response)["type"]) == (409, "conflict")
        assert "Retry-After" not in response.headers
    assert (total(acme), total(acme, "/locations")) == (1, 1)


def test_keys_belong_to_a_credential(app: Flask, cast: Cast, acme: Api, rival: Api) -> None:
    other = sign_up(app.test_client(), cast.acme)
    ids = {data(api.post("/assets", {"name": "Pallet"}, headers=KEY))["id"] for api in (acme, rival, other)}
    assert len(ids) == 3


@pytest.mark.parametrize(
    ("key", "code"),
    [("", "too_short"), ("x" * 256, "too_long"), ("tab\there", "invalid_value"), ("kühl", "invalid_value")],
)
def test_an_invalid_key_is_refused(acme: Api, key: str, code: str) -> None:
    sent = {"Idempotency-Key": key.encode().decode("latin-1")}
    assert codes(acme.post("/assets", {"name": "Pallet"}, headers=sent)) == [("Idempotency-Key", code)]
    assert acme.post("/assets", {"name": "x"}, headers={"Idempotency-Key": "~" * 255}).status_code == 201


def test_errors_are_not_stored(acme: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = acme.make("/assets", external_key="P-1")
    assert codes(acme.post("/assets", {}, headers=KEY)) == [("name", "required")]
    assert acme.post("/assets", {"name": "Pallet", "external_key": "P-1"}, headers=KEY).status_code == 409
    acme.delete(f"/assets/{taken['id']}")

    def full(*_: object) -> None:
        raise Unavailable("The disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(idempotency, "store", full)  # the last step of the transaction
        assert acme.post("/assets", {"name": "Pallet", "external_key": "P-1"}, headers=KEY).status_code == 503
    assert (total(acme), kept()) == (0, 0), "neither the record nor the answer"
    assert acme.post("/assets", {"name": "Pallet", "external_key": "P-1"}, headers=KEY).status_code == 201


def test_rename_and_tokens_do_not_create(acme: Api) -> None:
    asset = acme.make("/assets")
    for key in ("A-1", "A-2"):
        response = acme.post(f"/assets/{asset['id']}/rename", {"external_key": key}, headers=KEY)
        assert data(response)["external_key"] == key
    assert acme.exchange().status_code == 200
    assert kept() == 0


def test_a_request_without_a_key_keeps_nothing(acme: Api) -> None:
    acme.make("/assets")
    acme.make("/assets")
    assert (total(acme), kept()) == (2, 0)


def test_while_the_first_is_running_the_second_gets_a_time_to_retry(
    app: Flask, acme: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, go_on = threading.Event(), threading.Event()
    create = Kind.create

    def slowly(*given: Any, **fields: Any) -> Any:
        entered.set()
        assert go_on.wait(PATIENCE)
        return create(*given, **fields)

    monkeypatch.setattr(Kind, "create", slowly)
    first: list[TestResponse] = []
    thread = threading.Thread(target=lambda: first.append(acme.post("/assets", {"name": "Pallet"}, headers=KEY)))
    thread.start()
    try:
        assert entered.wait(PATIENCE)
        second = acme.post("/assets", {"name": "Pallet"}, headers=KEY)
        assert (second.status_code, error(second)["type"], second.headers["Retry-After"]) == (409, "conflict", "1")
    finally:
        go_on.set()
        thread.join()
    assert first[0].status_code == 201
    again = acme.post("/assets", {"name": "Pallet"}, headers=KEY)
    assert answer(again) == answer(first[0])
    assert total(acme) == 1


def test_many_parallel_requests_create_one_record(app: Flask, acme: Api) -> None:
    responses: list[TestResponse] = []
    start = threading.Barrier(8)

    def send() -> None:
        start.wait(PATIENCE)
        responses.append(acme.post("/assets", {"name": "Pallet"}, headers=KEY))

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {response.status_code for response in responses} <= {201, 409}
    assert len({response.data for response in responses if response.status_code == 201}) == 1
    assert total(acme) == 1


def later(monkeypatch: pytest.MonkeyPatch, microseconds: int) -> None:
    now = clock.now
    monkeypatch.setattr("edge.records.idempotency.clock.now", lambda: now() + microseconds)


def test_a_response_is_stored_for_a_day(acme: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    first = data(acme.post("/assets", {"name": "Pallet"}, headers=KEY))["id"]
    stored = idempotency.Create(acme.organization_id, acme.key.id, KEY["Idempotency-Key"], execute(_HASH).fetchone()[0])
    with monkeypatch.context() as patch:
        later(patch, clock.DAY - 60 * clock.SECOND)
        assert idempotency.find(stored)
    with monkeypatch.context() as patch:
        later(patch, clock.DAY + 60 * clock.SECOND)
        assert idempotency.find(stored) is None
    execute("UPDATE idempotent_answer SET created_at = created_at - ?", (clock.DAY,))
    assert data(acme.post("/assets", {"name": "Pallet"}, headers=KEY))["id"] != first
    assert kept() == 1
    assert deletion.drop_expired(clock.now() + clock.DAY - 60 * clock.SECOND) == 0
    assert deletion.drop_expired(clock.now() + clock.DAY + 60 * clock.SECOND) == 1
    assert kept() == 0


_HASH = "SELECT request_hash FROM idempotent_answer"


@pytest.mark.parametrize(
    ("bound", "value"), [("MAX_ANSWERS", 3), ("MAX_BYTES", 3 * (300 + 100) + 50)], ids=["number", "bytes"]
)
def test_the_oldest_responses_of_a_credential_are_dropped_first(
    acme: Api, rival: Api, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    monkeypatch.setattr(idempotency, bound, value)

    def keep(api: Api, number: int) -> None:
        create = idempotency.Create(api.organization_id, api.key.id, f"key-{number}", b"")
        idempotency.store(create, idempotency.Answer(201, "/x", b"x" * 100))

    keep(rival, 0)
    for number in range(7):
        keep(acme, number)
    rows = execute("SELECT caller, key FROM idempotent_answer ORDER BY caller, number").fetchall()
    assert sorted(rows) == sorted([(rival.key.id, "key-0"), *((acme.key.id, f"key-{number}") for number in (4, 5, 6))])


def test_the_limits_are_those_of_the_contract() -> None:
    assert (idempotency.MAX_ANSWERS, idempotency.LIFETIME) == (10_000, clock.DAY)


def test_the_document_declares_the_header_on_every_create_and_nowhere_else() -> None:
    for operation in OPERATIONS:
        described = DOCUMENT["paths"][f"/api/v1{operation.path}"][operation.method.lower()]
        names = [one["name"] for one in described["parameters"] if one["in"] == "header"]
        assert ("Idempotency-Key" in names) == (operation.status == 201)
        headers = described["responses"][str(operation.status)]["headers"]
        assert ("Idempotent-Replayed" in headers) == (operation.status == 201)
        if operation.status == 201:
            assert "Retry-After" in resolve(described["responses"]["409"])["headers"]


def test_browsers_may_send_and_read_the_headers(acme: Api) -> None:
    headers = acme.get("/assets").headers
    assert "Idempotency-Key" in headers["Access-Control-Allow-Headers"]
    assert "Idempotent-Replayed" in headers["Access-Control-Expose-Headers"]


def test_a_person_has_keys_of_their_own(acme: Api) -> None:
    person = people.add_person(shell(acme.organization_id), "Ann", Role.EDITOR)
    headers = {**KEY, "Authorization": f"Bearer {session_token_of(person)}"}
    first = acme.post("/assets", {"name": "Pallet"}, headers=headers)
    assert answer(acme.post("/assets", {"name": "Pallet"}, headers=headers)) == answer(first)
    assert data(acme.post("/assets", {"name": "Pallet"}, headers=KEY))["id"] != data(first)["id"]
    assert json.loads(first.data)["data"]["name"] == "Pallet"
