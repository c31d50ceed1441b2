"""Work at a desk from the first click to the last: tables, labels, two editors, unmatched tags, past positions."""

from __future__ import annotations

import io
from collections.abc import Callable

import pypdfium2
import pytest
import zxingcpp
from PIL import Image
from playwright.sync_api import Page, expect

from edge import clock
from edge.audit.actors import shell
from edge.bulk import slices
from edge.readers import readers, unknown_tags
from edge.records import assets, locations
from edge.records.record import RecordFilter
from edge.tracking import positions
from edge.tracking.stays import Quality, Scan
from tests.browser.accessibility import faults
from tests.browser.conftest import PASSWORD, Site

pytestmark = pytest.mark.browser
Enter = Callable[..., Page]


def test_a_table_is_checked_and_imported(enter: Enter, site: Site) -> None:
    page = enter("ed", "/import")
    rows = [f"CAGE-{number:04};Cage {number};AA{number:06X}" for number in range(300)]
    table = "\n".join(["external_key;name;rfid", *rows, "CAGE-0000;Twice;"])

    def send(text: str) -> None:
        file = {"name": "cages.csv", "mimeType": "text/csv", "buffer": text.encode("cp1252")}
        page.set_input_files("#file", [file])
        page.click("text=Check file")

    send(table)
    expect(page.locator("[role=alert]")).to_contain_text("1 row has an error")
    expect(page.locator("main")).to_contain_text("the key is also in line 2")
    page.click("text=Upload a corrected file")
    send(table.rpartition("\n")[0])
    expect(page.locator(".facts")).to_contain_text("Would be created300")
    heading = page.locator("thead tr").bounding_box()
    assert heading
    assert heading["height"] < 60  # one line, also of names without a space
    page.click("text=Import 300 rows")
    expect(page.locator(".facts")).to_contain_text("Created0")
    slices.run_jobs(lambda _: False)
    expect(page.locator(".facts")).to_contain_text("Created300")
    page.click("text=Show assets")
    page.fill("#q", "cage 299")
    page.press("#q", "Enter")
    expect(page.locator("tbody tr")).to_have_count(1)


def test_ticked_assets_are_moved_by_keyboard_and_a_filter_is_retired(enter: Enter, site: Site) -> None:
    page = enter("ed")
    for row in site.assets[:2]:
        page.locator(f"input[name=asset][value='{row.id}']").focus()
        page.keyboard.press("Space")
    page.locator("[data-chosen]:text-is('Change')").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main h2").first).to_have_text("2 assets")
    page.locator("#location_id").select_option(label="\u2003Dock 1")
    page.locator("#location_id").press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("main section [role=status]")).to_have_text("0 of 2 assets")
    slices.run_jobs(lambda _: False)
    expect(page.locator("main .notice")).to_have_text("Done.")
    page.goto("/")
    expect(page.locator(f"tr[data-row='{site.assets[1].id}']")).to_contain_text("Dock 1")
    page.fill("#q", "Pallet 19")
    page.press("#q", "Enter")
    page.click("[data-chosen]:text-is('Change')")
    page.click("summary:text-is('Retire')")
    page.click("button:text-is('Retire 11 assets')")
    expect(page.locator("main section [role=status]")).to_have_text("0 of 11 assets")
    slices.run_jobs(lambda _: False)
    expect(page.locator("main .notice")).to_have_text("Done.")
    page.goto("/?q=Pallet+19")
    expect(page.locator("main")).to_contain_text("No asset matches the filter.")


def test_after_an_error_the_cursor_is_in_the_field_to_correct(enter: Enter, site: Site) -> None:
    page = enter("ada", "/assets/new", expected=("400", "409"))
    page.fill("#name", "Again")
    page.fill("#external_key", site.assets[0].external_key)
    page.press("#external_key", "Enter")
    expect(page.locator("#external_key")).to_be_focused()
    page.goto("/readers/new")
    page.fill("#name", "Portal")
    page.fill("#topic", "dock/1")
    page.select_option("#format", "csl")
    page.click("summary:text-is('More')")
    page.fill("#min_rssi", "strong")
    page.press("#min_rssi", "Enter")
    expect(page.locator("#min_rssi-error")).to_be_visible()
    expect(page.locator("#min_rssi")).to_be_focused()


def test_the_second_of_two_editors_sees_what_the_first_saved(enter: Enter, site: Site) -> None:
    path = f"/assets/{site.assets[0].id}/edit"
    first, second = enter("ada", path), enter("ed", path, expected=("409",))
    first.fill("[name=name]", "Renamed by Ada")
    first.click("button:text-is('Save')")
    expect(first.locator("h1")).to_have_text("Renamed by Ada")
    second.fill("[name=name]", "Renamed by Ed")
    second.click("button:text-is('Save')")
    expect(second.locator("[role=alert]")).to_contain_text("saved: Renamed by Ada")
    assert second.input_value("[name=name]") == "Renamed by Ed"
    second.click("button:text-is('Save')")
    expect(second.locator("h1")).to_have_text("Renamed by Ed")


def test_what_was_typed_is_still_there_after_the_session_has_ended(enter: Enter, site: Site) -> None:
    page = enter("ed", "/assets/new", expected=("401", "403"))
    page.fill("[name=name]", "Typed for a long time")
    page.context.clear_cookies()
    page.click("button:text-is('Save')")
    page.click("button:text-is('Continue')")
    page.fill("#email", "ed@nord.example")
    page.fill("#password", PASSWORD)
    page.click(".door button.wide")
    expect(page.locator("h1")).to_have_text("Unsaved input")
    page.dblclick("button:has-text('Save')")
    expect(page.locator("h1")).to_have_text("Typed for a long time")
    assert assets.list_page(site.organization_id, RecordFilter(q="typed for"), limit=5).total_count == 1


def test_columns_of_the_board_are_chosen_by_keyboard_and_rows_are_compact(enter: Enter, site: Site) -> None:
    page = enter("vic", viewport={"width": 1440, "height": 900})
    page.locator("summary:text-is('Columns')").focus()
    page.keyboard.press("Enter")
    page.locator("[name=column][value=since]").focus()
    page.keyboard.press("Space")
    page.locator("[name=column][value=borrower]").focus()
    page.keyboard.press("Space")
    assert faults(page) == []
    page.keyboard.press("Enter")
    expect(page.locator("table.board thead")).to_contain_text("Borrower")
    expect(page.locator("table.board thead")).not_to_contain_text("There for")
    page.click("text=Compact rows")
    page.reload()
    heights = "rows => [...new Set(rows.map((row) => row.getBoundingClientRect().height))]"
    assert page.locator("table.board tbody tr").evaluate_all(heights) == [40]
    href = page.locator("a:text-is('Export')[data-chosen]").get_attribute("href") or ""
    assert page.request.get(href).text().splitlines()[0].endswith("location_key,location,last_seen,borrower,due")


def test_on_a_phone_the_location_is_one_line_below_the_asset(enter: Enter, site: Site) -> None:
    now, row = clock.now(), site.assets[0]
    where = site.docks[0].id
    positions.record([Scan(site.organization_id, row.id, where, None, None, now, now, Quality.HANDHELD)], 0)
    page = enter("vic", viewport={"width": 390, "height": 800})
    place = page.locator(f"[data-row='{row.id}'] .place")
    expect(place).to_have_text("Dock 1")
    name = page.locator(f"[data-row='{row.id}'] th a.main")
    below, above = place.bounding_box(), name.bounding_box()
    assert below
    assert above
    assert below["y"] >= above["y"] + above["height"] - 1 - 14  # the link is tapped up to 14 px below its text
    assert below["width"] > 200


def test_labels_of_what_was_chosen_on_the_board(enter: Enter, site: Site) -> None:
    page = enter("vic", viewport={"width": 1280, "height": 900})
    for number in (2, 3):
        page.check(f"[aria-label='Choose Pallet {number}']")
    page.click("[data-chosen]:text-is('Labels')")
    expect(page.locator("h1")).to_have_text("2 labels")
    chosen = page.evaluate("() => String(new URLSearchParams(new FormData(document.querySelector('main form'))))")
    answer = page.request.get(f"/labels.pdf?{chosen}")
    assert answer.headers["content-type"] == "application/pdf"
    text = pypdfium2.PdfDocument(answer.body())[0].get_textpage().get_text_range()
    assert "Pallet 2" in text
    assert "Pallet 3" in text


def test_on_a_phone_locations_have_search_and_one_filter_sheet(enter: Enter, site: Site) -> None:
    for number in range(8):
        locations.create(shell(site.organization_id), name=f"Bay {number}", is_active=number > 0)
    page = enter("vic", "/locations", viewport={"width": 390, "height": 800})
    expect(page.locator("#show")).to_be_hidden()
    indents = "rows => rows.map((row) => parseInt(getComputedStyle(row).paddingLeft))"
    hall, dock = page.locator("th:has-text('Hall 1'), th:has-text('Dock 1')").evaluate_all(indents)
    assert dock > hall
    page.locator("main [data-sheet]").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#show")).to_be_focused()
    assert faults(page) == []
    page.keyboard.press("Escape")
    expect(page.locator("main [data-sheet]")).to_be_focused()
    page.keyboard.press("Enter")
    page.select_option("#show", "inactive")
    page.click(".sheet button:text-is('Show')")
    expect(page.locator("table.tree tbody tr")).to_have_count(1)
    expect(page.locator("main [data-sheet]")).to_have_text("Filter (1)")
    page.click("main [data-sheet]")
    page.click(".sheet a:text-is('Clear')")
    expect(page.locator("table.tree tbody tr")).to_have_count(14)


def test_a_table_is_exported_in_three_steps_by_keyboard(enter: Enter, site: Site) -> None:
    page = enter("vic", "/export")
    expect(page.locator("#from")).to_be_hidden()
    page.locator("[name=table][value=board]").focus()
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    expect(page.locator("#from")).to_be_visible()
    assert faults(page) == []
    page.locator("#separator").select_option("semicolon")
    page.locator("form.export button").focus()
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.suggested_filename == "history.csv"
    assert download.value.path().read_text("utf-8-sig").startswith("asset_key;")


def test_the_preview_of_a_label_can_be_scanned_and_follows_the_choices(enter: Enter, site: Site) -> None:
    page = enter("vic", f"/labels?asset={site.assets[0].id}", device_scale_factor=3)

    def scanned() -> list[str]:
        picture = Image.open(io.BytesIO(page.locator("#preview svg").screenshot()))
        return [code.text for code in zxingcpp.read_barcodes(picture)]

    assert scanned() == [site.assets[0].external_key]  # the address of localhost is not on labels
    page.locator("#paper").focus()
    page.keyboard.type("Roll, 102")
    expect(page.locator("#preview svg")).to_have_attribute("width", "102mm")
    page.select_option("#code", "code128")
    expect(page.locator("#preview path")).to_have_count(0)
    assert scanned() == [site.assets[0].external_key]
    assert faults(page) == []
    page.set_viewport_size({"width": 320, "height": 600})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_unknown_tag_goes_to_the_asset_that_was_searched(enter: Enter, site: Site) -> None:
    now = clock.now()
    sighting = unknown_tags.Sighting(site.organization_id, "rfid", "E2AA", 0, "E2AA", "unmatched", now, None)
    unknown_tags.record([sighting])
    page = enter("ed", "/readers/unknown-tags")
    page.locator("[data-suggest]").press_sequentially("pallet 17", delay=20)
    expect(page.locator("#suggested option")).not_to_have_count(0)
    page.fill("[data-suggest]", "ASSET-0017")
    page.click("button:text-is('Attach')")
    expect(page.locator(".empty h2")).to_have_text("No unmatched tags")
    page.goto(f"/assets/{site.assets[16].id}")
    expect(page.locator("main")).to_contain_text("E2AA")


def test_where_things_were_and_what_was_not_seen_since(enter: Enter, site: Site) -> None:
    for dock, ago in ((0, 5 * clock.HOUR), (1, 3 * clock.HOUR // 2)):
        at = clock.now() - ago
        where = site.docks[dock].id
        positions.record(
            [Scan(site.organization_id, site.assets[0].id, where, None, None, at, at, Quality.HANDHELD)], 0
        )
    page = enter("vic", "/past")
    expect(page.locator("tbody tr").first).to_contain_text("Dock 2")  # an hour ago
    page.click("text=An hour earlier")
    expect(page.locator("tbody tr").first).to_contain_text("Dock 1")
    page.goto("/not-seen?hours=1")
    expect(page.locator("tbody tr").first).to_contain_text("Pallet 1")
    page.goto(f"/assets/{site.assets[0].id}/history")
    expect(page.locator(".legend").first).to_contain_text("Dock 1")
    page.goto(f"/locations/{site.docks[1].id}/history")
    expect(page.locator("h1")).to_have_text("Arrivals and departures")


def test_a_retired_asset_is_found_and_restored(enter: Enter, site: Site) -> None:
    shelf = shell(site.organization_id)
    assets.delete(shelf, site.assets[5].id)
    page = enter("ed", "/?show=retired")
    page.click("text=Pallet 6")
    page.click("button:has-text('Restore')")
    expect(page.locator("h1")).to_have_text("Pallet 6")
    assert assets.get(site.organization_id, site.assets[5].id).name == "Pallet 6"


def test_a_printed_list_begins_on_its_first_page_and_names_its_filter(enter: Enter, site: Site) -> None:
    now = clock.now()
    for asset in site.assets:
        positions.record(
            [Scan(site.organization_id, asset.id, site.docks[0].id, None, None, now, now, Quality.HANDHELD)], 0
        )
    page = enter("vic", viewport={"width": 1440, "height": 900})
    page.goto(f"/?q=pallet&location={site.docks[0].id}")
    printed = [one.get_textpage().get_text_bounded() for one in pypdfium2.PdfDocument(page.pdf(format="A4"))]
    assert "Filter: search for “pallet”, Dock 1" in printed[0].replace("\u00a0", " ")
    assert "Pallet 1" in printed[0]  # the list itself, not only its heading
    assert "1 to 50 of 200 assets" in "".join(printed)


@pytest.mark.parametrize("path", ["/audit", "/assets/{asset}/why", "/readers/unknown-tags"])
def test_tables_are_read_without_scrolling_sideways_on_a_phone(enter: Enter, site: Site, path: str) -> None:
    organization_id, asset, now = site.organization_id, site.assets[0], clock.now()
    assets.patch(shell(organization_id), asset.id, {"name": "Long name " * 20, "description": "x" * 250})
    positions.record([Scan(organization_id, asset.id, site.docks[0].id, None, None, now, now, Quality.HANDHELD)], 0)
    unknown_tags.record(
        [unknown_tags.Sighting(organization_id, "rfid", "E2" * 24, 0, "E2" * 24, "unknown", now, site.docks[0].id)]
    )
    page = enter("ada", path.format(asset=asset.id), viewport={"width": 390, "height": 844})
    cut = "() => [...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth).length"
    assert page.evaluate(cut) == 0
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_a_reader_with_a_wrong_location_is_corrected_with_its_history(enter: Enter, site: Site) -> None:
    actor, now = shell(site.organization_id), clock.now()
    rack, dock = site.racks[0], site.docks[0]
    reader = readers.add_reader(actor, name="gate", topic="gate", format="csl", location_id=rack.id).id
    for number, asset in enumerate(site.assets[:3]):
        at = now - (number + 1) * clock.HOUR
        read = Scan(site.organization_id, asset.id, rack.id, reader, 1, at, at, Quality.READER, -55.0)
        positions.record([read], gap=clock.HOUR)
    page = enter("ada", f"/readers/{reader}/edit")
    page.select_option("[name=location_id]", str(dock.id))
    page.click("button:text-is('Save')")
    expect(page.locator("#correct-1")).to_contain_text("recorded at Rack A. If that was wrong, correct them to Dock 1")
    page.click("#correct-1 >> text=Preview")
    expect(page.locator("main")).to_contain_text("3 rows of history")
    page.click("button:text-is('Correct history')")
    page.wait_for_url(f"**/readers/{reader}*")
    expect(page.locator("#correct-1")).to_have_count(0)
    page.goto(f"/assets/{site.assets[0].id}")
    expect(page.locator("main")).to_contain_text("Dock 1")
    expect(page.locator("main")).not_to_contain_text("Rack A")
