"""`edge config change` and `reset` while the service runs."""

from __future__ import annotations

import http.client
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from edge.config.settings import Config
from edge.database.connection import FILE_NAME, close_database, execute
from edge.runtime import serve
from tests.commands.conftest import Shell
from tests.mosquitto import free_port
from tests.service import wait_for


def test_a_setting_is_changed_shown_with_who_did_it_and_reset(edge: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "anna")
    assert "within seconds" in edge.ok("config", "change", "retention.history_days", "90")
    assert "retention.history_days = 90" in edge.ok("config")
    assert "[changed by anna]" in edge.ok("config")
    assert "Setting changed" in edge.ok("audit")
    edge.ok("config", "reset", "retention.history_days")
    assert "retention.history_days = 400" in edge.ok("config")
    assert "restart edge" in edge.ok("config", "change", "ingest.smoothing", "off")


def test_no_name_adds_a_line_to_the_settings(edge: Shell) -> None:
    """Root scripts parse the settings by line."""
    edge.ok("config", "change", "retention.history_days", "90")
    execute("UPDATE setting SET changed_by = ?", ("anna\nhttp.listen = 0.0.0.0:1",))
    said = edge.ok("config")
    assert "[changed by anna\\nhttp.listen = 0.0.0.0:1]" in said
    assert [line for line in said.splitlines() if line.startswith("http.listen")] == ["http.listen = 0.0.0.0:8080"]


@pytest.mark.parametrize("url", ["postgresql://edge:geheim@db.lan/edge?password=geheim", "host=db.lan password=geheim"])
def test_the_password_of_the_history_is_not_shown(edge: Shell, url: str) -> None:
    settings = edge.ok("--set", f"hub.history={url}", "config")
    assert "geheim" not in settings
    assert "hub.history = " in settings


def test_what_is_wrong_is_refused_with_what_to_write(edge: Shell) -> None:
    code, said = edge("config", "change", "retention.history_days", "0")
    assert (code, "Write a whole number from 1 to 36500" in said) == (1, True)
    code, said = edge("config", "change", "http.listen", "0.0.0.0:9")
    assert (code, "retention.history_days" in said) == (2, True)


def test_a_database_that_cannot_be_read_hides_no_setting(bare: Shell, tmp_path: Path) -> None:
    (tmp_path / "edge.db").write_bytes(b"no database at all" * 1000)
    code, said = bare("config")
    assert code == 0
    assert "retention.history_days = 400" in said
    assert "settings saved on pages cannot be read" in said


def test_a_running_service_follows(edge: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "set_up_log", lambda _: None)
    close_database()
    port = free_port()
    config = Config(data_dir=tmp_path, mqtt_broker=f"mqtt://127.0.0.1:{free_port()}", http_listen=f"127.0.0.1:{port}")

    def zone() -> str:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/sign-in")
        page = connection.getresponse().read().decode()
        connection.close()
        return page.split('data-zone="')[1].split('"')[0]

    with serve.running(config):
        before = zone()
        edge.ok("config", "change", "pages.time_zone", "America/Lima")
        wait_for(lambda: zone() == "America/Lima", 20)
        edge.ok("config", "reset", "pages.time_zone")
        wait_for(lambda: zone() == before, 20)


def test_commands_do_not_checkpoint_while_the_service_runs(edge: Shell, tmp_path: Path) -> None:
    """Checkpointing from two processes can damage the file in SQLite before 3.51.3."""
    close_database()
    with closing(sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)) as service:
        service.execute("PRAGMA wal_autocheckpoint = 0")
        service.execute("CREATE TABLE large AS SELECT zeroblob(8000000)")
        before = (tmp_path / FILE_NAME).stat().st_size
        edge.ok("config", "change", "retention.history_days", "90")
        close_database()
        assert (tmp_path / FILE_NAME).stat().st_size == before
