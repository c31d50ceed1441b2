"""Assets and their tags (interface: Endpoints Assets)."""

from __future__ import annotations

from contextlib import ExitStack

from flask import Response

from edge.api import responses, serializers
from edge.api.operations import Call, operation
from edge.api.records import apply_patch, filters_of, list_arguments, new_tag, new_tags, reserve_until, without_tags
from edge.records import assets
from edge.records.assets import AssetFilter
from edge.validation import bodies, query

TAG, READ, WRITE = "Assets", "assets:read", "assets:write"
ONE, TAGS = "/assets/{asset_id}", "/assets/{asset_id}/tags"


@operation("GET", "/assets", tag=TAG, scope=READ, takes=query.ASSETS, answer="AssetList")
def list_assets(call: Call) -> Response:
    """List assets that are live and within their window"""
    filters = filters_of(AssetFilter, call.query)
    with ExitStack() as held:
        arguments = list_arguments(call.query, assets.DEFAULT_SORT)
        page = assets.list_page(call.organization_id, filters, **arguments, reserve=reserve_until(held, call.principal))
        return responses.page(serializers.asset, page.rows, page.total_count, call.query)


@operation("POST", "/assets", tag=TAG, scope=WRITE, body=bodies.ASSET_CREATE, status=201, answer="Asset", errors=(409,))
def create_asset(call: Call) -> Response:
    """Create an asset"""
    fields = without_tags(call.body)
    row = assets.create(call.actor, **fields, tags=new_tags(call.body))
    return responses.created(serializers.asset(row), f"/assets/{row.id}")


@operation("GET", ONE, tag=TAG, scope=READ, answer="Asset")
def get_asset(call: Call) -> Response:
    """Get one asset, also outside its effective window"""
    return responses.one(serializers.asset(assets.get(call.organization_id, call.path["asset_id"])))


@operation("PATCH", ONE, tag=TAG, scope=WRITE, body=bodies.ASSET_PATCH, answer="Asset", errors=(409,))
def update_asset(call: Call) -> Response:
    """Change the fields that are sent; read-only fields may be sent back unchanged"""
    asset_id = call.path["asset_id"]
    row = apply_patch(
        bodies.ASSET_PATCH,
        call.body,
        lambda: assets.get(call.organization_id, asset_id),
        lambda changes, check: assets.patch(call.actor, asset_id, changes, check),
    )
    return responses.one(serializers.asset(row))


@operation("DELETE", ONE, tag=TAG, scope=WRITE, status=204, errors=(409,))
def delete_asset(call: Call) -> Response:
    """Soft-delete an asset with its tags; its key and tags are free again"""
    assets.delete(call.actor, call.path["asset_id"])
    return responses.nothing()


@operation(
    "POST", f"{ONE}/rename", tag=TAG, scope=WRITE, body=bodies.ASSET_RENAME, answer="AssetRenamed", errors=(409,)
)
def rename_asset(call: Call) -> Response:
    """Change the external key of an asset"""
    row = assets.rename(call.actor, call.path["asset_id"], call.body["external_key"])
    return responses.one(serializers.asset(row), descendant_count_affected=0)


@operation("POST", TAGS, tag=TAG, scope=WRITE, body=bodies.TAG, status=201, answer="Tag", errors=(409,))
def add_asset_tag(call: Call) -> Response:
    """Attach a tag to an asset"""
    asset_id = call.path["asset_id"]
    row = assets.attach_tag(call.actor, asset_id, new_tag(call.body))
    return responses.created(serializers.tag(row), f"/assets/{asset_id}/tags/{row.id}")


@operation("DELETE", f"{TAGS}/{{tag_id}}", tag=TAG, scope=WRITE, status=204, errors=(409,))
def remove_asset_tag(call: Call) -> Response:
    """Detach a tag from an asset"""
    assets.detach_tag(call.actor, call.path["asset_id"], call.path["tag_id"])
    return responses.nothing()
