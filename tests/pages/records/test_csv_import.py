"""CSV import and export: files of spreadsheets are accepted, each row is checked, and an import is all or nothing."""

from __future__ import annotations

import csv
import io
import re
import threading
from collections.abc import Callable, Iterator
from datetime import UTC
from html import unescape
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape
from werkzeug.test import TestResponse

from edge import clock
from edge.audit import trail
from edge.audit.actors import person, shell
from edge.audit.trail import AuditFilter
from edge.bulk import import_kinds, import_rows, slices
from edge.bulk.import_rows import Reading, records_of
from edge.database.connection import execute
from edge.handhelds import scans
from edge.handhelds.scans import Submitted
from edge.pages.records import csv_import, csv_import_jobs
from edge.people import people
from edge.people.people import Role
from edge.people.sign_in import csrf_token
from edge.records import assets, locations, lookup
from edge.records.csv_import import NewRecord, write_records
from edge.records.record import RecordFilter
from edge.records.tags import NewTag
from edge.tracking import board
from edge.tracking.board import BoardFilter
from edge.validation import csv_text, table_files, xlsx
from edge.validation.encodings import decode_any
from edge.validation.imported_rows import MOST_OF_FAULTS
from edge.validation.tables import RawRow
from edge.validation.values import MAX_TAGS
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site

SignIn = Callable[..., Browser]


def send(browser: Browser, data: bytes, kind: str = "asset", empty: str = "keep") -> str:
    """Upload a file and wait for the check; returns the path of the check."""
    form = {"csrf": csrf_token(browser.token), "kind": kind, "empty": empty, "file": (io.BytesIO(data), "table.csv")}
    answer = browser.client.post("/import", data=form, content_type="multipart/form-data")
    assert answer.status_code == 303, answer.text
    return finished(answer.location)


def finished(path: str) -> str:
    csv_import_jobs._jobs[path.rsplit("/", 1)[1]].ended.wait(60)
    return path


def run(browser: Browser, data: bytes, kind: str = "asset") -> str:
    """Check and import a file; returns the final page."""
    return imported(browser, send(browser, data, kind))


def imported(browser: Browser, path: str) -> str:
    """Import a checked file; returns the final page."""
    answer = browser.post(path)
    assert answer.status_code == 303, answer.text
    assert "0 of " in browser.get(answer.location).text
    slices.run_jobs(lambda _: False)
    return browser.get(answer.location).text


def total(cast: Cast) -> int:
    return board.board(cast.acme, BoardFilter(), limit=0).total_count


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_every_usual_separator_and_encoding_is_understood(
    sign_in_as: SignIn, cast: Cast, separator: str, encoding: str
) -> None:
    rows = [["external_key", "Name"], ["P-1", "Gerät für Ölfässer"]]
    data = "\r\n".join(separator.join(row) for row in rows).encode(encoding)
    assert "Done." in run(sign_in_as(Role.EDITOR), data)
    asset = lookup.asset_by_key(cast.acme, "P-1")
    assert asset
    assert asset.name == "Gerät für Ölfässer"


def test_rows_create_change_and_leave_alone(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    data = (
        b"external_key,name,description,is_active,rfid,barcode\n"
        b'NEW-1,New one,"two\nlines",no,AA01|AA02,\n'
        b",Minted,,,,\n"
        b"ASSET-0001,,now described,,,4006381333931\n"
        b"ASSET-0002,Roll cage,,yes,,\n"
    )
    browser = sign_in_as(Role.EDITOR)
    checked = browser.get(send(browser, data)).text
    assert "Would be created</dt><dd>2<" in checked
    assert "Would be changed</dt><dd>1<" in checked
    assert total(cast) == 2
    page = run(browser, data)
    assert "Unchanged</dt><dd>1<" in page
    new = lookup.asset_by_key(cast.acme, "NEW-1")
    assert new
    asset = assets.get(cast.acme, new.id)
    assert (asset.description, bool(asset.is_active)) == ("two\nlines", False)
    assert sorted(tag.value for tag in asset.tags) == ["AA01", "AA02"]
    pallet = assets.get(cast.acme, site.pallet.id)
    assert (pallet.name, pallet.description, len(pallet.tags)) == ("Pallet 1", "now described", 1)
    assert lookup.asset_by_key(cast.acme, "ASSET-0003")
    assert "Unchanged</dt><dd>4<" in run(browser, data.replace(b",Minted,,,,\n", b"ASSET-0003,Minted,,,,\n"))


def test_locations_come_with_their_parents(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    data = b"external_key;name;parent_external_key\nH2;Hall 2;\nR1;Rack;H2\nDOCK-1;;H2\n"
    assert "Done." in run(sign_in_as(Role.EDITOR), data, "location")
    rack = lookup.location_by_key(cast.acme, "R1")
    assert rack
    assert locations.get(cast.acme, rack.id).parent_external_key == "H2"
    assert locations.get(cast.acme, site.dock.id).parent_external_key == "H2"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("bad key,Name,", "external_key"),
        ("OK-1,,", "name is required"),
        ("OK-1,Name,4006381333931", "belongs to another record"),
        ("FIRST,Name,", "the key is also in line 2"),
        ("OK-1,Name,T1", "is also in line 2"),
        ("OK-1," + "n" * 300 + ",", "name"),
    ],
)
def test_one_faulty_row_stops_the_import(sign_in_as: SignIn, cast: Cast, site: Site, row: str, reason: str) -> None:
    browser = sign_in_as(Role.EDITOR)
    path = send(browser, f"external_key,name,barcode\nFIRST,Fine,T1\n{row}\n".encode())
    page = browser.get(path).text
    assert "1 row has an error" in page
    assert "<b>Line 3</b>" in page
    assert reason in page
    assert browser.post(path).status_code == 409
    assert total(cast) == 2
    assert reason in browser.get(f"{path}/results.csv").text


def test_a_row_overtaken_since_the_check_is_left_out_and_can_be_downloaded(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.EDITOR)
    path = send(browser, b"external_key,name,rfid\nA-1,One,\nA-2,Two,TAKEN\n")
    assets.create(shell(cast.acme), name="Meanwhile", tags=[NewTag("rfid", "TAKEN")])
    page = imported(browser, path)
    assert "Done, except for some rows." in page
    assert "tag rfid:TAKEN belongs to another record" in page
    assert lookup.asset_by_key(cast.acme, "A-1")
    assert lookup.asset_by_key(cast.acme, "A-2") is None
    bulk = browser.post(path).location  # a second click shows the same import
    again = browser.get(f"{bulk}/unchanged.csv").data.decode("utf-8-sig").splitlines()
    assert again == [
        "error,external_key,name,rfid", "tag rfid:TAKEN belongs to another record,A-2,Two,TAKEN",
    ]  # fmt: skip
    assert "2,A-1,created," in browser.get(f"{bulk}/results.csv").text
    corrected = "\n".join(again).replace("TAKEN", "FREE").encode()
    assert "Done." in run(browser, corrected)


def test_concurrent_changes_of_other_fields_are_kept(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.EDITOR)
    path = send(browser, b"external_key,name\nASSET-0001,Renamed\n,Minted\n")
    assets.patch(shell(cast.acme), site.pallet.id, {"description": "by another"})
    assets.attach_tag(shell(cast.acme), site.pallet.id, NewTag("rfid", "BB02"))
    page = imported(browser, path)
    assert ("Created</dt><dd>1<" in page, "Changed</dt><dd>1<" in page) == (True, True)
    pallet = assets.get(cast.acme, site.pallet.id)
    assert (pallet.name, pallet.description) == ("Renamed", "by another")
    assert lookup.asset_by_key(cast.acme, "ASSET-0003")
    matches = assets.list_page(cast.acme, RecordFilter(q="bb02"), limit=5).rows
    assert [row.name for row in matches] == ["Renamed"]
    execute("INSERT INTO trigram (trigram, rank) VALUES ('integrity-check', 1)")  # raises if text and index differ


def test_a_file_that_clears_fields_and_detaches_tags(sign_in_as: SignIn, cast: Cast) -> None:
    box = assets.create(
        shell(cast.acme), name="Box", external_key="BOX", description="old", metadata='{"a":1.50,"b":2}',
        valid_to=clock.now() + clock.DAY, tags=[NewTag("rfid", "AA01"), NewTag("rfid", "AA02"), NewTag("ble", "C1")],
    )  # fmt: skip
    browser = sign_in_as(Role.EDITOR)
    data = b"external_key,description,valid_to,metadata,rfid\nBOX,,,,AA02|AA03\n"
    checked = browser.get(send(browser, data)).text
    assert "Fields that would be cleared" not in checked
    run(browser, data)
    kept = assets.get(cast.acme, box.id)
    assert (kept.description, kept.metadata, len(kept.tags)) == ("old", '{"a":1.50,"b":2}', 4)
    path = send(browser, data, empty="clear")
    checked = browser.get(path).text
    assert "Fields that would be cleared</dt><dd>3<" in checked
    assert "Tags that would be detached</dt><dd>1<" in checked
    imported(browser, path)
    cleared = assets.get(cast.acme, box.id)
    assert (cleared.description, cleared.valid_to, cleared.metadata) == (None, None, "{}")
    assert sorted(tag.value for tag in cleared.tags) == ["AA02", "AA03", "C1"]
    actions = [line.action for line in trail.list_page(cast.acme, AuditFilter(subject_id=str(box.id)), limit=9).rows]
    assert actions == ["tag.detached", "asset.changed", "tag.attached", "asset.created"]


def test_single_properties_and_times(sign_in_as: SignIn, cast: Cast) -> None:
    box = assets.create(shell(cast.acme), name="Box", external_key="BOX", metadata='{"a":1.50,"b":"x"}')
    browser = sign_in_as(Role.EDITOR)
    run(browser, b"external_key;metadata.Color;metadata.b;valid_to\nBOX;red;;24.12.2090 18:00\n")
    changed = assets.get(cast.acme, box.id)
    assert changed.metadata == '{"a":1.50,"b":"x","Color":"red"}'
    assert clock.rfc3339(changed.valid_to or 0) == "2090-12-24T18:00:00.000Z"
    imported(browser, send(browser, b"external_key;metadata.b\nBOX;\n", empty="clear"))
    assert assets.get(cast.acme, box.id).metadata == '{"a":1.50,"Color":"red"}'
    page = browser.get(send(browser, b"external_key;valid_to;metadata\nBOX;12/24/2090;[1]\n")).text
    assert "valid_to must be a time such as" in page
    assert "metadata must be a JSON object" in page


@pytest.mark.parametrize("separator", ["comma", "xlsx"])
@pytest.mark.parametrize("kind", ["asset", "location"])
def test_an_export_imported_again_changes_nothing(
    sign_in_as: SignIn, cast: Cast, site: Site, kind: str, separator: str
) -> None:
    assets.create(
        shell(cast.acme), name="=1+1", external_key="ODD", description="-two\nlines", is_active=False,
        metadata='{"a":[1.50,{"ö":null}]}', valid_from=1_700_000_000_123_456, valid_to=4_000_000_000_000_000,
        tags=[NewTag("rfid", "AA01"), NewTag("rfid", "AA02")],
    )  # fmt: skip
    rack = locations.create(shell(cast.acme), name="Rack", external_key="A-RACK", tags=[NewTag("barcode", "R1")])
    locations.patch(shell(cast.acme), rack.id, {"parent_external_key": "DOCK-1"})
    browser = sign_in_as(Role.EDITOR)
    path = f"/export/records/{kind}.csv?separator={separator}"
    data = browser.get(path).data
    page = browser.get(send(browser, data, kind, empty="clear")).text
    assert "Everything in this file is already saved" in page, page
    for row in assets.list_page(cast.acme, RecordFilter(), limit=9).rows if kind == "asset" else ():
        assets.delete(shell(cast.acme), row.id)
    if kind == "asset":  # into an empty site it brings everything back
        assert "Done." in imported(browser, send(browser, data, kind, empty="clear"))
        again = browser.get(path).data
        assert xlsx.table_of(again, 9) == xlsx.table_of(data, 9) if separator == "xlsx" else again == data


def test_a_location_moves_to_the_top_if_its_parent_is_cleared(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    locations.create(shell(cast.acme), name="Rack", external_key="R1", parent_external_key="DOCK-1")
    browser = sign_in_as(Role.EDITOR)
    data = b"external_key,parent_external_key\nR1,\n"
    assert "already saved" in browser.get(send(browser, data, "location")).text
    imported(browser, send(browser, data, "location", empty="clear"))
    rack = lookup.location_by_key(cast.acme, "R1")
    assert rack
    assert locations.get(cast.acme, rack.id).parent_external_key is None


def test_a_tag_moves_to_a_row_below_the_one_that_loses_it(sign_in_as: SignIn, cast: Cast) -> None:
    for key, tags in (("A", [NewTag("rfid", "AA01")]), ("B", [])):
        assets.create(shell(cast.acme), name=key, external_key=key, tags=tags)
    browser = sign_in_as(Role.EDITOR)
    imported(browser, send(browser, b"external_key,rfid\nA,\nB,AA01\n", empty="clear"))
    owners = [assets.get(cast.acme, ref.id).tags for key in "AB" if (ref := lookup.asset_by_key(cast.acme, key))]
    assert [len(tags) for tags in owners] == [0, 1]


def test_earlier_scans_of_imported_tags_are_recorded_and_audited(cast: Cast, site: Site) -> None:
    ada = people.add_person(shell(cast.acme), "Ada", Role.OPERATOR)
    scan = Submitted("1", "AA01", site.dock.id, clock.now())
    scans.submit(person(cast.acme, ada.id, ada.name), [scan], clock.now())
    write_records(
        shell(cast.acme),
        "asset",
        [NewRecord(2, "NEW-1", {"name": "New"}, [NewTag("rfid", "AA01"), NewTag("ble", "AA02")])],
    )
    new = lookup.asset_by_key(cast.acme, "NEW-1")
    assert new
    [position] = [row for row in board.board(cast.acme, BoardFilter(), limit=9).rows if row.asset_id == new.id]
    assert position.location_name == site.dock.name
    [line] = trail.list_page(cast.acme, AuditFilter(subject_id=str(new.id)), limit=5).rows
    assert (line.action, line.detail["tags"]) == ("asset.created", ["rfid:AA01", "ble:AA02"])


def test_a_check_that_took_its_time_ends_with_the_button_that_imports(sign_in_as: SignIn, site: Site) -> None:
    """The page polls this part during the check."""
    browser = sign_in_as(Role.EDITOR)
    path = send(browser, b"name\nNew\n")
    part = browser.get(f"{path}/now")
    assert (part.status_code, "Import 1 row" in part.text, 'name="csrf"' in part.text) == (200, True, True)


def test_a_check_that_ends_while_the_page_is_written_shows_its_errors(
    sign_in_as: SignIn, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, render, is_asked = import_kinds.check, csv_import.render_template, threading.Event()

    def check_when_asked(*args: Any) -> import_kinds.Checked:
        is_asked.wait(60)
        return check(*args)

    def render_when_checked(template: str, **values: Any) -> str:
        is_asked.set()
        values["job"].ended.wait(60)
        return render(template, **values)

    monkeypatch.setattr(import_kinds, "check", check_when_asked)
    monkeypatch.setattr(csv_import, "render_template", render_when_checked)
    browser = sign_in_as(Role.EDITOR)
    form = {"csrf": csrf_token(browser.token), "kind": "asset", "file": (io.BytesIO(b"name,ble\nA,1\nB,1\n"), "a.csv")}
    path = browser.client.post("/import", data=form, content_type="multipart/form-data").location
    page = browser.get(path).text
    assert ("1 row has an error" in page, "tag ble:1 is also in line 2" in page) == (True, True)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no row"),
        (b"external_key,name\n", "no row"),
        (b"name," * 39_000 + b"name\nA,B\n", "more than 100 columns"),
        (b"\xff\xfea", "UTF-16"),
    ],
)
def test_a_file_that_is_no_table_is_refused(sign_in_as: SignIn, data: bytes, reason: str) -> None:
    browser = sign_in_as(Role.EDITOR)
    form = {"csrf": csrf_token(browser.token), "kind": "asset", "file": (io.BytesIO(data), "x.csv")}
    answer = browser.client.post("/import", data=form, content_type="multipart/form-data")
    assert answer.status_code == 400
    assert reason in answer.text


def test_a_file_with_too_many_cells_or_tags_is_refused(
    sign_in_as: SignIn, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """50,000 rows of 100 empty cells in 5 MB took 840 MB, which is more than the box gives the service."""
    monkeypatch.setattr(table_files, "MOST_VALUES", 12)
    browser = sign_in_as(Role.EDITOR)
    wide = b"name,metadata.a,metadata.b\n" + b"A,,\n" * 5
    form = {"kind": "asset", "file": (io.BytesIO(wide), "a.csv"), "csrf": csrf_token(browser.token)}
    answer = browser.client.post("/import", data=form, content_type="multipart/form-data")
    assert (answer.status_code, "more than 12 cells" in answer.text) == (400, True)
    assert "Done." in run(browser, b"name,metadata.a,metadata.b\n" + b"A,,\n" * 4)
    assert (
        "more than 12 cells and tags"
        in browser.get(send(browser, b"name,rfid\nA,01|02|03\nB,04|05|06|07|08|09\n")).text
    )


def test_more_tags_than_a_record_can_have_are_not_collected() -> None:
    reading = Reading("asset", ["name", "rfid"], is_exact=False, zone=UTC)
    [record] = records_of(reading, [RawRow(2, ("A", "|".join(map(str, range(5_000)))))], lambda _: None)
    assert len(record.tags) == MAX_TAGS + 1


def test_the_errors_of_a_row_are_cut() -> None:
    reading = Reading("asset", ["name", "rfid"], is_exact=False, zone=UTC)
    [record] = records_of(reading, [RawRow(2, ("A", "|".join(["1E+10"] * 30)))], lambda _: None)
    assert len(record.fault) <= MOST_OF_FAULTS + 1


def test_the_last_checks_of_each_organization_are_kept(sign_in_as: SignIn, cast: Cast) -> None:
    """Before, five files, or one large file, removed the checks of all other organizations."""
    ed, rival = (sign_in_as(Role.EDITOR, organization_id=one) for one in (cast.acme, cast.rival))
    theirs = send(rival, b"name\nTheirs\n")
    own = [send(ed, b"name\nOurs\n") for _ in range(csv_import_jobs.KEPT + 1)]
    assert [ed.get(path).status_code for path in own] == [404, *[200] * csv_import_jobs.KEPT]
    assert "Done." in imported(rival, theirs)


@pytest.fixture
def held_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Checks of files wait for this event."""
    go_on, real = threading.Event(), import_kinds.check

    def check(*given: Any) -> import_kinds.Checked:
        assert go_on.wait(60)
        return real(*given)

    monkeypatch.setattr(import_kinds, "check", check)
    yield go_on
    go_on.set()


def upload(browser: Browser, data: bytes) -> TestResponse:
    form = {"csrf": csrf_token(browser.token), "kind": "asset", "file": (io.BytesIO(data), "table.csv")}
    return browser.client.post("/import", data=form, content_type="multipart/form-data")


def test_a_check_of_another_organization_is_next(sign_in_as: SignIn, cast: Cast, held_up: threading.Event) -> None:
    """Before, it was refused as long as others were checked: whoever repeated uploads kept all others from theirs."""
    ed, rival = (sign_in_as(Role.EDITOR, organization_id=one) for one in (cast.acme, cast.rival))
    first = upload(ed, b"name\nOurs\n").location
    second = upload(rival, b"name\nGer\xe4t\nTheirs\n").location
    assert "Waiting: 0 of 2 rows" in rival.get(second).text
    waiting = csv_import_jobs.find(cast.rival, second.rpartition("/")[2])
    assert waiting
    for browser in (ed, rival):
        assert "Another import is being checked" in upload(browser, b"name\nMore\n").text
    assert not waiting.is_done
    held_up.set()
    assert "Would be created</dt><dd>1<" in ed.get(finished(first)).text
    page = rival.get(finished(second)).text
    assert "Gerät" in page
    assert [record.values["name"] for record in waiting.records or ()] == ["Gerät", "Theirs"]
    assert "Would be created" in rival.get(finished(upload(rival, b"name\nNext\n").location)).text


def test_a_table_that_waits_for_its_columns_takes_no_memory(sign_in_as: SignIn, cast: Cast) -> None:
    path = upload(sign_in_as(Role.EDITOR), b"Nom\n" + b"A\n" * 1000).location
    job = csv_import_jobs.find(cast.acme, path.rpartition("/")[2])
    assert job
    assert (job.rows, len(job.table.rows)) == (1000, import_rows.PREVIEWED)


def test_an_import_is_its_organizations_own(sign_in_as: SignIn, cast: Cast) -> None:
    path = send(sign_in_as(Role.EDITOR), b"name\nSecret\n")
    rival = sign_in_as(Role.EDITOR, organization_id=cast.rival)
    assert [rival.get(path).status_code, rival.post(path).status_code] == [404, 404]


def test_the_templates_can_be_imported_as_they_are(sign_in_as: SignIn, site: Site) -> None:
    browser = sign_in_as(Role.EDITOR)
    for kind in ("asset", "location"):
        template = browser.get(f"/import/template/{kind}.csv").data
        if kind == "asset":
            template = template.replace(b"4006381333931", b"4006381333932")
        assert "No errors" in browser.get(send(browser, template, kind)).text


EXPORTED = st.one_of(
    st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"])), st.text(",;\t'\" =+-@a|")
).map(str.strip)


@given(st.lists(st.lists(EXPORTED, min_size=2, max_size=2), min_size=1), st.sampled_from(",;\t"))
def test_exported_values_are_imported_unchanged(rows: list[list[str]], separator: str) -> None:
    text = "".join(csv_text.write_rows(["name", "description"], rows, separator))
    lines = csv_text.table_of(text.removeprefix(csv_text.MARK), known=["name", "description"]).rows
    assert [[*line.cells, ""][:2] for line in lines] == [row for row in rows if any(row)]


def as_a_spreadsheet_reads_it(text: str, separator: str) -> list[str]:
    """Return the cells if quotes count only at the begin of a cell, as in Excel: others are part of the text."""
    return [
        cell
        for row in csv.reader(io.StringIO(text.removeprefix(csv_text.MARK), ""), delimiter=separator)
        for cell in row
    ]


@pytest.mark.parametrize("expected", [",", ";", "\t"])
@pytest.mark.parametrize("written", [",", ";", "\t"])
@pytest.mark.parametrize(
    "cell",
    [
        *(
            "abc;=cmd|' /C calc'!A0;",
            "abc,=cmd|' /C calc'!A0,x",
            "abc\t@SUM(1)\t",
            "a;+1;",
            "a;-1;",
            "a;  =1;",
            "a;'=1;",
        ),
        *("a\n=1+1", "a\r\n=1+1\r\n", 'a;"=1+1";', 'a;"""=1;', "a\n-2", "=1", "a;\uff1d1"),
    ],
)
def test_no_cell_becomes_a_formula_where_another_separator_is_usual(cell: str, written: str, expected: str) -> None:
    """Excel divides a file by the settings of the computer, and asks nobody."""
    text = "".join(csv_text.write_rows(["key", "name", "note"], [["K-1", cell, "end"], [cell, "x", cell]], written))
    read = as_a_spreadsheet_reads_it(text, expected)
    assert [one for one in read if one.strip('" ').startswith(("=", "+", "-", "@", "\uff1d"))] == []


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "mac-roman", "cp850"]
)
@pytest.mark.parametrize(
    "names", ["Gerät für Ölfässer; Größe M", "Étagère à côté, reçu l'élévateur", "Señor Muñoz, estación de año"]
)
def test_the_encoding_is_detected_by_its_letters(sign_in_as: SignIn, cast: Cast, encoding: str, names: str) -> None:
    """The text is decoded correctly or the user is asked for the encoding."""
    browser = sign_in_as(Role.EDITOR)
    path = send(browser, f"external_key\tname\nP-1\t{names}\n".encode(encoding))
    page = browser.get(path).text
    if "uncertain" in page:
        assert browser.post(path).status_code == 409
        path = finished(browser.post(f"{path}/layout", {"encoding": encoding}).location)
    assert escape(names) in browser.get(path).text
    imported(browser, path)
    asset = lookup.asset_by_key(cast.acme, "P-1")
    assert asset
    assert asset.name == names


def test_polish_of_windows_is_detected() -> None:
    for text in ("Łódź, śruba, część", "Gdańsk", "żółty wózek"):
        assert decode_any(text.encode("cp1250"))[:3] == (text, "cp1250", True)


def test_an_ambiguous_encoding_is_asked_for(sign_in_as: SignIn, cast: Cast) -> None:
    """0x8A is ä on a Macintosh and è in DOS, and both letters are common."""
    browser = sign_in_as(Role.EDITOR)
    path = send(browser, "name\nGerät\n".encode("mac-roman"))
    page = browser.get(path).text
    assert "The encoding of the file is uncertain" in page
    assert "Import 1 row" not in page
    assert browser.post(path).status_code == 409
    again = finished(browser.post(f"{path}/layout", {"encoding": "mac-roman"}).location)
    page = browser.get(again).text
    assert "Gerät" in page
    assert "Import 1 row" in page
    assert browser.post(f"{path}/layout", {"encoding": "utf-8"}).status_code == 400
    assert browser.post(f"{path}/layout", {"encoding": "rot13"}).status_code == 400
    rival = sign_in_as(Role.EDITOR, organization_id=cast.rival)
    assert rival.post(f"{path}/layout", {"encoding": "cp850"}).status_code == 404


def test_the_likely_encodings_are_offered_with_words_of_the_file(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.EDITOR)
    data = "external_key;name\nA1;Поддон синий\nA2;Склад\n".encode("cp1251")
    path = send(browser, data)
    page = browser.get(path).text
    assert '<option value="cp1251" selected>Windows, Cyrillic: Поддон, синий, Склад</option>' in page
    assert browser.post(path).status_code == 409
    path = finished(browser.post(f"{path}/layout", {"encoding": "cp1251"}).location)
    assert "Done." in imported(browser, path)
    asset = lookup.asset_by_key(cast.acme, "A1")
    assert asset
    assert asset.name == "Поддон синий"


def test_a_byte_of_another_encoding_is_reported_with_its_row_and_field(sign_in_as: SignIn, cast: Cast) -> None:
    rows = "".join(f"K-{number},Größe {number}\n" for number in range(20))
    page = sign_in_as(Role.EDITOR)
    answer = page.get(send(page, f"external_key,name\n{rows}".encode() + b"K-LAST,R\xfcck\n")).text
    assert "1 row has an error" in answer
    assert "<b>Line 22</b>" in answer
    assert escape("name: 'R\ufffdck' has a character in another encoding than the rest of the file") in answer


def test_the_separator_is_chosen_on_the_page(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.EDITOR)
    path = send(browser, b"name|a;b;c\nA|1;2;3\nB|1;2;3\n")  # semicolons divide it into more
    assert '<option value=";" selected>semicolon</option>' in browser.get(f"{path}/columns").text
    path = finished(browser.post(f"{path}/layout", {"separator": "|"}).location)
    page = browser.get(f"{path}/columns").text
    assert '<option value="|" selected>vertical bar</option>' in page
    assert "a;b;c" in page
    assert browser.post(f"{path}/layout", {"separator": "x"}).status_code == 400
    path = finished(browser.post(f"{path}/columns", {"column-0": "name", "column-1": ""}).location)
    assert "Would be created</dt><dd>2<" in browser.get(path).text


@pytest.mark.parametrize("is_workbook", [False, True])
def test_a_heading_below_titles_is_recognized_and_can_be_chosen(
    sign_in_as: SignIn, cast: Cast, is_workbook: bool
) -> None:
    browser = sign_in_as(Role.EDITOR)
    rows = [
        ["Stock list"],
        ["Printed by", "Ann"],
        ["Nummer", "Was", "Wo"],
        ["external_key", "name", "x"],
        ["A-1", "One", ""],
    ]
    data = "\n".join(map(",".join, rows)).encode()
    if is_workbook:
        with xlsx.write(rows[0], rows[1:]) as file:
            data = file.read()
    path = send(browser, data)
    page = browser.get(f"{path}/columns").text
    assert '<option value="4" selected>4: external_key, name, x</option>' in page
    assert '<option value="1" >1: Stock list</option>' in page
    other = finished(browser.post(f"{path}/layout", {"heading": "3"}).location)
    assert [f"{name}</label>" in browser.get(f"{other}/columns").text for name in ("Nummer", "Wo")] == [True, True]
    chosen = {"column-0": "external_key", "column-1": "name", "column-2": ""}
    path = finished(browser.post(f"{path}/columns", chosen).location)
    assert "Done." in imported(browser, path)
    assert lookup.asset_by_key(cast.acme, "A-1")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "an old Excel workbook"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n", "a PDF"),
        (b"<html><table><tr><td>name</td></tr></table></html>", "a web page or XML"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "not a text file"),
        (b'name,note\nA,"' + b"x" * 150_000, "cannot be read as CSV"),
    ],
)
def test_another_file_is_named_without_internals(sign_in_as: SignIn, data: bytes, reason: str) -> None:
    answer = upload(sign_in_as(Role.EDITOR), data)
    assert (answer.status_code, reason in answer.text) == (400, True)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("barcode", "4,00638E+12"),
        ("barcode", "4.00638E+12"),
        ("external_key", "1,23E+15"),
        ("rfid", "3,03426E+23|AA01"),
        ("barcode", "4006381333931.0"),
        ("ble", "1E+11"),
    ],
)
def test_a_number_that_a_spreadsheet_shortened_is_refused(
    sign_in_as: SignIn, cast: Cast, column: str, value: str
) -> None:
    browser = sign_in_as(Role.EDITOR)
    page = browser.get(send(browser, f"name;{column}\nBox;{value}\n".encode())).text
    assert f"{column}: {value.partition('|')[0]} was changed to a number by the spreadsheet" in page
    assert "Format the column as text" in page
    assert total(cast) == 0


@pytest.mark.parametrize("code", ["30E1234567", "1234E56789", "4006381333931", "12E5", "E2801170"])
def test_codes_that_look_like_numbers_are_taken(sign_in_as: SignIn, cast: Cast, code: str) -> None:
    assert "Done." in run(sign_in_as(Role.EDITOR), f"name;rfid\nBox;{code}\n".encode())


@pytest.mark.parametrize(
    ("yes", "no"), [("ja", "nein"), ("Oui", "Non"), ("SÍ", "no"), ("tak", "nie"), ("WAHR", "FALSCH")]
)
def test_yes_and_no_are_understood_in_five_languages(sign_in_as: SignIn, cast: Cast, yes: str, no: str) -> None:
    browser = sign_in_as(Role.EDITOR)
    data = f"sep=;\nexternal_key;name;is_active\nA;One;{yes}\nB;Two;{no}\n".encode()
    page = browser.get(send(browser, data)).text
    assert re.findall(r'data-name="is_active">([^<]*)<', page) == ["yes", "no"]
    assert "Done." in run(browser, data)
    imported = [lookup.asset_by_key(cast.acme, key) for key in "AB"]
    assert [bool(assets.get(cast.acme, one.id).is_active) for one in imported if one] == [True, False]


def test_every_error_of_every_row_is_reported(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.EDITOR)
    rows = ["bad key;;perhaps;4006381333931", "OK-1;;;4,1E+12|" + "x" * 300, "A;B;C;D;E", ";Fine;ja;"]
    data = "\n".join(["sep=;", "external_key;name;is_active;barcode", *rows]).encode()
    page = browser.get(send(browser, data)).text
    assert "3 rows have errors" in page
    third = page.split("<b>Line 3</b>")[1].split("</li>")[0]
    for expected in ("external_key", "is_active must be yes or no", "belongs to another record"):
        assert expected in third
    fourth = page.split("<b>Line 4</b>")[1].split("</li>")[0]
    assert "changed to a number by the spreadsheet" in fourth
    assert "255" in fourth
    assert "Line 5 has 5 cells but the header has 4" in page
    many = "\n".join(["external_key;name", *("bad key;" for _ in range(250))]).encode()
    page = browser.get(send(browser, many)).text
    assert "250 rows have errors" in page
    assert "and 150 more" in page


def test_columns_with_other_names_are_assigned_by_hand(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.EDITOR)
    path = send(browser, b"Nummer;Bezeichnung;Farbe;Lager;name\nP-1;Palette;blau;7;x\n")
    form = browser.get(f"{path}/columns").text
    assert "Bezeichnung" in form
    assert "Palette" in form
    assert browser.get(path).location == f"{path}/columns"
    assert browser.post(path).status_code == 409
    chosen = {"column-0": "external_key", "column-1": "name", "column-2": "metadata.", "property-2": "Farbe"}
    assert "Two columns" in browser.post(f"{path}/columns", chosen | {"column-4": "name"}).text
    assert "no field" in browser.post(f"{path}/columns", {"column-0": "id"}).text
    assert "Choose a column" in browser.post(f"{path}/columns", {"column-0": "description"}).text
    checked = finished(browser.post(f"{path}/columns", chosen).location)
    assert re.findall(r'data-name="([^"]*)">([^<]*)<', browser.get(checked).text) == [
        ("external_key", "P-1"), ("name", "Palette"), ("metadata.Farbe", "blau"),
    ]  # fmt: skip
    assert "Done." in imported(browser, checked)
    asset = lookup.asset_by_key(cast.acme, "P-1")
    assert asset
    assert assets.get(cast.acme, asset.id).metadata == '{"Farbe":"blau"}'


def test_rows_with_errors_are_downloaded_corrected_and_uploaded(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.EDITOR)
    path = send(browser, b"external_key;name;is_active\nA;One;yes\nB;=Two;perhaps\n")
    table = browser.get(f"{path}/errors.csv").data.decode("utf-8-sig")
    assert table.splitlines()[0] == "error,external_key,name,is_active"
    assert len(table.splitlines()) == 2
    assert "Done." in run(browser, table.replace(",perhaps", ",no").encode())
    asset = lookup.asset_by_key(cast.acme, "B")
    assert asset
    assert asset.name == "=Two"


@pytest.mark.parametrize("name", ["=1+1", "@SUM(A1)", "-x", "+x"])
def test_no_cell_is_a_formula(name: str) -> None:
    assert f"'{name}" in "".join(csv_text.write_rows(["name"], [[name]]))


def test_an_excel_file_goes_round(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    assets.create(shell(cast.acme), name="=1+1", external_key="007", metadata='{"a":1.50}', tags=[NewTag("rfid", "AA")])
    browser = sign_in_as(Role.EDITOR)
    data = browser.get("/export/records/asset.csv?separator=xlsx").data
    assert "already saved" in browser.get(send(browser, data, empty="clear")).text
    for row in assets.list_page(cast.acme, RecordFilter(), limit=9).rows:
        assets.delete(shell(cast.acme), row.id)
    assert "Done." in imported(browser, send(browser, data))
    asset = lookup.asset_by_key(cast.acme, "007")
    assert asset
    assert (asset.name, assets.get(cast.acme, asset.id).metadata) == ("=1+1", '{"a":1.50}')


def test_an_excel_file_with_other_columns_and_errors(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.EDITOR)
    with xlsx.write(["Nummer", "name"], [["A", "One"], ["bad key", "Two"]]) as file:
        path = send(browser, file.read())
    assert "Nummer" in browser.get(f"{path}/columns").text
    checked = finished(browser.post(f"{path}/columns", {"column-0": "external_key", "column-1": "name"}).location)
    assert "Rows with errors (Excel)" in browser.get(checked).text
    errors = xlsx.table_of(browser.get(f"{checked}/errors.csv?separator=xlsx").data, 10)
    assert list(errors.heading) == ["error", "external_key", "name"]
    assert errors.rows[0].cells[1:] == ("bad key", "Two")
    broken = browser.get(send(browser, b"PK\x03\x04 broken")).text
    assert "no Excel workbook" in broken


def test_a_check_and_its_file_of_errors_are_in_the_language_of_the_browser(sign_in_as: SignIn, site: Site) -> None:
    browser = sign_in_as(Role.EDITOR)
    german = {"Accept-Language": "de"}
    path = send(browser, b"external_key;name;is_active\nASSET 1;Box;perhaps\n;;yes\n")
    page = browser.get(path, headers=german).text
    assert "2 Zeilen haben Fehler. Nichts wurde importiert." in page
    key = "Kennung: nur Buchstaben ohne Umlaute, Ziffern und Bindestriche"
    reason = f"{key}; is_active muss ja oder nein sein, nicht 'perhaps'"
    assert str(escape(reason)) in page
    assert "name ist für einen neuen Eintrag erforderlich" in page
    file = browser.get(f"{path}/errors.csv", headers=german).text
    assert file.splitlines()[0] == "\ufefferror,external_key,name,is_active"
    assert reason in file
    assert "external_key may contain letters, digits and hyphens only; is_active must be yes" in browser.get(path).text


def test_a_table_with_words_of_another_language_is_read_in_every_language(
    sign_in_as: SignIn, cast: Cast, site: Site
) -> None:
    browser = sign_in_as(Role.EDITOR)
    path = send(browser, b"external_key,name,is_active\nBOX-1,Box,ja\nBOX-2,Box,tak\nBOX-3,Box,no\n")
    assert "Brak błędów." in browser.get(path, headers={"Accept-Language": "pl"}).text
    imported(browser, path)
    active = {
        row.external_key: bool(row.is_active) for row in assets.list_page(cast.acme, RecordFilter(), limit=9).rows
    }
    assert (active["BOX-1"], active["BOX-2"]) == (True, True)


def test_a_table_full_of_errors_ends_at_the_first_thousands(
    sign_in_as: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: the reasons of 49,000 rows took all memory."""
    monkeypatch.setattr("edge.bulk.import_rows.MOST_FAULTY", 3)
    browser = sign_in_as(Role.EDITOR)
    path = send(browser, b"name,is_active\n" + b"A,perhaps\n" * 4)
    page = browser.get(path).text
    assert "More than 3 rows have errors. The first one, in line 2: is_active" in unescape(page)
