"""Import and export of readers and their antennas: one table for both."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from edge.audit.actors import shell
from edge.bulk import bulk_jobs, import_columns, slices
from edge.database.connection import execute
from edge.formats.registry import CUSTOM
from edge.people.people import Role
from edge.readers import antenna_kinds, readers
from edge.readers.readers import Placement, ReaderRow, add_reader
from edge.records import locations
from edge.tracking import rssi_offsets
from edge.tracking.signal_strength import AntennaKind
from edge.validation import csv_text, table_files
from tests.conftest import Cast
from tests.pages.conftest import Browser
from tests.pages.records.test_csv_import import imported, send

SignIn = Callable[..., Browser]
PATH = "/export/readers.csv"
MAPPING = '{"list_path": "reads",\n "tag_path": "id"}'
COLUMNS = import_columns.COLUMNS["reader"]
HEADING = ",".join(COLUMNS)


@pytest.fixture
def docks(cast: Cast) -> list[int]:
    return [locations.create(shell(cast.acme), name=f"Dock {n}", external_key=f"DOCK-{n}").id for n in (1, 2)]


def one(cast: Cast, name: str) -> ReaderRow:
    return next(row for row in readers.list_readers(cast.acme) if row.name == name)


def put(browser: Browser, *rows: str, heading: str = HEADING, empty: str = "clear") -> str:
    path = send(browser, "\n".join([heading, *rows]).encode(), "reader", empty)
    assert "No errors" in browser.get(path).text, browser.get(path).text
    return imported(browser, path)


def site(cast: Cast, docks: list[int]) -> None:
    """Set up two readers with everything that the table has."""
    boss = shell(cast.acme)
    gate = add_reader(boss, name="Gate", topic="site/gate", format="edge", location_id=docks[0], min_rssi=-65.5)
    add_reader(
        boss, name="=Hall", topic="site/hall/+", format=CUSTOM, mapping=MAPPING, clock_setting="Europe/Berlin",
        status_topic="site/status/hall",
    )  # fmt: skip
    readers.set_antenna(boss, gate.id, 2, Placement(docks[1], -50.0, False))
    antenna_kinds.set_reader_kind(boss, gate.id, "Gate", AntennaKind.PORTAL)
    antenna_kinds.set_reader_kind(boss, gate.id, "Gate", AntennaKind.DIRECT, 3)
    rssi_offsets.set_offset(boss, gate.id, "Gate", 2.5, 4)


def test_readers_and_antennas_are_created(sign_in_as: SignIn, cast: Cast, docks: list[int]) -> None:
    page = put(
        sign_in_as(Role.ADMINISTRATOR),
        "Gate,,site/gate,,edge,,Europe/Berlin,DOCK-1,-65,no,portal,1.5",
        "Gate,02,,,,,,DOCK-2,,,,",
        "Gate,north,,,,,,,,,direct,",
    )
    assert ("Created</dt><dd>1<" in page, "Changed</dt><dd>2<" in page, 'href="/readers"' in page) == (True,) * 3
    gate = one(cast, "Gate")
    assert (gate.location_id, gate.min_rssi, gate.clock_setting, gate.is_enabled) == (docks[0], -65, "Europe/Berlin", 0)
    antennas = [(row.port, row.location_id, row.is_enabled) for row in readers.list_antennas(cast.acme, gate.id)]
    assert antennas == [(2, docks[1], 1)]
    kinds = antenna_kinds.kinds_of(cast.acme)
    assert (kinds.readers, kinds.antennas) == ({gate.id: "portal"}, {(gate.id, 100_001): "direct"})
    assert rssi_offsets.offsets_of(cast.acme).readers == {gate.id: 1.5}
    actions = {action for (action,) in execute("SELECT action FROM audit WHERE actor_kind = 'person'")}
    assert {"reader.created", "reader.changed", "antenna.changed"} <= actions


def test_empty_cells_change_nothing_or_clear(sign_in_as: SignIn, cast: Cast, docks: list[int]) -> None:
    site(cast, docks)
    browser = sign_in_as(Role.ADMINISTRATOR)
    heading = "name,port,topic,location,min_rssi"
    put(browser, "Gate,,,,-70", "Gate,2,,DOCK-1,", heading=heading, empty="keep")
    gate = one(cast, "Gate")
    assert (gate.topic, gate.location_id, gate.min_rssi) == ("site/gate", docks[0], -70)
    [antenna] = readers.list_antennas(cast.acme, gate.id)
    assert (antenna.location_id, antenna.min_rssi, antenna.is_enabled) == (docks[0], -50, 0)
    put(browser, "Gate,,,,", "Gate,2,,,", heading=heading)
    gate = one(cast, "Gate")
    assert (gate.topic, gate.location_id, gate.min_rssi) == ("site/gate", None, None)
    [antenna] = readers.list_antennas(cast.acme, gate.id)
    assert (antenna.location_id, antenna.min_rssi, antenna.is_enabled) == (None, None, 0), "no column is_enabled"
    assert set(antenna_kinds.kinds_of(cast.acme).antennas) == set(rssi_offsets.offsets_of(cast.acme).antennas) == set()
    assert len(readers.list_readers(cast.acme)) == 2, "readers that are not listed stay"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("New,,,,edge,,,,,,,", "topic is required for a new reader"),
        ("New,,site/new,,,,,,,,,", "format is required for a new reader"),
        ("New,,site/#/x,,edge,,,,,,,", "site/#/x"),
        ("New,,site/gate,,edge,,,,,,,", "overlaps with the topic of the reader Gate"),
        ("New,,site/other,site/+,edge,,,,,,,", "overlaps with the topic of the reader"),
        ("New,,rival/secret,,edge,,,,,,,", "rival/"),
        ("New,,site/new,,unheard,,,,,,,", "format unheard is not known"),
        ("New,,site/new,,mapping,{,,,,,,", "the mapping cannot be used"),
        ("New,,site/new,,edge,,Mars,,,,,", "clock Mars is not known"),
        ("New,,site/new,,edge,,,NOWHERE,,,,", "there is no location NOWHERE"),
        ("New,,site/new,,edge,,,,weak,,,", "A signal strength must be between"),
        ("New,,site/new,,edge,,,,,maybe,,", "is_enabled must be yes or no"),
        ("New,,site/new,,edge,,,,,,room,", "An antenna is one of zone, portal, direct"),
        ("New,,site/new,,edge,,,,,,,99", "An RSSI offset must be between"),
        (",,site/new,,edge,,,,,,,", "name is required"),
        ("New,1,,,,,,DOCK-1,,,,", "there is no reader New, and none in a row above"),
        ("Gate,1,site/x,,edge,,,,,,,", "topic, format: only in the row of the reader"),
        ("First,,,,,,,,,,,", "this reader or antenna is also in line 2"),
        ("New,,site/#/x,,edge,,,,weak,,,", "A signal strength"),
    ],
)
def test_an_error_stops_the_import(sign_in_as: SignIn, cast: Cast, docks: list[int], row: str, reason: str) -> None:
    site(cast, docks)
    add_reader(shell(cast.rival), name="Secret", topic="rival/secret", format="edge")
    browser = sign_in_as(Role.ADMINISTRATOR)
    path = send(browser, f"{HEADING}\nFirst,,site/first,,edge,,,,,,,\n{row}\n".encode(), "reader")
    page = browser.get(path).text
    assert reason in page
    assert ("1 row has an error" in page, "Secret" in page) == (True, False)
    assert browser.post(path).status_code == 409
    assert len(readers.list_readers(cast.acme)) == 2


def test_only_administrators_import_and_export_readers(sign_in_as: SignIn, cast: Cast, docks: list[int]) -> None:
    site(cast, docks)
    boss, ed = sign_in_as(Role.ADMINISTRATOR), sign_in_as(Role.EDITOR)
    assert "import/template/reader" not in ed.get("/import").text
    assert (ed.get(PATH).status_code, ed.get("/export/records/reader.csv").status_code) == (403, 404)
    path = send(boss, boss.get(PATH).data.replace(b"site/gate", b"site/door"), "reader")
    assert [ed.get(path).status_code, ed.post(path).status_code] == [403, 403]
    job = bulk_jobs.find_job(cast.acme, boss.post(path).location.rsplit("/", 1)[1])
    assert job
    execute("UPDATE person SET role = 'editor' WHERE id = ?", (job.person_id,))
    slices.run_jobs(lambda _: False)
    assert one(cast, "Gate").topic == "site/gate"
    rival = sign_in_as(Role.ADMINISTRATOR, organization_id=cast.rival)
    assert rival.get(path).status_code == 404
    assert b"Gate" not in rival.get(PATH).data


def test_an_export_imported_again_changes_nothing(sign_in_as: SignIn, cast: Cast, docks: list[int]) -> None:
    site(cast, docks)
    browser = sign_in_as(Role.ADMINISTRATOR)
    data = browser.get(PATH).data
    workbook = browser.get(f"{PATH}?separator=xlsx").data
    for file, empty in ((data, "keep"), (data, "clear"), (workbook, "clear")):
        page = browser.get(send(browser, file, "reader", empty)).text
        assert "Everything in this file is already saved" in page, page
    for row in readers.list_readers(cast.acme):
        readers.remove_reader(shell(cast.acme), row.id)
    path = send(browser, data, "reader", "clear")
    assert "No errors" in browser.get(path).text, browser.get(path).text
    assert "Done." in imported(browser, path)  # it brings everything back
    assert browser.get(PATH).data == data


NUMBERS = st.sampled_from(["", "-50", "-65.5"])
BEHAVIOR = st.tuples(
    st.sampled_from(["", "DOCK-1", "DOCK-2"]), NUMBERS, st.sampled_from(["yes", "no"]),
    st.sampled_from(["", "zone", "portal"]), st.sampled_from(["", "2.5", "-3"]),
)  # fmt: skip
OF_READER = st.tuples(
    st.sampled_from(["", "status/{n}"]), st.sampled_from([("edge", ""), (CUSTOM, MAPPING)]),
    st.sampled_from(["auto", "receipt", "Europe/Berlin"]),
)  # fmt: skip
ANTENNAS = st.dictionaries(st.sampled_from(["1", "2", "7"]), BEHAVIOR, max_size=2)
READERS = st.tuples(*[st.tuples(OF_READER, BEHAVIOR, ANTENNAS)] * 2)


@given(before=READERS, after=READERS)
@settings(
    max_examples=15,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_an_export_changed_and_imported_is_exported_as_changed(
    sign_in_as: SignIn, cast: Cast, before: tuple[object, ...], after: tuple[object, ...]
) -> None:
    for key in ("DOCK-1", "DOCK-2"):
        if not execute("SELECT 1 FROM location WHERE external_key = ?", (key,)).fetchone():
            locations.create(shell(cast.acme), name=key, external_key=key)
    browser = sign_in_as(Role.ADMINISTRATOR)
    for wanted in (before, after):
        rows = rows_of(wanted)
        data = "".join(csv_text.write_rows(COLUMNS, rows)).encode()
        path = send(browser, data, "reader", "clear")
        page = browser.get(path).text
        assert "No errors" in page, page
        if "already saved" not in page:
            assert "Done." in imported(browser, path)
        raw = table_files.read_csv(browser.get(PATH).data)
        assert [list(row.cells) for row in raw.rows] == rows


def rows_of(wanted: tuple[object, ...]) -> list[list[str]]:
    rows: list[list[str]] = []
    for number, ((status, (format_name, mapping), clock), behavior, antennas) in enumerate(wanted):  # type: ignore[misc]
        name, topic = f"Reader {number}", f"site/{number}"
        rows.append([name, "", topic, status.format(n=number), format_name, mapping, clock, *behavior])
        rows += [[name, port, "", "", "", "", "", *antennas[port]] for port in sorted(antennas)]
    return rows
