"""The whole service under systemd's protocol."""

import ast
import http.client
import json
import re
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from edge.config.settings import Config
from edge.database.connection import close_database
from edge.ingest.pipeline import Pipeline
from edge.operations.files import is_held
from edge.runtime import readiness, serve
from tests.mosquitto import free_port, mosquitto
from tests.service import Service, wait_for

pytestmark = pytest.mark.slow


def test_systemd_hears_ready_signs_of_life_and_that_it_stops(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close_database()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "400000")
        # An absent broker must not cause a restart.
        service = Service(site, f"mqtt://127.0.0.1:{free_port()}")
        service.start()
        try:
            assert systemd.recv(200) == b"READY=1"
            said = [systemd.recv(200) for _ in range(3)]
            assert said[0] == b"WATCHDOG=1"
            assert any(line.startswith(b"STATUS=broker: ") for line in said)
            assert is_held(site)
        finally:
            service.stop()
        rest = []
        while not rest or rest[-1] != b"STOPPING=1":
            rest.append(systemd.recv(200))
    assert not is_held(site)


@pytest.mark.mosquitto
def test_a_stuck_writer_is_not_alive(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    close_database()
    let_go = threading.Event()
    monkeypatch.setattr(Pipeline, "handle_some", lambda _, messages: len(messages) if let_go.wait(60) else 0)
    monkeypatch.setattr(readiness, "WRITER_STUCK_SECONDS", 1.0)
    monkeypatch.setattr(serve, "set_up_log", lambda _: None)
    port = free_port()
    with mosquitto(tmp_path) as broker:
        config = Config(data_dir=site, mqtt_broker=broker.url, http_listen=f"127.0.0.1:{port}")
        with serve.running(config):
            wait_for(lambda: health(port) == (200, True), 20)
            broker.publish("dock", [b"1"])
            try:
                wait_for(lambda: health(port) == (503, False), 20)
            finally:
                let_go.set()
            wait_for(lambda: health(port) == (200, True), 20)


def health(port: int) -> tuple[int, bool]:
    """Return the status of /healthz, and whether broker and ingest are well."""
    status, checks = 0, dict[str, bool]()
    for path in ("/readyz", "/healthz"):
        connection = http.client.HTTPConnection(f"127.0.0.1:{port}", timeout=60)
        connection.request("GET", path)
        answer = connection.getresponse()
        status = answer.status
        checks |= {check["name"]: check["ok"] for check in json.load(answer)["checks"]}
        connection.close()
    return status, checks["broker"] and checks["ingest"]


@pytest.mark.parametrize(("proxy", "status"), [("", 200), ("127.0.0.1", 403)])
def test_only_a_proxy_that_is_named_is_believed_who_its_client_is(site: Path, proxy: str, status: int) -> None:
    """/metrics is for local clients only, so it reveals the client address that the service assumes."""
    close_database()
    service = Service(site, f"mqtt://127.0.0.1:{free_port()}", http__trusted_proxy=proxy)
    service.start()
    try:
        wait_for(lambda: service.has_logged("Serving pages"), 20, service.read_log)
        connection = http.client.HTTPConnection(service.http.removeprefix("http://"), timeout=60)
        connection.request("GET", "/metrics", headers={"X-Forwarded-For": "192.168.1.20"})
        assert connection.getresponse().status == status
        connection.close()
    finally:
        service.stop()


@pytest.mark.parametrize("name", ["edge.service", "edge-backup.service"])
def test_a_unit_starts_what_the_installer_puts_there(name: str) -> None:
    systemd = Path(__file__).parents[2] / "systemd"
    unit = (systemd / name).read_text()
    assert "ExecStart=/opt/edge/venv/bin/edge " in unit
    assert "EDGE_CONFIG=/etc/edge/edge.toml" in unit


def test_nobody_can_guess_as_whom_the_service_signs_in_to_the_broker() -> None:
    """A reader that signs in with this client id would receive the messages queued for the service."""
    systemd = Path(__file__).parents[2] / "systemd"
    assert 'client_id = "edge-@CLIENT_ID@"' in (systemd / "edge.toml").read_text()
    command = re.search(r"@CLIENT_ID@/\$\((.*?)\)/", (systemd / "install.sh").read_text())
    assert command
    made = {subprocess.run(command[1], shell=True, check=True, capture_output=True, text=True).stdout for _ in "ab"}  # noqa: S602
    assert len(made) == 2
    assert all(re.fullmatch(r"[0-9a-f]{16}\n?", name) for name in made)


@pytest.mark.parametrize(
    ("script", "folder", "as_owner"),
    [
        ("install.sh", "$data/", "as_edge "),
    ],
)
def test_root_works_in_a_folder_of_another_user_only_as_that_user(script: str, folder: str, as_owner: str) -> None:
    """A link in such a folder would make root read, give away or replace another file."""
    text = (Path(__file__).parents[2] / "systemd" / script).read_text().replace("\\\n", "")
    uses = [line.strip() for line in text.splitlines() if folder in line]
    assert uses
    harmless = ("[", "if [", "/usr/local/bin/edge ", "rm -rf ")  # the last option: never follow links
    assert [line for line in uses if as_owner not in line and not line.startswith(harmless)] == []


ROOT_CODE = sorted((Path(__file__).parents[2] / "edge/operations/root").glob("*.py"))
OF_OTHERS = r"\b(COPY|COPY_NEW|PENDING|DATABASE|READS|DATA /|wal|(?:broker\.)(?:file|socket|warnings))\b(?!\.parent)"
LOOKS = {"stat", "exists", "is_file", "is_socket", "with_name"}  # they do not follow a link to write or read


@pytest.mark.parametrize("path", ROOT_CODE, ids=lambda path: path.stem)
def test_python_of_root_works_in_a_folder_of_another_user_only_as_that_user(path: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    for call in calls:
        text, does = ast.unparse(call), ast.unparse(call.func)
        if does in ("works", "must", "read", "result", "subprocess.run", "subprocess.Popen") and re.search(
            OF_OTHERS, text
        ):
            assert re.match(r"\w+\((\*_?AS_|\*unit,|'timeout', \w+, EDGE,|'sync', DATA)", text), text
        owner, _, method = does.rpartition(".")
        assert not re.fullmatch(OF_OTHERS, owner) or method in LOOKS, text
        assert not does.startswith(("open", "os.", "shutil.")) or not re.search(OF_OTHERS, text), text


def test_what_runs_as_root_is_confined() -> None:
    unit = (Path(__file__).parents[2] / "systemd" / "edge-accounts.service").read_text().splitlines()
    assert {"NoNewPrivileges=yes", "ProtectSystem=strict", "PrivateNetwork=yes", "InaccessiblePaths=-/etc/edge"} <= {
        *unit
    }
    assert "CapabilityBoundingSet=CAP_CHOWN CAP_SETUID CAP_SETGID" in unit


@pytest.mark.shellcheck
def test_the_scripts_are_clean() -> None:
    systemd = Path(__file__).parents[2] / "systemd"
    first_lines = {path: path.read_bytes().partition(b"\n")[0] for path in systemd.iterdir() if path.is_file()}
    scripts = [path for path, line in first_lines.items() if line.startswith(b"#!") and line.endswith(b"sh")]
    assert len(scripts) >= 5
    others = {line for path, line in first_lines.items() if line.startswith(b"#!") and path not in scripts}
    assert others == {b"#!/usr/bin/python3 -I"}  # checked by ruff and mypy; -I ignores the working directory
    subprocess.run(["shellcheck", *map(str, scripts)], check=True)
