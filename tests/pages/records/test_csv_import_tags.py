"""Import and export of tags: one row for each tag, attached, detached or moved between records."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge.audit import trail
from edge.audit.actors import person, shell
from edge.audit.trail import AuditFilter
from edge.bulk import bulk_jobs, imports, slices
from edge.database.connection import execute
from edge.people import people
from edge.people.people import Role
from edge.records import assets, csv_import_tags, locations, lookup
from edge.records.csv_import import NewRecord
from edge.records.csv_import_tags import line_of
from edge.records.record import RecordFilter
from edge.records.tags import NewTag
from edge.validation import csv_text, table_files, values
from edge.validation.packed_texts import unpack
from tests.conftest import Cast
from tests.pages.conftest import Browser
from tests.pages.records.test_csv_import import imported, send

SignIn = Callable[..., Browser]
HEADING = b"kind,external_key,tag_type,value\n"
PATH = "/export/records/tag.csv"


def make(cast: Cast, key: str, *codes: str) -> int:
    tags = [NewTag("rfid", code) for code in codes]
    return assets.create(shell(cast.acme), name=key, external_key=key, tags=tags).id


def codes_of(cast: Cast, key: str) -> list[str]:
    found = lookup.asset_by_key(cast.acme, key)
    assert found
    return sorted(tag.value for tag in assets.get(cast.acme, found.id).tags)


def put(browser: Browser, rows: bytes, empty: str = "clear") -> str:
    path = send(browser, HEADING + rows, "tag", empty)
    assert "No errors" in browser.get(path).text, browser.get(path).text
    return imported(browser, path)


def test_tags_are_attached_and_others_stay(sign_in_as: SignIn, cast: Cast) -> None:
    make(cast, "A", "AA01")
    locations.create(shell(cast.acme), name="Dock", external_key="D")
    browser = sign_in_as(Role.EDITOR)
    rows = b",A,RFID,AA02\nasset,A,ble,a|b\nLocation,D,barcode,D1\nasset,A,,\n"
    checked = browser.get(send(browser, HEADING + rows, "tag")).text
    assert "Tags that would be attached</dt><dd>3<" in checked
    page = put(browser, rows, "keep")
    assert ("Attached</dt><dd>3<" in page, "Unchanged</dt><dd>1<" in page) == (True, True)
    assert codes_of(cast, "A") == ["AA01", "AA02", "a|b"]
    assert [row.name for row in assets.list_page(cast.acme, RecordFilter(q="aa02"), limit=5).rows] == ["A"]
    found = lookup.by_code(cast.acme, "D1")
    assert found
    assert found.kind == "location"
    execute("INSERT INTO trigram (trigram, rank) VALUES ('integrity-check', 1)")  # raises if text and index differ


def test_invisible_characters_in_tags_are_refused(sign_in_as: SignIn, cast: Cast) -> None:
    asset = make(cast, "A", "AA01")
    browser = sign_in_as(Role.EDITOR)
    checked = browser.get(send(browser, HEADING + ",A,barcode,BC\u200b71\n".encode(), "tag")).text
    assert "value must not contain invisible characters" in checked
    entered = {"tag_type": "barcode", "value": "BC\u206071"}
    assert browser.post(f"/assets/{asset}/tags", data=entered).status_code == 400
    browser.post(f"/assets/{asset}/tags", data={"tag_type": "barcode", "value": "\ufeffBC-71\u200b"})
    assert codes_of(cast, "A") == ["AA01", "BC-71"]


def test_tags_that_are_not_listed_are_detached(sign_in_as: SignIn, cast: Cast) -> None:
    box = make(cast, "A", "AA01", "AA02", "AA03")
    make(cast, "B", "BB01")
    make(cast, "C", "CC01")
    browser = sign_in_as(Role.EDITOR)
    rows = b"asset,A,rfid,AA02\nasset,A,rfid,AA04\nasset,B,,\n"
    checked = browser.get(send(browser, HEADING + rows, "tag", "clear")).text
    assert "Tags that would be detached</dt><dd>3<" in checked
    put(browser, rows)
    assert [codes_of(cast, key) for key in "ABC"] == [["AA02", "AA04"], [], ["CC01"]]
    assert assets.list_page(cast.acme, RecordFilter(q="aa01"), limit=5).rows == []
    lines = trail.list_page(cast.acme, AuditFilter(subject_id=str(box)), limit=9).rows
    assert [(line.action, line.detail.get("tag")) for line in lines[:3]] == [
        ("tag.attached", "rfid:AA04"), ("tag.detached", "rfid:AA03"), ("tag.detached", "rfid:AA01"),
    ]  # fmt: skip


def test_an_excel_file_imported_again_changes_nothing(sign_in_as: SignIn, cast: Cast) -> None:
    make(cast, "A", "=AA", "0012345678901234567")
    make(cast, "B")
    browser = sign_in_as(Role.EDITOR)
    page = browser.get(send(browser, browser.get(f"{PATH}?separator=xlsx").data, "tag", "clear")).text
    assert "Everything in this file is already saved" in page, page


@pytest.mark.parametrize("together", [1, 50])
def test_records_exchange_their_tags(
    sign_in_as: SignIn, cast: Cast, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the rows are checked and written in different parts."""
    monkeypatch.setattr(imports, "TOGETHER", together)
    monkeypatch.setattr(csv_import_tags, "CHECKED_TOGETHER", together)
    make(cast, "A", "AA01")
    make(cast, "B", "BB01")
    put(sign_in_as(Role.EDITOR), b"asset,A,rfid,BB01\nasset,B,rfid,AA01\n")
    assert [codes_of(cast, key) for key in "AB"] == [["BB01"], ["AA01"]]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("asset,NONE,rfid,T1", "there is no asset NONE"),
        ("location,A,rfid,T1", "there is no location A"),
        ("box,A,rfid,T1", "kind must be asset or location"),
        ("asset,A,qr,T1", "tag_type must be one of rfid, ble, barcode"),
        ("asset,A,,T1", "a tag needs tag_type and value"),
        ("asset,A,rfid,", "a tag needs tag_type and value"),
        ("asset,A,barcode,4.00638E+12", "was changed to a number"),
        ("asset,,rfid,T1", "external_key"),
        ("asset,A,rfid,AA09", "tag rfid:AA09 is also in line 2"),
        ("asset,A,rfid,BB01", "tag rfid:BB01 belongs to another record"),
        ("box,?,qr,T1", "kind must be asset or location, not &#39;box&#39;; external_key may contain"),
    ],
)
def test_an_error_stops_the_import(sign_in_as: SignIn, cast: Cast, row: str, reason: str) -> None:
    make(cast, "A", "AA01")
    make(cast, "B", "BB01")
    browser = sign_in_as(Role.EDITOR)
    path = send(browser, HEADING + f"asset,A,rfid,AA09\n{row}\n".encode(), "tag", "clear")
    page = browser.get(path).text
    assert reason in page
    assert "1 row has an error" in page
    assert browser.post(path).status_code == 409
    assert codes_of(cast, "A") == ["AA01"]
    assert browser.get(f"{path}/errors.csv").data.decode("utf-8-sig").splitlines()[1].endswith(row)


def test_a_record_kept_elsewhere_keeps_its_tags(sign_in_as: SignIn, cast: Cast) -> None:
    make(cast, "B")
    box = make(cast, "A", "AA01")
    execute("INSERT INTO mirror (record_id, peer, home) VALUES (?, 0, 'Hamburg')", (box,))
    browser = sign_in_as(Role.EDITOR)
    rows = b"asset,A,rfid,AA02\nasset,B,rfid,AA01\n"
    page = browser.get(send(browser, HEADING + rows, "tag", "clear")).text
    assert page.count("this record is kept at Hamburg") == 2
    assert "already saved" in browser.get(send(browser, HEADING + b"asset,A,rfid,AA01\n", "tag", "clear")).text


def test_another_organizations_records_and_tags_are_not_found(sign_in_as: SignIn, cast: Cast) -> None:
    make(cast, "A", "AA01")
    rival = sign_in_as(Role.EDITOR, organization_id=cast.rival)
    page = rival.get(send(rival, HEADING + b"asset,A,,\n", "tag", "clear")).text
    assert "there is no asset A" in page
    assert b"AA01" not in rival.get(PATH).data
    assets.create(shell(cast.rival), name="Own", external_key="A")
    put(rival, b"asset,A,rfid,AA01\n")
    assert codes_of(cast, "A") == ["AA01"]


def test_rows_beyond_the_tags_of_a_record_are_errors(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "MAX_TAGS", 3)
    monkeypatch.setattr(csv_import_tags, "CHECKED_TOGETHER", 2)
    make(cast, "A", "AA00", "AA01")
    rows = [
        line_of(NewRecord(n, "A", {}, [NewTag("rfid", f"BB{n}")]), "asset", None)
        for n in range(4)
    ]  # fmt: skip
    _, outcomes = csv_import_tags.check_tags(cast.acme, rows, lambda _: None)
    assert [one.result for one in outcomes] == ["created", "faulty", "faulty", "faulty"]
    assert "at most 3 tags" in unpack(outcomes[1].reason)
    rows[0] = line_of(rows[0], "asset", [tag for row in rows[:3] for tag in row.tags])
    _, outcomes = csv_import_tags.check_tags(cast.acme, rows, lambda _: None)
    assert [one.result for one in outcomes] == ["created", "created", "created", "faulty"]


def test_a_tag_taken_since_the_check_is_left_out(sign_in_as: SignIn, cast: Cast) -> None:
    make(cast, "A", "AA01")
    browser = sign_in_as(Role.EDITOR)
    path = send(browser, HEADING + b"asset,A,rfid,AA02\nasset,A,rfid,AA03\n", "tag", "clear")
    make(cast, "B", "AA02")
    page = imported(browser, path)
    assert "tag rfid:AA02 belongs to another record" in page
    assert codes_of(cast, "A") == ["AA01", "AA03"], "the row that was left out would have detached AA01"


def test_slices_end_after_many_tags_and_continue(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(csv_import_tags, "WRITTEN_TOGETHER", 4)
    keys = [f"K-{number}" for number in range(6)]
    for key in keys:
        make(cast, key, *(f"{key}-{number}" for number in range(3)))
    ed = people.add_person(shell(cast.acme), "Ed", Role.EDITOR)
    actor = person(cast.acme, ed.id, ed.name)
    rows = [line_of(NewRecord(n, key, {}), "asset", []) for n, key in enumerate(keys, 2)]
    job = bulk_jobs.find_job(cast.acme, imports.start(actor, "tag", rows, 0))
    assert job
    left = []
    while bulk_jobs.running_job(cast.acme):
        slices.run_jobs(lambda _: True)  # ends after one slice, as a crash would
        left.append(execute("SELECT count(*) FROM tag WHERE deleted_at IS NULL").fetchone()[0])
    assert left == [12, 6, 0]
    assert imports.counts(job) == {"changed": 6}


KEYS = st.sampled_from(["K-0", "K-1", "K-2", "K-3"])
CODES = st.sampled_from(["AA", "BB", "=CC", "-d|d", "Eé", "F F"])
Tag = tuple[str, str, str]  # type, value, key of the record
TAGS = st.lists(st.tuples(st.sampled_from(values.TAG_TYPES), CODES, KEYS), unique_by=lambda tag: tag[:2], max_size=8)


def rows_of(tags: Sequence[Tag]) -> list[list[str]]:
    """Return the table in which each of four records has its tags, or one empty row."""
    by_key = {f"K-{n}": [tag for tag in tags if tag[2] == f"K-{n}"] or [("", "")] for n in range(4)}
    kinds = {key: "asset" if key < "K-2" else "location" for key in by_key}
    return [[kinds[key], key, *tag[:2]] for key, own in by_key.items() for tag in own]


@given(before=TAGS, after=TAGS, shuffled=st.randoms())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_export_changed_and_imported_is_exported_as_changed(
    sign_in_as: SignIn,
    cast: Cast,
    before: list[tuple[str, str, str]],
    after: list[tuple[str, str, str]],
    shuffled: random.Random,
) -> None:
    for key in ("K-0", "K-1"):
        if not lookup.asset_by_key(cast.acme, key):
            make(cast, key)
    for key in ("K-2", "K-3"):
        if not lookup.location_by_key(cast.acme, key):
            locations.create(shell(cast.acme), name=key, external_key=key)
    browser = sign_in_as(Role.EDITOR)
    for wanted in (before, after):
        rows = rows_of(wanted)
        shuffled.shuffle(rows)
        data = "".join(csv_text.write_rows(("kind", "external_key", "tag_type", "value"), rows)).encode()
        path = send(browser, data, "tag", "clear")
        page = browser.get(path).text
        assert "No errors" in page, page
        if "already saved" not in page:
            assert "Done." in imported(browser, path)
        assert sorted(map(tuple, written(browser))) == sorted(map(tuple, rows))
        again = browser.get(send(browser, browser.get(PATH).data, "tag", "clear")).text
        assert "Everything in this file is already saved" in again


def written(browser: Browser) -> list[list[str]]:
    """Return the exported rows, read as an import does."""
    raw = table_files.read_csv(browser.get(PATH).data)
    return [list(row.cells) for row in raw.rows]
