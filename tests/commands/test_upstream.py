"""`edge upstream`: records at another service, from the shell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge.database.connection import close_database
from edge.people import organizations, secrets
from edge.upstream import upstreams
from edge.upstream.worker import UpstreamWorker
from tests.commands.conftest import Shell
from tests.sync import tls
from tests.upstream.service import SECRET, Service
from tests.upstream.strict_service import CLIENT_ID, StrictService
from tests.upstream.strict_service import SECRET as STRICT_SECRET


@pytest.fixture
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("other") / "service")
    running.start()
    yield running
    running.stop()


def add(edge: Shell, service: Service) -> str:
    access = service.access
    options = ("--client-id", access.client_id, "--network", "loopback")
    return edge.ok("upstream", "add-v1", access.url, *options, typed=f"{SECRET}\n")


def work(until: int) -> None:
    """Work like the thread of the service, for some rounds."""
    worker = UpstreamWorker(None, lambda: False)
    for _ in range(until):
        worker.work_once(upstreams.all_upstreams())
    worker.close()


def test_from_the_first_to_the_last_day(service: Service, edge: Shell, tmp_path: Path) -> None:
    edge.ok("asset", "add", "Pallet", "--key", "P-1")
    assert "Signed in as Acme" in add(edge, service)
    close_database()
    assert SECRET.encode() not in b"".join(file.read_bytes() for file in tmp_path.glob("edge.db*"))
    edge.ok("upstream", "show")
    work(5)
    assert service.rows("SELECT external_key, name FROM asset") == [("P-1", "Pallet")]
    shown = edge.ok("upstream", "show")
    assert re.search(r"State +working", shown)
    assert re.search(r"Records there +1", shown)
    assert "WHY" not in shown
    edge.ok("upstream", "pause")
    assert re.search(r"State +paused", edge.ok("upstream", "show"))
    edge.ok("upstream", "resume")
    edge.ok("upstream", "compare")
    edge.ok("upstream", "remove", "--yes")
    assert "There is no upstream" in edge("upstream", "show")[1]


def test_a_conflict_is_listed_and_decided(service: Service, edge: Shell) -> None:
    with service.in_use():
        service.add_asset("P-1", "Theirs")
    edge.ok("asset", "add", "Ours", "--key", "P-1")
    add(edge, service)
    work(5)
    assert service.rows("SELECT name FROM asset") == [("Theirs",)]
    assert re.search("asset +P-1 .*changed there +exists there with another name", edge.ok("upstream", "show"))
    assert edge("upstream", "overwrite")[0] != 0
    assert "None of these" in edge("upstream", "overwrite", "P-2")[1]
    assert "1 will be overwritten" in edge.ok("upstream", "overwrite", "P-1")
    work(5)
    assert service.rows("SELECT name FROM asset") == [("Ours",)]
    assert "WHY" not in edge.ok("upstream", "show")


def test_credentials_are_checked_first(service: Service, edge: Shell) -> None:
    access = service.access
    options = ("--client-id", access.client_id, "--network", "loopback")
    code, text = edge("upstream", "add-v1", access.url, *options, typed="edge_wrong\n")
    assert code == 1
    assert "rejects the credentials" in text
    assert "https://" in edge("upstream", "add-v1", "http://assets.example", *options, typed="x")[1]
    add(edge, service)
    code, text = edge("upstream", "new-secret", typed="edge_wrong\n")
    assert code == 1
    edge.ok("upstream", "new-secret", typed=f"{SECRET}\n")
    row = upstreams.get(organizations.find_organization(None).id)
    assert secrets.unseal(row.secret) == SECRET


def test_a_bridge_from_the_shell(edge: Shell, tmp_path: Path) -> None:
    broker = ("--set", "mqtt.broker=mqtt://127.0.0.1:1883")
    url = ("mqtts://broker.example", "--user", "acme")
    assert "There are no readers" in edge(*broker, "upstream", "bridge", *url, typed="secret\n")[1]
    edge.ok("reader", "add", "Portal", "--topic", "portal/1", "--format", "edge")
    assert "embedded broker has no bridges" in edge("upstream", "bridge", *url, typed="secret\n")[1]
    text = edge.ok(*broker, "upstream", "bridge", *url, typed="secret\n")
    [file] = tmp_path.glob("zz-edge-upstream-*.conf")
    assert f"sudo install -o mosquitto -m 600 {file} /etc/mosquitto/conf.d/{file.name}" in text
    assert "sudo systemctl restart mosquitto" in text
    assert file.stat().st_mode & 0o777 == 0o600
    assert {"remote_password secret", "topic portal/1 out 1"} <= {*file.read_text().splitlines()}
    assert "secret" not in text
    text = edge.ok("upstream", "remove-bridge", "--yes")
    assert f"sudo rm /etc/mosquitto/conf.d/{file.name}" in text
    assert not file.exists()


def test_an_authority_that_mosquitto_may_not_read(edge: Shell, tmp_path: Path) -> None:
    """mosquitto would start, and never connect the bridge."""
    edge.ok("reader", "add", "Portal", "--topic", "portal/1", "--format", "edge")
    bridge = ("--set", "mqtt.broker=mqtt://127.0.0.1:1883", "upstream", "bridge", "mqtts://broker.example", "--ca")
    private = tmp_path / "ca.pem"
    private.write_text("certificate")
    private.chmod(0o640)
    for file in (private, tmp_path / "missing.pem"):
        assert (
            "sudo install -m 644 CERTIFICATE /etc/mosquitto/ca_certificates/upstream.pem" in edge(*bridge, str(file))[1]
        )
    assert not [*tmp_path.glob("zz-edge-upstream-*.conf")]
    edge.ok(*bridge, "/etc/passwd")


def test_the_values_of_the_service_can_be_kept(service: Service, edge: Shell) -> None:
    with service.in_use():
        service.add_asset("P-1", "Theirs")
    edge.ok("asset", "add", "Ours", "--key", "P-1")
    add(edge, service)
    work(5)
    assert "None of these" in edge("upstream", "keep", "P-2")[1]
    assert "1 changed here" in edge.ok("upstream", "keep", "P-1")
    assert "Theirs" in edge.ok("asset", "list")
    work(5)
    assert "WHY" not in edge.ok("upstream", "show")
    assert service.rows("SELECT name FROM asset") == [("Theirs",)]


@pytest.mark.real_time
def test_an_authority_of_ones_own(edge: Shell, tmp_path: Path) -> None:
    made, other = tls.make(tmp_path / "tls"), tls.make(tmp_path / "other")
    with StrictService(tls=(made.file, made.key)).running() as service:
        options = (service.url, "--client-id", CLIENT_ID, "--network", "loopback")
        code, text = edge("upstream", "add-v1", *options, typed=f"{STRICT_SECRET}\n")
        assert code == 1
        assert "certificate is rejected" in text
        code, text = edge("upstream", "add-v1", *options, "--ca", str(other.authority), typed=f"{STRICT_SECRET}\n")
        assert code == 1
        text = edge("upstream", "add-v1", *options, "--ca", str(made.key), typed=f"{STRICT_SECRET}\n")[1]
        assert "PEM file with certificates" in text
        trusted = ("--ca", str(made.authority))
        assert "Signed in as Acme" in edge.ok("upstream", "add-v1", *options, *trusted, typed=f"{STRICT_SECRET}\n")
        edge.ok("upstream", "new-ca", str(made.authority))
        assert STRICT_SECRET not in edge.ok("upstream", "show")
