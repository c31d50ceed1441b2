"""HTTPS to a service with a certificate of its own authority, against a real TLS server."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from edge.errors import Invalid
from edge.records import assets
from edge.upstream import rounds, upstreams
from edge.upstream.answers import Away
from edge.upstream.client import check_authority, of_upstream
from edge.upstream.worker import UpstreamWorker
from tests.sync import tls
from tests.sync.tls import Certificate
from tests.upstream.strict_records import Problem
from tests.upstream.strict_service import SECRET, Answer, Fault, Handler, StrictService, envelope
from tests.upstream.strict_world import StrictSender, strict_sender

pytestmark = pytest.mark.real_time  # OpenSSL compares certificates with the time of the machine


def encrypted(made: Certificate) -> StrictService:
    return StrictService(tls=(made.file, made.key))


def work(sender: StrictSender) -> str:
    """Work like the thread. Returns the error."""
    worker = UpstreamWorker()
    while worker.work_once(upstreams.all_upstreams()):
        pass
    worker.close()
    return sender.row.last_error or ""


def test_records_reach_a_service_with_its_own_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tls.make(tmp_path / "tls")
    with strict_sender(tmp_path, monkeypatch, encrypted(made)) as sender:
        assets.create(sender.actor, name="Pallet")
        assert "certificate is rejected" in work(sender)
        assert "edge upstream new-ca FILE" in work(sender)
        assert sender.service.requests == [], "nothing is sent to a stranger"
        upstreams.change_authority(sender.actor, check_authority(made.authority.read_text()))
        assert work(sender) == ""
        sender.assert_equal()


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        ({"days": -1}, "expired"),
        ({"names": "DNS:other.example"}, "not valid for '127.0.0.1'"),
    ],
    ids=["expired", "other name"],
)
def test_a_certificate_that_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: dict[str, object], text: str
) -> None:
    made = tls.make(tmp_path / "tls", **problem)  # type: ignore[arg-type]
    with strict_sender(tmp_path, monkeypatch, encrypted(made)) as sender:
        upstreams.change_authority(sender.actor, made.authority.read_text())
        assets.create(sender.actor, name="Pallet")
        error = work(sender)
        assert "certificate is rejected" in error
        assert text in error
        assert "new-ca" not in error


def test_only_the_given_authority_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the settings file trusts another one for webhooks."""
    made, other = tls.make(tmp_path / "tls"), tls.make(tmp_path / "other")
    with strict_sender(tmp_path, monkeypatch, encrypted(made)) as sender:
        upstreams.change_authority(sender.actor, other.authority.read_text())
        client = of_upstream(sender.row, made.authority)
        with pytest.raises(Away, match="certificate is rejected"):
            client.organization()
        upstreams.change_authority(sender.actor, "")
        client = of_upstream(sender.row, made.authority)
        assert client.organization()["name"] == "Acme"
        client.close()


@pytest.mark.parametrize("pem", ["", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "é" * 9])
def test_files_that_are_no_authority(pem: str) -> None:
    with pytest.raises(Invalid):
        check_authority(pem)


def test_secrets_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in logs, errors, the database and its journal, also if the service repeats them in its errors."""
    caplog.set_level(logging.DEBUG)
    with strict_sender(tmp_path, monkeypatch, StrictService()) as sender:

        def repeat(number: int, _method: str, path: str) -> Fault | None:
            if number == 1:
                return Fault(lambda handler, _: handler.send(echo(SECRET)))
            return None if path.endswith("/token") else Fault(repeat_token)

        def repeat_token(handler: Handler, _: Answer) -> None:
            handler.send(echo(handler.headers["Authorization"].removeprefix("Bearer ")))

        def echo(text: str) -> Answer:
            return envelope(Problem(500, "internal_error", f"Failed with {text}"), "/")

        sender.service.fault = repeat
        assets.create(sender.actor, name="Pallet")
        assert "Failed with (secret)" in work(sender)
        for _ in range(3):
            upstreams.resume(sender.actor)
            assert "Failed with (secret)" in work(sender)
        sender.service.fault = lambda *_: None
        rounds.run(sender.client, sender.row)
        shown = (
            repr(sender.client)
            + caplog.text
            + "".join(file.read_bytes().decode("latin-1") for file in sender.box.folder.glob("edge.db*"))
        )
        assert len(sender.service.tokens) > 3
        for secret in (SECRET, *sender.service.tokens):
            assert secret not in shown
