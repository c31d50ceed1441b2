"""Announce the name, the pages and the broker of this box with avahi, for phones and readers in the network.

  edge-mdns on           announces them; run it after each change of a port. Does nothing without avahi
  edge-mdns off          removes the announcement; the name stays until avahi-daemon.conf is changed
  edge-mdns name NAME    renames the box to NAME.local; the name must be unique in the network

A name set by an administrator in avahi-daemon.conf is kept. If two boxes have the same name, avahi renames the later
one to NAME-2.local, and the order can change at every start. Each box therefore needs its own name.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator

from edge.operations.root.box_names import AVAHI, AVAHI_CONF, host_name_of_avahi, is_network_name, network_name
from edge.operations.root.https_settings import CHOSEN, Chosen, chosen, write_toml
from edge.operations.root.places import EDGE, ROOT_COMMANDS, TOML
from edge.operations.root.programs import begin, fail, must, read, say, works

SERVICES = AVAHI / "services/edge.service"
_DEFAULT = "edge"
_USAGE_LINES = 8


def main() -> None:
    """Run with the folder of systemd/edge-mdns, the caller's folder, and the arguments."""
    begin("edge-mdns")
    os.umask(0o022)  # avahi runs as its own user, and edge-https, which calls this, has a stricter umask
    try:
        match sys.argv[3:]:
            case ["on", *_]:
                announce()
            case ["off", *_]:
                SERVICES.unlink(missing_ok=True)
            case ["name", name, *_] if name:
                rename(name)
            case ["name", *_]:
                fail("a name is missing")
            case _:
                say("\n".join((__doc__ or "").splitlines()[:_USAGE_LINES]))
                sys.exit(2)
    except OSError as error:
        fail(str(error))


def announce() -> None:
    if not SERVICES.parent.is_dir():
        return
    if not host_name_of_avahi():
        set_name(_DEFAULT)
    settings = read(EDGE, "config")
    if settings is None:
        fail("the settings of edge cannot be read: sudo edge config")
    new = SERVICES.with_name(f"{SERVICES.name}.new")
    new.write_text(service_group(settings, chosen() if CHOSEN.is_file() else None), "utf-8")
    new.replace(SERVICES)  # avahi notices by itself
    if not works("systemctl", "enable", "--quiet", "--now", "avahi-daemon"):
        problem = "avahi-daemon does not start, so the name of the box does not resolve: systemctl status avahi-daemon"
        print(problem, file=sys.stderr)


def service_group(settings: str, https: Chosen | None) -> str:
    """Return avahi's file for the output of `edge config` and the choice of HTTPS."""
    services = "".join(
        f"  <service><type>{kind}</type><port>{port}</port></service>\n" for kind, port in _ports(settings, https)
    )
    return f'<service-group>\n  <name replace-wildcards="yes">edge on %h</name>\n{services}</service-group>\n'


def _ports(settings: str, https: Chosen | None) -> Iterator[tuple[str, str]]:
    if https:
        yield "_https._tcp", https.port
        yield "_http._tcp", https.redirect_port
        yield "_secure-mqtt._tcp", https.mqtt_port
    elif listen := re.search(r"^http\.listen = .*:([0-9]+)$", settings, re.MULTILINE):
        yield "_http._tcp", listen[1]
    if broker := re.search(r"^mqtt\.broker = .*[@/](?:127\.0\.0\.1|localhost):([0-9]+)$", settings, re.MULTILINE):
        yield "_mqtt._tcp", broker[1]


def rename(given: str) -> None:
    """Rename the box: renews the certificate and changes the address on future labels."""
    name = network_name(given)
    if not is_network_name(name):
        fail(f"{name} is not a name: letters a to z, digits, hyphens")
    if not SERVICES.parent.is_dir():
        fail("there is no avahi: apt-get install avahi-daemon")
    before = host_name_of_avahi()
    set_name(name)
    if not TOML.is_file():  # during installation
        return
    https = ROOT_COMMANDS / "edge-https"
    if os.access(https, os.X_OK):
        must(https, "renew")
    toml = TOML.read_text("utf-8")
    changed = renamed(toml, before, name)
    if changed != toml:
        write_toml(changed)
        must("systemctl", "try-restart", "edge")
        say(f"Labels printed with {before}.local no longer work. Print them again.")


def renamed(toml: str, before: str, name: str) -> str:
    """Return the settings with another name in the address on labels, if it has the previous one."""
    if not before:
        return toml
    address = rf'^(public_url = "https?://){re.escape(before)}\.local(?=[:"])'
    return re.sub(address, rf"\g<1>{name}.local", toml, flags=re.MULTILINE)


def set_name(name: str) -> None:
    """Let avahi use a name at once."""
    conf = AVAHI_CONF.read_text("utf-8", "surrogateescape")
    new = AVAHI_CONF.with_name(f"{AVAHI_CONF.name}.new")
    new.write_text(with_host_name(conf, name), "utf-8", "surrogateescape")
    shutil.copymode(AVAHI_CONF, new)
    new.replace(AVAHI_CONF)
    must("systemctl", "try-restart", "avahi-daemon")


def with_host_name(conf: str, name: str) -> str:
    """Return avahi's settings with a name, in the place of the present one or of the comment with the default."""
    line = f"host-name={name}"
    for present, count in ((r"^host-name=.*", 0), (r"^#host-name=.*", 1)):
        if re.search(present, conf, re.MULTILINE):
            return re.sub(present, line, conf, count=count, flags=re.MULTILINE)
    return re.sub(r"^\[server\]", f"[server]\n{line}", conf, flags=re.MULTILINE)
