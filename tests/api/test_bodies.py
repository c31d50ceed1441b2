"""Parsing of JSON bodies, and metadata, which accepts any JSON (interface: Asset; Fields)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.conftest import Api, codes, data, error

METADATA = [
    ("metadata", None, "invalid_value"),
    ("metadata", [], "invalid_value"),
    ("metadata", "x", "invalid_value"),
    ("metadata", True, "invalid_value"),
    ("metadata", 1, "invalid_value"),
    ("metadata", {"a": "\udfff"}, "invalid_value"),
    ("metadata", {"\udfff": 1}, "invalid_value"),
    ("metadata", {"a": "x" * 65_536}, "too_long"),
]


@pytest.mark.parametrize(("field", "value", "code"), METADATA)
def test_metadata_must_be_an_object_of_limited_size(acme: Api, field: str, value: Any, code: str) -> None:
    """interface: Asset metadata; Fields"""
    assert codes(acme.post("/assets", {"name": "x", field: value})) == [(field, code)]
    assert codes(acme.patch(f"/assets/{acme.make('/assets')['id']}", {field: value})) == [(field, code)]


@pytest.mark.parametrize(
    "text",
    [
        '{"z":1,"a":{"y":2,"b":[3,{}]}}',
        '{"big":123456789012345678901234567890,"n":-9007199254740993}',
        '{"float":0.1,"exp":1e300,"zero":-0,"frac":1.10}',
        '{"nul":"a\\u0000b","uni":"\u00e4\u4e2d\U0001f600","quote":"\\"\\\\"}',
        '{"":null,"t":true,"f":false}',
        '{"long":' + "7" * 4000 + "}",
    ],
)
def test_metadata_survives_a_round_trip_unchanged(acme: Api, text: str) -> None:
    """interface: Asset metadata; Bodies"""
    made = data(acme.call("POST", "/assets", raw=b'{"name":"x","metadata":' + text.encode() + b"}"))
    for response in (acme.get(f"/assets/{made['id']}"), acme.get("/assets")):
        assert f'"metadata":{text}' in response.text


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), JSON_VALUES, max_size=5))
def test_any_metadata_survives_a_round_trip_in_order(acme: Api, metadata: dict[str, Any]) -> None:
    """interface: Fields"""
    made = acme.make("/assets", metadata=metadata)
    assert json.dumps(made["metadata"]) == json.dumps(metadata)


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def test_metadata_may_be_32_levels_deep(acme: Api) -> None:
    """interface: Bodies"""
    assert acme.make("/assets", metadata=nested(32))["metadata"] == nested(32)
    assert codes(acme.post("/assets", {"name": "x", "metadata": nested(33)})) == [("metadata", "invalid_value")]


def test_a_body_may_be_64_levels_deep(acme: Api) -> None:
    """interface: Bodies"""
    deep = b'{"name":"x","metadata":' + json.dumps(nested(63)).encode() + b"}"
    assert codes(acme.call("POST", "/assets", raw=deep)) == [("metadata", "invalid_value")]
    deeper = b'{"name":"x","metadata":' + json.dumps(nested(64)).encode() + b"}"
    assert error(acme.call("POST", "/assets", raw=deeper))["type"] == "bad_request"


def test_metadata_may_have_64_kibibytes(acme: Api) -> None:
    """interface: Fields"""
    filler = 64 * 1024 - len('{"a":""}')
    assert acme.make("/assets", metadata={"a": "x" * filler})["metadata"]["a"] == "x" * filler
    response = acme.post("/assets", {"name": "x", "metadata": {"a": "x" * (filler + 1)}})
    assert codes(response) == [("metadata", "too_long")]


def test_a_number_beyond_a_double_is_refused(acme: Api) -> None:
    """interface: Bodies"""
    for text in (b"1e400", b"[-1e400]", b'{"a":[1E999]}'):
        response = acme.call("POST", "/assets", raw=b'{"name":"x","metadata":{"a":' + text + b"}}")
        assert codes(response) == [("metadata", "invalid_value")]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"{",
        b"[]",
        b"null",
        b"1",
        b'"x"',
        b"true",
        b'{"name":"x"} x',
        b'{"name":"x"}{}',
        b'\xef\xbb\xbf{"name":"x"}',
        b'{"name":"\xff"}',
        b'{"name":"x","name":"y"}',
        b'{"name":"x","metadata":{"a":1,"a":2}}',
        b'{"name":NaN}',
        b'{"name":"x","metadata":{"a":Infinity}}',
        b'{"name":"x","metadata":{"a":-Infinity}}',
        b"{'name':'x'}",
        b'{"name":"x",}',
        b'{"name":"a\nb"}',
        b'{"name":01}',
        b'{"name":"\\x41"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        '{"name":"x"}'.encode("utf-16"),
    ],
)
def test_a_body_that_is_no_json_object_is_a_bad_request(acme: Api, raw: bytes) -> None:
    """interface: Type bad_request; Bodies"""
    path = f"/assets/{acme.make('/assets')['id']}"
    for response in (acme.call("POST", "/assets", raw=raw), acme.call("PATCH", path, raw=raw)):
        refusal = error(response)
        assert (refusal["type"], response.status_code) == ("bad_request", 400)
        assert "fields" not in refusal
