"""Every place that reads from a socket, an uploaded file or a body names the constant that bounds it.

A new place fails this test until it is listed with its bound. Forms have one bound for all: `Body.cost`.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator

import pytest

from edge.memory_budget import WORK
from tests.audit.writers import EDGE

NETWORK = ("socket", "ssl", "smtplib", "urllib.request", "http.client", "paho")
READS = {"recv", "recv_into", "read", "readline", "readlines", "makefile", "getresponse", "urlopen"}
CLIENTS = {"Client", "SMTP", "HTTPConnection", "HTTPSConnection"}
BODY = {"files", "stream", "json", "data", "get_data", "get_json"}

BOUNDS = {
    # bodies of requests; each is counted by `Body` first, forms with what parsing takes
    "api/guard.py request.get_data": "api.guard:MAX_BODY",
    "api/sync.py request.get_data": "sync.batch_format:MAX_BODY",
    "pages/forms.py request.get_json": "pages.guard:MAX_BODY",
    "pages/handhelds/parcels.py request.get_data": "pages.handhelds.parcels:MAX_PHOTO",
    "pages/expected_lists/expected_lists.py request.files": "pages.expected_lists.expected_lists:MAX_FILE",
    "pages/records/csv_import.py request.files": "pages.guard:MAX_UPLOAD",
    "pages/tracking/floor_plans.py request.files": "pages.guard:MAX_UPLOAD",
    "pages/kept_forms.py request.files": "pages.guard:MAX_UPLOAD",  # only asks whether there are any
    "server/receiving.py Parser": "server.receiving:MAX_BODY",
    "server/channels.py Channel": "server.receiving:MAX_BODY",
    # answers of partners
    "events/checked_connection.py CheckedConnection(HTTPConnection)": "sync.client:MAX_ANSWER",
    "events/checked_connection.py getresponse": "sync.client:MAX_ANSWER",
    "events/checked_connection.py read": "events.checked_connection:_PIECE",
    "events/mqtt_session.py Client(Client)": "events.mqtt_session:MAX_PACKET",
    "ingest/sessions.py Client(Client)": "events.mqtt_session:MAX_PACKET",  # through `Wire`
    "ingest/mqtt_framing.py recv": "ingest.mqtt_framing:READ_BYTES",
    "rules/channels/kinds/email/mail.py _Connection(SMTP)": "rules.channels.kinds.email.mail:MAX_ANSWER",
    "rules/channels/kinds/email/mail.py makefile": "rules.channels.kinds.email.mail:MAX_ANSWER",
    "rules/channels/kinds/email/mail.py readline": "rules.channels.kinds.email.mail:MAX_ANSWER",
    "upstream/client.py Client": "upstream.answers:MAX_ANSWER",
    # commands in a shell of the box, which ask this box itself
    "operations/doctor/box.py urlopen": "operations.doctor.box:MAX_ANSWER",
    "operations/doctor/box.py read": "operations.doctor.box:MAX_ANSWER",
    "operations/upgrade/probation_sources.py urlopen": "operations.upgrade.probation_sources:_MOST_BYTES",
    "operations/upgrade/probation_sources.py read": "operations.upgrade.probation_sources:_MOST_BYTES",
}
OF_A_CONSTANT_SIZE = {
    "ingest/subscriber.py recv": "wakes its own thread",
    "runtime/stop_signal.py recv": "wakes its own thread",
    "operations/doctor/https.py read": "asks this box for /healthz",
    "operations/doctor/https.py recv": "asks the broker of this box for its first bytes",
}
APART_FROM_THE_SERVICE = {
    "operations/root/service.py urlopen": "reads only the status",
    "operations/upgrade/trial.py urlopen": "asks the tried release, in a process of its own",
    "operations/upgrade/trial.py read": "asks the tried release, in a process of its own",
    "demo/publishing.py Client": "publishes for the demo, in a process of its own",
}


def inputs() -> Iterator[str]:
    """Yield the places that read what others send."""
    for path in sorted(EDGE.rglob("*.py")):
        tree, name = ast.parse(path.read_text()), path.relative_to(EDGE).as_posix()
        nodes = list(ast.walk(tree))
        imported = {one.name for node in nodes if isinstance(node, ast.Import) for one in node.names}
        imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        is_network = any(module.startswith(NETWORK) for module in imported)
        for node in nodes:
            found = _of_body(node) or (is_network and _of_network(node))
            if found:
                yield f"{name} {found}"


def _of_body(node: ast.AST) -> str:
    if isinstance(node, ast.ClassDef):
        bases = {ast.unparse(base) for base in node.bases}
        return node.name if bases & {"HTTPRequestParser", "HTTPChannel"} else ""
    is_request = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "request"
    return f"request.{node.attr}" if is_request and node.attr in BODY else ""  # type: ignore[attr-defined]


def _of_network(node: ast.AST) -> str:
    if isinstance(node, ast.ClassDef):
        bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        return f"{node.name}({min(bases & CLIENTS)})" if bases & CLIENTS else ""
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func).rpartition(".")[2]
        return called if called in READS | CLIENTS else ""
    return ""


def test_every_place_that_reads_input_has_a_bound() -> None:
    assert set(inputs()) == {*BOUNDS, *OF_A_CONSTANT_SIZE, *APART_FROM_THE_SERVICE}


@pytest.mark.parametrize("bound", sorted(set(BOUNDS.values())))
def test_every_bound_fits_into_the_memory_budget(bound: str) -> None:
    module, _, name = bound.partition(":")
    assert 0 < getattr(importlib.import_module(f"edge.{module}"), name) <= WORK._size // 4


def test_no_read_from_a_network_is_without_a_size() -> None:
    unbounded = set()
    for place in {*BOUNDS, *OF_A_CONSTANT_SIZE}:
        file, _, called = place.partition(" ")
        for node in ast.walk(ast.parse((EDGE / file).read_text())):
            is_unbounded = isinstance(node, ast.Call) and not node.args
            if is_unbounded and called in {"recv", "read", "readline"} and _of_network(node) == called:
                unbounded.add(place)
    assert not unbounded
