"""Memory attacks. Each function attacks one endpoint with 50 parallel requests for a few seconds."""

from __future__ import annotations

import io
import re
import select
import socket
import struct
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from urllib.parse import urlencode

from PIL import Image
from werkzeug.routing import Rule

from edge.people.people import Role
from tests.application import make_app
from tests.security.budget.box import LARGE_FILE, Box
from tests.security.budget.partners import partners
from tests.soak.crash import TOPIC
from tests.validation.test_xlsx import MAIN, SHEET, sheet, with_part

AT_ONCE = 50
PATIENCE = 30.0  # per response
JSON, FORM = "application/json", "application/x-www-form-urlencoded"

UPLOADS = ("/plans", "/import")
SHARED = b'<sst xmlns="' + MAIN + b'">%s</sst>'

Statuses = Counter[str]
Attack = Callable[[Box, float], Statuses]


def head(method: str, path: str, headers: Mapping[str, str], length: int | None = None) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: box", *(f"{name}: {value}" for name, value in headers.items())]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([*lines, "", ""]).encode()


def connect(box: Box, number: int = 0) -> socket.socket:
    return socket.create_connection(
        box.address, PATIENCE, source_address=(f"127.0.{number // 200}.{number % 200 + 1}", 0)
    )


def send_all(box: Box, seconds: float, requests: Iterable[bytes], *, addresses: int = 1) -> Statuses:
    """Send the requests repeatedly from AT_ONCE clients. Returns the counts of responses."""
    choices, statuses, end = list(requests), Statuses(), time.monotonic() + seconds

    def client(number: int) -> None:
        while time.monotonic() < end and box.is_alive():
            status = "closed"
            with suppress(OSError), connect(box, number % addresses) as one:
                with suppress(OSError):  # the server may respond and close before the whole request is sent
                    one.sendall(choices[number % len(choices)])
                one.shutdown(socket.SHUT_WR)
                answer = one.recv(4096)
                status = answer[9:12].decode() or status
                while one.recv(65_536):
                    pass
            statuses[status] += 1

    with ThreadPoolExecutor(AT_ONCE) as crowd:
        list(crowd.map(client, range(AT_ONCE)))
    return statuses


def request(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    return head(method, path, {**headers, "Connection": "close"}, len(body)) + body


def multipart(fields: Mapping[str, str], name: str, content: bytes) -> tuple[str, bytes]:
    """Return media type and body of a form with a file."""
    chunks = [
        f'--b\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        for key, value in fields.items()
    ]
    chunks.append(
        f'--b\r\nContent-Disposition: form-data; name="{name}"; filename="f"\r\n\r\n'.encode()
        + content
        + b"\r\n--b--\r\n"
    )
    return "multipart/form-data; boundary=b", b"".join(chunks)


# Bodies -----------------------------------------------------------------------------------------------------------


def small_objects(size: int) -> bytes:
    return b"[" + b"{}," * (size // 3 - 1) + b"{}]"


def join(box: Box, seconds: float) -> Statuses:
    """Unauthenticated: a join of 4 MB of small objects."""
    return send_all(box, seconds, [request("POST", "/sync/v1/join", {"Content-Type": JSON}, small_objects(4_000_000))])


def api_bodies(box: Box, seconds: float) -> Statuses:
    """API key: 1 MB of small objects, as deep and as wide as JSON allows."""
    bearer = {**box.bearer(box.accounts.key), "Content-Type": JSON}
    inner = (small_objects(1_000_000), b"[" + b'{"a":1},' * 120_000 + b"1]", b"[" + b"1e9," * 250_000 + b"1]")
    bodies = [b'{"name":"x","metadata":{"a":' + one + b"}}" for one in inner]
    return send_all(box, seconds, [request("POST", "/api/v1/assets", bearer, body) for body in bodies])


def token_bodies(box: Box, seconds: float) -> Statuses:
    """Unauthenticated: small objects for the token endpoint."""
    headers = {"Content-Type": JSON, "User-Agent": "budget/1"}
    return send_all(box, seconds, [request("POST", "/api/v1/oauth/token", headers, small_objects(1_000_000))])


def forms(box: Box, seconds: float) -> Statuses:
    """Unauthenticated: a form of 1 MB with as many fields as possible."""
    body = "&".join(f"{n:x}=" for n in range(150_000)).encode()[:1_000_000]
    small = "&".join(f"{n:x}=" for n in range(150_000)).encode()[:499_000]
    requests = [request("POST", "/sign-in", {"Content-Type": FORM}, one) for one in (body, small)]
    chunks = b"".join(b'--b\r\nContent-Disposition: form-data; name="%d"\r\n\r\n\r\n' % n for n in range(15_000))
    requests.append(request("POST", "/sign-in", {"Content-Type": "multipart/form-data; boundary=b"}, chunks + b"--b--"))
    return send_all(box, seconds, requests)


def scans(box: Box, seconds: float) -> Statuses:
    """Operator: 1 MB of small objects as scans."""
    headers = {**box.browser(Role.OPERATOR), "Content-Type": JSON}
    body = b'{"scans":' + small_objects(1_000_000) + b"}"
    return send_all(box, seconds, [request("POST", path, headers, body) for path in ("/scan/scans", "/sign-in")])


def unfinished_bodies(box: Box, seconds: float) -> Statuses:
    """Unauthenticated: 100 incomplete bodies of 7 MB from 8 addresses."""
    statuses = Statuses()
    with ExitStack() as crowd:
        for number in range(2 * AT_ONCE):
            one = crowd.enter_context(connect(box, number % 8 + 10))
            one.settimeout(0.2)
            try:
                one.sendall(head("POST", "/sign-in", {"Content-Type": FORM}, 7_000_000) + b"x" * 6_900_000)
                statuses["sent"] += 1
            except OSError:
                statuses["refused"] += 1
        time.sleep(min(seconds, 3))
    return statuses


def endless_chunk_lines(box: Box, seconds: float) -> Statuses:
    """Unauthenticated: a chunk size line of several megabytes, and an endless trailer."""
    heading = head("POST", "/sign-in", {"Transfer-Encoding": "chunked"})
    tails = (b"1;" + b"x" * 7_000_000, b"0\r\n" + b"x: y\r\n" * 1_100_000)
    return send_all(box, seconds, [heading + tail for tail in tails])


def undone_sweeps(box: Box, seconds: float) -> Statuses:
    """Operator: undos of a sweep with a long id, of which each would be built."""
    headers = {**box.browser(Role.OPERATOR), "Content-Type": JSON}
    bodies = [
        b'{"items":[{"id":"a","kind":"undo","sweep":"%s","undone":[%s]}]}' % (sweep, b",".join([b"1"] * 20_000))
        for sweep in (b"x" * 400_000, b"sweep1")
    ]
    return send_all(box, seconds, [request("POST", "/scan/batch", headers, body) for body in bodies])


def escaped_forms(box: Box, seconds: float) -> Statuses:
    """Editor, operator and anybody: forms of escaped characters, and a text in a form with a file."""
    editor, operator = box.browser(Role.EDITOR), box.browser(Role.OPERATOR)
    wide = b"x" * 6_000_000 + "\U0001f4a9".encode()
    text = b'--b\r\nContent-Disposition: form-data; name="a"; filename="x\r\n\r\n' + wide + b"\r\n--b--"
    parts = {**editor, "Content-Type": "multipart/form-data; boundary=b"}
    return send_all(
        box,
        seconds,
        [
            *(request("POST", path, {**editor, "Content-Type": FORM}, b"%2C" * 2_300_000) for path in UPLOADS),
            *(request("POST", path, parts, text) for path in UPLOADS),
            request("POST", "/scan/photos", {**operator, "Content-Type": FORM}, b"%2C" * 690_000),
            request("POST", "/sign-in", {"Content-Type": FORM}, b"%2C" * 330_000),
        ],
        addresses=8,
    )


# Sync -------------------------------------------------------------------------------------------------------------


def hello(box: Box, seconds: float) -> Statuses:
    """Site: 48 KB that inflate to 32 MB of small objects."""
    bearer = box.bearer(box.accounts.site)
    body = zlib.compress(small_objects(32_000_000), 9)
    paths = ("hello", "changes", "masters", "digests", "recover")
    return send_all(box, seconds, [request("POST", f"/sync/v1/{path}", bearer, body) for path in paths])


def sync_numbers(box: Box, seconds: float) -> Statuses:
    """Site: batches of numbers and texts that inflate to the limit."""
    bearer = box.bearer(box.accounts.site)
    numbers = zlib.compress(b"[" + b"100000," * 4_000_000 + b"1]", 9)
    texts = zlib.compress(b"[" + b'"abc",' * 5_000_000 + b"1]", 9)
    return send_all(box, seconds, [request("POST", "/sync/v1/changes", bearer, body) for body in (numbers, texts)])


# Files ------------------------------------------------------------------------------------------------------------


def _image(kind: str, mode: str, size: tuple[int, int], **options: object) -> bytes:
    out = io.BytesIO()
    Image.new(mode, size).save(out, kind, **options)  # type: ignore[arg-type]
    return out.getvalue()


def _claimed_png(width: int, height: int) -> bytes:
    """Return a few bytes that claim to be a huge image."""
    heading = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    rows = zlib.compress(b"\0" * 4_000_000, 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", heading) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def _text_bomb() -> bytes:
    """Return a small image with 60 MB of compressed text."""
    plain = _image("PNG", "RGB", (10, 10))

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    text = b"".join(chunk(b"zTXt", b"k%d\0\0" % n + zlib.compress(b"x" * 1_000_000, 9)) for n in range(60))
    return plain[:33] + text + plain[33:]


def images(box: Box, seconds: float) -> Statuses:
    """Editor: images at and above the limit of pixels."""
    headers = box.browser(Role.EDITOR)
    files = [
        _image("JPEG", "RGB", (6_300, 6_300)),
        _image("JPEG", "RGB", (4_000, 4_000), progressive=True, subsampling=0),
        _image("JPEG", "CMYK", (4_000, 4_000), progressive=True),
        _image("PNG", "RGBA", (4_000, 4_000)),
        _image("PNG", "P", (6_300, 6_300)),
        _claimed_png(6_300, 6_300),
        _text_bomb(),
    ]
    requests = []
    for content in files:
        kind, body = multipart({"location_id": "1", "csrf": headers["X-CSRF-Token"]}, "image", content)
        requests.append(request("POST", "/plans", {**headers, "Content-Type": kind}, body))
    return send_all(box, seconds, requests)


def tables(box: Box, seconds: float) -> Statuses:
    """Editor: files of 6.9 MB with as many rows or cells as possible."""
    headers = box.browser(Role.EDITOR)
    files = [
        b"external_key,name\n" + b"a,\n" * 2_300_000,
        b"external_key,name\n" + b"ab," * 2_300_000,
        b"external_key,name\n" + b'"a\n",' * 1_300_000,
        b"external_key,name\n" + "\U0001f4a9".encode() * 1_700_000,
    ]
    requests = []
    for content in files:
        kind, body = multipart({"kind": "asset", "csrf": headers["X-CSRF-Token"]}, "file", content[:6_900_000])
        requests.append(request("POST", "/import", {**headers, "Content-Type": kind}, body))
    return send_all(box, seconds, requests)


def workbooks(box: Box, seconds: float) -> Statuses:
    """Editor: small Excel files with rows of another namespace, a huge cell, attribute or shared text."""
    headers = box.browser(Role.EDITOR)
    cells = b"<row>" + (b"<x/>" * 9_000 + b'<o:row xmlns:o="o"/>') * 400 + b"</row>"
    contents = [
        {SHEET: sheet(cells)},
        {SHEET: sheet(b'<row><c t="str"><v>' + b"x" * 110_000_000 + b"</v></c></row>")},
        {SHEET: sheet(b'<row><c t="' + b"x" * 60_000_000 + b'"/></row>')},
        {"xl/sharedStrings.xml": SHARED % ((b"<r/>" * 9_000 + b'<o:si xmlns:o="o"/>') * 400)},
    ]
    requests = []
    for parts in contents:
        name, part = parts.popitem()
        kind, body = multipart({"kind": "asset", "csrf": headers["X-CSRF-Token"]}, "file", with_part(name, part))
        requests.append(request("POST", "/import", {**headers, "Content-Type": kind}, body))
    return send_all(box, seconds, requests)


def kept_tables(box: Box, seconds: float) -> Statuses:
    """Editor: many tables at the limit, each stored for its import."""
    headers = box.browser(Role.EDITOR)
    long = "x" * 90
    rows = "".join(f"K-{n},{long},{n}\n" for n in range(50_000))
    kind, body = multipart(
        {"kind": "asset", "csrf": headers["X-CSRF-Token"]}, "file", f"external_key,name,rfid\n{rows}".encode()
    )
    return send_all(box, seconds, [request("POST", "/import", {**headers, "Content-Type": kind}, body)])


# Answers ----------------------------------------------------------------------------------------------------------


def unread_answers(box: Box, seconds: float) -> Statuses:
    """Unauthenticated: connections that pipeline requests and read nothing."""
    statuses = Statuses()
    asked = [head("GET", path, {}) for path in (LARGE_FILE, "/openapi.json")]
    with ExitStack() as crowd:
        clients = []
        for number in range(AT_ONCE - 2):
            one = socket.socket()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.settimeout(PATIENCE)
            clients.append(crowd.enter_context(one))
            one.connect(box.address)
            with suppress(OSError):
                one.sendall(asked[number % 2] * 40)
                statuses["sent"] += 1
        time.sleep(seconds)
    return statuses


def slow_readers(box: Box, seconds: float) -> Statuses:
    """Two viewers: downloads that are not read."""
    return _read_slowly(box, seconds, "/export/history.csv?from=2000-01-01", 0)


def trickling_readers(box: Box, seconds: float) -> Statuses:
    """Two viewers: downloads that are read slowly."""
    return _read_slowly(box, seconds, "/export/history.csv?from=2000-01-01", 100)


def _read_slowly(box: Box, seconds: float, path: str, at_once: int) -> Statuses:
    statuses, end = Statuses(), time.monotonic() + seconds
    with ExitStack() as crowd:
        clients = []
        for number in range(AT_ONCE - 2):
            one = socket.socket()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.settimeout(PATIENCE)
            clients.append(crowd.enter_context(one))
            one.connect(box.address)
            one.sendall(head("GET", path, box.browser((Role.VIEWER, Role.OPERATOR)[number % 2])))
        begun = set()
        while time.monotonic() < end:
            for one in select.select(clients, [], [], 0)[0]:
                if one in begun and not at_once:
                    continue
                content = b""
                with suppress(OSError):
                    content = one.recv(max(at_once, 12))
                if one not in begun:
                    statuses[content[9:12].decode("latin-1") or "closed"] += 1
                    begun.add(one)
                if not content:
                    clients.remove(one)
            time.sleep(0.1)
    return statuses


def api_lists(box: Box, seconds: float) -> Statuses:
    """API key: the longest lists without reading them, and searches that match everything."""
    bearer = box.bearer(box.accounts.key)
    paths = [
        "/api/v1/assets?limit=200&q=" + "a" * 240,
        "/api/v1/assets?limit=200&offset=50",
        "/api/v1/reports/asset-locations?limit=200",
    ]
    return send_all(box, seconds, [request("GET", path, bearer) for path in paths])


def large_lists(box: Box, seconds: float) -> Statuses:
    """Site and API key: lists of records of the maximum size."""
    path = "/api/v1/assets?limit=200&sort=-name"
    asked = zlib.compress(b'{"after":0,"epoch":"","page":0}')
    requests = [
        request("GET", path, box.bearer(box.accounts.key)),
        request("POST", "/sync/v1/masters", box.bearer(box.accounts.site), asked),
    ]
    return send_all(box, seconds, requests, addresses=5)


def exports(box: Box, seconds: float) -> Statuses:
    """Viewer and operator: tables of large records and many tags, as CSV and Excel."""
    paths = [f"/export/records/{kind}.csv{end}" for kind in ("asset", "tag") for end in ("", "?separator=xlsx")]
    headers = [box.browser(role) for role in (Role.VIEWER, Role.OPERATOR, Role.EDITOR)]
    return send_all(box, seconds, [request("GET", path, one) for path in paths for one in headers])


def pages(box: Box, seconds: float) -> Statuses:
    """Administrator: all pages at the same time."""
    headers = box.browser(Role.ADMINISTRATOR)
    paths = ["/", "/assets", "/locations", "/readers", "/status", "/audit", "/export/board.csv", "/labels.pdf", "/past"]
    return send_all(box, seconds, [request("GET", path, headers) for path in paths])


def queries(box: Box, seconds: float) -> Statuses:
    """Unauthenticated: heads of 64 KB with as many arguments, cookies and headers as possible."""
    arguments = urlencode([(f"{n:x}", "") for n in range(9_000)])[:60_000]
    cookies = "; ".join(f"{n:x}=" for n in range(9_000))[:60_000]
    headers = {f"X{n}": "" for n in range(6_000)}
    return send_all(
        box,
        seconds,
        [
            request("GET", f"/sign-in?{arguments}", {}),
            request("GET", "/sign-in", {"Cookie": cookies}),
            request("GET", "/sign-in", headers),
        ],
    )


# Every route ------------------------------------------------------------------------------------------------------


def bodies_of(box: Box, rules: Iterable[Rule]) -> list[bytes]:
    """Return the largest requests for each route with a body and each media type.

    The sender has the most permissions for the route: a site, an API key or an administrator.
    """
    site, key = box.bearer(box.accounts.site), box.bearer(box.accounts.key)
    person = box.browser(Role.ADMINISTRATOR)
    many_objects, many_fields = small_objects(1_000_000), "&".join(f"{n:x}=" for n in range(150_000)).encode()[:499_000]
    table, upload = multipart({"csrf": person["X-CSRF-Token"]}, "file", b"a,\n" * 2_000_000)
    requests = []
    for rule in sorted(rules, key=lambda rule: "sign-out" in rule.rule):  # it ends the administrator's session
        path = re.sub("<[^>]*>", "1", rule.rule)
        for method in sorted((rule.methods or set()) & {"POST", "PATCH", "PUT"}):
            if path.startswith("/sync/"):
                requests.append(request(method, path, site, zlib.compress(small_objects(32_000_000), 9)))
            elif path.startswith("/api/"):
                kind = "application/merge-patch+json" if method == "PATCH" else JSON
                requests.append(request(method, path, {**key, "Content-Type": kind}, many_objects))
            else:
                forms = ((JSON, many_objects), (FORM, many_fields), (table, upload))
                requests += [request(method, path, {**person, "Content-Type": kind}, body) for kind, body in forms]
    return requests


def every_body(box: Box, seconds: float) -> Statuses:
    """Administrator, API key and site: the largest bodies for each route with a body."""
    requests = bodies_of(box, make_app().url_map.iter_rules())
    statuses, end = Statuses(), time.monotonic() + seconds

    def send(content: bytes) -> str:
        with suppress(OSError), connect(box) as one:
            with suppress(OSError):
                one.sendall(content)
            return one.recv(4096)[9:12].decode() or "closed"
        return "closed"

    with ThreadPoolExecutor(4) as few:  # every body is accepted and parsed
        statuses.update(few.map(send, requests))
    with ThreadPoolExecutor(AT_ONCE) as crowd:
        while time.monotonic() < end:
            statuses.update(crowd.map(send, requests))
    return statuses


# Readers ----------------------------------------------------------------------------------------------------------

TAGS_IN_MESSAGE = 2_500
TAGS_A_SECOND = 200_000  # above this the broker's queue is full


def unknown_tags(box: Box, seconds: float) -> Statuses:
    """Reader: messages full of unmatched tags, more than can be recorded in time."""
    tags, began = int(TAGS_A_SECOND * seconds), time.monotonic()

    def flood() -> Iterator[bytes]:
        for first in range(0, tags, TAGS_IN_MESSAGE):
            time.sleep(max(0.0, began + first / TAGS_A_SECOND - time.monotonic()))
            yield b'{"tags":[%s]}' % b",".join(b'{"epc":"%024X"}' % (first + n) for n in range(TAGS_IN_MESSAGE))

    box.broker.publish(TOPIC, flood())
    return Statuses(tags=tags)


ATTACKS: Mapping[str, Attack] = {
    one.__name__: one
    for one in (
        *(join, api_bodies, token_bodies, forms, scans, unfinished_bodies, endless_chunk_lines, hello, sync_numbers),
        *(
            images,
            tables,
            kept_tables,
            unread_answers,
            slow_readers,
            trickling_readers,
            api_lists,
            large_lists,
            exports,
            workbooks,
            escaped_forms,
            undone_sweeps,
            pages,
            queries,
            every_body,
            unknown_tags,
            partners,
        ),
    )
}
