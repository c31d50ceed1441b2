"""Checks of the system around edge: who can reach its ports, its time zone, and whether its journal is kept."""

from __future__ import annotations

from urllib.parse import urlsplit

from edge import clock
from edge.errors import Unavailable
from edge.operations import stats
from edge.operations.doctor.findings import Finding, Subject, ok, problem, some, warning
from edge.operations.doctor.firewall import examine
from edge.operations.doctor.https import https_port
from edge.operations.doctor.readers import SILENT
from edge.rate_limits import is_loopback


def broker_reachable(subject: Subject) -> Finding:
    """Check that the broker of this box listens for readers, and not on loopback only.

    Readers with a message within a day are on this box or reach its broker in another way, such as a bridge.
    """
    url = urlsplit(subject.config.mqtt_broker)
    if not is_loopback(subject.config.mqtt_broker):
        return ok("no readers at a broker of this box")
    try:
        lines = [line.split() for line in subject.machine.run(["ss", "-Hltn"]).splitlines()]
    except Unavailable:
        return ok("unknown: ss does not respond")
    ports = {str(url.port or 1883), str(subject.config.mqtt_tls_port)}
    listening = [words[3] for words in lines if len(words) > 3 and words[3].rpartition(":")[2] in ports]
    if listening and all(is_loopback(f"mqtt://{address}") for address in listening):
        silent = _silent_readers()
        if not silent:
            return ok(f"the broker listens on {', '.join(listening)} only, and every reader sends from this box")
        return problem(
            f"the broker listens on {', '.join(listening)} only, so readers cannot reach it: {some(silent)}",
            "remove the address from `listener` in /etc/mosquitto/conf.d, then: systemctl restart mosquitto",
        )
    return ok("the broker listens for readers")


def firewall(subject: Subject) -> Finding:
    """Check that a firewall lets readers and browsers in. Closed ports that no silent reader needs are right."""
    if subject.firewall is None:
        return ok("unknown: only root may read the rules of a firewall; run sudo edge doctor")
    readers = {urlsplit(subject.config.mqtt_broker).port or 1883, subject.config.mqtt_tls_port} - {0}
    if not is_loopback(subject.config.mqtt_broker):
        readers = set()
    pages = {port for port in (https_port(subject), subject.machine.caddy_port("http")) if port}
    found = examine(subject.firewall, readers | pages)
    closed = set(found.closed)
    if not closed:
        return ok("no firewall rule closes the ports of readers and browsers")
    listed = ", ".join(map(str, found.closed))
    if closed & readers and (closed >= readers or _silent_readers()):
        return problem(f"a firewall closes ports {listed}, so readers cannot reach the broker", found.remedy)
    if closed & pages:
        return warning(f"a firewall closes ports {listed}, so other devices cannot open the pages", found.remedy)
    return ok(f"a firewall closes ports {listed}, and every reader uses another one")


def _silent_readers() -> list[str]:
    since = clock.now() - SILENT
    return [row.name for row in stats.reader_figures() if row.is_enabled and (row.last_received_at or 0) < since]


def http_behind_https(subject: Subject) -> Finding:
    """Check that with HTTPS other devices cannot use plain HTTP at the service itself."""
    if https_port(subject) is None or is_loopback(f"http://{subject.config.http_listen}"):
        return ok("other devices use HTTPS, or HTTPS is off")
    return warning(
        f"with HTTPS on, the service also answers other devices in clear on {subject.config.http_listen}",
        'set http.listen = "127.0.0.1:PORT" in /etc/edge/edge.toml, then: sudo edge-https on --as-before',
    )


def time_zone(subject: Subject) -> Finding:
    """Check that the pages show local times."""
    if subject.config.pages_time_zone:
        return ok(subject.config.pages_time_zone)
    name = str(subject.machine.localtime.resolve()).partition("/zoneinfo/")[2]
    if name in ("", "UTC", "Etc/UTC"):
        return warning(
            "no time zone is set, so the pages show UTC",
            'timedatectl set-timezone Europe/Berlin; systemctl restart edge. If UTC is right: pages.time_zone = "UTC"',
        )
    return ok(name)


def journal(subject: Subject) -> Finding:
    """Check that journald keeps messages: without them no fault can be explained."""
    folder = subject.machine.systemd
    storage = ""
    for file in (folder / "journald.conf", *sorted(folder.glob("journald.conf.d/*.conf"))):
        if file.is_file():
            lines = [line.strip() for line in file.read_text("utf-8", "replace").splitlines()]
            storage = next((line for line in reversed(lines) if line.startswith("Storage=")), storage)
    if storage == "Storage=none":
        return warning(
            "the journal is off, so no fault can be explained",
            f"remove Storage=none from {folder}/journald.conf, then: systemctl restart systemd-journald",
        )
    return ok("the journal is kept")
