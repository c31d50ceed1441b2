"""Notes, photos and labels from handhelds: stored once, bounded, and free of everything but pixels."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image
from werkzeug.test import TestResponse

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.labels import printers
from edge.labels.printers import LabelPrinter
from edge.pages import label_documents
from edge.people.people import Role
from edge.people.sign_in import csrf_token
from edge.records import asset_notes, asset_photos, assets, images
from edge.tracking import deletion
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site

SignIn = Callable[..., Browser]


def jpeg(size: tuple[int, int] = (200, 100), kind: str = "JPEG", **options: Any) -> bytes:
    out = io.BytesIO()
    Image.effect_noise(size, 90).convert("RGB").save(out, kind, **options)
    return out.getvalue()


def send_photo(
    browser: Browser, asset_id: object, content: bytes, photo_id: str = "photo-number-1", **more: object
) -> TestResponse:
    query = {"id": photo_id, "asset": str(asset_id), "at": str(clock.now() // 1000), **more}
    headers = {"X-CSRF-Token": csrf_token(browser.token)}
    return browser.client.post(
        "/scan/photos", query_string=query, data=content, content_type="image/jpeg", headers=headers
    )


def send(browser: Browser, *items: dict[str, Any]) -> list[tuple[str, str]]:
    answer = browser.send("/scan/batch", {"items": [{"at": clock.now() // 1000, **item} for item in items]})
    return [(one["result"], one.get("reason", "")) for one in answer.json["results"]]  # type: ignore[index]


def note(asset_id: object, text: object = "Wheel broken", no: object = 1) -> dict[str, Any]:
    return {"id": f"note-number-{no}", "act": "note", "asset": asset_id, "text": text}


def count(table: str) -> int:
    number: int = execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return number


# Notes ------------------------------------------------------------------------------------------------------------


def test_a_note_is_on_the_page_of_its_asset_with_author_and_time(sign_in_as: SignIn, site: Site) -> None:
    olga = sign_in_as(Role.OPERATOR)
    made_at = clock.now() - 3 * clock.HOUR
    sent = note(site.pallet.id, "<b>Wheel</b> broken\r\nsince Monday\0") | {"at": made_at // 1000}
    assert send(olga, sent, sent) == [("done", ""), ("done", "")]
    page = olga.get(f"/assets/{site.pallet.id}").text
    assert "&lt;b&gt;Wheel&lt;/b&gt; broken\nsince Monday" in page
    assert "operator 1" in page
    assert clock.rfc3339(made_at)[:16] in page
    assert count("asset_note") == 1
    assert "Delete</button>" not in page
    editor = sign_in_as(Role.EDITOR)
    assert editor.post(f"/assets/{site.pallet.id}/notes/note-number-1/remove").status_code == 303
    assert count("asset_note") == 0
    audit = execute("SELECT action, detail FROM audit WHERE action LIKE 'asset.note%' ORDER BY no").fetchall()
    assert [action for action, _ in audit] == ["asset.note_added", "asset.note_deleted"]
    assert "since Monday" in audit[1][1]


def test_a_note_on_the_page_is_stored_once(sign_in_as: SignIn, site: Site) -> None:
    olga = sign_in_as(Role.OPERATOR)
    path = f"/assets/{site.pallet.id}/notes"
    for _ in range(2):
        assert olga.post(path, {"text": "Dented", "note_id": "a" * 32}).status_code == 303
    assert count("asset_note") == 1
    assert olga.post(path, {"text": " \n "}).status_code == 400
    assert sign_in_as(Role.VIEWER).post(path, {"text": "Dented"}).status_code == 403


@pytest.mark.parametrize(
    ("asset", "text", "reason"),
    [
        ("pallet", "", "A note must have 1 to 1,000 characters"),
        ("pallet", "x" * 1001, "A note must have 1 to 1,000 characters"),
        ("pallet", None, "This is no longer possible"),
        ("unknown", "x", "This asset is retired"),
    ],
)
def test_a_note_that_cannot_be_stored_is_refused_alone(
    sign_in_as: SignIn, site: Site, asset: str, text: object, reason: str
) -> None:
    olga = sign_in_as(Role.OPERATOR)
    asset_id = site.pallet.id if asset == "pallet" else 99
    assert send(olga, note(asset_id, text, "bad"), note(site.pallet.id)) == [("refused", reason), ("done", "")]


def test_ten_thousand_notes_are_not_stored(
    sign_in_as: SignIn, site: Site, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asset_notes, "MOST_OF_ASSET", 20)
    monkeypatch.setattr(asset_notes, "MOST_OF_PERSON", 30)
    olga = sign_in_as(Role.OPERATOR)
    results = send(olga, *(note(site.pallet.id, "x" * 1000, no) for no in range(100)))
    assert [result for result, _ in results].count("done") == 20
    results += send(olga, *(note(site.cage.id, "x", no) for no in range(100, 200)))
    assert [result for result, _ in results].count("done") == 30
    assert results[-1] == ("refused", "You added too many today. Try again tomorrow")
    otto = sign_in_as(Role.OPERATOR)  # another person may still add some
    assert send(otto, note(site.cage.id, "x", "other")) == [("done", "")]
    assert len(asset_notes.of_asset(cast.acme, site.pallet.id)) == 20


def test_notes_and_photos_of_another_organization_are_not_visible(sign_in_as: SignIn, site: Site, cast: Cast) -> None:
    olga, rival = sign_in_as(Role.OPERATOR), sign_in_as(Role.EDITOR, organization_id=cast.rival)
    send(olga, note(site.pallet.id))
    send_photo(olga, site.pallet.id, jpeg())
    assert send(rival, note(site.pallet.id, no="of rival")) == [("refused", "This scan has no id")]
    assert send(rival, note(site.pallet.id, no=2)) == [("refused", "This asset is retired")]
    assert send_photo(rival, site.pallet.id, jpeg(), "photo-number-2").json["result"] == "refused"  # type: ignore[index]
    path = f"/assets/{site.pallet.id}"
    assert rival.get(f"{path}/photos/photo-number-1").status_code == 404
    assert rival.post(f"{path}/notes/note-number-1/remove").status_code == 404
    assert rival.post(f"{path}/photos/photo-number-1/remove").status_code == 404
    assert (count("asset_note"), count("asset_photo")) == (1, 1)


# Photos -----------------------------------------------------------------------------------------------------------


def test_a_photo_is_written_again_without_exif_and_turned_upright(sign_in_as: SignIn, site: Site) -> None:
    notes = Image.Exif()
    notes[0x0112], notes[0x010F] = 6, "SECRETMAKER"  # turned right; maker
    content = jpeg((3000, 1500), exif=notes.tobytes(), comment=b"SECRETCOMMENT", quality=10) + b"<script>SECRETTAIL"
    olga = sign_in_as(Role.OPERATOR)
    assert send_photo(olga, site.pallet.id, content).json == {"result": "done"}
    assert send_photo(olga, site.pallet.id, content).json == {"result": "done"}
    page = olga.get(f"/assets/{site.pallet.id}").text
    assert f"/assets/{site.pallet.id}/photos/photo-number-1" in page
    answer = olga.get(f"/assets/{site.pallet.id}/photos/photo-number-1")
    assert (answer.mimetype, answer.headers["X-Content-Type-Options"]) == ("image/jpeg", "nosniff")
    assert b"SECRET" not in answer.data
    assert len(answer.data) <= asset_photos.MAX_BYTES
    shown = Image.open(io.BytesIO(answer.data))
    assert (shown.size, shown.format, dict(shown.getexif())) == ((640, 1280), "JPEG", {})
    assert count("asset_photo") == 1


def png_of(width: int, height: int) -> bytes:
    """Return a small PNG that claims to be huge."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"\0" * 1_000_000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not an image",
        b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
        b"GIF89a" + b"\0" * 100,
        b"%PDF-1.4 " + b"\0" * 100,
        png_of(60_000, 60_000),
        png_of(2**31 - 1, 2**31 - 1),
        png_of(5_000, 5_000),
        b"GIF89a/*" + jpeg(),
        jpeg()[:300],
        jpeg(kind="WEBP"),
        jpeg(kind="TIFF"),
        jpeg(kind="BMP"),
    ],
    ids=["empty", "text", "svg", "gif", "pdf", "huge", "largest", "25-megapixels", "polyglot", "cut", *"wtb"],
)
def test_what_is_no_photo_or_a_bomb_is_refused(
    sign_in_as: SignIn, site: Site, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    olga = sign_in_as(Role.OPERATOR)
    answer = send_photo(olga, site.pallet.id, content)
    assert (answer.status_code, answer.json["result"]) == (200, "refused")  # type: ignore[index]
    assert count("asset_photo") == 0
    assert images.WORK.used == 0
    assert images._turns.is_free()


def test_photos_are_bounded_before_they_are_decoded(
    sign_in_as: SignIn, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    olga = sign_in_as(Role.OPERATOR)
    for number in range(asset_photos.MOST_OF_ASSET):
        send_photo(olga, site.pallet.id, jpeg((20, 20)), f"photo-number-{number}")
    monkeypatch.setattr(images, "photo_of", lambda *_: pytest.fail("it was decoded"))
    answer = send_photo(olga, site.pallet.id, jpeg(), "one-too-many")
    reason = "This asset has too many of them. An editor can delete some on its page"
    assert answer.json == {"result": "refused", "reason": reason}
    assert send_photo(olga, 99, jpeg(), "of-no-asset").json["result"] == "refused"  # type: ignore[index]
    assert send_photo(olga, site.cage.id, b"x" * (2 * 1024 * 1024 + 1), "too-large").status_code == 413
    monkeypatch.setattr(asset_photos, "MOST_OF_PERSON", 10)
    assert send_photo(olga, site.cage.id, jpeg(), "one-too-many").json["result"] == "refused"  # type: ignore[index]
    assert send_photo(olga, site.cage.id, jpeg(), "x").status_code == 400
    assert send_photo(sign_in_as(Role.VIEWER), site.cage.id, jpeg(), "of-a-viewer").status_code == 403


def test_a_photo_of_somebody_else_waits_for_its_person(sign_in_as: SignIn, site: Site) -> None:
    olga = sign_in_as(Role.OPERATOR)
    assert send_photo(olga, site.pallet.id, jpeg(), session="of-another").json == {"result": "whose"}
    assert count("asset_photo") == 0


# Retention --------------------------------------------------------------------------------------------------------


def test_old_notes_and_photos_are_dropped_with_history(sign_in_as: SignIn, site: Site) -> None:
    olga = sign_in_as(Role.OPERATOR)
    send(olga, note(site.pallet.id), note(site.pallet.id, no=2))
    send_photo(olga, site.pallet.id, jpeg())
    send_photo(olga, site.pallet.id, jpeg(), "photo-number-2")
    long_ago = clock.now() - 400 * clock.DAY
    for table in ("asset_note", "asset_photo"):
        execute(f"UPDATE {table} SET received_at = ? WHERE id LIKE '%number-1'", (long_ago,))
    before = clock.now() - clock.DAY
    assert [deletion.drop_old_records(name, before) for name in ("notes", "photos")] == [1, 1]
    assert [deletion.drop_old_records(name, before) for name in ("notes", "photos")] == [0, 0]
    assert asset_photos.oldest_slice() > before
    assert deletion.drop_old_records("photos", asset_photos.oldest_slice()) == 1
    assert asset_photos.oldest_slice() == 0


# Labels -----------------------------------------------------------------------------------------------------------


def test_a_label_is_printed_once_on_the_nearest_printer(
    sign_in_as: SignIn, site: Site, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, bytes]] = []
    monkeypatch.setattr("edge.labels.printers.send", lambda address, data, _: sent.append((address, data)))
    olga, admin = sign_in_as(Role.OPERATOR), sign_in_as(Role.ADMINISTRATOR)

    def print_at(location_id: object, no: int) -> dict[str, Any]:
        body = {"id": f"label-number-{no}", "asset": site.pallet.id, "location": location_id}
        answer: dict[str, Any] = olga.send("/scan/labels", body).json  # type: ignore[assignment]
        return answer

    assert print_at(site.dock.id, 1) == {"result": "refused", "reason": "No label printer is set up"}
    printers.set_printer(shell(cast.acme), LabelPrinter("10.0.0.1:9100", "roll-102x51", 8))
    form = {"paper": "roll-102x51", "dots_per_mm": "8"}
    assert admin.post("/labels/printer", {**form, "location": site.hall.id, "address": "10.0.0.2"}).status_code == 303
    assert admin.post("/labels/printer", {**form, "location": site.rack.id, "address": "10.0.0.3"}).status_code == 303
    assert admin.post("/labels/printer", {**form, "location": 99, "address": "10.0.0.3"}).status_code == 400
    for no, place in enumerate([site.dock.id, site.dock.id, site.rack.id, None, 99], 2):
        assert print_at(place, max(no, 3)) == {"result": "done"}  # the first two are one label
    assert [address for address, _ in sent] == [f"10.0.0.{last}:9100" for last in (2, 3, 1, 1)]
    assert b"_41_53_53_45_54_2D_30_30_30_31" in sent[0][1]  # ASSET-0001
    page = admin.get("/labels/printer").text
    assert "10.0.0.3:9100" in page
    admin.post("/labels/printer", {"location": site.rack.id})
    assert print_at(site.rack.id, 9) == {"result": "done"}
    assert sent[-1][0] == "10.0.0.2:9100"


def test_a_printer_that_is_off_is_reported(sign_in_as: SignIn, site: Site, cast: Cast) -> None:
    printers.set_printer(shell(cast.acme), LabelPrinter("127.0.0.1:9100", "roll-102x51", 8))
    body = {"id": "label-number-1", "asset": site.pallet.id, "location": site.dock.id}
    answer = sign_in_as(Role.OPERATOR).send("/scan/labels", body)
    assert answer.json == {"result": "refused", "reason": "The label printer does not respond"}
    assets.delete(shell(cast.acme), site.pallet.id)
    assert sign_in_as(Role.OPERATOR).send("/scan/labels", body).json["reason"] == "This asset is retired"  # type: ignore[index]


def test_a_label_does_not_wait_for_documents_that_others_draw(
    sign_in_as: SignIn, site: Site, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One viewer, also of another organization, could have kept all handhelds from printing."""
    monkeypatch.setattr("edge.labels.printers.send", lambda *_: None)
    printers.set_printer(shell(cast.acme), LabelPrinter("10.0.0.1:9100", "roll-102x51", 8))
    body = {"id": "label-number-77", "asset": site.pallet.id, "location": site.dock.id}
    with label_documents.DRAWING.turn(cast.rival, 0):
        assert sign_in_as(Role.OPERATOR).send("/scan/labels", body).json == {"result": "done"}
