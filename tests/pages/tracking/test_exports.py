"""CSV exports: the filtered rows of the page, and nothing of another organization."""

from __future__ import annotations

import csv
import io
import json
import re
import tracemalloc
from collections.abc import Callable

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.pages.tracking.exports import ADDRESSES, OF_DAYS
from edge.people.people import Role
from edge.readers import ledger, readers
from edge.records import assets
from edge.tracking import positions
from edge.tracking.stays import Quality, Scan
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site

SignIn = Callable[..., Browser]


def table(browser: Browser, path: str, separator: str = ",") -> list[dict[str, str]]:
    answer = browser.get(path)
    assert answer.status_code == 200
    assert answer.mimetype == "text/csv"
    return list(csv.DictReader(io.StringIO(answer.data.decode("utf-8-sig")), delimiter=separator))


def see(organization_id: int, asset_id: int, location_id: int, at: int) -> None:
    positions.record([Scan(organization_id, asset_id, location_id, None, None, at, at, Quality.HANDHELD)], 0)


def test_the_board_with_its_filter(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    see(cast.acme, site.cage.id, site.rack.id, clock.now())
    browser = sign_in_as(Role.VIEWER)
    assert [row["external_key"] for row in table(browser, "/export/board.csv")] == ["ASSET-0001", "ASSET-0002"]
    rows = table(browser, f"/export/board.csv?location={site.hall.id}&separator=semicolon", ";")
    assert [(row["name"], row["location"], row["area"]) for row in rows] == [("Roll cage", "Rack A", "Hall 1")]


@pytest.mark.parametrize(
    ("role", "others"), [(Role.VIEWER, {"ledger", "reader"}), (Role.EDITOR, {"reader"}), (Role.ADMINISTRATOR, set())]
)
def test_every_table_on_the_page_is_downloaded(sign_in_as: SignIn, site: Site, role: Role, others: set[str]) -> None:
    browser = sign_in_as(role)
    tables = re.findall(r'name="table" value="(\w+)"', browser.get("/export").text)
    assert set(ADDRESSES) - set(tables) == others
    for name in tables:
        chosen = f"table={name}&from=2026-03-01&to=2026-03-02&separator=semicolon"
        answer = browser.get(f"/export/download?{chosen}", follow_redirects=True)
        assert answer.mimetype == "text/csv"
        assert b";" in answer.data
        assert ("from=2026-03-01" in answer.request.query_string.decode()) == (name in OF_DAYS)
    assert browser.get("/export/download?table=//evil.example").status_code == 404


def test_more_rows_than_a_page_has(sign_in_as: SignIn, cast: Cast) -> None:
    for number in range(120):
        assets.create(shell(cast.acme), name=f"A {number}")
    assert len(table(sign_in_as(Role.VIEWER), "/export/board.csv?offset=50")) == 120


def test_history_by_days_has_the_duration_of_each_stay(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    start = clock.now() - 40 * clock.DAY
    see(cast.acme, site.cage.id, site.rack.id, start)
    see(cast.acme, site.cage.id, site.dock.id, clock.now() - clock.SECOND)
    browser = sign_in_as(Role.VIEWER)
    assert [row["location"] for row in table(browser, "/export/history.csv")] == ["Dock 1"]
    assert {row["site"] for row in table(browser, "/export/history.csv")} == {""}
    day = clock.rfc3339(start)[:10]
    [row] = table(browser, f"/export/history.csv?from={day}&to={day}&asset={site.cage.id}")
    assert (row["asset_key"], row["location"], row["left"]) == ("ASSET-0002", "Rack A", "")
    midnight = (start // clock.DAY + 1) * clock.DAY  # the end of the file
    assert row["seconds"] == str((midnight - start) // clock.SECOND)


def test_a_stay_lasts_in_the_file_as_long_as_on_the_page(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    """Until the asset is seen elsewhere; sightings at one location that follow each other are one stay."""
    start = clock.now() - 2 * clock.HOUR
    moves = ((site.rack, 0), (site.rack, 9), (site.dock, 22), (site.rack, 60), (site.rack, 60 + 3600))
    for location, seconds in moves:
        see(cast.acme, site.cage.id, location.id, start + seconds * clock.SECOND)
    browser = sign_in_as(Role.VIEWER)
    for filters in (f"asset={site.cage.id}", "", f"location={site.rack.id}"):
        rows = table(browser, f"/export/history.csv?{filters}")
        seconds = [(row["location"], row["seconds"]) for row in rows][: 1 if filters.startswith("loc") else 2]
        assert seconds == [("Rack A", "22"), ("Dock 1", "38")][: len(seconds)]
        assert (rows[-1]["location"], rows[-1]["left"], rows[-1]["sightings"]) == ("Rack A", "", "2")
        assert rows[0]["left"] > rows[0]["seen_until"] > rows[0]["from"]
    page = browser.get(f"/assets/{site.cage.id}/history").text
    stayed = re.findall(r'\n +<td class="right nowrap number">([^<]*)<', page)
    assert stayed[::-1][:2] == ["22 s", "38 s"]
    assert "Export stays" in page


@pytest.mark.parametrize("days", ["from=nonsense", "to=2026-13-01", "from=0000-00-00", "to=9999-12-31"])
def test_an_invalid_day_is_refused(sign_in_as: SignIn, days: str) -> None:
    assert sign_in_as(Role.VIEWER).get(f"/export/history.csv?{days}").status_code == 400


def test_the_ledger(sign_in_as: SignIn, cast: Cast) -> None:
    reader = readers.add_reader(shell(cast.acme), name="P", topic="t", format="edge")
    tally = ledger.Tally(reader.id, ledger.hour_of(clock.now()), ledger.Bucket.RECORDED)
    ledger.add({tally: 3}, {tally: 5})
    rows = table(sign_in_as(Role.EDITOR), "/export/ledger.csv")
    assert [(row["reader"], row["bucket"], row["messages"], row["reads"]) for row in rows] == [
        ("P", "recorded", "3", "5")
    ]
    assert sign_in_as(Role.VIEWER).get("/export/ledger.csv").status_code == 403


def test_nothing_of_another_organization(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    see(cast.acme, site.cage.id, site.rack.id, clock.now())
    rival = sign_in_as(Role.ADMINISTRATOR, organization_id=cast.rival)
    for path in ("/export/board.csv", f"/export/history.csv?asset={site.cage.id}", "/export/ledger.csv"):
        assert table(rival, path) == []


@pytest.mark.parametrize("kind", ["asset", "tag"])
@pytest.mark.parametrize("separator", ["comma", "xlsx"])
def test_large_records_are_exported_in_small_pieces(sign_in_as: SignIn, cast: Cast, kind: str, separator: str) -> None:
    """Regression: pages counted rows, so a few exports of records of 62 KB killed the service, and one was refused."""
    size = 32_000 if separator == "xlsx" else 62_000  # an Excel cell has at most 32,767 characters
    for number in range(200):
        assets.create(shell(cast.acme), name=f"Large {number}", metadata=json.dumps({"note": "x" * size}))
    browser = sign_in_as(Role.VIEWER)
    browser.get("/export/records/location.csv?separator=xlsx")  # imports the library
    tracemalloc.start()
    try:
        answer = browser.get(f"/export/records/{kind}.csv?separator={separator}", buffered=False)
        pieces = [len(piece) for piece in answer.iter_encoded()]
        answer.close()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert answer.status_code == 200
    assert max(pieces) < 256 * 1024
    assert peak < 8 * 1024 * 1024
    if (kind, separator) == ("asset", "comma"):
        assert sum(pieces) > 200 * 62_000


def test_an_excel_file_that_would_lose_a_part_of_a_text_is_refused(sign_in_as: SignIn, cast: Cast) -> None:
    assets.create(shell(cast.acme), name="Large", metadata=json.dumps({"note": "x" * 40_000}))
    answer = sign_in_as(Role.VIEWER).get("/export/records/asset.csv?separator=xlsx")
    assert (answer.status_code, "Row 2, column 7" in answer.text, "Choose CSV" in answer.text) == (400, True, True)


@pytest.mark.parametrize("name", [*ADDRESSES])
def test_an_excel_file_is_one_for_every_table(sign_in_as: SignIn, site: Site, name: str) -> None:
    answer = sign_in_as(Role.ADMINISTRATOR).get(f"/export/download?table={name}&separator=xlsx", follow_redirects=True)
    assert answer.status_code == 200
    assert answer.data.startswith(b"PK")
    assert ".xlsx" in answer.headers["Content-Disposition"]
