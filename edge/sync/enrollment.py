"""The hub of a join code: a connection to it, and the preview."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from edge.outbound import Network
from edge.sync import files, preview
from edge.sync.client import REQUEST_SECONDS, HubClient
from edge.sync.join import JoinCode
from edge.sync.preview import Preview


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
