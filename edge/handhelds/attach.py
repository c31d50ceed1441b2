"""Attach an unknown scanned code to an asset."""

from __future__ import annotations

from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.errors import Conflict, NotFound
from edge.handhelds import scans
from edge.handhelds.scans import Answer
from edge.records import assets, lookup
from edge.records.tags import NewTag
from edge.texts import N_
from edge.tracking import board


def attach(actor: Actor, scan_id: str, asset_id: int) -> Answer:
    """Attach the unknown code of a waiting scan to an asset as a tag, and record the scan for the asset.

    Raises NotFound, and Conflict if the code has since been assigned to something else.
    """
    with acting(actor):
        scan = scans.stored(scan_id)
        if scan is None or scan.organization_id != actor.organization_id:
            raise NotFound(N_("This scan is no longer waiting"))
        owner = lookup.by_code(actor.organization_id, scan.code)
        was = None
        if owner is None:
            was = board.whereabouts(actor.organization_id, asset_id)
            assets.attach_tag(actor, asset_id, NewTag(scans.guess_type(scan.code), scan.code))
        elif owner.id != asset_id:
            raise Conflict(N_("This code has since been assigned to something else"))
        return scans.stored_answer(actor, scans.stored(scan_id) or scan)._replace(was=was)


def attach_to_new_asset(actor: Actor, scan_id: str, name: str) -> Answer:
    """Create an asset and attach the code to it in one transaction. Raises NotFound, Conflict."""
    with acting(actor):
        return attach(actor, scan_id, assets.create(actor, name=name).id)
