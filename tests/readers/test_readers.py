"""Readers: topics are unique, and belong to one organization."""

from __future__ import annotations

import pytest

from edge.audit.actors import shell
from edge.database.connection import execute, scalar, writing
from edge.errors import Conflict, Invalid, NotFound
from edge.readers import readers, status, unassigned_topics
from edge.readers.readers import Placement
from edge.readers.unassigned_topics import Unassigned
from edge.records import locations
from tests.conftest import Cast


def add(organization_id: int, name: str = "dock", topic: str = "site/dock/reads", **more: object) -> readers.ReaderRow:
    return readers.add_reader(shell(organization_id), name=name, topic=topic, format="csl", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("other", ["rival", "rival/dock", "rival/+", "+/dock", "#", "+"])
def test_a_topic_overlapping_another_organization_is_rejected_unnamed(cast: Cast, other: str) -> None:
    with pytest.raises(Conflict, match="another organization") as refused:
        add(cast.acme, topic=other)
    assert "rival" not in str(refused.value).replace(other, "")
    assert readers.list_readers(cast.acme) == []


@pytest.mark.parametrize("other", ["site/dock/reads", "+/dock", "#", "rival2/dock", "Rival/dock"])
def test_an_organization_with_a_prefix_stays_below_it(cast: Cast, other: str) -> None:
    with pytest.raises(Conflict, match="is not below rival/"):
        add(cast.rival, topic=other)
    assert add(cast.rival, topic="rival/#").topic == "rival/#"


def test_a_topic_that_overlaps_another_reader_is_rejected_with_its_name(cast: Cast) -> None:
    add(cast.acme, name="dock 1")
    with pytest.raises(Conflict, match=r"the reader dock 1 \(site/dock/reads\)"):
        add(cast.acme, name="dock 2", topic="site/+/reads")


def test_changed_topics_are_checked_as_well(cast: Cast) -> None:
    add(cast.acme)
    other = add(cast.rival, topic="rival/reads")
    with pytest.raises(Conflict):
        readers.change_reader(shell(cast.rival), other.id, {"topic": "site/#"})
    assert readers.change_reader(shell(cast.rival), other.id, {"topic": "rival/#"}).topic == "rival/#"


def test_a_removed_reader_frees_its_name_and_topic(cast: Cast) -> None:
    first = add(cast.acme)
    readers.remove_reader(shell(cast.acme), first.id)
    assert add(cast.acme).id != first.id


def test_another_organizations_reader_does_not_exist(cast: Cast) -> None:
    row = add(cast.acme)
    for act in (
        lambda: readers.get_reader(cast.rival, row.id),
        lambda: readers.change_reader(shell(cast.rival), row.id, {"name": "mine"}),
        lambda: readers.remove_reader(shell(cast.rival), row.id),
        lambda: readers.set_antenna(shell(cast.rival), row.id, 1, Placement(None, None, True)),
        lambda: readers.list_antennas(cast.rival, row.id),
    ):
        with pytest.raises(NotFound):
            act()


def test_a_location_of_another_organization_is_rejected(cast: Cast) -> None:
    theirs = locations.create(shell(cast.rival), name="Theirs").id
    with pytest.raises(Invalid, match="location_id does not name a location"):
        add(cast.acme, location_id=theirs)
    row = add(cast.acme)
    with pytest.raises(Invalid):
        readers.set_antenna(shell(cast.acme), row.id, 1, Placement(theirs, None, True))


def test_an_antenna_inherits_settings_of_its_reader(cast: Cast) -> None:
    dock, aisle = (locations.create(shell(cast.acme), name=name).id for name in ("Dock", "Aisle"))
    row = add(cast.acme, location_id=dock, min_rssi=-65.0)
    readers.set_antenna(shell(cast.acme), row.id, 1, Placement(aisle, None, True))
    readers.set_antenna(shell(cast.acme), row.id, 2, Placement(None, -50.0, False))
    route = readers.routes()[0]
    assert route.placement == Placement(dock, -65.0, True)
    assert route.antennas == {1: Placement(aisle, -65.0, True), 2: Placement(dock, -50.0, False)}
    readers.change_reader(shell(cast.acme), row.id, {"is_enabled": False})
    assert not any(place.is_enabled for place in readers.routes()[0].antennas.values())


def test_every_change_relevant_to_ingest_changes_the_version(cast: Cast) -> None:
    dock = locations.create(shell(cast.acme), name="Dock").id
    seen = {scalar("SELECT readers FROM version")}
    row = add(cast.acme, location_id=dock)
    steps = [
        lambda: None,
        lambda: readers.change_reader(shell(cast.acme), row.id, {"name": "door"}),
        lambda: readers.set_antenna(shell(cast.acme), row.id, 1, Placement(dock, None, True)),
        lambda: readers.remove_antenna(shell(cast.acme), row.id, 1),
        lambda: locations.delete(shell(cast.acme), dock),
        lambda: readers.remove_reader(shell(cast.acme), row.id),
    ]
    for step in steps:
        step()
        seen.add(scalar("SELECT readers FROM version"))
    assert len(seen) == len(steps) + 1


def test_items_of_another_organization_are_not_counted(cast: Cast) -> None:
    with writing():
        unassigned_topics.record([Unassigned("somewhere/1", 1, b"{}")])
        execute("UPDATE unassigned_topic SET organization_id = ?", (cast.rival,))
    assert status.inbox_counts(cast.rival).topics == 1
    assert status.inbox_counts(cast.acme).topics == 0
