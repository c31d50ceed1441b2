"""Settings of a channel by its kind: what is entered is checked here, and read back when sending."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from edge.events import validation
from edge.events.validation import invalid, whole_number
from edge.outbound import Network
from edge.rules.channels.channels import Schedule
from edge.rules.channels.web import Form
from edge.texts import N_, fill
from edge.validation import values

MOST_RECIPIENTS = 20
MAX_ADDRESS = 254
MOST_DIGEST_MINUTES = 24 * 60
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")
_HOST = re.compile(r"[A-Za-z0-9:]([A-Za-z0-9.:_-]{0,250}[A-Za-z0-9])?")
_TOPIC = re.compile(r"[-_A-Za-z0-9]{1,64}")  # of ntfy


class Security(StrEnum):
    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"  # in private networks only, see `edge.outbound`


class MailSettings(NamedTuple):
    host: str
    port: int
    security: Security
    user: str
    sender: str
    recipients: Sequence[str]


_PORTS = {Security.STARTTLS: 587, Security.TLS: 465, Security.NONE: 25}


def shown(stored: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings as the form shows them."""
    return {field: ", ".join(value) if isinstance(value, list) else str(value) for field, value in stored.items()}


def schedule(entered: Mapping[str, str]) -> Schedule:
    """Return the schedule of a form. Raises Invalid, by field."""
    begin = values.minute_of_day("quiet_from", entered.get("quiet_from", ""))
    end = values.minute_of_day("quiet_until", entered.get("quiet_until", ""))
    if (begin is None) != (end is None) or (begin is not None and begin == end):
        raise invalid("quiet_until", N_("enter two different times, or leave both empty"))
    return Schedule(digest_seconds(entered.get("digest", "")), begin, end, bool(entered.get("is_sent_when_over")))


def checked_mail(entered: Mapping[str, str], *, has_password: bool, network: Network) -> dict[str, Any]:
    """Return the settings of an email channel. Raises Invalid, by field."""
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
    if user and not has_password:
        raise invalid("password", N_("enter the password of the user"))
    return {
        "host": host,
        "port": _port(entered.get("port", "").strip(), security),
        "security": security.value,
        "user": user,
        "sender": _address("sender", entered.get("sender", "").strip()),
        "recipients": _recipients(entered.get("recipients", "")),
    }


def checked_ntfy(entered: Mapping[str, str], *, network: Network) -> dict[str, Any]:
    """Return the settings of an ntfy channel. Raises Invalid, by field."""
    url = validation.webhook_url(entered.get("url", "").strip(), is_on_internet=network is Network.INTERNET)
    address = urlsplit(url)
    if not _TOPIC.fullmatch(address.path.rpartition("/")[2]) or address.query:
        raise invalid("url", N_("enter the server and the topic, such as https://ntfy.sh/dock-alerts"))
    return {"url": url}


def checked_webhook(entered: Mapping[str, str], url: str, *, network: Network) -> dict[str, Any]:
    """Return the settings of a webhook. The URL is not one of them but the secret: who knows it can post."""
    form = entered.get("form", "")
    if form not in list(Form):
        raise invalid("form", N_("choose one from the list"))
    checked = validation.webhook_url(url, is_on_internet=network is Network.INTERNET)
    return {"form": form, "host": urlsplit(checked).hostname or ""}


def mail_settings(stored: Mapping[str, Any]) -> MailSettings:
    return MailSettings(
        stored["host"],
        stored["port"],
        Security(stored["security"]),
        stored["user"],
        stored["sender"],
        stored["recipients"],
    )


def digest_seconds(text: str) -> int:
    """Return the seconds of a digest entered in minutes; empty is 0. Raises Invalid."""
    advice = fill(N_("enter 0 to %(most)s minutes"), most=MOST_DIGEST_MINUTES)
    return whole_number("digest", text.strip() or "0", 0, MOST_DIGEST_MINUTES, advice) * 60


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
