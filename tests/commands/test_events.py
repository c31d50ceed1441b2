"""`edge events`: destinations from the shell."""

from __future__ import annotations

import re
from pathlib import Path

from edge.database.connection import close_database
from edge.events import destinations, detection
from edge.events.worker import EventsWorker
from edge.people import organizations, secrets
from tests.commands.conftest import Shell
from tests.events.conftest import PACE
from tests.events.receiver import receiving


def test_a_webhook_from_its_first_to_its_last_day(edge: Shell) -> None:
    with receiving() as receiver:
        text = edge.ok("events", "add-webhook", "ERP", receiver.url, "--on", "asset.moved", "--network", "loopback")
        secret = re.search(r"whsec_\S+", text)
        assert secret
        (row,) = destinations.list_destinations(organizations.find_organization(None).id)
        assert secrets.unseal(row.secret) == secret[0]
        assert detection.is_running(), "what happens before the service looks for destinations is logged, too"
        assert "asset.moved" in edge.ok("events", "list")
        worker = EventsWorker(PACE)
        worker.start()
        try:
            assert "ERP accepted it in" in edge.ok("events", "test", "ERP")
            receiver.answer = lambda _: 404
            code, output = edge("events", "test", "ERP")
            assert (code, "ERP did not accept it: 404 Not Found" in output) == (1, True)
        finally:
            worker.stop()
    assert "404 Not Found" in edge.ok("events", "show", "ERP")
    edge.ok("events", "disable", "ERP")
    assert "disabled" in edge.ok("events", "list")
    edge.ok("events", "enable", "ERP")
    assert re.search(r"whsec_\S+", edge.ok("events", "new-secret", "ERP"))
    edge.ok("events", "remove", "ERP", "--yes")
    assert "There are no destinations" in edge.ok("events", "list")


def test_a_broker_with_its_password(edge: Shell, tmp_path: Path) -> None:
    edge.ok("location", "add", "Dock 1", "--key", "DOCK-1")
    url = "mqtts://edge@broker.example"
    edge.ok("events", "add-mqtt", "Plant", url, "--sign-in", "--location", "DOCK-1", typed="broker word\n")
    (row,) = destinations.list_destinations(organizations.find_organization(None).id)
    assert secrets.unseal(row.secret) == "broker word"
    close_database()
    assert b"broker word" not in b"".join(file.read_bytes() for file in tmp_path.glob("edge.db*"))


def test_invalid_input_is_reported_and_changes_nothing(edge: Shell) -> None:
    for arguments, message in (
        (("add-webhook", "ERP", "http://erp.example/"), "https://"),
        (("add-webhook", "ERP", "https://erp.example/", "--on", "asset.exploded"), "asset.exploded is none of"),
        (("add-webhook", "ERP", "https://erp.example/", "--location", "NOWHERE"), "There is no location NOWHERE"),
        (("add-mqtt", "Plant", "mqtts://b.example", "--topic", "a/#"), "cannot contain + or #"),
        (("test", "ERP"), "There is no destination ERP"),
    ):
        code, output = edge("events", *arguments)
        assert (code, message in output) == (1, True), output
    assert "There are no destinations" in edge.ok("events", "list")
