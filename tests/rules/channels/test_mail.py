"""Email: encrypted with a verified certificate, refused addresses reported, hostile texts harmless."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge.events.delivery import Outcome, Result
from edge.outbound import Network
from edge.rules.channels.compose import Outgoing
from edge.rules.channels.kinds.email import mail
from edge.rules.channels.kinds.email.mail import MailServer
from edge.rules.channels.kinds.email.mail_settings import MailSettings, Security
from tests import chance
from tests.rules.channels.mail_server import MailServerOfTest, mail_server
from tests.sync import tls

OUTGOING = Outgoing("edge.1", "Pallet 1 left", "Pallet 1 left hall 2 at 08:15")
PLAIN = ssl.create_default_context()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tls.Certificate:
    with chance.of("certificate", is_real_time=True):
        return tls.make(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def encrypting(certificate: tls.Certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.file, certificate.key)
    return context


@pytest.fixture
def trusting(certificate: tls.Certificate) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate.authority)


@pytest.fixture
def server() -> Iterator[MailServerOfTest]:
    with mail_server() as one:
        yield one


def send(
    server: MailServerOfTest,
    security: Security = Security.NONE,
    trusted: ssl.SSLContext = PLAIN,
    *,
    user: str = "",
    password: str = "",
    to: tuple[str, ...] = ("lead@example.com",),
    outgoing: Outgoing = OUTGOING,
    network: Network = Network.LOOPBACK,
) -> Outcome:
    settings = MailSettings("127.0.0.1", server.port, security, user, "edge@example.com", to)
    return MailServer(settings, password, network, trusted).send(outgoing)


def test_a_mail_reaches_all_recipients(server: MailServerOfTest) -> None:
    to = ("lead@example.com", "night@example.com")
    assert send(server, to=to) == Outcome(Result.DELIVERED, "accepted for 2 recipients")
    (one,) = server.mails
    assert one.recipients == list(to)
    assert (one.parsed["Subject"], one.parsed["From"]) == ("Pallet 1 left", "edge@example.com")
    assert one.parsed["Message-ID"] == "<edge.1@example.com>"
    assert one.parsed["Auto-Submitted"] == "auto-generated"
    assert one.parsed.get_content().strip() == OUTGOING.text


@pytest.mark.real_time
@pytest.mark.parametrize("security", [Security.STARTTLS, Security.TLS])
def test_the_password_is_sent_encrypted_only(
    security: Security, encrypting: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    with mail_server(encrypting, is_tls=security is Security.TLS) as server:
        server.signs_in = True
        assert send(server, security, trusting, user="edge", password="secret").result is Result.DELIVERED
        (one,) = server.mails
        assert (one.is_encrypted, one.user) == (True, "edge")
        wrong = send(server, security, trusting, user="edge", password="wrong")
        assert wrong.result is Result.FAILED
        assert "refused user and password: 535 5.7.8 wrong password" in wrong.detail


@pytest.mark.parametrize("security", [Security.STARTTLS, Security.TLS])
def test_an_untrusted_certificate_is_refused(security: Security, encrypting: ssl.SSLContext) -> None:
    with mail_server(encrypting, is_tls=security is Security.TLS) as server:
        outcome = send(server, security)
        assert outcome.result is Result.FAILED
        assert "rejected" in outcome.detail
        assert server.mails == []


def test_a_server_without_starttls_gets_nothing(server: MailServerOfTest) -> None:
    outcome = send(server, Security.STARTTLS)
    assert (outcome.result, server.mails) == (Result.FAILED, [])
    assert "does not offer STARTTLS" in outcome.detail


def test_the_box_itself_needs_permission(server: MailServerOfTest) -> None:
    outcome = send(server, network=Network.PRIVATE)
    assert (outcome.result, server.mails) == (Result.FAILED, [])
    assert "this box itself" in outcome.detail


@pytest.mark.parametrize(
    ("refuse", "result", "detail"),
    [
        ({"lead@example.com": "550 5.1.1 no such user"}, Result.REFUSED, "refused all recipients: lead@example.com"),
        ({"lead@example.com": "450 4.2.0 greylisted"}, Result.FAILED, "450 4.2.0 greylisted"),
        ({"MAIL": "553 5.7.1 not your address"}, Result.REFUSED, "refused the sender edge@example.com: 553"),
        ({"DATA": "552 5.3.4 too big"}, Result.REFUSED, "552 5.3.4 too big"),
        ({"DATA": "451 4.3.0 try later"}, Result.FAILED, "451 4.3.0 try later"),
        ({"HELLO": "554 5.7.1 your address is blocked"}, Result.FAILED, "554 5.7.1 your address is blocked"),
    ],
)
def test_the_answer_of_the_server_is_shown(
    server: MailServerOfTest, refuse: dict[str, str], result: Result, detail: str
) -> None:
    server.refuse = refuse
    outcome = send(server)
    assert (outcome.result, detail in outcome.detail) == (result, True), outcome.detail


def test_a_refused_recipient_does_not_keep_others_from_the_mail(server: MailServerOfTest) -> None:
    server.refuse = {"gone@example.com": "550 5.1.1 no such user"}
    outcome = send(server, to=("lead@example.com", "gone@example.com"))
    detail = "accepted, except for gone@example.com: 550 5.1.1 no such user"
    assert outcome == Outcome(Result.DELIVERED, detail)
    assert server.mails[0].recipients == ["lead@example.com"]


@pytest.mark.parametrize("is_cut", [True, False], ids=["by the deadline", "by the time limit of the socket"])
def test_a_server_that_says_nothing_is_given_up(
    server: MailServerOfTest, monkeypatch: pytest.MonkeyPatch, is_cut: bool
) -> None:
    monkeypatch.setattr(mail, "ANSWER_SECONDS", 0.3)
    if not is_cut:
        monkeypatch.setattr(mail._Connection, "cut", lambda _: None)
    server.refuse = {"HELLO": "HANG"}
    outcome = send(server)
    assert outcome.result is Result.FAILED
    assert "no response from 127.0.0.1" in outcome.detail


def test_a_server_that_is_away_is_reported(tmp_path: Path) -> None:
    with mail_server() as gone:
        pass
    outcome = send(gone)
    assert outcome.result is Result.FAILED
    assert "refused" in outcome.detail.casefold()


def test_a_subject_cannot_add_headers(server: MailServerOfTest) -> None:
    hostile = "Pallet\r\nBcc: everyone@example.com\r\n\r\nHello\x00\u2028\u202e"
    assert send(server, outgoing=Outgoing("edge.2", hostile, "text\r\n.\r\nMAIL FROM:<x@y>")).result is Result.DELIVERED
    (one,) = server.mails
    assert one.parsed["Bcc"] is None
    assert one.parsed["Subject"] == "Pallet Bcc: everyone@example.com Hello"
    assert one.parsed.get_content().splitlines() == ["text", ".", "MAIL FROM:<x@y>"]
