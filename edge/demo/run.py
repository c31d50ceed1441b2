"""`edge demo`: runs the real service on a demo site, with simulated readers."""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Iterator, Set
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

from edge import clock
from edge.clock import SECOND
from edge.config.settings import Config
from edge.database.connection import FILE_NAME
from edge.demo.plan import Plan, demo_folder, read_plan
from edge.demo.publishing import Connections, connected
from edge.demo.simulation import publish_heartbeats, simulated_readers
from edge.demo.site import Access, open_or_create
from edge.errors import SetupError
from edge.readers import status
from edge.runtime import serve
from edge.tracking import report
from edge.tracking.report import AssetLocationFilter

HOST = "127.0.0.1"
USUAL_HTTP_PORT, USUAL_MQTT_PORT = 8080, 1883
PAST_SECONDS = 1800
HEARTBEAT_SECONDS = 60.0
ASK_EVERY_SECONDS = 0.05
MARK = "demo-site"


class Demo(NamedTuple):
    """A running demo. `taken` are default ports in use by other programs; `kept_in` is None for a temporary site."""

    plan: Plan
    access: Access
    address: str
    mqtt_port: int
    taken: Set[int]
    kept_in: Path | None


@contextmanager
def running_demo(keep: Path | None, http_port: int | None = None, mqtt_port: int | None = None) -> Iterator[Demo]:
    """Run the demo during the block. Ports that are not given are the default ones, or free ones if those are in use.

    Raises SetupError if `keep` holds another site or a given port is in use.
    """
    plan = read_plan(demo_folder())
    with ExitStack() as stack:
        folder = (
            _demo_folder(keep) if keep else Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edge-demo-")))
        )
        pages, broker = _port(http_port, USUAL_HTTP_PORT), _port(mqtt_port, USUAL_MQTT_PORT)
        config = Config(
            data_dir=folder,
            environment="preview",
            log_level="warning",
            http_listen=f"{HOST}:{pages}",
            mqtt_broker="embedded",
            mqtt_listen=f"{HOST}:{broker}",
        )
        address = stack.enter_context(serve.running(config))
        past = clock.now() - PAST_SECONDS * SECOND
        access = open_or_create(plan, past)
        connections = stack.enter_context(connected(plan.simulated, HOST, broker))
        _wait_for_heartbeats(plan, connections, access.organization_id)
        since = max(past, report.newest_scan() + 1)
        known_locations = _known_locations(access.organization_id)
        random = Random()  # noqa: S311  simulated movement only
        stack.enter_context(simulated_readers(plan, connections, since, known_locations, random))
        ports = ((http_port, USUAL_HTTP_PORT, pages), (mqtt_port, USUAL_MQTT_PORT, broker))
        taken = {usual for given, usual, port in ports if given is None and port != usual}
        yield Demo(plan, access, address, broker, taken, keep)


def _demo_folder(folder: Path) -> Path:
    """Prepare an empty folder or an earlier demo site. Raises SetupError for the site of a real warehouse."""
    if (folder / FILE_NAME).exists() and not (folder / MARK).exists():
        raise SetupError(f"{folder} contains a site that is not a demo. Pass a new folder to --keep.")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / MARK).write_text(
            "A demo site of edge, created by `edge demo --keep`. It can be deleted at any time.\n"
        )
    except OSError as error:
        raise SetupError(f"{folder} cannot be used: {error.strerror}. Pass a writable folder to --keep.") from error
    return folder


def _port(given: int | None, usual: int) -> int:
    port = free_port(given or usual)
    if given and port != given:
        raise SetupError(f"Port {given} is in use by another program. Pass another port, or none to use a free one.")
    return port


def free_port(usual: int) -> int:
    """Return the usual port, or any free one. Raises SetupError."""
    for port in (usual, 0):
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind((HOST, port))
            except OSError:
                continue
            number: int = trial.getsockname()[1]
            return number
    raise SetupError(f"No port of {HOST} is free.")


def _wait_for_heartbeats(plan: Plan, connections: Connections, organization_id: int) -> None:
    """Publish heartbeats until the service has received one of each reader: earlier messages would be lost."""
    begun, deadline = clock.now(), time.monotonic() + HEARTBEAT_SECONDS
    while True:
        publish_heartbeats(plan, connections, clock.now())
        states = status.statuses(organization_id).values()
        if sum(state.received_at >= begun for state in states) >= len(plan.simulated):
            return
        if time.monotonic() > deadline:
            raise SetupError(
                "The service receives no messages from the simulated readers. Run again with --set log_level=debug."
            )
        time.sleep(ASK_EVERY_SECONDS)


def _known_locations(organization_id: int) -> dict[str, str]:
    """Return location keys by asset key, as an earlier run left them."""
    known = report.list_asset_locations(organization_id, AssetLocationFilter(), limit=-1)
    return {row.asset_external_key: row.location_external_key for row in known.rows if row.location_external_key}
