"""Antennas are configured on the pages, which also explain the location of an asset."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge import clock
from edge.audit import trail
from edge.audit.actors import shell
from edge.clock import SECOND
from edge.database.connection import hide_people
from edge.people.people import Role
from edge.readers import readers
from edge.readers.antenna_kinds import kind_of_location, kinds_of
from edge.readers.antenna_reads import antenna_activity
from edge.readers.readers import ReaderRow
from edge.tracking import antenna_names, tracked_people
from edge.tracking.positions import record
from edge.tracking.recent_reads import RecentReads
from edge.tracking.signal_strength import AntennaKind
from edge.tracking.stays import Quality, Scan
from edge.tracking.tracked_people import PeopleSetting
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site


@pytest.fixture
def admin(sign_in_as: Callable[..., Browser]) -> Browser:
    return sign_in_as(Role.ADMINISTRATOR)


@pytest.fixture
def reader(cast: Cast, site: Site) -> ReaderRow:
    return readers.add_reader(shell(cast.acme), name="Portal", topic="t", format="edge", location_id=site.dock.id)


def test_an_antenna_is_given_a_place_and_a_meaning_and_loses_both(
    admin: Browser, cast: Cast, site: Site, reader: ReaderRow
) -> None:
    path = f"/readers/{reader.id}"
    form = {"port": "2", "location_id": site.rack.id, "min_rssi": "", "is_enabled": "on", "kind": "portal"}
    admin.post(f"{path}/antennas", form)
    assert kinds_of(cast.acme).of(reader.id, 2, site.rack.id) is AntennaKind.PORTAL
    page = admin.get(path).text
    assert "Portal: assets pass it" in page
    assert "Rack A" in page
    admin.post(f"{path}/antennas", form | {"follow": "1"})
    assert kinds_of(cast.acme).of(reader.id, 2, None) is AntennaKind.ZONE
    assert readers.list_antennas(cast.acme, reader.id) == []


def test_a_named_antenna_is_shown_by_its_name(admin: Browser, cast: Cast, site: Site, reader: ReaderRow) -> None:
    form = {"port": "North <door>", "location_id": site.rack.id, "min_rssi": "", "is_enabled": "on", "kind": ""}
    admin.post(f"/readers/{reader.id}/antennas", form)
    assert antenna_names.names_of(reader.id) == {antenna_names.FIRST_PORT: "North <door>"}
    assert "North &lt;door&gt;" in admin.get(f"/readers/{reader.id}").text
    assert admin.post(f"/readers/{reader.id}/antennas", form | {"port": "x" * 101}).status_code == 400


def test_a_reader_and_a_location_configure_their_antennas(
    admin: Browser, cast: Cast, site: Site, reader: ReaderRow
) -> None:
    admin.post(f"/readers/{reader.id}/antenna-kind", {"kind": "direct"})
    admin.post(f"/locations/{site.hall.id}/antenna-kind", {"kind": "portal"})
    kinds = kinds_of(cast.acme)
    assert (kinds.of(reader.id, 1, None), kinds.of(0, None, site.rack.id)) == (AntennaKind.DIRECT, AntennaKind.PORTAL)
    assert '<option value="portal" selected>' in admin.get(f"/locations/{site.hall.id}/edit").text
    assert '<option value="direct" selected>' in admin.get(f"/readers/{reader.id}").text
    assert {act.action for act in trail.recent(cast.acme, 2)} == {"reader.changed", "location.changed"}
    for path in (f"/readers/{reader.id}", f"/locations/{site.hall.id}"):
        admin.post(f"{path}/antenna-kind", {"kind": ""})
        assert admin.post(f"{path}/antenna-kind", {"kind": "wall"}).status_code == 400
    assert kind_of_location(cast.acme, site.hall.id) is None


def test_only_administrators_of_the_organization_configure_antennas(
    sign_in_as: Callable[..., Browser], cast: Cast, site: Site, reader: ReaderRow
) -> None:
    theirs = sign_in_as(Role.ADMINISTRATOR, organization_id=cast.rival)
    for path in (f"/readers/{reader.id}/antennas", f"/readers/{reader.id}/antenna-kind"):
        assert theirs.post(path, {"kind": "portal", "port": "1"}).status_code == 404
    assert theirs.post(f"/locations/{site.hall.id}/antenna-kind", {"kind": "portal"}).status_code == 404
    editor = sign_in_as(Role.EDITOR)
    assert editor.post(f"/readers/{reader.id}/antenna-kind", {"kind": "portal"}).status_code == 403
    assert "antenna-kind" not in editor.get(f"/locations/{site.hall.id}/edit").text
    assert kinds_of(cast.rival) == kinds_of(cast.acme)


def test_a_technician_sees_what_the_antennas_read_and_share(
    admin: Browser, sign_in_as: Callable[..., Browser], cast: Cast, site: Site, reader: ReaderRow
) -> None:
    path = f"/readers/{reader.id}/antennas"
    assert "No reads in the last minutes" in admin.get(path).text
    other = readers.add_reader(shell(cast.acme), name="Hall", topic="h", format="edge", location_id=site.rack.id)
    port = antenna_names.port_from(other.id, "north")
    start, recent = clock.now() - 60 * SECOND, RecentReads()
    recent.refresh()

    def read(second: int, asset: int, reader_id: int, port: int, rssi: float | None) -> Scan:
        at, place = start + second * SECOND, {1: site.dock.id, 2: site.hall.id}.get(port, site.rack.id)
        return Scan(cast.acme, asset, place, reader_id, port, at, at, Quality.READER, rssi)

    reads = [read(second, site.pallet.id, reader.id, 1, -52) for second in range(30)]
    reads += [read(second, site.pallet.id, reader.id, 2, -72) for second in range(0, 30, 3)]
    reads += [read(second, site.cage.id, reader.id, 2, -120) for second in range(3)]
    reads += [read(5, site.pallet.id, other.id, port, -60)]
    record(sorted(reads, key=lambda one: one.observed_at), 300 * SECOND, recent)
    work = antenna_activity(cast.acme, reader.id)
    by_label = {one.label: one for one in work.antennas}
    assert by_label["antenna 1"].usual == -52
    assert by_label["antenna 1"].per_second == pytest.approx(0.5, rel=0.1)
    assert (by_label["antenna 2"].assets, by_label["antenna 2"].strengths[0]) == (2, 3)
    assert [(one.label, one.other, one.assets, one.stronger) for one in work.shared] == [
        ("antenna 1", "Hall, north", 1, 1),
        ("antenna 1", "antenna 2", 1, 1),
        ("antenna 2", "Hall, north", 1, 0),
    ]
    tracked_people.save(shell(cast.acme), PeopleSetting(key_prefix=site.cage.external_key))
    hide_people(True)
    seen = [one.assets for one in antenna_activity(cast.acme, reader.id).antennas]
    hide_people(False)
    assert seen == [1, 1]
    page = admin.get(path).text
    for text in ("antenna 1: strength", "-52 dBm", "Hall, north", "Dock 1", "<svg"):
        assert text in page
    theirs = sign_in_as(Role.ADMINISTRATOR, organization_id=cast.rival)
    assert theirs.get(path).status_code == 404
    recent.refresh()
    record([read(40, site.pallet.id, reader.id, 10, -50)], 300 * SECOND, recent)
    labels = [one.label for one in antenna_activity(cast.acme, reader.id).antennas]
    assert labels == ["antenna 1", "antenna 2", "antenna 10"]
    readers.remove_reader(shell(cast.acme), other.id)
    assert {one.other for one in antenna_activity(cast.acme, reader.id).shared} == {"antenna 2", "antenna 10"}


def test_a_page_explains_the_location_of_an_asset_and_undecided_reads(
    sign_in_as: Callable[..., Browser], cast: Cast, site: Site, reader: ReaderRow
) -> None:
    viewer, path = sign_in_as(Role.VIEWER), f"/assets/{site.pallet.id}/why"
    assert "Never seen." in viewer.get(path).text
    start, recent = clock.now() - 60 * SECOND, RecentReads()

    def read(second: float, location_id: int, rssi: float) -> Scan:
        at = start + round(second * SECOND)
        return Scan(cast.acme, site.pallet.id, location_id, reader.id, None, at, at, Quality.READER, rssi)

    recent.refresh()
    reads = [read(second, site.dock.id, -52) for second in range(10)]
    reads += [read(second + 0.5, site.rack.id, -50) for second in range(10, 20)]
    record([*reads, read(20.1, site.dock.id, -40)], 300 * SECOND, recent)
    page = viewer.get(path).text
    for text in (
        "At Rack A",
        "it was read there more strongly than at the previous location for long enough",
        "it was read there for the first time",
        "Held back: Dock 1",
        "-40 dBm",
        "current location",
        "previous location",
    ):
        assert text in page
    viewer.send("/language", {"language": "de"})
    page = viewer.get(path).text
    for text in ("An Rack A", "Grund: es wurde dort zum ersten Mal gelesen", "Zurückgehalten: Dock 1"):
        assert text in page
    assert f'href="{path}"' in viewer.get(f"/assets/{site.pallet.id}").text
    assert sign_in_as(Role.ADMINISTRATOR, organization_id=cast.rival).get(path).status_code == 404
