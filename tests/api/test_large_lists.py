"""Lists of large records take their memory from the budget before they are built."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from edge.audit.actors import shell
from edge.memory_budget import MB, WORK, Budget
from edge.records import assets, locations
from edge.records.tags import NewTag
from tests.api.conftest import Api


@contextmanager
def left(size: int) -> Iterator[None]:
    """Leave some bytes of the budget."""
    with WORK.holding(128 * MB - size):
        yield
    assert WORK.used == 0


@pytest.mark.parametrize("letter", ["x", "\U0001f4e6"])
def test_metadata_counts_before_it_is_read(acme: Api, letter: str) -> None:
    text = letter + "x" * 60_000
    for number in range(60):
        assets.create(shell(acme.organization_id), name=f"Large {number}", metadata='{"note": "' + text + '"}')
    assert acme.get("/assets?limit=200").status_code == 200
    with left(4 * MB):
        tracemalloc.start()
        try:
            refused = acme.get("/assets?limit=200")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert refused.status_code == 503
        assert int(refused.headers["Retry-After"]) > 0
        assert acme.get("/assets?limit=2").status_code == 200
    assert peak < 3 * MB
    assert acme.get("/assets?limit=200").status_code == 200


@pytest.mark.parametrize("path", ["assets", "locations"])
def test_tags_count_before_they_are_built(acme: Api, path: str) -> None:
    for number in range(20):
        tags = [NewTag("barcode", f"{number}-{one}") for one in range(400)]
        if path == "assets":
            assets.create(shell(acme.organization_id), name=f"Large {number}", tags=tags)
        else:
            locations.create(shell(acme.organization_id), name=f"Large {number}", tags=tags)
    assert acme.get(f"/{path}?limit=200").status_code == 200
    with left(2 * MB):
        assert acme.get(f"/{path}?limit=200").status_code == 503
        assert acme.get(f"/{path}?limit=2").status_code == 200
    assert acme.get(f"/{path}?limit=200").status_code == 200


def test_parts_of_a_location_count_before_they_are_built(acme: Api) -> None:
    tags = [NewTag("barcode", str(one)) for one in range(400)]
    own = [NewTag("barcode", f"own {tag.value}") for tag in tags]
    actor = shell(acme.organization_id)
    top = locations.create(actor, name="Top", tags=tags)
    hall = locations.create(actor, name="Hall", parent_id=top.id, tags=own)
    room = locations.create(actor, name="Room", parent_id=hall.id)
    lists = [f"/locations/{top.id}/children", f"/locations/{top.id}/descendants", f"/locations/{room.id}/ancestors"]
    assert [acme.get(path).status_code for path in lists] == [200] * 3
    with left(MB // 10):
        assert [acme.get(path).status_code for path in lists] == [503] * 3
        assert acme.get(f"/locations/{room.id}/descendants").status_code == 200


def test_lists_of_one_account_leave_memory_to_others(acme: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    assets.create(shell(acme.organization_id), name="Large", metadata='{"note": "' + "x" * 60_000 + '"}')
    monkeypatch.setattr("edge.memory_budget.WORK", Budget(100 * MB, most_of_owner=1))
    assert acme.get("/assets").status_code == 503
    monkeypatch.setattr("edge.memory_budget.WORK", Budget(100 * MB))
    assert acme.get("/assets").status_code == 200
