"""What a handheld sends one at a time, after its scans: photos, and labels to print."""

from __future__ import annotations

from collections import OrderedDict

from flask import Response, abort, jsonify, request

from edge import clock
from edge.errors import Conflict, EdgeError, Invalid, NotFound, Unavailable
from edge.pages.forms import is_id, json_object, message_of, whole
from edge.pages.guard import operators, organization_id
from edge.pages.handhelds.scan import SCAN_ID, observed, sender_of
from edge.pages.labels import print_asset_label
from edge.pages.translation import gettext
from edge.records import asset_photos, assets, location_tree
from edge.texts import N_

MAX_PHOTO = 2 * 1024 * 1024  # as sent; the scan page makes photos of at most 1,280 pixels
_PRINTED = 1_000
_printed: OrderedDict[tuple[int, str], None] = OrderedDict()  # so that a repeated request prints nothing


@operators.post("/scan/photos")
def scan_photo() -> Response:
    """Store the photo in the body. A repeated one is not decoded again."""
    photo_id, asset_id = request.args.get("id", ""), request.args.get("asset", 0, type=whole)
    if not SCAN_ID.fullmatch(photo_id):
        abort(400, "id")
    received_at = clock.now()
    at = observed(request.args.get("at", 0.0, type=float), 0, received_at)
    sender = sender_of(request.args.get("session"), at)
    if sender is None:
        return jsonify(result="whose")
    if asset_photos.is_stored(organization_id(), photo_id):
        return jsonify(result="done")
    try:
        asset_photos.check(sender, asset_id)
        # Imported here because its library takes 2 MB and is rarely used.
        from edge.records.images import photo_of

        photo = photo_of(organization_id(), request.get_data(cache=False), asset_photos.MAX_BYTES)
        asset_photos.add(sender, photo_id, asset_id, photo.content, photo.size, at)
    except (NotFound, Conflict, Invalid) as error:
        return _refused(error)
    return jsonify(result="done")


scan_photo.max_body = MAX_PHOTO  # type: ignore[attr-defined]


@operators.post("/scan/labels")
def scan_label() -> Response:
    """Print the label of an asset on the printer nearest to a location."""
    body = json_object()
    label_id, asset_id, location_id = str(body.get("id")), body.get("asset"), body.get("location")
    if not SCAN_ID.fullmatch(label_id) or not is_id(asset_id):
        abort(400, "id and asset")
    if (organization_id(), label_id) in _printed:
        return jsonify(result="done")
    places = [location_id, *location_tree.ancestors(location_id)] if is_id(location_id) else []
    try:
        asset = assets.get(organization_id(), asset_id)
        if not print_asset_label(organization_id(), places, asset.name, asset.external_key):
            return jsonify(result="refused", reason=gettext(N_("No label printer is set up")))
    except Unavailable:
        return jsonify(result="refused", reason=gettext(N_("The label printer does not respond")))
    except Invalid as error:
        return jsonify(result="refused", reason=message_of(error))
    except NotFound as error:
        return _refused(error)
    _printed[organization_id(), label_id] = None
    while len(_printed) > _PRINTED:
        _printed.popitem(last=False)
    return jsonify(result="done")


def _refused(error: EdgeError) -> Response:
    if isinstance(error, NotFound):
        text = N_("This asset is retired")
    else:
        text = N_("This is not a photo") if isinstance(error, Invalid) else str(error)
    return jsonify(result="refused", reason=gettext(text))
