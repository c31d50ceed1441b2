"""Error messages explain the mistakes that integrators make most."""

from __future__ import annotations

import time

import pytest

from tests.api.conftest import Api, codes, error


def test_a_misspelt_field_gets_a_suggestion(acme: Api) -> None:
    response = acme.post("/assets", {"nmae": "x"})
    assert codes(response) == [("nmae", "unknown_field")]
    assert error(response)["detail"] == "nmae is not a field of this request; did you mean `name`?"
    response = acme.get("/assets", externalKey="A")
    assert codes(response) == [("externalKey", "unknown_field")]
    assert error(response)["detail"].endswith("did you mean `external_key`?")
    tags = [{"tagType": "rfid", "value": "E2"}]
    assert error(acme.post("/assets", {"name": "x", "tags": tags}))["detail"].endswith("did you mean `tag_type`?")


def test_many_misspelt_fields_cost_little(acme: Api) -> None:
    body = {f"desciption{number}": 1 for number in range(40_000)}
    began = time.thread_time()
    assert acme.post("/assets", body).status_code == 400
    assert time.thread_time() - began < 2


def test_an_unescaped_plus_in_a_query_is_named(acme: Api) -> None:
    path = f"/assets/{acme.make('/assets')['id']}/history"
    response = acme.get(f"{path}?from=2026-03-02T08:15:30+01:00&to=2026-03-02T08:15:30.5+01:00")
    assert codes(response) == [("from", "invalid_value"), ("to", "invalid_value")]
    for fault in error(response)["fields"]:
        assert fault["message"].startswith(f"{fault['field']} must be an RFC 3339 timestamp")
        assert "write the + of its offset as %2B" in fault["message"]
    assert acme.get(f"{path}?from=2026-03-02T08:15:30%2B01:00").status_code == 200
    for blank in ("2026-03-02 08:15:30Z", "2026-03-02", "x 01:00"):
        fault = error(acme.get(path, **{"from": blank}))["fields"][0]
        assert fault["message"] == "from must be an RFC 3339 timestamp"


@pytest.mark.parametrize(
    "sent", ["2026-02-30T00:00:00Z", "2026-03-02T25:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00"]
)
def test_a_time_that_is_out_of_range_is_not_called_malformed(acme: Api, sent: str) -> None:
    response = acme.post("/assets", {"name": "x", "valid_to": sent})
    assert codes(response) == [("valid_to", "invalid_value")]
    assert error(response)["detail"] == (
        "valid_to must be an RFC 3339 timestamp: this day or time does not exist, or is outside the years 0001 to 9999 "
        "in UTC"
    )


def test_a_slash_too_many_is_named(acme: Api) -> None:
    for path in ("/assets", "/assets/1", "/locations/1/descendants", "/oauth/token"):
        response = acme.call("GET", f"{path}/")
        assert (response.status_code, error(response)["type"]) == (404, "not_found")
        assert error(response)["detail"].endswith(f"remove the trailing slash: /api/v1{path}")
    assert error(acme.call("GET", "/nope/"))["detail"] == "Unknown path"


def test_the_token_endpoint_names_both_media_types(acme: Api) -> None:
    response = acme.call("POST", "/oauth/token", raw=b"x", headers={"Content-Type": "text/plain"})
    assert error(response)["detail"] == ("Send Content-Type: application/json or application/x-www-form-urlencoded")
