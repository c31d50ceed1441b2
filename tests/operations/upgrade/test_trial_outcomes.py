"""Trial: outcomes of two releases are compared by reader and by asset."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import FILE_NAME, writing
from edge.operations.upgrade.trial import Outcome, difference, outcome, reader_names
from edge.people import organizations
from edge.readers import ledger, readers
from edge.readers.ledger import Bucket, Tally
from edge.records import assets, locations
from edge.tracking.positions import record
from edge.tracking.stays import Quality, Scan

USUAL = Outcome({(7, "recorded"): 3}, {1: 10, 2: 20}, 0)


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (USUAL, ""),
        (USUAL._replace(positions={1: 10, 2: 20, 3: 30}), ""),  # 3 is the asset of the trial
        (
            USUAL._replace(counts={(0, "unknown_topic"): 3}),
            "of reader dock, 0 messages are counted as recorded, in the running release 3",
        ),
        (
            USUAL._replace(counts={**USUAL.counts, (0, "unknown_topic"): 1}),
            "of topics without a reader, 1 messages are counted as unknown topic, in the running release 0",
        ),
        (USUAL._replace(positions={1: 11, 2: 20}), "1 assets are at another location than in the running release"),
        (USUAL._replace(positions={1: 10}), "1 assets are at another location than in the running release"),
    ],
)
def test_a_difference_is_described(after: Outcome, said: str) -> None:
    assert difference(USUAL, after, {7: "dock"}) == said


def test_the_outcome_is_read_from_the_ledger_and_the_positions(store: Path) -> None:
    organization_id = organizations.add_organization(shell(), "Acme").id
    actor = shell(organization_id)
    dock = locations.create(actor, name="Dock").id
    reader_id = readers.add_reader(actor, name="dock", topic="dock", format="csl", location_id=dock).id
    other_id = readers.add_reader(actor, name="other", topic="other", format="csl", location_id=dock).id
    asset_id = assets.create(actor, name="Pallet").id
    path, hour = store / FILE_NAME, ledger.hour_of(clock.now())
    before = outcome(path, {reader_id})
    record([Scan(organization_id, asset_id, dock, reader_id, 1, clock.now(), clock.now(), Quality.READER)], 0)
    with writing():
        for bucket in (Bucket.RECORDED, Bucket.REPEAT, Bucket.HELD):
            ledger.add({Tally(reader_id, hour, bucket): 2, Tally(other_id, hour, bucket): 1}, {})
    added = outcome(path, {reader_id}).since(before)
    assert added == Outcome({(reader_id, "recorded"): 4, (reader_id, "held"): 2}, {asset_id: dock}, 2)
    assert added.messages() == 6
    assert reader_names(path) == {reader_id: "dock", other_id: "other"}
