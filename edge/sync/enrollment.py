"""Join codes of sites as text to paste: the hub's address, secret and certificate authority; and the preview."""

from __future__ import annotations

import base64
import binascii
import json
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from edge.errors import Invalid
from edge.outbound import Network
from edge.sync import files, preview
from edge.sync.client import REQUEST_SECONDS, HubClient
from edge.sync.preview import Preview
from edge.texts import N_


@contextmanager
def client(
    code: JoinCode, network: Network = Network.LOOPBACK, seconds: float = REQUEST_SECONDS
) -> Iterator[HubClient]:
    """Open a connection without credentials to the hub of a join code, and close it afterwards.

    `network`: the farthest that may be reached; `seconds`: of one request in all.
    """
    with tempfile.TemporaryDirectory() as folder:
        files.write(Path(folder), "", code.authority)
        _, authority = files.read(Path(folder))
        with closing(HubClient(code.url, "", "", authority, network, seconds)) as connection:
            yield connection


def compare(
    organization_id: int, code: JoinCode, seconds: float | None = None, network: Network = Network.LOOPBACK
) -> Preview:
    """Return which records would clash. The code stays valid. Raises the errors of the client."""
    with client(code, network, seconds or REQUEST_SECONDS) as connection:
        return preview.compare(organization_id, lambda body: connection.preview(code.secret, body), seconds)


_PREFIX = "edge-join-"
_MAX_LENGTH = 16_384


class JoinCode(NamedTuple):
    """A decoded join code. `authority` is the hub's own certificate authority (PEM), or empty for a public one."""

    url: str
    secret: str
    authority: str


def write_code(code: JoinCode) -> str:
    """Return a join code as text."""
    packed = zlib.compress(json.dumps(code).encode(), 9)
    return _PREFIX + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def code_for(url: str, secret: str, authority_file: Path | None) -> str:
    """Return a join code of this hub. `authority_file`: its own certificate authority, if any."""
    pem = authority_file.read_text("ascii") if authority_file and authority_file.is_file() else ""
    return write_code(JoinCode(url, secret, pem))


def read_code(text: str) -> JoinCode:
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
