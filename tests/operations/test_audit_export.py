"""The audit on a log server outside of the box."""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from edge.audit import trail
from edge.audit.actors import shell
from edge.config import types
from edge.database.connection import execute, writing
from edge.operations import audit_export
from edge.operations.audit_export import AuditExport, Sent, sent
from edge.operations.doctor import doctor
from edge.operations.doctor.findings import Level, Subject
from edge.people.organizations import list_organizations
from edge.records import assets
from tests.operations.doctor.test_doctor import finding_of, subject, with_settings
from tests.sync import tls

__all__ = ["subject"]

NEVER = lambda _: False  # noqa: E731  a pause that does not stop the job


class LogServer:
    """Keeps what each connection sends."""

    def __init__(self, certificate: tls.Certificate | None = None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._context = None
        if certificate:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(certificate.file, certificate.key)
        self.received = b""
        self._heard = threading.Condition()
        self._ended = 0
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def close(self) -> None:
        self._listener.close()

    def messages(self, connections: int = 1) -> list[tuple[str, dict[str, Any]]]:
        """Return head and content of all messages once so many connections have ended."""
        with self._heard:
            assert self._heard.wait_for(lambda: self._ended >= connections, 60)
            rest, found = self.received, []
        while rest:
            length, _, rest = rest.partition(b" ")
            head, _, content = rest[: int(length)].decode().partition(" - {")
            found.append((head, json.loads("{" + content)))
            rest = rest[int(length) :]
        return found

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            text = b""
            try:
                with self._context.wrap_socket(plain, server_side=True) if self._context else plain as connection:
                    while piece := connection.recv(65536):
                        text += piece
            except OSError:  # it does not trust the certificate
                text = b""
            with self._heard:
                self.received, self._ended = self.received + text, self._ended + 1
                self._heard.notify_all()


@contextmanager
def log_server(certificate: tls.Certificate | None = None) -> Iterator[LogServer]:
    server = LogServer(certificate)
    try:
        yield server
    finally:
        server.close()


def add(*names: str) -> None:
    for name in names:
        assets.create(shell(list_organizations()[0].id, "root"), name=name)


def numbers() -> list[int]:
    return [row.no for row in trail.entries_after(0, 1000)]


def test_every_entry_arrives_once_as_a_message_of_rfc_5424(site: Path) -> None:
    add("Pallet <110>1 line")
    with log_server() as server:
        export = AuditExport(site, f"tcp://127.0.0.1:{server.port}", None)
        export.run(NEVER)
        add("Box")
        export.run(NEVER)
        export.run(NEVER)
        messages = server.messages(2)
    assert [entry["no"] for _, entry in messages] == numbers()
    head = re.compile(r"<110>1 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \S+ edge \d+ [a-z_.]+")
    assert all(head.fullmatch(line) for line, _ in messages)
    created = [entry for _, entry in messages if entry["action"] == "asset.created"]
    assert created[-1]["subject_name"].startswith("Box")
    assert (created[-1]["organization_id"], created[-1]["actor_name"]) == (list_organizations()[0].id, "root")


def test_entries_wait_for_a_server_that_is_away(site: Path, subject: Subject) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    add("Pallet")
    with pytest.raises(OSError, match="refused"):
        AuditExport(site, f"tcp://127.0.0.1:{port}", None).run(NEVER)
    outside = with_settings(subject, data_dir=site, audit_syslog=f"tcp://127.0.0.1:{port}")
    assert finding_of(outside, "audit-outside")[0] is Level.OK, "only for some seconds"
    execute("UPDATE audit SET at = at - 3600000000")
    level, text = finding_of(outside, "audit-outside")
    assert level is Level.WARNING
    assert "wait for the log server since" in text
    with log_server() as server:
        AuditExport(site, f"tcp://127.0.0.1:{server.port}", None).run(NEVER)
        assert [entry["no"] for _, entry in server.messages()] == numbers()
    assert finding_of(outside, "audit-outside")[0] is Level.OK


def test_entries_deleted_before_they_were_sent_are_told(site: Path, subject: Subject) -> None:
    with log_server() as server:
        export = AuditExport(site, f"tcp://127.0.0.1:{server.port}", None)
        add("Pallet 1")
        execute("DELETE FROM audit WHERE no = 1")  # before the export was on
        export.run(NEVER)
        outside = with_settings(subject, data_dir=site, audit_syslog=f"tcp://127.0.0.1:{server.port}")
        assert finding_of(outside, "audit-outside")[0] is Level.OK
        add("Pallet 2", "Pallet 3", "Pallet 4")
        last = max(numbers())
        execute("DELETE FROM audit WHERE no IN (?, ?)", (last - 2, last - 1))
        export.run(NEVER)
    level, text = finding_of(outside, "audit-outside")
    assert level is Level.PROBLEM
    assert text.startswith("2 entries of the audit were deleted")


def test_after_a_restore_new_entries_are_sent_although_their_numbers_were_used(site: Path) -> None:
    with log_server() as server:
        export = AuditExport(site, f"tcp://127.0.0.1:{server.port}", None)
        add("Pallet 1", "Pallet 2", "Pallet 3")
        export.run(NEVER)
        known = numbers()
        with writing():
            execute("DELETE FROM audit WHERE no > ?", (known[-3],))  # the backup had no more
        add("Pallet 4", "Pallet 5", "Pallet 6")
        export.run(NEVER)
        entries = [entry for _, entry in server.messages(2)]
    assert [entry["subject_name"].partition(" (")[0] for entry in entries[-3:]] == ["Pallet 4", "Pallet 5", "Pallet 6"]
    assert [entry["no"] for entry in entries] == [*known, *numbers()[len(known) - 2 :]]
    assert sent(site).lost == 0


def test_a_long_backlog_comes_in_parts(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_export, "MOST", 2)
    add(*(f"Pallet {number}" for number in range(5)))
    with log_server() as server:
        export = AuditExport(site, f"tcp://127.0.0.1:{server.port}", None)
        export.run(lambda _: True)  # the service stops
        assert sent(site).no == numbers()[1]
        export.run(NEVER)
        parts = -(-len(numbers()) // 2)
        assert [entry["no"] for _, entry in server.messages(parts)] == numbers()


@pytest.mark.real_time  # OpenSSL compares certificates with the time of the machine
def test_only_a_server_with_a_trusted_certificate_gets_it(site: Path, tmp_path: Path) -> None:
    certificate = tls.make(tmp_path / "tls", names="DNS:localhost,IP:127.0.0.1")
    add("Pallet")
    with log_server(certificate) as server:
        with pytest.raises(OSError, match="certificate"):
            AuditExport(site, f"tls://127.0.0.1:{server.port}", None).run(NEVER)
        assert server.messages() == []
        AuditExport(site, f"tls://127.0.0.1:{server.port}", certificate.authority).run(NEVER)
        assert [entry["no"] for _, entry in server.messages(2)] == numbers()


def test_no_address_that_edge_never_uses(site: Path) -> None:
    add("Pallet")
    with pytest.raises(OSError, match="link-local or reserved"):
        AuditExport(site, "tcp://169.254.1.1", None).run(NEVER)


@pytest.mark.parametrize("wrong", ["logs.example", "udp://logs.example", "tcp://", "tcp://logs.example:0", "tcp://a:x"])
def test_an_address_of_another_kind_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"tls://logs\.example:6514"):
        types.log_server(wrong)


def test_without_the_setting_the_doctor_is_content(subject: Subject) -> None:
    assert finding_of(subject, "audit-outside")[0] is Level.OK
    assert "audit-outside" in doctor.CHECKS


def test_a_damaged_file_sends_all_again(site: Path) -> None:
    for text in ("", "[]", "{", '{"no": 1, "other": 2}'):
        (site / audit_export.FILE_NAME).write_text(text)
        assert sent(site) == Sent(first=trail.newest_no())
