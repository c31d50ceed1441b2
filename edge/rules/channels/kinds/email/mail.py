"""Email sender: one connection for each mail, encrypted with a verified certificate before anything else is sent.

The mail server is resolved and checked by `edge.outbound`, like a webhook. One deadline covers the whole attempt, so a
server that trickles bytes cannot block the thread.
"""

from __future__ import annotations

import contextlib
import smtplib
import socket
import ssl
import threading
from collections.abc import Mapping
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Any, BinaryIO

from edge import clock, outbound
from edge.conversations import talking
from edge.events.delivery import Outcome, Result
from edge.outbound import Network, NotAllowed
from edge.rules.channels.compose import PARTLY, Outgoing, one_line
from edge.rules.channels.kinds.email.mail_settings import MailSettings, Security

ANSWER_SECONDS = 30.0
MAX_DETAIL = 300
MAX_ANSWER = 16 * 1024  # bytes of one answer, which smtplib would read without end
_PERMANENT = 500  # reply codes from here on are not temporary

Refused = Mapping[str, tuple[int, bytes]]


class MailServer:
    """A mail server. `password` may be empty if there is no user."""

    def __init__(self, settings: MailSettings, password: str, network: Network, tls: ssl.SSLContext) -> None:
        self._settings = settings
        self._password = password
        self._network = network
        self._tls = tls

    def send(self, outgoing: Outgoing) -> Outcome:
        """Send one mail to all recipients."""
        connection = _Connection(self._settings, self._network, self._tls)
        deadline = threading.Timer(ANSWER_SECONDS, connection.cut)
        deadline.daemon = True
        deadline.start()
        try:
            with talking(f"{self._settings.host}:{self._settings.port}"):
                refused = self._send(connection, outgoing)
        except (OSError, smtplib.SMTPException, NotAllowed) as error:
            return _failure(connection, self._settings, error)
        finally:
            deadline.cancel()
            connection.end()
        return _outcome(len(self._settings.recipients), refused)

    def close(self) -> None:
        """Do nothing: connections end after each mail."""

    def _send(self, connection: _Connection, outgoing: Outgoing) -> Refused:
        connection.open()
        if self._settings.user:
            connection.login(self._settings.user, self._password)
        mail = mail_of(outgoing, self._settings)
        return connection.send_message(mail, self._settings.sender, list(self._settings.recipients))


def mail_of(outgoing: Outgoing, settings: MailSettings) -> EmailMessage:
    """Return the mail. Plain text, so there is no markup to escape."""
    mail = EmailMessage(policy=SMTP)
    mail["Subject"] = one_line(outgoing.subject)
    mail["From"] = settings.sender
    mail["To"] = ", ".join(settings.recipients)
    mail["Date"] = format_datetime(clock.to_datetime(clock.now()))
    mail["Message-ID"] = f"<{outgoing.id}@{settings.sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"  # vacation replies are not sent to it
    mail.set_content(outgoing.text)
    if outgoing.attachment:
        name, content = outgoing.attachment
        mail.add_attachment(content, maintype="text", subtype="csv", filename=name, params={"charset": "utf-8"})
    return mail


class _Connection(smtplib.SMTP):
    """A connection to the checked address; the host name is used for the certificate only.

    Decision record: this overrides `_get_socket`, as `smtplib.SMTP_SSL` does, because smtplib would resolve the name
    again after our check.
    """

    def __init__(self, settings: MailSettings, network: Network, tls: ssl.SSLContext) -> None:
        # The default host name in the greeting would ask the DNS, which may take seconds.
        super().__init__(timeout=ANSWER_SECONDS, local_hostname=_own_name())
        self._host = settings.host  # smtplib verifies the certificate of STARTTLS against it
        self._settings = settings
        self._network = network
        self._encryption = tls
        self._raw: socket.socket | None = None
        self.file: Any = None
        self.is_cut = False

    def open(self) -> None:
        """Connect and encrypt. Raises OSError, NotAllowed or SMTPException."""
        code, answer = self.connect(self._settings.host, self._settings.port)
        if code != 220:
            raise smtplib.SMTPConnectError(code, answer)
        if self._settings.security is Security.STARTTLS:
            self.starttls(context=self._encryption)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        is_encrypted = self._settings.security is not Security.NONE
        self._raw = raw = outbound.connect(host, port, self._network, is_encrypted=is_encrypted)
        raw.settimeout(timeout)
        if self._settings.security is Security.TLS:
            return self._encryption.wrap_socket(raw, server_hostname=host)
        return raw

    def getreply(self) -> tuple[int, bytes]:
        """Return an answer of at most `MAX_ANSWER` bytes. Raises SMTPServerDisconnected for a longer one."""
        if self.file is None and self.sock:
            self.file = _Lines(self.sock.makefile("rb"))
        if self.file:
            self.file.left = MAX_ANSWER
        return super().getreply()

    def cut(self) -> None:
        """Shut the connection down at the deadline, so that a blocked read or write fails."""
        self.is_cut = True
        for one in (self._raw, self.sock):
            with contextlib.suppress(OSError):  # already closed, or replaced by an encrypted one
                if one:
                    socket.socket.shutdown(one, socket.SHUT_RDWR)

    def end(self) -> None:
        """Leave politely if connected, and close."""
        with contextlib.suppress(OSError, smtplib.SMTPException):
            if self.sock and not self.is_cut:
                self.sock.settimeout(2)
                self.quit()
        self.close()
        if self._raw:
            self._raw.close()


class _Lines:
    """The lines of an answer, within `left` bytes."""

    left = MAX_ANSWER

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.close = file.close

    def readline(self, size: int) -> bytes:
        """Return the next line. Raises OSError if the answer is too long."""
        line = self._file.readline(min(size, self.left))
        self.left -= len(line)
        if not self.left:
            raise OSError("the answer is too long")
        return line


def _own_name() -> str:
    name = socket.gethostname()
    is_valid = name.isascii() and name.replace("-", "").replace(".", "").isalnum()
    return name if is_valid else "[127.0.0.1]"


def _outcome(recipients: int, refused: Refused) -> Outcome:
    if not refused:
        return Outcome(Result.DELIVERED, f"accepted for {recipients} recipient{'s' if recipients > 1 else ''}")
    return Outcome(Result.DELIVERED, f"{PARTLY}{_refusals(refused)}")


def _failure(connection: _Connection, settings: MailSettings, error: Exception) -> Outcome:
    result = Result.FAILED
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        is_permanent = all(code >= _PERMANENT for code, _ in error.recipients.values())
        result = Result.REFUSED if is_permanent else Result.FAILED
    elif isinstance(error, smtplib.SMTPSenderRefused | smtplib.SMTPDataError):
        result = Result.REFUSED if error.smtp_code >= _PERMANENT else Result.FAILED
    return Outcome(result, _detail(connection, settings, error)[:MAX_DETAIL])


def _detail(connection: _Connection, settings: MailSettings, error: Exception) -> str:
    server = f"{settings.host}:{settings.port}"
    if isinstance(error, NotAllowed):
        return str(error)
    is_late = isinstance(error, TimeoutError) or isinstance(error.__context__, TimeoutError)  # smtplib hides it
    if connection.is_cut or is_late:
        return f"no response from {server} within {ANSWER_SECONDS:.0f} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate of {server} rejected: {error.verify_message}"
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return f"{server} refused user and password: {_answer(error.smtp_code, error.smtp_error)}"
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return f"{server} refused all recipients: {_refusals(error.recipients)}"
    if isinstance(error, smtplib.SMTPSenderRefused):
        return f"{server} refused the sender {settings.sender}: {_answer(error.smtp_code, error.smtp_error)}"
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{server} refused the mail: {_answer(error.smtp_code, error.smtp_error)}"
    if isinstance(error, smtplib.SMTPNotSupportedError):
        need = "STARTTLS" if settings.security is Security.STARTTLS and "STARTTLS" in str(error) else "signing in"
        return f"{server} does not offer {need}; choose another kind of encryption or remove the user"
    if isinstance(error, smtplib.SMTPServerDisconnected):
        return f"{server} closed the connection"
    return f"{server} cannot be reached: {one_line(getattr(error, 'strerror', None) or str(error))}"


def _refusals(refused: Refused) -> str:
    return "; ".join(f"{address}: {_answer(code, text)}" for address, (code, text) in refused.items())


def _answer(code: int, text: bytes | str) -> str:
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return f"{code} {one_line(shown)}"[:MAX_DETAIL]
