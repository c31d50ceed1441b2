"""Site, hub and proxy are killed at random moments: no data is lost or duplicated.

The long form: python -m tests.sync.test_sender_kills 200
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

import pytest

from edge.database import connection
from edge.people import people
from edge.people.people import Role
from edge.people.secrets import hash_secret
from edge.sync.client import HubClient
from edge.sync.sender import LinkError, Sender
from edge.sync.store import sites
from edge.sync.store.hub_link import find
from tests.mosquitto import free_port
from tests.service import wait_for
from tests.sync import processes, tls
from tests.sync.processes import Process
from tests.sync.world import EPOCH, Hub, SiteBox, assert_equal

pytestmark = pytest.mark.slow

SECRET = "edge_" + "0" * 64


def kill(folder: Path, kills: int, seed: int) -> str:
    """Run a site with random kills, and compare all rows. Returns a summary."""
    chance = random.Random(seed)
    hub = Hub(folder / "hub", "hub")
    ber = SiteBox(folder / "ber", "BER", hub)
    for number in range(5):
        ber.scan(ber.add_asset(f"P-{number}", f"AA0{number}"), 0, EPOCH)
    with ber.in_use():
        people.add_person(ber.actor, "Ann", Role.OPERATOR)
    ber.join()
    with hub.in_use():
        sites.renew_code(hub.actor, ber.site_no, hash_secret("code"))
        joined = sites.join(hash_secret("code"), hash_secret(SECRET))
        assert joined
        assert joined.api_key_id
        key = (joined.api_key_id, SECRET)
    certificate = tls.make(folder / "tls")
    inner, outer = free_port(), free_port()
    url = f"https://127.0.0.1:{outer}"
    running = {
        "hub": Process(lambda: processes.hub(hub.folder, inner)),
        "proxy": Process(lambda: processes.proxy(outer, inner, certificate, seed, 0.1)),
        "site": Process(lambda: processes.site(ber, url, key, certificate.authority, seed)),
    }
    killed = dict.fromkeys(running, 0)
    try:
        for _ in range(kills):
            _wait_for_batches(ber, _batches(ber) + chance.randrange(4))
            time.sleep(chance.uniform(0, 0.1))  # varies the moment of the kill; waits for no event
            victim = chance.choice([*running])
            running[victim].kill()
            killed[victim] += 1
            running[victim].start()
        running["site"].kill()
        running["proxy"].kill()
        running["proxy"] = Process(lambda: processes.proxy(outer, inner, certificate, seed, 0))
        _settle(ber, url, key, certificate)
    finally:
        for process in running.values():
            process.kill()
    assert_equal(ber)
    assert ber.rows("SELECT * FROM set_aside") == hub.rows("SELECT * FROM set_aside") == []
    rows = hub.rows("SELECT count(*) FROM history")[0][0]
    batches = _batches(ber)
    assert batches >= kills, "hardly anything was told between the kills"
    return f"{killed}: {rows} stays equal at both ends, {batches} batches acknowledged"


def _batches(ber: SiteBox) -> int:
    """Return the number of batches that the hub has acknowledged."""
    number: int = ber.rows("SELECT count(*) FROM checkpoint")[0][0]
    return number


def _wait_for_batches(ber: SiteBox, number: int) -> None:
    """Wait until there is data to lose, even on a busy machine."""
    wait_for(lambda: _batches(ber) >= number, 120, lambda: f"{_batches(ber)} batches instead of {number}")


def _settle(ber: SiteBox, url: str, key: tuple[str, str], certificate: tls.Certificate) -> None:
    deadline = time.monotonic() + 60
    with ber.in_use():
        while True:
            client = HubClient(url, *key, certificate.authority)
            try:
                sender = Sender(client.call)
                sender.connect()
                while not (sender.push().is_all and not sender.push().rows):
                    pass
            except LinkError:
                assert time.monotonic() < deadline, find()
            else:
                return
            finally:
                client.close()


def test_no_data_is_lost_or_duplicated(tmp_path: Path) -> None:
    kill(tmp_path, 12, 1)


@pytest.mark.parametrize(
    ("days", "authority", "advice"), [(-1, "own", "clock of this box"), (2, "another", "new join code")]
)
def test_an_untrusted_certificate_is_reported(tmp_path: Path, days: int, authority: str, advice: str) -> None:
    certificate = tls.make(tmp_path / "tls", days=days)
    trusted = certificate if authority == "own" else tls.make(tmp_path / "another")
    outer = free_port()
    proxy = Process(lambda: processes.proxy(outer, outer, certificate, 1, 0))
    client = HubClient(f"https://127.0.0.1:{outer}", "id", SECRET, trusted.authority)
    try:
        deadline = time.monotonic() + 20
        said = "cannot be reached"
        while "cannot be reached" in said:  # until the proxy listens
            assert time.monotonic() < deadline, said
            with pytest.raises(LinkError) as caught:
                client.call("hello", b"")
            said = str(caught.value)
    finally:
        client.close()
        proxy.kill()
    assert "certificate was rejected" in said
    assert advice in said


def main() -> None:
    connection.PRAGMAS["synchronous"] = "off"  # only processes are killed, not the computer
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        print(kill(Path(folder), kills, int(began)))
        print(f"{kills} kills in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
