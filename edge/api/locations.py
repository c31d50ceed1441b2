"""Locations, their tree and their tags (interface: Endpoints Locations)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from flask import Response

from edge.api import responses, serializers
from edge.api.operations import Call, operation
from edge.api.records import apply_patch, filters_of, list_arguments, new_tag, new_tags, reserve_until, without_tags
from edge.database.lists import Page
from edge.records import locations
from edge.records.location_tree import UNSET, Parent
from edge.records.locations import LocationFilter, LocationRow
from edge.validation import bodies, query

TAG, READ, WRITE = "Locations", "locations:read", "locations:write"
ONE, TAGS = "/locations/{location_id}", "/locations/{location_id}/tags"


@operation("GET", "/locations", tag=TAG, scope=READ, takes=query.LOCATIONS, answer="LocationList")
def list_locations(call: Call) -> Response:
    """List locations that are live and within their window"""
    filters = filters_of(LocationFilter, call.query)
    with ExitStack() as held:
        arguments = list_arguments(call.query, locations.DEFAULT_SORT)
        page = locations.list_page(
            call.organization_id, filters, **arguments, reserve=reserve_until(held, call.principal)
        )
        return _page(call, page)


@operation(
    *("POST", "/locations"), tag=TAG, scope=WRITE, body=bodies.LOCATION_CREATE, status=201, answer="Location",
    errors=(409,),
)  # fmt: skip
def create_location(call: Call) -> Response:
    """Create a location"""
    fields = without_parent(without_tags(call.body))
    row = locations.create(call.actor, **fields, parent=parent_of(call.body), tags=new_tags(call.body))
    return responses.created(serializers.location(row), f"/locations/{row.id}")


@operation("GET", ONE, tag=TAG, scope=READ, answer="Location")
def get_location(call: Call) -> Response:
    """Get one location, also outside its effective window"""
    return responses.one(serializers.location(locations.get(call.organization_id, call.path["location_id"])))


@operation("PATCH", ONE, tag=TAG, scope=WRITE, body=bodies.LOCATION_PATCH, answer="Location", errors=(409,))
def update_location(call: Call) -> Response:
    """Change the fields that are sent; read-only fields may be sent back unchanged"""
    location_id = call.path["location_id"]

    def patch(changes: dict[str, Any], check: Callable[[LocationRow], None]) -> LocationRow:
        columns = without_parent(changes)
        return locations.patch(call.actor, location_id, columns, check, parent_of(changes))

    row = apply_patch(bodies.LOCATION_PATCH, call.body, lambda: locations.get(call.organization_id, location_id), patch)
    return responses.one(serializers.location(row))


@operation("DELETE", ONE, tag=TAG, scope=WRITE, status=204, errors=(409,))
def delete_location(call: Call) -> Response:
    """Soft-delete a location with its tags; refused while it has sub-locations or assets"""
    locations.delete(call.actor, call.path["location_id"])
    return responses.nothing()


@operation(
    "POST", f"{ONE}/rename", tag=TAG, scope=WRITE, body=bodies.LOCATION_RENAME, answer="LocationRenamed", errors=(409,)
)
def rename_location(call: Call) -> Response:
    """Change the external key of a location; its sub-locations stay attached"""
    row, count = locations.rename(call.actor, call.path["location_id"], call.body["external_key"])
    return responses.one(serializers.location(row), descendant_count_affected=count)


@operation("GET", f"{ONE}/ancestors", tag=TAG, scope=READ, takes=query.TREE, answer="LocationList")
def list_location_ancestors(call: Call) -> Response:
    """List the ancestors of a location, root first"""
    return _tree_page(call, locations.list_ancestors)


@operation("GET", f"{ONE}/children", tag=TAG, scope=READ, takes=query.TREE, answer="LocationList")
def list_location_children(call: Call) -> Response:
    """List the direct sub-locations by name"""
    return _tree_page(call, locations.list_children)


@operation("GET", f"{ONE}/descendants", tag=TAG, scope=READ, takes=query.TREE, answer="LocationList")
def list_location_descendants(call: Call) -> Response:
    """List all sub-locations, depth first, siblings by name"""
    return _tree_page(call, locations.list_descendants)


@operation("POST", TAGS, tag=TAG, scope=WRITE, body=bodies.TAG, status=201, answer="Tag", errors=(409,))
def add_location_tag(call: Call) -> Response:
    """Attach a tag to a location"""
    location_id = call.path["location_id"]
    row = locations.attach_tag(call.actor, location_id, new_tag(call.body))
    return responses.created(serializers.tag(row), f"/locations/{location_id}/tags/{row.id}")


@operation("DELETE", f"{TAGS}/{{tag_id}}", tag=TAG, scope=WRITE, status=204, errors=(409,))
def remove_location_tag(call: Call) -> Response:
    """Detach a tag from a location"""
    locations.detach_tag(call.actor, call.path["location_id"], call.path["tag_id"])
    return responses.nothing()


def _page(call: Call, page: Page[LocationRow]) -> Response:
    return responses.page(serializers.location, page.rows, page.total_count, call.query)


def _tree_page(call: Call, read: Callable[..., Page[LocationRow]]) -> Response:
    with ExitStack() as held:
        arguments = list_arguments(call.query)
        reserve = reserve_until(held, call.principal)
        return _page(call, read(call.organization_id, call.path["location_id"], **arguments, reserve=reserve))


def parent_of(body: Mapping[str, Any]) -> Parent:
    """Return the parent in a body. Fields that are missing become UNSET."""
    return Parent(body.get("parent_id", UNSET), body.get("parent_external_key", UNSET))


def without_parent(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body without the two parent fields."""
    return {name: value for name, value in body.items() if name not in ("parent_id", "parent_external_key")}
