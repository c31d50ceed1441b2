"""One-time join code of a site: the hub's address, secret and certificate authority as one text to paste."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from pathlib import Path
from typing import NamedTuple

from edge.errors import Invalid
from edge.texts import N_

_PREFIX = "edge-join-"
_MAX_LENGTH = 16_384


class JoinCode(NamedTuple):
    """A decoded join code. `authority` is the hub's own certificate authority (PEM), or empty for a public one."""

    url: str
    secret: str
    authority: str


def write(code: JoinCode) -> str:
    """Return a join code as text."""
    packed = zlib.compress(json.dumps(code).encode(), 9)
    return _PREFIX + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def for_site(url: str, secret: str, authority_file: Path | None) -> str:
    """Return a join code of this hub. `authority_file`: its own certificate authority, if any."""
    pem = authority_file.read_text("ascii") if authority_file and authority_file.is_file() else ""
    return write(JoinCode(url, secret, pem))


def read(text: str) -> JoinCode:
    """Return the decoded join code. Raises Invalid for an incomplete or wrong text."""
    bare = "".join(text.split()).removeprefix(_PREFIX)
    try:
        packed = base64.urlsafe_b64decode(bare[:_MAX_LENGTH] + "=" * (-len(bare[:_MAX_LENGTH]) % 4))
        fields = json.loads(zlib.decompressobj().decompress(packed, _MAX_LENGTH))
        url, secret, authority = map(str, fields)
    except (binascii.Error, zlib.error, ValueError, TypeError, RecursionError) as error:
        message = N_("The join code is incomplete. Copy the whole code from the hub's Sync page")
        raise Invalid.one("code", "invalid_value", message) from error
    return JoinCode(url, secret, authority)
