"""A mail server on a free port of 127.0.0.1, with refusals chosen by the test."""

from __future__ import annotations

import base64
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import NamedTuple

from edge.rules.channels.worker import Messages


class Mail(NamedTuple):
    sender: str
    recipients: list[str]
    source: bytes
    is_encrypted: bool
    user: str  # empty if nobody signed in

    @property
    def parsed(self) -> EmailMessage:
        return message_from_bytes(self.source, policy=default)


class MailServerOfTest:
    """`refuse` maps a verb (HELLO, AUTH, MAIL, DATA), or the address of a recipient, to an answer; HANG waits."""

    def __init__(self, context: ssl.SSLContext | None, *, is_tls: bool) -> None:
        self.context = context
        self.is_tls = is_tls
        self.mails: list[Mail] = []
        self.refuse: dict[str, str] = {}
        self.signs_in = False
        self.is_over = threading.Event()
        handler = type("Handler", (_Handler,), {"mail_server": self})
        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.port: int = self.server.server_address[1]


class _Handler(socketserver.StreamRequestHandler):
    mail_server: MailServerOfTest

    def handle(self) -> None:
        self._user, self._is_encrypted, self._sender = "", False, ""
        self._recipients: list[str] = []
        try:
            if self.mail_server.is_tls:
                self._encrypt()
            self._talk()
        except OSError:
            return  # the client has gone, or rejects the certificate

    def finish(self) -> None:
        super().finish()
        self.request.close()  # the encrypted one, which the server does not know

    def _talk(self) -> None:
        if self._answers("HELLO"):
            return
        self._say("220 mail.test")
        while line := self.rfile.readline(2000).decode("ascii").rstrip("\r\n"):
            verb, _, rest = line.partition(" ")
            if verb.upper() == "QUIT":
                self._say("221 bye")
                return
            self._command(verb.upper(), rest)

    def _command(self, verb: str, rest: str) -> None:
        if self._answers(verb):
            return
        if verb == "EHLO":
            offers = ["STARTTLS"] if self.mail_server.context and not self._is_encrypted else []
            offers += ["AUTH PLAIN"] if self.mail_server.signs_in else []
            for offer in ["mail.test", *offers]:
                self._say(f"250-{offer}")
            self._say("250 8BITMIME")
        elif verb == "STARTTLS":
            self._say("220 go ahead")
            self._encrypt()
        elif verb == "AUTH":
            _, user, password = base64.b64decode(rest.partition(" ")[2]).decode().split("\0")
            self._user = user
            self._say("235 ok" if password == "secret" else "535 5.7.8 wrong password")
        elif verb == "MAIL":
            self._sender = rest
            self._say("250 ok")
        elif verb == "RCPT":
            self._recipient(rest.partition("<")[2].partition(">")[0])
        elif verb == "DATA":
            self._data()
        else:
            self._say("250 ok")

    def _recipient(self, address: str) -> None:
        if not self._answers(address):
            self._recipients.append(address)
            self._say("250 ok")

    def _data(self) -> None:
        self._say("354 go ahead")
        lines: list[bytes] = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b"."))
        mail = Mail(self._sender, self._recipients, b"".join(lines), self._is_encrypted, self._user)
        self._recipients = []
        self.mail_server.mails.append(mail)
        self._say("250 queued")

    def _answers(self, verb: str) -> bool:
        """Answer as the test chose. Returns False if it chose nothing."""
        answer = self.mail_server.refuse.get(verb)
        if answer == "HANG":
            self.mail_server.is_over.wait(60)
        elif answer:
            self._say(answer)
        return answer is not None

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())

    def _encrypt(self) -> None:
        assert self.mail_server.context
        self.request = self.mail_server.context.wrap_socket(self.request, server_side=True)
        self.rfile, self.wfile = self.request.makefile("rb"), self.request.makefile("wb", buffering=0)
        self._is_encrypted = True


@contextmanager
def mail_server(context: ssl.SSLContext | None = None, *, is_tls: bool = False) -> Iterator[MailServerOfTest]:
    one = MailServerOfTest(context, is_tls=is_tls)
    thread = threading.Thread(target=one.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield one
    finally:
        one.is_over.set()
        one.server.shutdown()
        thread.join()
        one.server.server_close()


def send_due(messages: Messages) -> None:
    """Send all that is due, one piece of each channel after the other."""
    while sum(turn.serve() for turn in messages.due()):
        pass
