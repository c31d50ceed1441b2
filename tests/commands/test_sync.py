"""`edge sync`: status and conflicts of a hub."""

from __future__ import annotations

import pytest

from edge.runtime.readiness import Check
from tests.commands.conftest import Shell


def test_a_hub_says_that_its_disk_is_nearly_full_since_its_sites_wait_then(
    edge: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    edge.ok("sync", "add-site", "BER", "Berlin", "--url", "https://hub.lan")
    assert "Disk" not in edge.ok("--set", "retention.low_disk_mb=0", "sync", "status")
    monkeypatch.setattr("edge.commands.sync.check_disk", lambda *_: Check("disk", False, "only 3 MB are free"))
    output = edge.ok("sync", "status")
    assert (
        "Disk of this hub: only 3 MB are free. When it is full, the hub refuses data and the sites keep it." in output
    )
