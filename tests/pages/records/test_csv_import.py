"""CSV import and export: files of spreadsheets are accepted, each row is checked, and an import is all or nothing."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from edge import clock
from edge.audit import trail
from edge.audit.actors import person, shell
from edge.audit.trail import AuditFilter
from edge.database import ids
from edge.database.connection import execute
from edge.handhelds import scans
from edge.handhelds.scans import Submitted
from edge.pages.records import csv_import_jobs
from edge.people import people
from edge.people.people import Role
from edge.people.sign_in import csrf_token
from edge.records import assets, locations, lookup, search
from edge.records.assets import AssetFilter
from edge.records.csv_import import NewRecord, import_records
from edge.records.tags import NewTag
from edge.tracking import board
from edge.tracking.board import BoardFilter
from edge.validation import csv_text
from edge.validation.encodings import decode_any
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site

SignIn = Callable[..., Browser]


def send(browser: Browser, data: bytes, kind: str = "asset") -> str:
    """Upload a file and wait for the check; returns the path of the check."""
    form = {"csrf": csrf_token(browser.token), "kind": kind, "file": (io.BytesIO(data), "table.csv")}
    answer = browser.client.post("/import", data=form, content_type="multipart/form-data")
    assert answer.status_code == 303, answer.text
    return finished(answer.location)


def finished(path: str) -> str:
    csv_import_jobs.wait(path.rsplit("/", 1)[1], 30)
    return path


def run(browser: Browser, data: bytes, kind: str = "asset") -> str:
    """Check and import a file; returns the final page."""
    answer = browser.post(send(browser, data, kind))
    assert answer.status_code == 303, answer.text
    return browser.get(finished(answer.location)).text


def total(cast: Cast) -> int:
    return board.board(cast.acme, BoardFilter(), limit=0).total_count


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_every_usual_separator_and_encoding_is_understood(
    sign_in_as: SignIn, cast: Cast, separator: str, encoding: str
) -> None:
    rows = [["external_key", "Name"], ["P-1", "Gerät für Ölfässer"]]
    data = "\r\n".join(separator.join(row) for row in rows).encode(encoding)
    assert "Imported." in run(sign_in_as(Role.EDITOR), data)
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
    assert "Imported." in run(sign_in_as(Role.EDITOR), data, "location")
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


def test_changes_between_check_and_import_undo_all(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.EDITOR)
    path = send(browser, b"external_key,name,rfid\nA-1,One,\nA-2,Two,TAKEN\n")
    assets.create(shell(cast.acme), name="Meanwhile", tags=[NewTag("rfid", "TAKEN")])
    page = browser.get(finished(browser.post(path).location)).text
    assert "1 row has an error" in page
    assert lookup.asset_by_key(cast.acme, "A-1") is None


def test_scans_are_saved_while_an_import_is_checked(cast: Cast, site: Site) -> None:
    """Other writers get their turn while rows are checked; only the write itself holds the lock."""
    saved: list[int] = []

    def save(number: int) -> None:
        thread = threading.Thread(target=lambda: saved.append(ids.new_id()))
        thread.start()
        thread.join(10)

    records = [NewRecord(2, "NEW-1", {"name": "New"}, [NewTag("rfid", "AA01")])]
    [outcome] = import_records(shell(cast.acme), "asset", records, save)
    assert (outcome.result, len(saved)) == ("created", 1)


def test_changes_between_check_and_write_are_checked_again(cast: Cast, site: Site) -> None:
    """A concurrent change of a description is kept; a key taken in the meantime undoes all."""
    progress_calls: list[int] = []

    def meanwhile(number: int) -> None:
        progress_calls.append(number)
        if len(progress_calls) == 1:
            assets.patch(shell(cast.acme), site.pallet.id, {"description": "by another"})
            assets.attach_tag(shell(cast.acme), site.pallet.id, NewTag("rfid", "BB02"))

    records = [NewRecord(2, "ASSET-0001", {"name": "Renamed"}), NewRecord(3, None, {"name": "Minted"})]
    outcomes = import_records(shell(cast.acme), "asset", records, meanwhile)
    assert [(one.result, one.external_key) for one in outcomes] == [
        ("changed", "ASSET-0001"),
        ("created", "ASSET-0003"),
    ]
    pallet = assets.get(cast.acme, site.pallet.id)
    assert (pallet.name, pallet.description, len(progress_calls)) == ("Renamed", "by another", 2)
    matches = assets.list_page(cast.acme, AssetFilter(q="bb02"), limit=5).rows
    assert [row.name for row in matches] == ["Renamed"]

    def take(number: int) -> None:
        if not lookup.asset_by_key(cast.acme, "NEW-2"):
            assets.create(shell(cast.acme), name="Meanwhile", external_key="NEW-2", tags=[NewTag("rfid", "CC03")])

    records = [NewRecord(2, "NEW-1", {"name": "One"}), NewRecord(3, "NEW-2", {}, [NewTag("rfid", "CC03")])]
    assert [one.result for one in import_records(shell(cast.acme), "asset", records, take)] == ["unchanged", "faulty"]
    assert lookup.asset_by_key(cast.acme, "NEW-1") is None
    assert assets.list_page(cast.acme, AssetFilter(q="new-1"), limit=5).total_count == 0
    assert execute("SELECT count(*) FROM searchable WHERE text LIKE '%new-1%'").fetchone()[0] == 0
    execute("INSERT INTO trigram (trigram, rank) VALUES ('integrity-check', 1)")  # raises if text and index differ


def test_remains_of_an_interrupted_import_are_removed_by_the_next_one(cast: Cast, site: Site) -> None:
    pallet = assets.get(cast.acme, site.pallet.id)
    search.stage("asset", [(pallet._replace(id=1, name="Ghost"), [])])
    assert assets.list_page(cast.acme, AssetFilter(q="ghost"), limit=5).total_count == 0
    import_records(shell(cast.acme), "asset", [NewRecord(2, "NEW-1", {"name": "New"})], lambda _: None)
    assert assets.list_page(cast.acme, AssetFilter(q="new-1"), limit=5).total_count == 1
    assert execute("SELECT count(*) FROM searchable WHERE id = 1").fetchone()[0] == 0
    execute("INSERT INTO trigram (trigram, rank) VALUES ('integrity-check', 1)")


def test_scans_of_imported_tags_are_recorded_and_each_asset_is_in_the_audit(cast: Cast, site: Site) -> None:
    ada = people.add_person(shell(cast.acme), "Ada", Role.OPERATOR)
    scan = Submitted("1", "AA01", site.dock.id, clock.now())
    scans.submit(person(cast.acme, ada.id, ada.name), [scan], clock.now())
    records = [NewRecord(2, "NEW-1", {"name": "New"}, [NewTag("rfid", "AA01"), NewTag("ble", "AA02")])]
    import_records(shell(cast.acme), "asset", records, lambda _: None)
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


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no row"),
        (b"external_key,name\n", "no row"),
        (b"key,name\nA,B\n", "no column"),
        (b"name,name\nA,B\n", "twice"),
        (b"name," * 39_000 + b"name\nA,B\n", "twice"),  # single look-ups would take 20 s
        (b"PK\x03\x04\0\0\0", "not a text file"),
        (b"\xff\xfea", "UTF-16"),
    ],
)
def test_a_file_that_is_no_table_is_refused(sign_in_as: SignIn, data: bytes, reason: str) -> None:
    browser = sign_in_as(Role.EDITOR)
    form = {"csrf": csrf_token(browser.token), "kind": "asset", "file": (io.BytesIO(data), "x.csv")}
    answer = browser.client.post("/import", data=form, content_type="multipart/form-data")
    assert answer.status_code == 400
    assert reason in answer.text


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


@given(st.lists(st.lists(st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"])).map(str.strip),
                         min_size=2, max_size=2), min_size=1))  # fmt: skip
def test_exported_values_are_imported_unchanged(rows: list[list[str]]) -> None:
    text = "".join(csv_text.write_rows(["name", "description"], rows))
    lines = csv_text.lines(csv_text.decode(text.encode()), ["name", "description"], [])
    assert [list(line.cells.values()) for line in lines] == [row for row in rows if any(row)]


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
        path = finished(browser.post(f"{path}/encoding", {"encoding": encoding}).location)
    assert escape(names) in browser.get(path).text
    browser.get(finished(browser.post(path).location))
    asset = lookup.asset_by_key(cast.acme, "P-1")
    assert asset
    assert asset.name == names


def test_polish_of_windows_is_detected() -> None:
    for text in ("Łódź, śruba, część", "Gdańsk", "żółty wózek"):
        assert decode_any(text.encode("cp1250")) == (text, "cp1250", True)


def test_an_ambiguous_encoding_is_asked_for(sign_in_as: SignIn, cast: Cast) -> None:
    """0x8A is ä on a Macintosh and è in DOS, and both letters are common."""
    browser = sign_in_as(Role.EDITOR)
    path = send(browser, "name\nGerät\n".encode("mac-roman"))
    page = browser.get(path).text
    assert "The encoding of the file is uncertain" in page
    assert "Import 1 row" not in page
    assert browser.post(path).status_code == 409
    again = finished(browser.post(f"{path}/encoding", {"encoding": "mac-roman"}).location)
    page = browser.get(again).text
    assert "Gerät" in page
    assert "Import 1 row" in page
    assert browser.post(f"{path}/encoding", {"encoding": "utf-8"}).status_code == 400
    assert browser.post(f"{path}/encoding", {"encoding": "rot13"}).status_code == 400
    rival = sign_in_as(Role.EDITOR, organization_id=cast.rival)
    assert rival.post(f"{path}/encoding", {"encoding": "cp850"}).status_code == 404


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
    assert "Imported." in run(sign_in_as(Role.EDITOR), f"name;rfid\nBox;{code}\n".encode())


@pytest.mark.parametrize(
    ("yes", "no"), [("ja", "nein"), ("Oui", "Non"), ("SÍ", "no"), ("tak", "nie"), ("WAHR", "FALSCH")]
)
def test_yes_and_no_are_understood_in_five_languages(sign_in_as: SignIn, cast: Cast, yes: str, no: str) -> None:
    browser = sign_in_as(Role.EDITOR)
    data = f"sep=;\nexternal_key;name;is_active\nA;One;{yes}\nB;Two;{no}\n".encode()
    page = browser.get(send(browser, data)).text
    assert re.findall(r'data-name="is_active">([^<]*)<', page) == ["yes", "no"]
    assert "Imported." in run(browser, data)
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


def test_all_unknown_columns_are_named(sign_in_as: SignIn) -> None:
    browser = sign_in_as(Role.EDITOR)
    form = {"csrf": csrf_token(browser.token), "kind": "asset", "file": (io.BytesIO(b"key;title;x\nA;B;C"), "x.csv")}
    page = browser.client.post("/import", data=form, content_type="multipart/form-data").text
    assert "There is no column &#39;key&#39;, &#39;title&#39;, &#39;x&#39;" in page


@pytest.mark.parametrize("name", ["=1+1", "@SUM(A1)", "-x", "+x"])
def test_no_cell_is_a_formula(name: str) -> None:
    assert f"'{name}" in "".join(csv_text.write_rows(["name"], [[name]]))
