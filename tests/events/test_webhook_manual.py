"""The example receiver in the manual verifies events and drops repeats."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from edge.events.log import KINDS
from edge.people import secrets
from tests.events.conftest import Warehouse, deliver, make_events
from tests.manual.documents import FOLDER, marked
from tests.mosquitto import free_port
from tests.service import wait_for

CHAPTER = (FOLDER / "events.md").read_text("utf-8")


@pytest.mark.real_time
def test_the_receiver_of_the_manual_verifies_and_drops_repeats(warehouse: Warehouse, tmp_path: Path) -> None:
    port = free_port()
    row = warehouse.add_webhook(f"http://127.0.0.1:{port}/")
    program = marked("run:receiver").code.replace("whsec_…", secrets.unseal(row.secret)).replace("8099", str(port))
    file = tmp_path / "receiver.py"
    file.write_text(program, "utf-8")
    pallet = warehouse.add_asset("P-1")
    warehouse.seen(pallet, "north dock", 1)
    make_events()
    with subprocess.Popen([sys.executable, file], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: answers(port) == 401, 20)
            deliver(row)
            deliver(row)  # like after a crash
            assert process.stdout
            assert [process.stdout.readline().strip() for _ in range(2)] == [b"asset.created", b"asset.arrived"]
        finally:
            process.terminate()
        assert process.stdout.read() == b""
    assert warehouse.again(row).delivered == 4


def answers(port: int) -> int:
    """Return the status for an unsigned request; 0 without an answer."""
    headers = {"webhook-id": "evt_1", "webhook-timestamp": "1", "webhook-signature": "v1,AAAA"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", b"{}", headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except urllib.error.URLError:
        return 0


def test_every_kind_of_event_is_in_the_manual() -> None:
    for kind in KINDS:
        assert f"`{kind}`" in CHAPTER
