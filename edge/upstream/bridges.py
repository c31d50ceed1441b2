"""Bridges: mosquitto sends the messages of an organization's readers to the broker of a service.

edge writes the configuration of mosquitto; a technician installs it. The broker queues messages during an outage like
those for edge.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import execute
from edge.database.instance import fingerprint
from edge.errors import Invalid, NotFound, SetupError
from edge.readers import readers
from edge.validation import json_text

LOOPBACK = ("127.0.0.1", "::1", "localhost")
AUTHORITIES = Path("/etc/ssl/certs")  # of the system
AUTHORITY = Path("/etc/mosquitto/ca_certificates/upstream.pem")
MAX_CREDENTIAL = 255  # characters
_PORTS = {"mqtts": 8883, "mqtt": 1883}


class Bridge(NamedTuple):
    """A row of the table `upstream_bridge`. `client_id` is used at the service's broker."""

    organization_id: int
    url: str
    client_id: str
    topics: tuple[str, ...]
    written_at: int

    @property
    def state_topic(self) -> str:
        """The topic on which mosquitto retains 1 while the bridge is connected, otherwise 0."""
        return f"$SYS/broker/connection/{self.client_id}/state"


class Credentials(NamedTuple):
    user: str
    password: str


def check_url(url: str, *, is_insecure: bool) -> str:
    """Return the address. Raises Invalid unless it is mqtts, or mqtt on loopback with `is_insecure`."""
    address = urlsplit(url)
    is_local = is_insecure and address.scheme == "mqtt" and address.hostname in LOOPBACK
    is_plain = url.isascii() and url.isprintable() and " " not in url and address.path in ("", "/")
    if not address.hostname or "@" in url or not is_plain or not (address.scheme == "mqtts" or is_local):
        raise Invalid.one("url", "invalid_value", "enter the broker's address, such as mqtts://broker.example.com:8883")
    return url.rstrip("/")


def check_credentials(credentials: Credentials) -> None:
    """Raise Invalid for texts that would not fit on a line of the configuration."""
    for text in credentials:
        if not text or text != text.strip() or not text.isprintable() or len(text) > MAX_CREDENTIAL:
            message = f"user and password have 1 to {MAX_CREDENTIAL} printable characters, without spaces at the ends"
            raise Invalid.one("user", "invalid_value", message)


def check_authority(file: Path) -> None:
    """Raise SetupError unless all users of this computer may read the file. mosquitto reads it as its own user."""
    file = file.resolve()
    try:
        is_readable = bool(file.stat().st_mode & stat.S_IROTH) and file.is_file()
        is_readable = is_readable and all(folder.stat().st_mode & stat.S_IXOTH for folder in file.parents)
    except OSError:
        is_readable = False
    if not is_readable:
        raise SetupError(
            f"{file} does not exist, or mosquitto may not read it. Copy the certificate to a folder of mosquitto: "
            f"sudo install -m 644 CERTIFICATE {AUTHORITY}; then use --ca {AUTHORITY}"
        )


def topics_of(organization_id: int) -> tuple[list[str], list[str]]:
    """Return the topics of the enabled readers, and those that mosquitto cannot bridge because they have spaces."""
    rows = [row for row in readers.list_readers(organization_id) if row.is_enabled]
    topics = sorted({topic for row in rows for topic in (row.topic, row.status_topic) if topic})
    return [topic for topic in topics if " " not in topic], [topic for topic in topics if " " in topic]


def write(actor: Actor, url: str) -> Bridge:
    """Record the bridge with the configuration that is written now. Raises Invalid without a reader."""
    topics, _ = topics_of(actor.organization_id)
    if not topics:
        raise Invalid.one("topics", "invalid_value", "There are no readers. Add one first: edge reader add")
    client_id = f"edge-bridge-{fingerprint()}-{actor.organization_id}"
    row = Bridge(actor.organization_id, url, client_id, tuple(topics), clock.now())
    with acting(actor) as act:
        execute(
            "INSERT OR REPLACE INTO upstream_bridge (organization_id, url, client_id, topics, written_at) "
            "VALUES (?, ?, ?, ?, ?)",
            (row.organization_id, row.url, row.client_id, json_text.text(row.topics), row.written_at),
        )
        act.note("upstream_bridge.written", _subject(row), {"topics": len(topics)})
    return row


def remove(actor: Actor) -> None:
    """Forget the bridge. Raises NotFound."""
    with acting(actor) as act:
        row = get(actor.organization_id)
        execute("DELETE FROM upstream_bridge WHERE organization_id = ?", (row.organization_id,))
        act.note("upstream_bridge.removed", _subject(row))


def get(organization_id: int) -> Bridge:
    """Return the bridge of an organization. Raises NotFound."""
    for row in all_bridges():
        if row.organization_id == organization_id:
            return row
    raise NotFound("There is no bridge. Write one: edge upstream bridge URL")


def all_bridges() -> list[Bridge]:
    """Return the bridges of all organizations. For diagnosis only."""
    rows = execute("SELECT organization_id, url, client_id, topics, written_at FROM upstream_bridge ORDER BY 1")
    return [Bridge(one, url, name, tuple(json_text.decode(topics)), at) for one, url, name, topics, at in rows]


def missing_topics(row: Bridge) -> list[str]:
    """Return topics of readers that the written configuration does not have."""
    return [topic for topic in topics_of(row.organization_id)[0] if topic not in row.topics]


def configuration(row: Bridge, credentials: Credentials | None, authority_file: Path | None) -> str:
    """Return the configuration for mosquitto. Without `authority_file` it trusts the authorities of the system."""
    address = urlsplit(row.url)
    lines = [
        f"connection edge-upstream-{row.organization_id}",
        f"address {address.hostname}:{address.port or _PORTS[address.scheme]}",
        f"remote_clientid {row.client_id}",
        f"local_clientid {row.client_id}",
    ]
    if credentials:
        lines += [f"remote_username {credentials.user}", f"remote_password {credentials.password}"]
    if address.scheme == "mqtts":
        lines.append(f"bridge_cafile {authority_file}" if authority_file else f"bridge_capath {AUTHORITIES}")
    lines += [
        "bridge_protocol_version mqttv311",
        "cleansession false",
        "local_cleansession false",
        "try_private false",
        "notifications_local_only true",
        "keepalive_interval 60",
        "restart_timeout 5 300",
        *(f"topic {topic} out 1" for topic in row.topics),
    ]
    note = "# Written by edge upstream bridge; changes made here are lost."
    return "\n".join([note, *lines, ""])


def _subject(row: Bridge) -> Subject:
    return Subject("upstream_bridge", row.organization_id, row.url)
