"""Comparison of responses with the model."""

from __future__ import annotations

from typing import Any

from werkzeug.test import TestResponse

from tests.api.model.organization import ApiError
from tests.api.model.record import Body, Record


def accepted(response: TestResponse, status: int, refusal: ApiError | None) -> bool:
    """Return True if the request was accepted. Fails if the model disagrees."""
    if refusal is None:
        assert response.status_code == status, f"{response.text}\nwhere the model gives {status}"
        return True
    error = (response.json or {}).get("error", {})
    faults = [(fault["field"], fault["code"]) for fault in error.get("fields", [])]
    got = ApiError(response.status_code, error.get("type"), faults, refusal.word)
    assert got == refusal, f"{response.text}\nwhere the model gives {refusal}"
    assert refusal.word in error["detail"], f"{response.text} does not say {refusal.word}"
    return False


def same(got: Any, expected: Any) -> None:
    assert got == expected, f"{got}\nwhere the model gives\n{expected}"


def shown(records: list[Record]) -> list[Body]:
    return [one.shown for one in records]


def plain(row: Body) -> Body:
    """Sort the tags. Their order is not specified."""
    return row | {"tags": sorted(row["tags"], key=lambda tag: tag["id"])} if "tags" in row else row
