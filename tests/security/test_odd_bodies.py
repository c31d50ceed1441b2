"""Well-formed but meaningless bodies are rejected and change nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge.formats.registry import CUSTOM
from edge.people.people import Role
from edge.people.sign_in import csrf_token
from edge.readers import readers
from tests.conftest import Cast
from tests.pages.conftest import Browser

SignIn = Callable[..., Browser]
DEEP = b"[" * 100_000


BODIES = [DEEP, b'{"items":' + DEEP, b'{"a":' * 100_000, b"[]", b"7", b"", b"\xff", b'{"a":NaN}']


@pytest.mark.parametrize("body", BODIES)
def test_the_scan_page_rejects_bodies_other_than_objects(sign_in_as: SignIn, body: bytes) -> None:
    browser = sign_in_as(Role.EDITOR)
    headers = {"X-CSRF-Token": csrf_token(browser.token), "Content-Type": "application/json"}
    for path in ("/scan/batch", "/scan/attach"):
        assert browser.client.post(path, data=body, headers=headers).status_code == 400


@pytest.mark.parametrize("mapping", ["[]", "7", '"epc"', "null", "[" * 100_000, "{", '{"tag_path": 1e999}', "\ud800"])
def test_a_mapping_other_than_an_object_gets_an_error_message(sign_in_as: SignIn, cast: Cast, mapping: str) -> None:
    form = {"name": "Dock", "topic": "dock", "format": CUSTOM, "mapping": mapping.encode("utf-8", "surrogatepass")}
    answer = sign_in_as(Role.ADMINISTRATOR).post("/readers/new", form)  # type: ignore[arg-type]
    assert answer.status_code == 400
    assert "mapping" in answer.text
    assert readers.list_readers(cast.acme) == []
