"""Probation: observations of a running service."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from edge import clock
from edge.audit.actors import shell
from edge.cli import cli
from edge.database.connection import writing
from edge.operations.own_address import local_address
from edge.operations.upgrade import probation_sources as sources
from edge.operations.upgrade.trial import start_limit
from edge.people import organizations
from edge.readers import ledger, readers
from edge.readers.ledger import Bucket, Tally
from edge.records import locations

METRICS = 'edge_http_request_seconds_count{method="GET",route="/",status="500"} 7.0\n'


class Answering(BaseHTTPRequestHandler):
    errors = ""
    missing: tuple[str, ...] = ()

    def do_GET(self) -> None:
        self.send_response(404 if self.path in self.missing else 200)
        self.end_headers()
        self.wfile.write(self.errors.encode() if self.path == "/metrics" else b"ok")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[tuple[str, type[Answering]]]:
    class Own(Answering):
        pass

    server = HTTPServer(("127.0.0.1", 0), Own)
    threading.Thread(target=server.serve_forever).start()
    yield f"127.0.0.1:{server.server_port}", Own
    server.shutdown()
    server.server_close()


@pytest.fixture
def site(store: Path) -> Path:
    organization_id = organizations.add_organization(shell(), "Acme").id
    dock = locations.create(shell(organization_id), name="Dock").id
    readers.add_reader(shell(organization_id), name="dock", topic="dock", format="csl", location_id=dock)
    count(10)
    return store


def count(reads: int) -> None:
    organization_id = organizations.find_organization(None).id
    reader_id = readers.list_readers(organization_id)[0].id
    hour = ledger.hour_of(clock.now())
    tally, other = Tally(reader_id, hour, Bucket.RECORDED), Tally(reader_id, hour, Bucket.UNMATCHED_TAG)
    with writing():
        ledger.add({tally: reads, other: 1}, {tally: reads, other: 2})


def edge(site: Path, listen: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [f"--set=data_dir={site}", f"--set=http.listen={listen}", *arguments])


def test_an_observation_is_made_of_the_answers_and_the_ledger(site: Path, service: tuple[str, type[Answering]]) -> None:
    address, answering = service
    answering.errors = METRICS
    seen = sources.observe(local_address(address), 0)
    assert (seen.unanswered, seen.not_ready, seen.errors) == ("", "", 7)
    assert seen.readers == {"reader dock of Acme": (11, 10), "format csl": (11, 10)}
    answering.missing = ("/sign-in", "/readyz")
    assert sources.observe(local_address(address), 0).unanswered == "/sign-in"


def test_the_memory_of_a_unit_without_a_limit_is_no_fault() -> None:
    assert sources.memory_share({"MemoryCurrent": "100", "MemoryMax": "200"}) == 0.5
    for used, limit in (("[not set]", "200"), ("100", "infinity"), ("18446744073709551615", "200"), ("1", "0")):
        assert sources.memory_share({"MemoryCurrent": used, "MemoryMax": limit}) == 0.0
    assert sources.memory_share({}) == 0.0


@pytest.mark.parametrize(
    ("state", "result", "is_stopped"),
    [
        ("inactive", "success", True),
        ("deactivating", "success", True),
        ("active", "success", False),
        ("activating", "exit-code", False),
        ("deactivating", "watchdog", False),
        ("failed", "exit-code", False),
        ("inactive", "exit-code", False),
    ],
)
def test_only_a_clean_stop_is_the_will_of_an_administrator(state: str, result: str, is_stopped: bool) -> None:
    assert sources.is_stopped({"ActiveState": state, "Result": result}) == is_stopped
    assert not sources.is_stopped({})


def test_what_was_noted_before_the_switch_judges_the_release_after_it(
    site: Path, service: tuple[str, type[Answering]]
) -> None:
    address, answering = service
    file = site / "probation.json"
    for _ in range(3):
        assert edge(site, address, "note-reads", str(file)).exit_code == 0
        count(1_000)
    noted = json.loads(file.read_text())
    assert noted["was_ready"]
    name = "reader dock of Acme"
    assert [sample[1][name][0] for sample in noted["samples"]] == [11, 2_013]
    assert edge(site, address, "note-reads", "--at-switch", str(file)).exit_code == 0
    after = json.loads(file.read_text())
    assert after["at_switch"] == {name: [3_014, 3_010], "format csl": [3_014, 3_010]}
    assert {**after, "at_switch": 0} == {**noted, "at_switch": 0}
    assert edge(site, address, "watch-upgrade", str(file), "--seconds", "0").exit_code == 0
    answering.errors = METRICS
    result = edge(site, address, "watch-upgrade", str(file), "--seconds", "600")
    assert "7 requests failed with an internal error" in str(result.exception)


@pytest.mark.parametrize("text", ["", "[]", '{"samples": 1}'])
def test_without_notes_the_service_itself_is_watched(
    site: Path, service: tuple[str, type[Answering]], text: str
) -> None:
    (site / "probation.json").write_text(text)
    assert edge(site, service[0], "watch-upgrade", str(site / "probation.json"), "--seconds", "0").exit_code == 0


def test_a_start_at_the_site_may_take_twice_as_long_as_in_the_trial() -> None:
    assert start_limit(0.9, 0.0) == 5
    assert start_limit(4.0, 0.0) == 8
    assert start_limit(0.9, 30.0) == 65


def test_the_address_of_a_service_that_listens_everywhere_is_this_box() -> None:
    assert local_address("0.0.0.0:8080") == "http://127.0.0.1:8080"
    assert local_address("[::]:80") == "http://[::1]:80"
    assert local_address("192.0.2.7:8080") == "http://192.0.2.7:8080"
