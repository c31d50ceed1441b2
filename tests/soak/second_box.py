"""Replace a lost computer by another one: `python -m tests.soak.second_box --box TOOL --folder DIR`.

A site is installed and used, makes its disaster file, and loses its power for good. A second computer is installed from
that file with the manual's command. Then the reader must connect with its old password and the old authority, the API
key and the trust of phones must still work, and all reads in the file must be present.
"""

from __future__ import annotations

import argparse
import re
import ssl
import tempfile
import time
import urllib.request
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from tests.soak.box import Box
from tests.soak.installed_site import ROOT, Ports, Site, add_sudo, install, put_checkout, wait_for

FILE = "/root/edge.disaster"


def take_over(first: Site, second: Box, source: Path) -> str:
    """Make the file, stop the first box, install the second. Returns the compared values."""
    authority = first.box.run("cat /etc/edge/authority.crt")
    keys = first.box.run("edge backup-key")
    private, public = re.findall(r"AGE-SECRET-KEY-\S+", keys)[0], re.findall(r'"(age1\S+)"', keys)[0]
    known = first.reader.acknowledged() if first.reader else set()
    time.sleep(3)
    first.box.run(f"edge-disaster {FILE} --recipient {public}")
    name_script = (
        "hostname; sed -n 's/^host-name=//p' /etc/avahi/avahi-daemon.conf; grep ^public_url /etc/edge/edge.toml"
    )
    names = first.box.run(name_script)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "edge.disaster"
        file.write_bytes((first.box.folder / FILE[1:]).read_bytes())
        first.box.power_cut()
        second.boot()
        add_sudo(second)
        put_checkout(second, source, "/root/edge")
        second.put(file, FILE)
    second.run(f"hostname spare; echo '{private}' >/root/key; printf '{first.ports.answers()}' >/root/answers")
    began = time.monotonic()
    command = f"cd /root/edge && systemd/install.sh --restore {FILE} --identity /root/key --answers /root/answers"
    said = second.run(command)
    assert "edge runs on this box" in said, said
    took = time.monotonic() - began
    wait_for(second, "edge doctor | grep -q '^ok *broker'", 60)
    assert second.run("cat /etc/edge/authority.crt") == authority
    assert second.run(name_script) == names
    assert _pages_are_trusted(first.ports.https, authority)
    assert _publishes(first, authority)
    present = first.api.history(first.asset_id, 0, int(time.time() * 1000) + 60_000)
    assert known <= set(present), f"{len(known - set(present))} reads are missing"
    exposure = [
        second.run(f"systemd-analyze security --no-pager {unit} | grep -o 'service: [0-9.]*'").split()[1]
        for unit in ("edge", "mosquitto", "caddy")
    ]
    checked = "pages and TLS readers trust it, names as before"
    return f"{took:.0f} s, {len(known)} reads, {checked}, exposure {', '.join(exposure)}"


def _pages_are_trusted(port: int, authority: str) -> bool:
    """Check the pages with the trust of a phone that has the authority installed."""
    context = ssl.create_default_context(cadata=authority)
    with urllib.request.urlopen(f"https://127.0.0.1:{port}/sign-in", context=context, timeout=20) as answer:
        return bool(answer.status == 200)


def _publishes(site: Site, authority: str) -> bool:
    """Publish as a reader with its old password, over TLS with the old authority."""
    user, password = site.account
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(authority)
        file.flush()
        client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=user)
        client.username_pw_set(user, password)
        client.tls_set(ca_certs=file.name)
        client.connect("127.0.0.1", site.ports.first + 4)
        client.loop_start()
        sent = client.publish("site/dock1/reads", '{"status": "online"}', qos=1)
        sent.wait_for_publish(20)
        client.disconnect()
        client.loop_stop()
    return bool(sent.is_published())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--box", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--port", type=int, default=18720, help="the first of five free ports")
    parser.add_argument("--source", type=Path, default=ROOT)
    options = parser.parse_args()
    second = Box(options.box, options.folder / "second")
    second.build()
    site = Site(Box(options.box, options.folder / "first"), Ports(options.port))
    try:
        install(site.box, site.ports, options.source)
        site.watch.wait_until_up()
        site.set_up()
        assert site.reader
        with site.reader.publishing(50):
            time.sleep(10)
        site.reader.wait_until_acknowledged()
        print(take_over(site, second, options.source))
    finally:
        site.close()
        for box in (site.box, second):
            if box.is_enabled:
                box.power_cut()


if __name__ == "__main__":
    main()
