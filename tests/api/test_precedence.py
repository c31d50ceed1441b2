"""Precedence among several errors of a request or a body, compared with a second implementation of the contract."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.conftest import Api, codes, error

KEY, TYPE, VALUE = 1, 2, 3  # rounds of validation; only errors of the first failing round are reported

FAULTS: dict[str, list[tuple[Any, int, str]]] = {
    "name": [("", VALUE, "too_short"), (" x", VALUE, "invalid_value"), (None, TYPE, "invalid_value")],
    "description": [("", VALUE, "too_short"), ("y" * 1025, VALUE, "too_long"), (1, TYPE, "invalid_value")],
    "is_active": [(1, TYPE, "invalid_value"), (None, TYPE, "invalid_value")],
    "valid_from": [("2026-01-01", VALUE, "invalid_value"), (None, TYPE, "invalid_value")],
    "valid_to": [("1970-01-01T00:00:00Z", VALUE, "invalid_value"), ({}, TYPE, "invalid_value")],
    "nope": [(None, KEY, "unknown_field")],
    "Name": [("x", KEY, "unknown_field")],
}
ECHOES: dict[str, list[tuple[Any, int, str]]] = {
    "id": [(1, KEY, "read_only"), ("x", KEY, "read_only")],
    "created_at": [("2020-01-01T00:00:00Z", KEY, "read_only"), ([], KEY, "read_only")],
    "updated_at": [("2020-01-01T00:00:00Z", KEY, "read_only"), (None, KEY, "read_only")],
    "deleted_at": [("2020-01-01T00:00:00Z", KEY, "read_only")],
    "external_key": [
        *(("OTHER", VALUE, "invalid_context"), (" ", VALUE, "too_short")),
        (None, TYPE, "invalid_value"),
    ],
    "tags": [([], VALUE, "invalid_context"), (None, TYPE, "invalid_value")],
}
OWN: dict[str, dict[str, list[tuple[Any, int, str]]]] = {
    "/assets": {
        "metadata": [(None, TYPE, "invalid_value"), ({"a": "x" * 65_536}, VALUE, "too_long")],
        "location_id": [(None, KEY, "read_only")],
        "parent_id": [(None, KEY, "unknown_field")],
    },
    "/locations": {
        "parent_id": [(0, VALUE, "too_small"), ("1", TYPE, "invalid_value")],
        "parent_external_key": [("a b", VALUE, "invalid_value"), (1, TYPE, "invalid_value")],
        "metadata": [({}, KEY, "unknown_field")],
        "location_id": [(1, KEY, "unknown_field")],
    },
}
COMPARED = ("invalid_context", "read_only")  # equal to the record's value if the field is one of ECHOES


class Wrong(NamedTuple):
    """One invalid key of a body."""

    field: str
    value: Any
    round: int
    code: str


def bodies(path: str) -> st.SearchStrategy[list[Wrong]]:
    choices = [Wrong(name, *fault) for name, faults in (FAULTS | ECHOES | OWN[path]).items() for fault in faults]
    return st.lists(st.sampled_from(choices), min_size=1, max_size=6, unique_by=lambda wrong: wrong.field)


def reported(wrongs: list[Wrong]) -> list[tuple[str, str]]:
    first = min(wrong.round for wrong in wrongs)
    return [(wrong.field, wrong.code) for wrong in wrongs if wrong.round == first]


@pytest.mark.parametrize("path", ["/assets", "/locations"])
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(choice=st.data(), is_echo_sent=st.booleans())
def test_a_faulty_patch_reports_the_first_round_in_the_order_of_the_body(
    acme: Api, path: str, choice: st.DataObject, is_echo_sent: bool
) -> None:
    """interface: Errors 2; Write operations 3; Precedence"""
    wrongs = choice.draw(bodies(path))
    record = acme.make(path)
    acme.post(f"{path}/{record['id']}/tags", {"tag_type": "rfid", "value": f"E{record['id']}"})
    sent = {wrong.field: wrong.value for wrong in wrongs}
    if is_echo_sent:
        sent |= {"created_at": record["created_at"], "is_active": True} | sent
    assert codes(acme.patch(f"{path}/{record['id']}", sent)) == reported(wrongs)
    alone = [wrong for wrong in wrongs if not (wrong.field in ECHOES and wrong.code in COMPARED)]
    absent = acme.patch(f"{path}/1", sent)
    assert (codes(absent) == reported(alone)) if alone else (absent.status_code == 404)


# Faults of one request in the order in which they are answered, each with its status and type.
FAULTS_OF_REQUEST = {
    "User-Agent": (403, None),
    "path": (404, "not_found"),
    "method": (405, "method_not_allowed"),
    "token": (401, "unauthorized"),
    "scope": (403, "forbidden"),
    "media type": (415, "unsupported_media_type"),
    "query": (400, "validation_error"),
    "id": (400, "validation_error"),
    "body": (400, "bad_request"),
    "record": (404, "not_found"),
}


@pytest.mark.parametrize("faults", list(combinations(FAULTS_OF_REQUEST, 2)), ids=" ".join)
def test_the_earlier_of_two_faults_is_answered(
    acme: Api, with_scopes: Callable[..., Api], faults: tuple[str, str]
) -> None:
    """interface: Order of answers"""
    record = "0" if "id" in faults else "1" if "record" in faults else str(acme.make("/assets")["id"])
    path = f"/api/v1/assets/{record}/rename" + ("/x" if "path" in faults else "")
    caller = with_scopes("assets:read") if "scope" in faults else acme
    response = acme.client.open(
        path,
        method="PUT" if "method" in faults else "POST",
        data=b"{" if "body" in faults else b'{"external_key": "B"}',
        query_string="nope=1" if "query" in faults else "",
        headers={
            "User-Agent": "curl/8" if "User-Agent" in faults else "acme-wms/1.4",
            "Authorization": f"Bearer {'x' if 'token' in faults else caller.token}",
            "Content-Type": "text/plain" if "media type" in faults else "application/json",
        },
    )
    status, kind = FAULTS_OF_REQUEST[faults[0]]
    assert response.status_code == status
    if kind:
        assert error(response)["type"] == kind
    if kind == "validation_error":
        assert codes(response) == [("nope", "unknown_field") if faults[0] == "query" else ("asset_id", "too_small")]
