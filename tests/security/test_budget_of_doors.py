"""Limits on the memory and time of one request: sync, images, tables, downloads, searches."""

from __future__ import annotations

import io
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask
from PIL import Image

from edge.api import sync
from edge.audit import quotas
from edge.audit.actors import shell
from edge.bulk.import_columns import COLUMNS
from edge.database.connection import execute, execute_many, limit_statements
from edge.errors import Invalid, TooLarge, Unavailable
from edge.memory_budget import WORK, Budget
from edge.people.people import Role
from edge.people.secrets import hash_secret, new_client_secret
from edge.rate_limits import FILES_OF_CALLER
from edge.records import assets, csv_import
from edge.records import images as plan_images
from edge.records.images import drawing_of
from edge.records.tags import NewTag
from edge.runtime import readiness, serve
from edge.server import server as http
from edge.sync import batch_format, hub
from edge.sync.store import sites
from edge.validation import csv_text, values
from edge.validation.packed_texts import unpack
from tests.api.conftest import Api, codes, error
from tests.conftest import Cast
from tests.pages.conftest import Browser

SMALL_OBJECTS = b"[" + b"{}," * 1_000_000 + b"1]"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    sync._wrong_codes.clear()
    yield
    sync._wrong_codes.clear()
    assert WORK.used == 0


@pytest.fixture
def site_of_hub(cast: Cast) -> tuple[str, str]:
    """Return the key of a site. This box is its hub."""
    secret = new_client_secret()
    sites.add_site(shell(cast.acme), "SITE", "A site", hash_secret("code"))
    site = sites.join(hash_secret("code"), hash_secret(secret))
    assert site
    assert site.api_key_id
    return site.api_key_id, secret


# Tags ----------------------------------------------------------------------------------------------------------------


def tags_of(count: int, letter: str = "A") -> list[dict[str, str]]:
    return [{"tag_type": "barcode", "value": f"{letter}{number}"} for number in range(count)]


@pytest.mark.parametrize("path", ["/assets", "/locations"])
def test_a_record_has_few_tags_however_they_come(acme: Api, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: 20,000 tags in one request blocked other writers for seconds, and a list of 200 such assets had 240
    MB.
    """
    monkeypatch.setattr(values, "MAX_TAGS", 3)
    answer = acme.post(path, {"name": "Many", "tags": tags_of(4)})
    assert (answer.status_code, codes(answer)) == (400, [("tags", "too_long")])
    made = acme.make(path, name="Few", tags=tags_of(2))
    one = f"{path}/{made['id']}/tags"
    assert acme.post(one, tags_of(1, "B")[0]).status_code == 201
    refused = acme.post(one, tags_of(1, "C")[0])
    assert refused.status_code == 409
    assert "at most 3 tags" in error(refused)["detail"]
    assert acme.delete(f"{one}/{made['tags'][0]['id']}").status_code == 204
    assert acme.post(one, tags_of(1, "C")[0]).status_code == 201


def test_tag_values_of_a_record_are_limited(acme: Api) -> None:
    long = [{"tag_type": "barcode", "value": f"{number:04}" + "\U0001f4e6" * 250} for number in range(66)]
    assert codes(acme.post("/assets", {"name": "Many", "tags": long})) == [("tags", "too_long")]
    assert acme.post("/assets", {"name": "Many", "tags": long[:65]}).status_code == 201


@pytest.mark.parametrize("kind", ["asset", "location"])
def test_a_row_of_an_import_cannot_exceed_the_tags_of_a_record(
    acme: Api, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "MAX_TAGS", 3)
    acme.make(f"/{kind}s", name="Few", external_key="K-1", tags=tags_of(2))
    rows = [
        csv_import.NewRecord(2, "K-1", {}, [NewTag("barcode", "X1"), NewTag("barcode", "X2")]),
        csv_import.NewRecord(3, "K-2", {"name": "New"}, [NewTag("barcode", f"Y{n}") for n in range(4)]),
        csv_import.NewRecord(4, "K-1", {}, [NewTag("barcode", "A0"), NewTag("barcode", "Z1")]),
    ]
    outcomes = csv_import.check_records(acme.organization_id, kind, rows, lambda _: None)
    assert [one.result for one in outcomes] == ["faulty", "faulty", "changed"]
    assert "at most 3 tags" in unpack(outcomes[0].reason)


@pytest.mark.parametrize("kind", ["asset", "location"])
def test_an_older_record_with_more_tags_can_be_changed(acme: Api, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = acme.make(f"/{kind}s", name="Many", external_key="K-1", tags=tags_of(5))
    monkeypatch.setattr(values, "MAX_TAGS", 3)
    changed = acme.patch(f"/{kind}s/{made['id']}", {"name": "Changed"})
    assert changed.status_code == 200
    rows = [csv_import.NewRecord(2, "K-1", {"name": "Imported"}, [NewTag("barcode", "A1")])]
    outcomes = csv_import.check_records(acme.organization_id, kind, rows, lambda _: None)
    assert [one.result for one in outcomes] == ["changed"]
    assert acme.delete(f"/{kind}s/{made['id']}/tags/{made['tags'][0]['id']}").status_code == 204


def test_a_create_above_the_limit_of_records_is_a_conflict(acme: Api) -> None:
    acme.make("/assets", name="One")
    quotas.set_limits({"asset": 1})
    try:
        refused = acme.post("/assets", {"name": "Two"})
    finally:
        quotas.set_limits({"asset": 1_000_000})
    assert refused.status_code == 409
    assert "At most 1 are allowed (asset); delete some first" in error(refused)["detail"]


# Sync -------------------------------------------------------------------------------------------------------------


def test_only_a_hub_takes_a_join(app: Flask, cast: Cast) -> None:
    assert app.test_client().post("/sync/v1/join", data=b"{}").status_code == 404


@pytest.mark.usefixtures("site_of_hub")
@pytest.mark.parametrize(("body", "status"), [(SMALL_OBJECTS, 413), (b"x" * 1025, 413), (b"{}", 400), (b"[", 400)])
def test_a_join_is_small_and_a_bad_one_counts_as_a_wrong_attempt(app: Flask, body: bytes, status: int) -> None:
    """Regression: 45 requests of 4 MB killed the service."""
    client = app.test_client()
    for _ in range(10):
        assert client.post("/sync/v1/join", data=body).status_code == status
    answer = client.post("/sync/v1/join", data=body)
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) > 0


@pytest.mark.parametrize("path", ["hello", "changes", "masters", "digests", "recover"])
def test_a_few_bytes_of_a_site_cannot_inflate_to_millions_of_objects(
    app: Flask, site_of_hub: tuple[str, str], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Regression: 48 KB killed a hub."""
    header = bearer(app, site_of_hub)
    monkeypatch.setattr(batch_format, "unpack", lambda _: pytest.fail("it was unpacked"))
    answer = app.test_client().post(f"/sync/v1/{path}", data=zlib.compress(SMALL_OBJECTS, 9), headers=header)
    assert answer.status_code == 413


def bearer(app: Flask, site_of_hub: tuple[str, str]) -> dict[str, str]:
    pair = {"grant_type": "client_credentials", "client_id": site_of_hub[0], "client_secret": site_of_hub[1]}
    answer = app.test_client().post("/api/v1/oauth/token", json=pair, headers={"User-Agent": "site/1"})
    return {"Authorization": f"Bearer {answer.get_json()['access_token']}"}


def test_a_site_with_many_tokens_has_two_requests_answered_at_once(
    app: Flask, site_of_hub: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: a site could use all threads, because the limit applied to tokens."""
    statuses: list[int] = []

    def ask(*_: object) -> dict[str, Any]:
        if len(statuses) < 5:  # the requests overlap
            statuses.append(0)
            answer = app.test_client().post(
                "/sync/v1/masters", data=batch_format.pack({}), headers=bearer(app, site_of_hub)
            )
            statuses.append(answer.status_code)
        return {}

    monkeypatch.setattr(hub, "masters", ask)
    for _ in range(2):
        statuses.clear()
        answer = app.test_client().post(
            "/sync/v1/masters", data=batch_format.pack({}), headers=bearer(app, site_of_hub)
        )
        assert (answer.status_code, statuses) == (200, [0, 0, 503, 200])


def test_a_message_to_a_site_is_short(app: Flask, site_of_hub: tuple[str, str]) -> None:
    """Regression: 5 MB of input from a site were stored and shown on the page of the sites."""
    body = batch_format.pack({"v": "x" * 5_000_000, "assets": [], "locations": []})
    answer = app.test_client().post("/sync/v1/changes", data=body, headers=bearer(app, site_of_hub))
    assert answer.status_code == 400
    assert len(answer.data) < 1200
    assert execute("SELECT length(last_error) FROM site").fetchone()[0] < 1200


def test_the_cost_of_a_batch_is_measured_without_unpacking_it() -> None:
    assert batch_format.cost(batch_format.pack(list(range(1000))), batch_format.MAX_BATCH_MEMORY) > 128_000
    with pytest.raises(TooLarge):
        batch_format.cost(zlib.compress(b"x" * 200_000_000), batch_format.MAX_BATCH_MEMORY)


def test_assets_for_a_site_come_in_pages_of_a_few_megabytes(site_of_hub: tuple[str, str], cast: Cast) -> None:
    """Regression: 1,000 records of the maximum size were one response of 64 MB."""
    site = sites.find_by_key(site_of_hub[0])
    assert site
    large = '{"a":"' + "x" * 60_000 + '"}'
    ids = {assets.create(shell(cast.acme), name=f"Large {n}", metadata=large).id for n in range(150)}
    page, received, most = 0, set(), 0
    while page is not None:
        answer = hub.masters(site, {"after": 0, "epoch": "", "page": page})
        received |= {record[0] for record in answer["assets"]}
        most, page = max(most, len(answer["assets"])), answer["page"]
    assert received == ids
    assert most < 80


def test_a_list_of_large_records_is_built_within_the_budget(
    acme: Api, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        assets.create(shell(cast.acme), name=f"Large {number}", metadata='{"a":"' + "x" * 60_000 + '"}')
    assert acme.get("/assets").status_code == 200
    monkeypatch.setattr("edge.memory_budget.WORK", Budget(1000))
    answer = acme.get("/assets")
    assert answer.status_code == 503
    assert "Retry-After" in answer.headers
    assert acme.get("/assets?limit=1&q=nothing").status_code == 200


# Images -----------------------------------------------------------------------------------------------------------


def image(kind: str, mode: str, size: tuple[int, int], **options: Any) -> bytes:
    out = io.BytesIO()
    Image.new(mode, size).save(out, kind, **options)
    return out.getvalue()


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


@pytest.mark.parametrize(
    ("kind", "mode", "size", "options"),
    [
        ("JPEG", "L", (6_300, 6_300), {}),
        ("PNG", "1", (4_001, 4_000), {}),
        ("JPEG", "RGB", (3_900, 4_000), {"progressive": True, "subsampling": 0}),
    ],
)
def test_an_image_that_needs_too_much_is_refused_before_it_is_decoded(
    monkeypatch: pytest.MonkeyPatch, kind: str, mode: str, size: tuple[int, int], options: dict[str, Any]
) -> None:
    content = image(kind, mode, size, **options)
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda _: pytest.fail("it was decoded"))
    with pytest.raises(Invalid):
        drawing_of(1, content)


def test_an_image_of_sixteen_megapixels_is_taken() -> None:
    assert drawing_of(1, image("PNG", "P", (4_000, 4_000))).size == (2_400, 2_400)


def test_comments_that_unpack_to_megabytes_are_refused() -> None:
    plain = image("PNG", "RGB", (10, 10))
    bomb = b"".join(chunk(b"zTXt", b"k%d\0\0" % n + zlib.compress(b"x" * 900_000)) for n in range(5))
    with pytest.raises(Invalid):
        drawing_of(1, plain[:33] + bomb + plain[33:])


def test_one_image_is_open_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_images, "WAIT_SECONDS", 0.01)
    with plan_images._turns.turn(2, 0), pytest.raises(Unavailable):
        drawing_of(1, image("PNG", "RGB", (10, 10)))


def test_an_image_beyond_the_budget_may_be_sent_again(
    sign_in_as: Callable[..., Browser], site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_images, "WORK", Budget(1000))
    browser = sign_in_as(Role.EDITOR)
    file = (io.BytesIO(image("PNG", "RGB", (400, 300))), "plan.png")
    answer = browser.post("/plans", {"location_id": str(site.hall.id), "image": file})
    assert answer.status_code == 503
    assert "Retry-After" in answer.headers


# Tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ["a,\n", '"a\n",', "a,", "\U0001f4a9"])
def test_rows_are_counted_while_a_table_is_read(row: str) -> None:
    """Regression: a file of `a,` lines became two million rows before they were counted."""
    began = time.process_time()
    with pytest.raises(Invalid, match=r"rows|characters"):
        csv_text.table_of("external_key,name\n" + row * 1_000_000, known=COLUMNS["asset"])
    assert time.process_time() - began < 2


def test_line_ends_of_every_system_and_within_quotes_are_understood() -> None:
    for end in ("\n", "\r\n", "\r"):
        text = end.join(["external_key,name", 'A,"two', 'lines"', "", "B,b"])
        assert [(line.number, *line.cells) for line in csv_text.table_of(text, known=COLUMNS["asset"]).rows] == [
            (2, "A", f"two{end}lines"),
            (5, "B", "b"),
        ]


# Files and searches -----------------------------------------------------------------------------------------------


def test_files_being_sent_leave_threads_to_others(app: Flask, sign_in_as: Callable[..., Browser], cast: Cast) -> None:
    """Regression: eight slow downloads of two viewers blocked everyone for 100 s."""
    other = sign_in_as(Role.VIEWER, organization_id=cast.rival)
    people = [sign_in_as(Role.VIEWER) for _ in range(3)]
    opened, statuses = [], []
    for browser in people:
        for _ in range(FILES_OF_CALLER + 1):
            answer = browser.client.get("/export/history.csv", buffered=False)
            statuses.append(answer.status_code)
            opened.append(answer)
    assert statuses == [200, 200, 503, 200, 200, 503, 503, 503, 503]
    assert "Retry-After" in opened[-1].headers
    assert people[2].get("/export").status_code == 200
    theirs = other.client.get("/export/history.csv", buffered=False)
    assert theirs.status_code == 200  # before, three people of one organization had all downloads
    opened.append(theirs)
    for answer in reversed(opened):  # each response keeps a context of this thread
        answer.close()
    assert people[2].get("/export/history.csv").status_code == 200


def test_repeated_searches_for_one_letter_are_fast(acme: Api, cast: Cast) -> None:
    """Regression: the index compared each place of each text with it, which took 9 s for 7,500 assets."""
    text = ("a" * 22 + "b") * 44
    execute_many(
        "INSERT INTO searchable (id, organization_id, kind, is_active, valid_from, text, description) "
        "VALUES (?, ?, 'asset', 1, 0, ?, ?)",
        [(number, cast.acme, text[:250], text) for number in range(10**9, 10**9 + 4_000)],
    )
    began = time.process_time()
    assert acme.get(f"/assets?q={'a' * 240}").status_code == 200
    assert time.process_time() - began < 0.5


def test_a_search_is_exact_where_the_index_is_not(acme: Api, cast: Cast) -> None:
    for name in ("aaa", "aaaaaa", "abcabd", "abcabc"):
        assets.create(shell(cast.acme), name=name)
    for q, names in (("aaaa", ["aaaaaa"]), ("abcabc", ["abcabc"]), ("aaa", ["aaa", "aaaaaa"])):
        assert [one["name"] for one in acme.get(f"/assets?q={q}&sort=name").get_json()["data"]] == names


def test_the_statements_of_a_read_have_their_time_together(cast: Cast) -> None:
    slow = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000) SELECT count(*) FROM n"
    limit_statements(0.2, for_all=True)
    try:
        with pytest.raises(Unavailable):
            all(execute(slow).fetchone() for _ in range(100))
    finally:
        limit_statements(None)


# The watchdog -----------------------------------------------------------------------------------------------------


def test_a_server_that_begins_no_request_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    served = serve._Server(SimpleNamespace(run=lambda: time.sleep(30)), "127.0.0.1", 0)  # type: ignore[arg-type]
    for seconds, is_ok in ((1.0, True), (readiness.HTTP_STUCK_SECONDS + 1, False)):
        monkeypatch.setattr(http, "stuck_seconds", lambda _, seconds=seconds: seconds)
        assert served.check().ok is is_ok
