"""The location tree: any depth and width, no cycles by writes, and an error for a cycle in the database."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import execute, writing
from edge.errors import Conflict, Corrupt, Invalid
from edge.records import locations
from edge.records.locations import LocationRow
from tests.conftest import Cast


@pytest.fixture
def warehouse(cast: Cast) -> dict[str, LocationRow]:
    """Create site > (b > c), (a > d)."""
    made: dict[str, LocationRow] = {}
    for name, parent in (("site", None), ("b", "site"), ("a", "site"), ("c", "b"), ("d", "a")):
        made[name] = locations.create(shell(cast.acme), name=name, parent_id=made[parent].id if parent else None)
    return made


def names(rows: list[LocationRow]) -> list[str]:
    return [row.name for row in rows]


def test_tree_lists_have_their_order(cast: Cast, warehouse: dict[str, LocationRow]) -> None:
    site, c = warehouse["site"].id, warehouse["c"].id
    assert names(locations.list_descendants(cast.acme, site, limit=200).rows) == ["a", "d", "b", "c"]
    assert names(locations.list_children(cast.acme, site, limit=200).rows) == ["a", "b"]
    assert names(locations.list_ancestors(cast.acme, c, limit=200).rows) == ["site", "b"]
    assert locations.list_descendants(cast.acme, site, limit=2, offset=1).total_count == 4
    assert names(locations.list_descendants(cast.acme, site, limit=2, offset=1).rows) == ["d", "b"]


def test_descendants_outside_their_window_are_hidden_and_ancestors_are_not(
    cast: Cast, warehouse: dict[str, LocationRow]
) -> None:
    later = clock.now() + clock.HOUR
    locations.patch(shell(cast.acme), warehouse["b"].id, {"valid_from": later})
    assert names(locations.list_descendants(cast.acme, warehouse["site"].id, limit=9).rows) == ["a", "d", "c"]
    assert names(locations.list_children(cast.acme, warehouse["site"].id, limit=9).rows) == ["a"]
    assert names(locations.list_ancestors(cast.acme, warehouse["c"].id, limit=9).rows) == ["site", "b"]


def test_a_location_cannot_come_under_itself_or_a_descendant(cast: Cast, warehouse: dict[str, LocationRow]) -> None:
    for parent in ("site", "c"):
        with pytest.raises(Conflict, match="cycle"):
            locations.patch(shell(cast.acme), warehouse["site"].id, {"parent_id": warehouse[parent].id})


def test_both_parent_forms_are_resolved_before_they_are_compared(cast: Cast, warehouse: dict[str, LocationRow]) -> None:
    a, b = warehouse["a"], warehouse["b"]
    same = locations.create(shell(cast.acme), name="x", parent_id=a.id, parent_external_key=a.external_key)
    assert (same.parent_id, same.parent_external_key) == (a.id, a.external_key)
    for parent_id, key, code in (
        (a.id, b.external_key, "ambiguous_fields"),
        (None, b.external_key, "ambiguous_fields"),
        (a.id, "nowhere", "fk_not_found"),
        (1, a.external_key, "fk_not_found"),
    ):
        with pytest.raises(Invalid) as refused:
            locations.create(shell(cast.acme), name="x", parent_id=parent_id, parent_external_key=key)
        assert {error.code for error in refused.value.fields} == {code}


def test_rename_counts_the_live_descendants(cast: Cast, warehouse: dict[str, LocationRow]) -> None:
    locations.delete(shell(cast.acme), warehouse["d"].id)
    row, count = locations.rename(shell(cast.acme), warehouse["site"].id, "MAIN")
    assert (row.external_key, count) == ("MAIN", 3)
    assert locations.rename(shell(cast.acme), row.id, "MAIN") == (row, 0)


def test_a_location_with_live_descendants_stays(cast: Cast, warehouse: dict[str, LocationRow]) -> None:
    with pytest.raises(Conflict, match="descendant"):
        locations.delete(shell(cast.acme), warehouse["b"].id)
    locations.delete(shell(cast.acme), warehouse["c"].id)
    locations.delete(shell(cast.acme), warehouse["b"].id)


def test_a_thousand_levels_work(cast: Cast) -> None:
    with writing():
        parent = top = locations.create(shell(cast.acme), name="top")
        for _ in range(1000):
            parent = locations.create(shell(cast.acme), name="level", parent_id=parent.id)
    assert locations.list_descendants(cast.acme, top.id, limit=1).total_count == 1000
    ancestors = locations.list_ancestors(cast.acme, parent.id, limit=1)
    assert (ancestors.total_count, ancestors.rows[0].id) == (1000, top.id)
    with pytest.raises(Conflict, match="cycle"):
        locations.patch(shell(cast.acme), top.id, {"parent_id": parent.id})


@pytest.mark.parametrize(
    "walk",
    [
        lambda org, row: locations.list_descendants(org, row, limit=9),
        lambda org, row: locations.list_children(org, row, limit=9),
        lambda org, row: locations.list_ancestors(org, row, limit=9),
        lambda org, row: locations.rename(shell(org), row, "NEW"),
        lambda org, row: locations.delete(shell(org), row),
        lambda org, row: locations.patch(shell(org), row, {"parent_external_key": "LOC-005"}),
    ],
)
def test_a_cycle_put_there_by_hand_is_an_error_and_nothing_worse(
    cast: Cast, warehouse: dict[str, LocationRow], walk: Callable[[int, int], object]
) -> None:
    execute("UPDATE location SET parent_id = ? WHERE id = ?", (warehouse["d"].id, warehouse["site"].id))
    with pytest.raises((Corrupt, Conflict)):
        walk(cast.acme, warehouse["site"].id)
    assert locations.get(cast.acme, warehouse["site"].id) == warehouse["site"]._replace(
        parent_id=warehouse["d"].id, parent_external_key=warehouse["d"].external_key
    )
