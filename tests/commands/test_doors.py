"""`edge door`: doors and their antennas from the shell."""

from __future__ import annotations

from edge.people import organizations
from tests.commands.conftest import Shell
from tests.doors.site import Gate, passing


def test_a_door_from_its_first_to_its_last_day(edge: Shell) -> None:
    edge.ok("location", "add", "Dock 4", "--key", "DOCK-4")
    edge.ok("reader", "add", "dock4", "--topic", "site/dock4", "--format", "csl", "--location", "DOCK-4")
    assert "Set its antennas" in edge.ok("door", "add", "Dock 4", "--location", "DOCK-4")
    edge.ok("door", "antennas", "dock 4", "--inner", "dock4:1", "--outer", "dock4:2", "--outer", "dock4:3")
    listed = edge.ok("door", "list")
    assert "dock4 / 1" in listed
    assert "dock4 / 2, dock4 / 3" in listed
    code, output = edge("door", "antennas", "Dock 4", "--inner", "dock4:1", "--outer", "dock4:1")
    assert (code, "one side of a door only" in output) == (1, True)
    assert edge("door", "antennas", "Dock 9", "--inner", "dock4")[0] == 1
    edge.ok("door", "remove", "Dock 4")
    assert "Dock 4" not in edge.ok("door", "list")


def test_passages_are_listed(edge: Shell) -> None:
    gate = Gate(organizations.find_organization(None).id)
    gate.receive(passing(0))
    assert "out" in edge.ok("door", "passages", "Gate")
    assert "Pallet 0" in edge.ok("door", "passages", "Gate")
