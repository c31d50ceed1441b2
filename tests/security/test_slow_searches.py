"""Slow searches of one organization share a processor, on a box with several organizations."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from flask import Flask

from edge import rate_limits
from edge.database import connection
from edge.people.people import Role
from tests.api.conftest import Api
from tests.conftest import Cast
from tests.pages.conftest import Browser


@pytest.fixture
def paced(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Return the organizations whose statements are paced. Each statement counts as slow, and has many steps."""
    steps: list[int] = []
    monkeypatch.setattr(connection, "SLOW_SECONDS", -1.0)
    monkeypatch.setattr(connection._slow, "pace", lambda organization_id, _step: steps.append(organization_id))
    connection.database.connection().set_progress_handler(connection._limit.is_over, 10)
    rate_limits.forget_callers()
    yield steps
    rate_limits.forget_callers()
    connection.database.connection().set_progress_handler(connection._limit.is_over, connection._STEPS)


def test_searches_are_paced_if_there_are_several_organizations(
    app: Flask, cast: Cast, acme: Api, rival: Api, sign_in_as: Callable[..., Browser], paced: list[int]
) -> None:
    browser = sign_in_as(Role.VIEWER)
    acme.get("/assets?q=pallet")
    browser.get("/?q=pallet")
    assert paced == []
    rival.get("/assets?q=pallet")
    assert set(paced) == {cast.rival}
    paced.clear()
    acme.get("/assets?q=pallet")
    assert set(paced) == {cast.acme}
    paced.clear()
    browser.get("/?q=pallet")
    assert set(paced) == {cast.acme}


def test_the_next_request_of_a_thread_begins_anew(
    app: Flask, acme: Api, rival: Api, sign_in_as: Callable[..., Browser], paced: list[int]
) -> None:
    acme.get("/assets")
    rival.get("/assets")
    paced.clear()
    app.test_client().get("/sign-in")
    assert paced == []
