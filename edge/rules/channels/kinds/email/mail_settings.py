"""Settings of a mail server."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple


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
