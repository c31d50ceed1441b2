"""`edge sync`: status and conflicts of a hub."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from edge.runtime.readiness import Check
from edge.sync import enrollment, files
from edge.sync.store import hub_link
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


@pytest.mark.parametrize("command", ["join", "recover"])
def test_the_code_of_another_site_does_not_replace_the_key_of_this_box(
    edge: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    """`edge sync recover` wrote the key of the other site before it refused."""
    answer = {"code": "BER", "hub_name": "Acme", "client_id": "ber", "client_secret": "of Berlin", "hub_id": "H"}

    @contextmanager
    def client(_code: enrollment.JoinCode) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(join=lambda *_: answer)

    monkeypatch.setattr("edge.sync.enrollment.client", client)
    code = enrollment.code_for("https://hub", "secret", None)
    edge.ok("sync", "join", "--yes", code)
    answer |= {"code": "HAM", "client_id": "ham", "client_secret": "of Hamburg"}
    hub_link.update(restored_from=1)  # else there is nothing to recover
    status, output = edge("sync", command, code)
    assert "This box is the site BER of Acme, and the code is for HAM of Acme. Leave first: edge sync leave." in output
    assert (status, files.read(tmp_path)[0]) == (1, "of Berlin")
