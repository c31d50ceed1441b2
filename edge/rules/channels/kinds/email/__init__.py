"""Email: a message to one or more recipients over a mail server."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from typing import Any

from edge.events.delivery import Sender
from edge.events.validation import invalid, whole_number
from edge.outbound import Network
from edge.rules.channels.compose import Outgoing
from edge.rules.channels.kind import ChannelKind, Facts, Settings
from edge.rules.channels.kinds.email.mail_settings import MailSettings, Security
from edge.texts import N_, fill

MOST_RECIPIENTS = 20
MAX_ADDRESS = 254
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")
_HOST = re.compile(r"[A-Za-z0-9:]([A-Za-z0-9.:_-]{0,250}[A-Za-z0-9])?")
_PORTS = {Security.STARTTLS: 587, Security.TLS: 465, Security.NONE: 25}


def _checked(entered: Mapping[str, str], password: str, network: Network) -> dict[str, Any]:
    host = entered.get("host", "").strip()
    if not _HOST.fullmatch(host):
        raise invalid("host", N_("enter the name of the mail server, such as mail.example.com"))
    try:
        security = Security(entered.get("security", Security.STARTTLS))
    except ValueError as error:
        raise invalid("security", N_("choose one from the list")) from error
    user = entered.get("user", "").strip()
    if len(user) > MAX_ADDRESS or not user.isprintable() or not user.isascii():
        raise invalid("user", fill(N_("at most %(most)s ASCII characters"), most=MAX_ADDRESS))
    if security is Security.NONE and user:
        raise invalid("security", N_("choose STARTTLS or TLS: the password must not be sent unencrypted"))
    if security is Security.NONE and network is Network.INTERNET:
        raise invalid("security", N_("use encryption, or allow an address in a private network"))
    if user and not password:
        raise invalid("password", N_("enter the password of the user"))
    return {
        "host": host,
        "port": _port(entered.get("port", "").strip(), security),
        "security": security.value,
        "user": user,
        "sender": _address("sender", entered.get("sender", "").strip()),
        "recipients": _recipients(entered.get("recipients", "")),
    }


def _port(text: str, security: Security) -> int:
    if not text:
        return _PORTS[security]
    return whole_number("port", text, 1, 65535, N_("enter 1 to 65535, or leave it empty"))


def _recipients(text: str) -> list[str]:
    entered = [one for one in re.split(r"[\s,;]+", text) if one]
    if not entered:
        raise invalid("recipients", N_("enter at least one address"))
    if len(entered) > MOST_RECIPIENTS:
        raise invalid("recipients", fill(N_("at most %(most)s addresses"), most=MOST_RECIPIENTS))
    return list(dict.fromkeys(_address("recipients", one) for one in entered))


def _address(field: str, text: str) -> str:
    if not text:
        raise invalid(field, N_("enter an address"))
    if len(text) > MAX_ADDRESS or not _ADDRESS.fullmatch(text):
        raise invalid(
            field, fill(N_("%(entered)s is not an address such as shift.lead@example.com"), entered=text[:50])
        )
    return text


def _facts(stored: Settings) -> Facts:
    encryption = {Security.STARTTLS: "STARTTLS", Security.TLS: "TLS", Security.NONE: fill(N_("not encrypted"))}
    server = f"{stored['host']}:{stored.get('port', '')}"
    security = encryption.get(stored.get("security", ""), "")
    return [
        (N_("Recipients"), ", ".join(stored.get("recipients", ()))),
        (N_("Mail server"), fill("%(server)s, %(security)s", server=server, security=security)),
        (N_("Sender"), stored.get("sender", "")),
    ]


def _new_sender(stored: Settings, password: str, network: Network, tls: ssl.SSLContext) -> Sender[Outgoing]:
    from edge.rules.channels.kinds.email.mail import MailServer  # when one is needed: its libraries take 1 MB

    settings = MailSettings(*(stored[name] for name in MailSettings._fields))
    return MailServer(settings._replace(security=Security(settings.security)), password, network, tls)


KIND = ChannelKind(
    N_("New email channel"),
    "password",
    _checked,
    _facts,
    _new_sender,
    address=("host", "port"),
    secret_for=("host", "user"),
    is_secret_typed=True,
    takes_files=True,
)
