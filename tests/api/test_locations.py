"""The location tree in the API (interface: Write operations 2, 4)."""

from __future__ import annotations

from typing import Any

import pytest

from edge import clock
from edge.database.connection import execute, execute_many, writing
from edge.database.ids import new_ids
from edge.tracking.positions import record
from edge.tracking.stays import Quality, Scan
from tests.api.conftest import Api, codes, data, error


@pytest.fixture
def tree(acme: Api) -> dict[str, Any]:
    """Create site > (b > c), (a > d)."""
    made: dict[str, Any] = {"site": acme.make("/locations", name="site")}
    for name, parent in (("b", "site"), ("a", "site"), ("c", "b"), ("d", "a")):
        made[name] = acme.make("/locations", name=name, parent_id=made[parent]["id"])
    return made


def one(location: dict[str, Any]) -> str:
    return f"/locations/{location['id']}"


def names(response: Any) -> list[str]:
    return [row["name"] for row in data(response)]


def place(acme: Api, asset: dict[str, Any], location: dict[str, Any]) -> None:
    now = clock.now()
    scan = Scan(acme.organization_id, asset["id"], location["id"], None, None, now, now, Quality.HANDHELD)
    assert record([scan], 0) == [True]


def test_a_parent_is_named_by_id_or_key_or_both_alike(acme: Api, tree: dict[str, Any]) -> None:
    """interface: Write operations 2; Location parent_id, parent_external_key"""
    a = tree["a"]
    for form in (
        {"parent_id": a["id"]},
        {"parent_external_key": a["external_key"]},
        {"parent_id": a["id"], "parent_external_key": a["external_key"]},
    ):
        made = acme.make("/locations", **form)
        assert (made["parent_id"], made["parent_external_key"]) == (a["id"], a["external_key"])
        moved = data(acme.patch(one(tree["c"]), form))
        assert (moved["parent_id"], moved["parent_external_key"]) == (a["id"], a["external_key"])


def test_null_on_either_form_detaches_to_root(acme: Api, tree: dict[str, Any]) -> None:
    """interface: Write operations 2; Location parent_id, parent_external_key"""
    for form in ({"parent_id": None}, {"parent_external_key": None}, {"parent_id": None, "parent_external_key": None}):
        made = acme.make("/locations", parent_id=tree["a"]["id"])
        detached = data(acme.patch(one(made), form))
        assert (detached["parent_id"], detached["parent_external_key"]) == (None, None)
        assert acme.make("/locations", **form)["parent_id"] is None


def test_parent_forms_that_differ_are_ambiguous_and_each_is_resolved_first(acme: Api, tree: dict[str, Any]) -> None:
    """interface: Write operations 2; Errors 2; Code ambiguous_fields; Bodies"""
    a, b = tree["a"], tree["b"]
    pair = [("parent_id", "ambiguous_fields"), ("parent_external_key", "ambiguous_fields")]
    for form, expected in (
        ({"parent_id": a["id"], "parent_external_key": b["external_key"]}, pair),
        ({"parent_id": None, "parent_external_key": b["external_key"]}, pair),
        ({"parent_id": a["id"], "parent_external_key": None}, pair),
        ({"parent_id": a["id"], "parent_external_key": "NOWHERE"}, [("parent_external_key", "fk_not_found")]),
        ({"parent_id": 1, "parent_external_key": a["external_key"]}, [("parent_id", "fk_not_found")]),
    ):
        assert codes(acme.post("/locations", {"name": "x"} | form)) == expected
        assert codes(acme.patch(one(tree["c"]), form)) == expected


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ({"parent_id": 1}, "fk_not_found"),
        ({"parent_id": 2**63 - 1}, "fk_not_found"),
        ({"parent_id": 2**63}, "invalid_value"),
        ({"parent_id": -(2**63) - 1}, "invalid_value"),
        ({"parent_id": 10**100}, "invalid_value"),
        ({"parent_id": 0}, "too_small"),
        ({"parent_id": -1}, "too_small"),
        ({"parent_id": True}, "invalid_value"),
        ({"parent_external_key": "NOWHERE"}, "fk_not_found"),
        ({"parent_external_key": ""}, "too_short"),
        ({"parent_external_key": "a b"}, "invalid_value"),
        ({"parent_external_key": "x" * 256}, "too_long"),
        ({"parent_external_key": 1}, "invalid_value"),
    ],
)
def test_a_parent_that_cannot_be_is_refused(acme: Api, tree: dict[str, Any], form: dict[str, Any], code: str) -> None:
    """interface: Conventions 2; Code fk_not_found; Ids and numbers"""
    for response in (acme.post("/locations", {"name": "x"} | form), acme.patch(one(tree["c"]), form)):
        assert codes(response) == [(next(iter(form)), code)]


def test_minus_zero_is_an_integer_below_one(acme: Api, tree: dict[str, Any]) -> None:
    """interface: Ids and numbers"""
    for call in (("POST", "/locations"), ("PATCH", one(tree["c"]))):
        response = acme.call(*call, raw=b'{"name":"x","parent_id":-0}')
        assert codes(response) == [("parent_id", "too_small")]
        assert error(response)["fields"][0]["params"] == {"min": 1}


def test_a_deleted_parent_and_one_of_another_organization_do_not_exist(
    acme: Api, rival: Api, tree: dict[str, Any]
) -> None:
    """interface: Write operations 2; Code fk_not_found"""
    acme.delete(one(tree["d"]))
    for location in (tree["d"], rival.make("/locations", external_key="THEIRS")):
        for field in ("id", "external_key"):
            response = acme.post("/locations", {"name": "x", f"parent_{field}": location[field]})
            assert codes(response) == [(f"parent_{field}", "fk_not_found")]


def test_a_cycle_is_a_conflict_with_a_reason(acme: Api, tree: dict[str, Any]) -> None:
    """interface: Write operations 2; Type conflict"""
    for parent in ("site", "b", "c"):
        response = acme.patch(one(tree["site"]), {"parent_external_key": tree[parent]["external_key"]})
        assert response.status_code == 409
        assert "cycle" in error(response)["detail"]


def test_the_tree_lists_have_their_order_and_their_pages(acme: Api, tree: dict[str, Any]) -> None:
    """interface: Endpoints Locations; Lists"""
    assert names(acme.get(f"{one(tree['c'])}/ancestors")) == ["site", "b"]
    assert names(acme.get(f"{one(tree['site'])}/children")) == ["a", "b"]
    assert names(acme.get(f"{one(tree['site'])}/descendants")) == ["a", "d", "b", "c"]
    page = acme.get(f"{one(tree['site'])}/descendants", limit=2, offset=1)
    assert (names(page), page.json) == (["d", "b"], page.json | {"limit": 2, "offset": 1, "total_count": 4})  # type: ignore[operator]
    assert names(acme.get(f"{one(tree['site'])}/ancestors")) == []


def test_children_and_siblings_with_the_same_name_are_ordered_by_id(acme: Api, tree: dict[str, Any]) -> None:
    """interface: Lists"""
    same = sorted(acme.make("/locations", name="z", parent_id=tree["site"]["id"])["id"] for _ in range(4))
    for walk in ("children", "descendants"):
        assert [row["id"] for row in data(acme.get(f"{one(tree['site'])}/{walk}"))][-4:] == same


def test_the_tree_follows_windows_and_deletion_and_the_path_is_whole(acme: Api, tree: dict[str, Any]) -> None:
    """interface: States 2; Lists"""
    past = {"valid_from": "2026-01-01T00:00:00Z", "valid_to": "2026-01-02T00:00:00Z"}
    acme.patch(one(tree["b"]), past)
    acme.patch(one(tree["a"]), {"is_active": False})
    acme.delete(one(tree["d"]))
    assert names(acme.get(f"{one(tree['site'])}/children")) == ["a"]
    assert names(acme.get(f"{one(tree['site'])}/descendants")) == ["a", "c"]
    assert names(acme.get(f"{one(tree['c'])}/ancestors")) == ["site", "b"]
    assert names(acme.get(f"{one(tree['b'])}/children")) == ["c"], "the location itself may be outside its window"


@pytest.mark.parametrize("walk", ["ancestors", "children", "descendants"])
def test_the_tree_lists_take_paging_only(acme: Api, tree: dict[str, Any], walk: str) -> None:
    """interface: Lists"""
    path = f"{one(tree['site'])}/{walk}"
    sort = acme.get(path, sort="name")
    assert codes(sort) == [("sort", "invalid_value")]
    assert error(sort)["detail"] == "sort parameter not supported on this endpoint"
    for name in ("q", "is_active", "include_deleted", "external_key", "parent_id", "from", "nope"):
        assert codes(acme.get(path, **{name: "true"})) == [(name, "unknown_field")]
    assert acme.get("/locations/1/" + walk).status_code == 404


def test_a_rename_counts_the_live_descendants_and_moves_nothing(acme: Api, tree: dict[str, Any]) -> None:
    """interface: Write operations 1"""
    acme.delete(one(tree["d"]))
    response = acme.post(f"{one(tree['site'])}/rename", {"external_key": "MAIN"})
    assert response.json["descendant_count_affected"] == 3  # type: ignore[index]
    assert data(acme.get(one(tree["a"])))["parent_external_key"] == "MAIN"


def test_a_location_is_not_deleted_under_live_locations_or_placed_assets(acme: Api, tree: dict[str, Any]) -> None:
    """interface: Transitions delete refused; Write operations 4; States 1; Tracking"""
    asset = acme.make("/assets")
    place(acme, asset, tree["d"])
    place(acme, asset, tree["a"])
    below = error(acme.delete(one(tree["a"])))
    acme.delete(one(tree["d"]))
    placed = error(acme.delete(one(tree["a"])))
    assert below["type"] == placed["type"] == "conflict"
    assert "descendant" in below["detail"]
    assert "asset" in placed["detail"]
    acme.delete(f"/assets/{asset['id']}")
    assert acme.delete(one(tree["a"])).status_code == 204, "what is deleted does not block"


def test_a_deleted_parent_shows_as_none_on_lists(acme: Api, tree: dict[str, Any]) -> None:
    """interface: Location parent_id, parent_external_key"""
    acme.delete(one(tree["c"]))
    shown = {row["name"]: row for row in data(acme.get("/locations", include_deleted="true"))}
    assert shown["c"]["parent_external_key"] == tree["b"]["external_key"]
    acme.delete(one(tree["b"]))
    shown = {row["name"]: row for row in data(acme.get("/locations", include_deleted="true"))}
    assert (shown["c"]["parent_id"], shown["c"]["parent_external_key"]) == (None, None)


def test_locations_can_be_listed_by_parent(acme: Api, tree: dict[str, Any]) -> None:
    """interface: Endpoints Locations; Code ambiguous_fields; Lists"""
    a, b = tree["a"], tree["b"]
    assert names(acme.get("/locations", parent_id=a["id"])) == ["d"]
    assert names(acme.get("/locations", parent_external_key=[a["external_key"], b["external_key"]])) == ["c", "d"]
    assert names(acme.get("/locations", parent_id=[1, 2**63 - 1])) == []
    both = acme.get("/locations", parent_id="x", parent_external_key="y z")
    assert codes(both) == [("parent_id", "ambiguous_fields"), ("parent_external_key", "ambiguous_fields")]


def test_a_cycle_in_the_database_fails_tree_operations_only(acme: Api, tree: dict[str, Any]) -> None:
    """interface: Type internal_error"""
    site = one(tree["site"])
    execute("UPDATE location SET parent_id = ? WHERE id = ?", (tree["d"]["id"], tree["site"]["id"]))
    for walk in ("ancestors", "children", "descendants"):
        assert error(acme.get(f"{site}/{walk}"))["type"] == "internal_error"
    assert acme.get(site).status_code == 200
    assert acme.patch(site, {"name": "x"}).status_code == 200
    assert data(acme.patch(site, {"parent_id": None}))["parent_id"] is None, "and it can be mended"
    assert names(acme.get(f"{site}/descendants")) == ["a", "d", "b", "c"]


def insert_locations(organization_id: int, parents: list[int | None], ids: list[int]) -> None:
    rows = [
        (location_id, organization_id, parent, f"BULK-{number:05d}", f"n{number:05d}", 1, 1000, 1000)
        for number, (location_id, parent) in enumerate(zip(ids, parents, strict=True))
    ]
    with writing():
        execute_many(
            "INSERT INTO location (id, organization_id, parent_id, external_key, name, valid_from, created_at, "
            "updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )


def test_a_tree_ten_thousand_wide_and_a_thousand_deep_works(acme: Api) -> None:
    ids = new_ids(11_000)
    chain: list[int | None] = [None, *ids[:999]]
    insert_locations(acme.organization_id, [*chain, *[ids[0]] * 10_000], ids)
    top, bottom = f"/locations/{ids[0]}", f"/locations/{ids[999]}"
    assert (acme.get(f"{top}/children").json or {})["total_count"] == 10_001
    assert (acme.get(f"{top}/descendants", offset=10_000).json or {})["total_count"] == 10_999
    assert names(acme.get(f"{bottom}/ancestors", limit=2)) == ["n00000", "n00001"]
    assert acme.patch(top, {"parent_id": ids[999]}).status_code == 409
    assert (acme.post(f"{top}/rename", {"external_key": "TOP"}).json or {})["descendant_count_affected"] == 10_999
