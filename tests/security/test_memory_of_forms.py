"""Parsing a form takes many times its size: the budget counts an upper bound before it is parsed."""

from __future__ import annotations

import http.client
import io
import itertools
import string
import tracemalloc

import pytest
from flask import Flask, Request, request

from edge.errors import TooLarge
from edge.memory_budget import MOST_OF_REQUEST, SMALL
from edge.server.receiving import Body
from tests.server.test_server import serving

SIZE = 100_000
FORM = "application/x-www-form-urlencoded"
PARTS = "multipart/form-data; boundary=X"
NAMES = ["".join(letters) for letters in itertools.islice(itertools.product(string.ascii_letters, repeat=4), SIZE // 5)]
FORMS = {
    "escaped commas": b"%2C" * (SIZE // 3),
    "percent signs": b"%" * SIZE,
    "escaped letters between others": b"%2Cabcd" * (SIZE // 7),
    "invalid bytes": b"%FF" * (SIZE // 3),
    "Chinese between ASCII": b"%" + "中a".encode() * (SIZE // 4),
    "emoji between ASCII": b"%" + "😀ab".encode() * (SIZE // 6),
    "one emoji": b"x" * SIZE + b"%F0%9F%98%80",
    "names": "&".join(NAMES).encode(),
    "names and values": "=&".join(NAMES).encode(),
    "escaped names": "&".join(f"%41{name}" for name in NAMES).encode(),
    "one text": b"a=" + b"x" * SIZE,
}
LINE = b"\r\n".join(f"{name}:{name}".encode() for name in NAMES[:500])
FILE = b'--X\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n'
TEXT = b'--X\r\nContent-Disposition: form-data; name="a"\r\n\r\n'
WIDE = b"x" * SIZE + "😀".encode()
FILES = {
    "heads": (FILE + LINE + b"\r\n\r\nv\r\n") * 20,
    "heads of single characters": (FILE + b"\r".join([b"a"] * 3000) + b"\r\n\r\nv\r\n") * 15,
    "parameters": (FILE[:-2] + b";a=b" * 1000 + b"\r\n\r\nv\r\n") * 20,
    "many files": (FILE + b"\r\nv\r\n") * 990,
    "one emoji": TEXT + WIDE,
    "a text named like a file": b'--X\r\nContent-Disposition: form-data; name="filename="\r\n\r\n' + WIDE,
    "an unclosed name of a file": TEXT[:-4] + b'; filename="x\r\n\r\n' + WIDE,
    "an escaped end of a name": TEXT[:-4] + b'; filename="x\\"\r\n\r\n' + WIDE,
    "a boundary inside of a line": TEXT + b"x" + FILE + b"\r\n" + WIDE,
    "a boundary after a space": TEXT + b" " + FILE + b"\r\n" + WIDE,
    "a line that begins like a boundary": TEXT + b"x\r\n--Xy" + WIDE,
    "a first boundary inside of a line": b"x" + TEXT + WIDE,
    "one file": FILE + b"\r\n" + b"x\n" * SIZE,
}
CASES = [(FORM, name, body) for name, body in FORMS.items()] + [
    (PARTS, name, body + b"\r\n--X--\r\n") for name, body in FILES.items()
]


def counted(body: bytes, kind: str) -> int:
    received = Body(1024, "")
    received.append(body)
    try:
        return received.cost(kind)
    except TooLarge:
        return MOST_OF_REQUEST
    finally:
        received.close()


def taken(body: bytes, kind: str) -> int:
    environ = {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body)), "CONTENT_TYPE": kind}
    tracemalloc.start()
    try:
        with Request({**environ, "REQUEST_METHOD": "POST"}) as parsed:
            assert parsed.form or parsed.files
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("kind", "name", "body"), CASES, ids=[f"{kind[:9]}-{name}" for kind, name, _ in CASES])
def test_a_form_takes_no_more_memory_than_the_budget_counts(kind: str, name: str, body: bytes) -> None:
    taken(body, kind)  # tables that Python builds once
    assert len(body) > SMALL
    assert taken(body, kind) <= counted(body, kind) + SMALL


@pytest.mark.parametrize("kind", [FORM, FORM.title(), PARTS, PARTS.title()])
def test_a_form_that_takes_much_is_refused_before_it_is_parsed(kind: str) -> None:
    app = Flask("forms")
    app.add_url_rule("/", "form", lambda: str(len(request.form) + len(request.files)), methods=["POST"])
    body = b"a=" + b"%2C" * 330_000 if "form-url" in kind.lower() else (FILE + LINE + b"\r\n\r\nv\r\n") * 150
    with serving(app) as listener:
        client = http.client.HTTPConnection("127.0.0.1", int(listener.effective_port), timeout=60)
        client.request("POST", "/", body, {"Content-Type": kind})
        assert client.getresponse().status == 413
        client.close()


def test_large_files_and_usual_forms_are_taken() -> None:
    table = b"urn:epc:id:sgtin:0614141.107346.2017;Pallet;12:30:00\r\n" * 130_000
    assert counted(FILE + b"\r\n" + table + b"\r\n--X--\r\n", PARTS) < 2.1 * len(table)
    assert counted(b"text=" + b"3034257BF7194E4000001A85%0D%0A" * 20_000, FORM) < MOST_OF_REQUEST
