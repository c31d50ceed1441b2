"""Floor plans: the drawing, its shapes, the assets on it, and a trail."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from werkzeug.test import TestResponse

from edge import clock
from edge.audit.actors import shell
from edge.errors import Invalid
from edge.people.people import Role
from edge.people.sign_in import csrf_token
from edge.records import locations
from edge.records.images import LONGEST_SIDE, MOST_SCANS, drawing_of
from edge.tracking import floor_plans, positions
from edge.tracking.stays import Quality, Scan
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site

SignIn = Callable[..., Browser]
SQUARE = [[100, 100], [300, 100], [300, 300], [100, 300]]


def picture(kind: str = "PNG", size: tuple[int, int] = (400, 200), **options: object) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, "white").save(out, kind, **options)
    return out.getvalue()


def upload(browser: Browser, location_id: object, content: bytes) -> TestResponse:
    return browser.post("/plans", {"location_id": location_id, "image": (io.BytesIO(content), "hall.png")})


def save(browser: Browser, cast: Cast, site: Site, shapes: object, updated_at: int | None = None) -> TestResponse:
    plan = floor_plans.find_plan(cast.acme, site.hall.id)
    opened_at = plan.updated_at if plan and updated_at is None else updated_at
    return browser.send(f"/locations/{site.hall.id}/plan/shapes", {"shapes": shapes, "updated_at": str(opened_at)})


def see(cast: Cast, asset_id: int, location_id: int, at: int) -> None:
    positions.record([Scan(cast.acme, asset_id, location_id, None, None, at, at, Quality.HANDHELD)], 0)


@pytest.fixture
def editor(sign_in_as: SignIn, site: Site) -> Browser:
    browser = sign_in_as(Role.EDITOR)
    assert upload(browser, site.hall.id, picture()).status_code == 303
    return browser


def test_a_plan_shows_assets_at_their_locations_and_matches_of_a_search(
    editor: Browser, cast: Cast, site: Site
) -> None:
    drawn = [{"location_id": str(place.id), "points": SQUARE} for place in (site.dock, site.rack)]
    assert save(editor, cast, site, drawn).status_code == 200
    see(cast, site.cage.id, site.rack.id, clock.now())
    path = f"/locations/{site.hall.id}/plan"
    text = editor.get(path).text
    assert "Rack A: 1 asset" in text
    assert "Dock 1: 0 assets" in text
    assert 'points="40,20 120,20 120,60 40,60"' in text
    first = editor.get(f"{path}/now")
    assert editor.get(f"{path}/now", headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
    assert "found here" not in text
    assert "Rack A: 1 asset, match" in editor.get(f"{path}?q=cage").text
    assert "No matches in this area" in editor.get(f"{path}?q=%00nothing").text
    see(cast, site.cage.id, site.dock.id, clock.now())
    assert "Dock 1: 1 asset" in editor.get(f"{path}/now", headers={"If-None-Match": first.headers["ETag"]}).text


def test_a_trail_shows_the_path_of_a_day(editor: Browser, cast: Cast, site: Site) -> None:
    drawn = [{"location_id": str(place.id), "points": SQUARE} for place in (site.dock, site.rack)]
    save(editor, cast, site, drawn)
    path = f"/assets/{site.cage.id}/trail"
    assert "Not seen on this day" in editor.get(path).text
    see(cast, site.cage.id, site.dock.id, clock.now() - 2 * clock.SECOND)
    see(cast, site.cage.id, site.rack.id, clock.now() - clock.SECOND)
    text = editor.get(path).text
    assert text.count("80,40 ") == 2 or clock.to_datetime(clock.now()).hour == 0
    assert "Rack A" in text
    assert editor.get(f"{path}?from=2026-01-01&to=2026-01-03").status_code == 400


@pytest.mark.parametrize(
    "points",
    [[[0, 0], [1, 1]], [[0, 0], [1001, 0], [0, 1]], [[-1, 0], [1, 0], [0, 1]], [[1, 2, 3]] * 3, "x", [[0, 0]] * 99],
)
def test_an_invalid_shape_is_refused_and_changes_nothing(
    editor: Browser, cast: Cast, site: Site, points: object
) -> None:
    save(editor, cast, site, [{"location_id": str(site.dock.id), "points": SQUARE}])
    assert save(editor, cast, site, [{"location_id": str(site.rack.id), "points": points}]).status_code == 400
    assert [shape.location_id for shape in floor_plans.shapes(cast.acme, site.hall.id)] == [site.dock.id]


def test_a_location_of_another_organization_or_none_is_not_drawn(editor: Browser, cast: Cast, site: Site) -> None:
    theirs = locations.create(shell(cast.rival), name="Theirs")
    for location_id in (theirs.id, 7):
        assert save(editor, cast, site, [{"location_id": str(location_id), "points": SQUARE}]).status_code == 400
    assert floor_plans.shapes(cast.acme, site.hall.id) == []


def test_two_editors_of_a_plan_do_not_overwrite_each_other(editor: Browser, cast: Cast, site: Site) -> None:
    plan = floor_plans.find_plan(cast.acme, site.hall.id)
    assert plan
    shape = [{"location_id": str(site.dock.id), "points": SQUARE}]
    assert save(editor, cast, site, shape, plan.updated_at).status_code == 200
    answer = save(editor, cast, site, [], plan.updated_at)
    assert answer.status_code == 409
    assert "Someone else" in answer.json["error"]


def test_another_organization_and_a_viewer_change_nothing(
    editor: Browser, sign_in_as: SignIn, cast: Cast, site: Site
) -> None:
    rival = sign_in_as(Role.ADMINISTRATOR, organization_id=cast.rival)
    viewer = sign_in_as(Role.VIEWER)
    for path in ("", "/now", "/image", "/edit"):
        assert rival.get(f"/locations/{site.hall.id}/plan{path}").status_code == 404, path
    assert rival.post(f"/locations/{site.hall.id}/plan/remove").status_code == 404
    assert upload(rival, site.hall.id, picture()).status_code == 400
    assert viewer.get(f"/locations/{site.hall.id}/plan").status_code == 200
    assert viewer.get(f"/locations/{site.hall.id}/plan/edit").status_code == 403
    assert save(viewer, cast, site, []).status_code == 403
    assert upload(viewer, site.hall.id, picture()).status_code == 403


def test_a_plan_is_removed_and_its_locations_stay(editor: Browser, cast: Cast, site: Site) -> None:
    save(editor, cast, site, [{"location_id": str(site.dock.id), "points": SQUARE}])
    assert editor.post(f"/locations/{site.hall.id}/plan/remove").status_code == 303
    assert floor_plans.list_plans(cast.acme) == []
    assert editor.get(f"/locations/{site.dock.id}").status_code == 200
    assert editor.get(f"/locations/{site.hall.id}/plan").status_code == 404


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
        picture()[:60],
        picture("GIF"),
        b"\xff\xd8\xff" + b"x" * 500,
    ],
)
def test_a_file_other_than_a_picture_is_refused(sign_in_as: SignIn, cast: Cast, site: Site, content: bytes) -> None:
    answer = upload(sign_in_as(Role.EDITOR), site.hall.id, content)
    assert answer.status_code == 400
    assert "PNG" in answer.text or "damaged" in answer.text
    assert floor_plans.list_plans(cast.acme) == []


def test_only_the_pixels_of_a_picture_are_stored() -> None:
    metadata = PngInfo()
    metadata.add_text("Comment", "<script>secret place</script>")
    drawing = drawing_of(1, picture(pnginfo=metadata) + b"<?php trailing ?>")
    assert (drawing.media_type, drawing.size) == ("image/png", (400, 200))
    assert b"secret" not in drawing.content
    assert b"php" not in drawing.content
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated by 90 degrees, as phones store it
    exif[0x010E] = "secret place"
    drawing = drawing_of(1, picture("JPEG", exif=exif))
    assert (drawing.media_type, drawing.size) == ("image/jpeg", (200, 400))
    assert b"secret" not in drawing.content


def test_a_huge_picture_is_scaled_down_and_a_bomb_is_refused() -> None:
    assert max(drawing_of(1, picture(size=(6000, 100))).size) == LONGEST_SIDE
    with pytest.raises(Invalid, match="million pixels"):
        drawing_of(1, picture("PNG", (8_000, 6_000)))


def test_a_jpeg_with_very_many_scans_is_refused() -> None:
    """Each of 40,000 scans in 2 MB costs time for the whole image, which took half a minute."""
    progressive = picture("JPEG", progressive=True)
    assert drawing_of(1, progressive).media_type == "image/jpeg"
    begin = progressive.rindex(b"\xff\xda")
    last_scan = progressive[begin : progressive.rindex(b"\xff\xd9")]
    with pytest.raises(Invalid, match="too many scans"):
        drawing_of(1, progressive[:begin] + last_scan * (MOST_SCANS + 1) + b"\xff\xd9")


@pytest.mark.parametrize("location", ["1e999", "1" + "0" * 30, "-1"])
def test_numbers_that_nothing_has_are_no_shapes(editor: Browser, site: Site, location: str) -> None:
    for point in ("[1, 1]", "[1e999, 1]"):
        body = f'{{"shapes": [{{"location_id": {location}, "points": [{point}]}}], "updated_at": "1"}}'
        assert send_text(editor, site, body).status_code == 400
    assert send_text(editor, site, "[" * 100_000).status_code == 400


def send_text(browser: Browser, site: Site, body: str) -> TestResponse:
    path, headers = f"/locations/{site.hall.id}/plan/shapes", {"X-CSRF-Token": csrf_token(browser.token)}
    return browser.client.post(path, data=body, headers=headers, content_type="application/json")


def test_pages_of_assets_and_locations_show_the_place_on_the_plan(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    viewer, path = sign_in_as(Role.VIEWER), f"/assets/{site.cage.id}"
    see(cast, site.cage.id, site.rack.id, clock.now())
    floor_plans.set_image(shell(cast.acme), site.hall.id, b"png", "image/png", (100, 100))
    assert "On the plan" not in viewer.get(path).text
    plan = floor_plans.find_plan(cast.acme, site.hall.id)
    assert plan
    area = [(0, 0), (1000, 0), (1000, 1000)]
    changed = floor_plans.save_shapes(shell(cast.acme), site.hall.id, {site.hall.id: area}, plan.updated_at)
    assert "Somewhere in Hall 1" in viewer.get(path).text
    assert "On the plan" in viewer.get(f"/locations/{site.dock.id}").text
    shapes = {site.hall.id: area, site.rack.id: [(100, 100), (300, 100), (300, 300)]}
    floor_plans.save_shapes(shell(cast.acme), site.hall.id, shapes, changed)
    shown = viewer.get(f"{path}/now").text
    assert 'cx="20" cy="20"' in shown
    assert "Somewhere" not in shown
    assert floor_plans.drawn_location(cast.rival, site.rack.id) is None


def test_colors_show_counts_and_times_with_sub_locations(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    floor_plans.set_image(shell(cast.acme), site.hall.id, b"png", "image/png", (100, 100))
    plan = floor_plans.find_plan(cast.acme, site.hall.id)
    assert plan
    area = [(0, 0), (1000, 0), (1000, 1000)]
    drawn = {site.hall.id: area, site.rack.id: area, site.dock.id: area}
    floor_plans.save_shapes(shell(cast.acme), site.hall.id, drawn, plan.updated_at)
    see(cast, site.cage.id, site.rack.id, clock.now() - 9 * clock.HOUR)
    see(cast, site.pallet.id, site.hall.id, clock.now())
    viewer = sign_in_as(Role.VIEWER)

    def levels(color: str) -> dict[str, str]:
        text = viewer.get(f"/locations/{site.hall.id}/plan/now?color={color}").text
        spots = re.findall(r'class="spot([^"]*)" aria-label="([^:]*):', text)
        return {name: "".join(re.findall(r"heat-(\d)", classes)) for classes, name in spots}

    assert levels("count") == {"Hall 1": "4", "Rack A": "2", "Dock 1": "0"}
    assert levels("dwell") == levels("age") == {"Hall 1": "2", "Rack A": "2", "Dock 1": ""}
    assert levels("") == levels("odd") == {"Hall 1": "", "Rack A": "", "Dock 1": ""}
    assert "Color by longest stay" in viewer.get(f"/locations/{site.hall.id}/plan?color=dwell").text
