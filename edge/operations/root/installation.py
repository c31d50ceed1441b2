"""Steps of install.sh once Python is installed: `installation STEP ARGUMENT...`.

data-folder FILE                          prints the folder of the database, from a settings file
public-url NAME HTTP_PORT [HTTPS_PORT]    prints the address on labels
take-names FOLDER                         takes the names of the box whose settings are in the folder
broker                                    sets mosquitto up
summary [FOLDER]                          prints the addresses of this box, and those that the old box had
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from edge.operations.root.box_names import addresses, hostname, is_network_name, network_name
from edge.operations.root.https_settings import CHOSEN, Chosen, chosen, filled
from edge.operations.root.places import EDGE, TOML, UNITS, VENV, data_folder
from edge.operations.root.programs import begin, fail, must, read, say, works


def main() -> None:
    """Run with the folder of install.sh, the step, and its arguments."""
    begin("install.sh")
    scripts, *words = sys.argv[1:]
    try:
        _act(words, Path(scripts))
    except OSError as error:
        fail(str(error))


def _act(words: list[str], scripts: Path) -> None:
    match words:
        case ["data-folder", file]:
            say(_data_folder(Path(file)))
        case ["public-url", name, http_port, *https_port]:
            say(public_url(name, http_port, *https_port))
        case ["take-names", folder]:
            take_names(read_names(Path(folder), TOML), scripts / "edge-mdns")
        case ["broker"]:
            configure_broker(scripts, setting(_config(), "mqtt.broker"))
        case ["summary"]:
            _summarize([])
        case ["summary", folder]:
            _summarize(read_names(Path(folder), TOML).missing(addresses()))
        case _:
            fail(f"not a step: {' '.join(words)}")


def _data_folder(toml: Path) -> Path:
    try:
        return data_folder(toml)
    except ValueError as error:
        fail(f"{toml} cannot be read ({error}), and nothing was changed: fix it, or move it away")


def public_url(name: str, http_port: str, https_port: str = "") -> str:
    """Return the address on labels. Without HTTPS the port is always part of it."""
    if not https_port:
        return f"http://{name}:{http_port}"
    return f"https://{name}" if https_port == "443" else f"https://{name}:{https_port}"


def setting(config: str, name: str) -> str:
    """Return a value from the output of `edge config`."""
    found = re.search(rf"^{re.escape(name)} = (.*)$", config, re.MULTILINE)
    return found[1] if found else ""


def _config() -> str:
    output = read(EDGE, "config")
    if output is None:
        fail("the settings of edge cannot be read: sudo edge config")
    return output


def _summarize(old_addresses: list[str]) -> None:
    config = _config()
    box = Box(
        setting(config, "http.public_url"),
        setting(config, "http.listen").rpartition(":")[2],
        setting(config, "mqtt.broker").rpartition(":")[2],
        chosen() if CHOSEN.is_file() else None,
        [address for address in addresses() if ":" not in address],
        old_addresses,
    )
    say("\n== edge runs on this box and starts with it")
    say("\n".join(addresses_of(box)))
    works("sh", "-c", 'exec "$@" 2>/dev/null', "sh", VENV / "bin/segno", "--compact", "--border", "2", f"{box.url}/")
    say(next_steps(box))


_MOSQUITTO = Path("/etc/mosquitto")
_LEAST, _MOST = 128_000_000, 1_000_000_000  # bytes


def memory_limit(meminfo: str) -> int:
    """Return a quarter of the memory in bytes, within limits, from the text of /proc/meminfo."""
    total = re.search(r"^MemTotal: *([0-9]+) kB", meminfo, re.MULTILINE)
    return min(max(int(total[1] if total else 0) * 1024 // 4, _LEAST), _MOST)


def broker_settings(template: str, port: str, memory: int) -> str:
    """Return mosquitto's settings. A full queue stays below the limit, at which mosquitto refuses all clients."""
    return filled(
        template,
        mqtt_port=port,
        memory_limit=str(memory),
        queued_bytes=str(memory * 2 // 5),
        queued_messages=str(memory // 1000),
    )


def is_local_broker(broker: str) -> bool:
    return bool(re.search(r"[@/](127\.0\.0\.1|localhost):", broker))


def configure_broker(scripts: Path, broker: str) -> None:
    """Set mosquitto up for edge, unless edge uses another broker."""
    if not is_local_broker(broker):
        say(f"{broker} is not on this box, so mosquitto on this box is not changed")
        return
    port = broker.rpartition(":")[2]
    memory = memory_limit(Path("/proc/meminfo").read_text("utf-8"))
    conf = broker_settings((scripts / "mosquitto.conf").read_text("utf-8"), port, memory)
    (_MOSQUITTO / "conf.d/edge.conf").write_text(conf, "utf-8")
    drop_in = UNITS / "mosquitto.service.d"
    must("install", "-d", drop_in)
    must("install", "-m", "0644", scripts / "mosquitto-check.conf", drop_in / "edge.conf")
    for name in ("edge.passwd", "edge.acl"):
        if not (_MOSQUITTO / name).is_file():
            must("install", "-o", "mosquitto", "-g", "mosquitto", "-m", "0600", "/dev/null", _MOSQUITTO / name)
    must(EDGE, "accounts", is_quiet=True)
    must("systemctl", "daemon-reload")
    must("systemctl", "enable", "--quiet", "mosquitto")
    must(VENV / "systemd/edge-accounts")
    must("systemctl", "restart", "mosquitto")
    say(f"mosquitto on port {port}")


HOSTS, HOSTNAME = Path("/etc/hosts"), Path("/etc/hostname")


class Names(NamedTuple):
    """Names in a disaster file, empty if they are missing or not valid."""

    hostname: str
    network_name: str
    addresses: tuple[str, ...]

    def missing(self, own: Collection[str]) -> list[str]:
        """Return the addresses that this box does not have."""
        return [address for address in self.addresses if address not in own]


def names_in(text: str) -> Names:
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    host, name = values.get("HOSTNAME", ""), network_name(values.get("NETWORK_NAME", ""))
    is_host = is_network_name(host.partition(".")[0].lower()) and re.fullmatch(r"[A-Za-z0-9.-]+", host)
    return Names(
        host if is_host else "", name if is_network_name(name) else "", tuple(values.get("ADDRESSES", "").split())
    )


def names_of_labels(toml: str) -> str:
    """Return the names that a file of an earlier release has: the network name in the address of labels."""
    found = re.search(r'^public_url = "https?://([^/:"]*)\.local[/:"]', toml, re.MULTILINE)
    return f"NETWORK_NAME={found[1]}\n" if found else ""


def with_own_name(hosts: str, name: str) -> str:
    """Return /etc/hosts with the name of this box."""
    line = f"127.0.1.1 {name}"
    if re.search(r"^127\.0\.1\.1", hosts, re.MULTILINE):
        return re.sub(r"^127\.0\.1\.1.*", line, hosts, flags=re.MULTILINE)
    return f"{hosts}{line}\n"


def read_names(settings: Path, toml: Path) -> Names:
    """Return the names in the settings of a disaster file."""
    file = settings / "names"
    return names_in(file.read_text("utf-8") if file.is_file() else names_of_labels(toml.read_text("utf-8")))


def take_names(names: Names, mdns: Path) -> None:
    """Give this box the names of the old one."""
    if names.hostname and names.hostname != hostname():
        hosts = HOSTS.read_text("utf-8") if HOSTS.is_file() else ""  # a minimal Debian has none
        HOSTS.write_text(with_own_name(hosts, names.hostname), "utf-8")
        if not works("hostnamectl", "set-hostname", names.hostname):
            HOSTNAME.write_text(f"{names.hostname}\n", "utf-8")
            must("hostname", names.hostname)
    if names.network_name:
        must(mdns, "name", names.network_name)


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
