"""Assets and locations, their tags, and the tree of locations (interface: Endpoints Assets, Locations)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from flask import Response

from edge.api import responses
from edge.api.operations import Call, operation
from edge.database.lists import Page, SortTerm
from edge.errors import NotFound
from edge.memory_budget import of_request
from edge.records import assets, locations
from edge.records.locations import LocationRow
from edge.records.record import DEFAULT_SORT, Kind, RecordFilter
from edge.records.tags import NewTag
from edge.validation import bodies, query
from edge.validation.body import Body, judge
from edge.validation.query import DEFAULT_LIMIT, Query

Row = TypeVar("Row")
Filter = TypeVar("Filter")


class Resource(NamedTuple):
    """A kind of record in the API. `summaries`: summaries of the operations whose text differs between kinds."""

    kind: Kind[Any]
    noun: str  # with its article
    list_page: Callable[..., Page[Any]]
    render: Callable[[Any], Any]
    takes: Query
    create: Body
    patch: Body
    rename: Body
    summaries: Mapping[str, str]


ASSETS = Resource(
    assets.KIND,
    "an asset",
    assets.list_page,
    responses.asset,
    query.ASSETS,
    bodies.ASSET_CREATE,
    bodies.ASSET_PATCH,
    bodies.ASSET_RENAME,
    {
        "delete": "Soft-delete an asset with its tags; its key and tags are free again",
        "rename": "Change the external key of an asset",
    },
)
LOCATIONS = Resource(
    locations.KIND,
    "a location",
    locations.list_page,
    responses.location,
    query.LOCATIONS,
    bodies.LOCATION_CREATE,
    bodies.LOCATION_PATCH,
    bodies.LOCATION_RENAME,
    {
        "delete": "Soft-delete a location with its tags; refused while it has sub-locations or assets",
        "rename": "Change the external key of a location; its sub-locations stay attached",
    },
)


def _list(resource: Resource, call: Call) -> Response:
    filters = filters_of(RecordFilter, call.query)
    return _page(resource, call, resource.list_page, filters, **list_arguments(call.query, DEFAULT_SORT))


def _page(
    resource: Resource, call: Call, read: Callable[..., Page[Any]], chosen: RecordFilter | int, **arguments: Any
) -> Response:
    """Answer with a page whose rows are taken from the memory budget until they are written as JSON."""
    of_request.caller = call.principal.subject
    page = read(call.organization_id, chosen, **arguments)
    return responses.page(resource.render, page.rows, page.total_count, call.query)


def _create(resource: Resource, call: Call) -> Response:
    tags = [NewTag(**tag) for tag in call.body.get("tags") or ()]
    row = resource.kind.create(call.actor, **{**call.body, "tags": tags})
    return responses.created(resource.render(row), f"/{resource.kind.owner}s/{row.id}")


def _get(resource: Resource, call: Call) -> Response:
    return responses.one(resource.render(resource.kind.get(call.principal.organization_id, call.record_id)))


def _update(resource: Resource, call: Call) -> Response:
    """Apply a PATCH.

    The body is validated against the record (interface: Write operations 3) before the transaction, because a large
    body would block other writers. If the record changed in between, validation runs again. Raises Invalid for errors
    of the body, then NotFound (interface: Order of answers).
    """
    kind, declared = resource.kind, resource.patch
    while True:
        seen, missing = _seen(kind, call)
        values = judge(declared, call.body, seen)
        if missing:
            raise missing

        def refuse_if_changed(current: Any, seen: Any = seen) -> None:
            if current != seen:
                raise _RecordChanged

        changes = {name: value for name, value in values.items() if not declared.fields[name].compare}
        try:
            row = kind.patch(call.actor, call.record_id, changes, refuse_if_changed)
        except _RecordChanged:
            continue
        return responses.one(resource.render(row))


class _RecordChanged(Exception):
    """The record changed between validation and transaction."""


def _seen(kind: Kind[Row], call: Call) -> tuple[Row | None, NotFound | None]:
    try:
        return kind.get(call.principal.organization_id, call.record_id), None
    except NotFound as error:
        return None, error


def _delete(resource: Resource, call: Call) -> Response:
    resource.kind.delete(call.actor, call.record_id)
    return responses.nothing()


def _rename(resource: Resource, call: Call) -> Response:
    row, count = resource.kind.rename(call.actor, call.record_id, call.body["external_key"])
    return responses.one(resource.render(row), descendant_count_affected=count)


def _add_tag(resource: Resource, call: Call) -> Response:
    row = resource.kind.attach_tag(call.actor, call.record_id, NewTag(**call.body))
    return responses.created(responses.tag(row), f"/{resource.kind.owner}s/{call.record_id}/tags/{row.id}")


def _remove_tag(resource: Resource, call: Call) -> Response:
    resource.kind.detach_tag(call.actor, call.record_id, call.path["tag_id"])
    return responses.nothing()


def declare(resource: Resource, trees: Mapping[str, tuple[str, Callable[..., Page[Any]]]] | None = None) -> None:
    """Declare the operations of a kind of record. `trees`: summary and function of its lists of relatives, by path."""
    owner, noun = resource.kind.owner, resource.noun
    every = f"/{owner}s"
    one, answer = f"{every}/{{{owner}_id}}", owner.title()
    read = {"tag": f"{answer}s", "scope": f"{owner}s:read"}
    write = {"tag": f"{answer}s", "scope": f"{owner}s:write", "errors": (409,)}

    def add(method: str, path: str, name: str, summary: str, handle: Callable[..., Response], **options: Any) -> None:
        operation(method, path, name=name, summary=summary, **options)(partial(handle, resource))

    listed = f"List {owner}s that are live and within their window"
    add("GET", every, f"list_{owner}s", listed, _list, **read, takes=resource.takes, answer=f"{answer}List")
    create = {**write, "body": resource.create, "status": 201, "answer": answer}
    add("POST", every, f"create_{owner}", f"Create {noun}", _create, **create)
    add("GET", one, f"get_{owner}", f"Get one {owner}, also outside its effective window", _get, **read, answer=answer)
    changed = "Change the fields that are sent; read-only fields may be sent back unchanged"
    add("PATCH", one, f"update_{owner}", changed, _update, **write, body=resource.patch, answer=answer)
    add("DELETE", one, f"delete_{owner}", resource.summaries["delete"], _delete, **write, status=204)
    rename = {**write, "body": resource.rename, "answer": f"{answer}Renamed"}
    add("POST", f"{one}/rename", f"rename_{owner}", resource.summaries["rename"], _rename, **rename)
    for path, (summary, list_page) in (trees or {}).items():
        tree = {**read, "takes": query.TREE, "answer": f"{answer}List"}
        add("GET", f"{one}/{path}", f"list_{owner}_{path}", summary, partial(_relatives, list_page), **tree)
    add_tag = {**write, "body": bodies.TAG, "status": 201, "answer": "Tag"}
    add("POST", f"{one}/tags", f"add_{owner}_tag", f"Attach a tag to {noun}", _add_tag, **add_tag)
    detached = f"Detach a tag from {noun}"
    add("DELETE", f"{one}/tags/{{tag_id}}", f"remove_{owner}_tag", detached, _remove_tag, **write, status=204)


def _relatives(read: Callable[..., Page[LocationRow]], resource: Resource, call: Call) -> Response:
    return _page(resource, call, read, call.record_id, **list_arguments(call.query))


def list_arguments(query: Mapping[str, Any], default: Sequence[SortTerm] | None = None) -> dict[str, Any]:
    """Return the paging and sort arguments of a list. Without `default` the list cannot be sorted."""
    page = {"limit": query.get("limit", DEFAULT_LIMIT), "offset": query.get("offset", 0)}
    if default is None:
        return page
    return {**page, "sort": [SortTerm(*term) for term in query.get("sort", ())] or default}


def filters_of(kind: Callable[..., Filter], query: Mapping[str, Any]) -> Filter:
    """Return the filters of a list. Those by id or key may be repeated, so their names are plural."""
    sent = {name: value for name, value in query.items() if name not in ("limit", "offset", "sort")}
    return kind(**{f"{name}s" if name.endswith(("_id", "_key")) else name: value for name, value in sent.items()})


declare(ASSETS)
declare(
    LOCATIONS,
    {
        "ancestors": ("List the ancestors of a location, root first", locations.list_ancestors),
        "children": ("List the direct sub-locations by name", locations.list_children),
        "descendants": ("List all sub-locations, depth first, siblings by name", locations.list_descendants),
    },
)
