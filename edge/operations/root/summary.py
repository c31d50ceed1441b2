"""What install.sh says at its end: the addresses of this box, and the next steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from edge.operations.root.https_settings import Chosen

_USUAL = {"http": "80", "https": "443"}
_NEXT = """Next:
  sudo edge doctor           lists problems and their fixes
  sudo edge reader add ...   sets up a reader; with --account also its account at the broker
  sudo edge-https show       the fingerprint to compare when a device asks whether to trust this box
  sudo edge backup           makes a backup now; one is made every night
  sudo journalctl -u edge -f   log of the service
Labels carry {url} for years. For another name (of your DNS): http.public_url, before you print any.
Settings are in /etc/edge/edge.toml; after a change: sudo systemctl restart edge"""


class Box(NamedTuple):
    """Address on labels, port of plain HTTP, port of the broker, choice of HTTPS, and addresses."""

    public_url: str
    http_port: str
    mqtt_port: str
    https: Chosen | None
    addresses: Sequence[str]
    old_addresses: Sequence[str] = ()

    @property
    def scheme(self) -> str:
        return "https" if self.https else "http"

    @property
    def port(self) -> str:
        """Return the port of the pages as a part of an address."""
        port = self.https.port if self.https else self.http_port
        return "" if port == _USUAL[self.scheme] else f":{port}"

    @property
    def url(self) -> str:
        first = self.addresses[0] if self.addresses else ""
        return self.public_url or f"{self.scheme}://{first}{self.port}"


def addresses_of(box: Box) -> list[str]:
    """Return a line for each address of the pages and of the broker."""
    lines = [f"  pages, API, labels   {box.url}/"]
    lines += [
        f"  the same             {box.scheme}://{address}{box.port}/   (for phones that cannot resolve the name)"
        for address in box.addresses
    ]
    tls = f", with TLS mqtts://{box.addresses[0]}:{box.https.mqtt_port}" if box.https and box.addresses else ""
    lines += [f"  readers              mqtt://{address}:{box.mqtt_port}{tls}" for address in box.addresses]
    if box.old_addresses:
        old = " ".join(box.old_addresses)
        lines.append(f"  The old box had the address {old}. Give this box the same one if readers or handhelds use it")
    return lines


def next_steps(box: Box) -> str:
    return _NEXT.format(url=box.url)
