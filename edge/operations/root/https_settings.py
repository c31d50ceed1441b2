"""Settings for HTTPS: the choice of an administrator, and its effects in edge.toml, Caddy and mosquitto."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from edge.operations.root.places import TOML
from edge.operations.root.programs import sync

SETTINGS = Path("/etc/edge")
CHOSEN = SETTINGS / "https.conf"
_PUBLIC_URL = r'^public_url = "{}://([^]:/"[]+)(:[0-9]+)?/?".*'


class Chosen(NamedTuple):
    """Ports and additional names."""

    port: str = "443"
    redirect_port: str = "80"
    mqtt_port: str = "8883"
    names: tuple[str, ...] = ()

    @property
    def suffix(self) -> str:
        """Return the port as a part of an address."""
        return "" if self.port == "443" else f":{self.port}"

    def __str__(self) -> str:
        return (
            f"PORT={self.port}\nREDIRECT_PORT={self.redirect_port}\nMQTT_PORT={self.mqtt_port}\n"
            f"NAMES={' '.join(self.names)}\n"
        )


def chosen() -> Chosen:
    """Return the present choice. Raises FileNotFoundError if HTTPS is off."""
    values = dict(line.split("=", 1) for line in CHOSEN.read_text("utf-8").splitlines() if "=" in line)
    usual = Chosen()
    return Chosen(
        values.get("PORT", usual.port),
        values.get("REDIRECT_PORT", usual.redirect_port),
        values.get("MQTT_PORT", usual.mqtt_port),
        tuple(values.get("NAMES", "").split()),
    )


class PublicUrl(NamedTuple):
    """edge.toml with another address on labels, and the message about it."""

    toml: str
    message: str
    is_error: bool = False


def change_public_url(toml: str, before: str, after: str, suffix: str, names: Collection[str]) -> PublicUrl:
    """Change scheme and port of the address on labels, if it is one of `names`, in OpenSSL's form."""
    found = re.search(_PUBLIC_URL.format(before), toml, re.MULTILINE)
    if not found:
        return PublicUrl(toml, "")
    name = found[1]
    if not {f"DNS:{name}", f"IP:{name}"} & set(names):
        return PublicUrl(
            toml,
            f"http.public_url still begins with {before}://{name}, which is not a name of this box. Check it in {TOML}",
            is_error=True,
        )
    changed = re.sub(r'^(public_url = ")[^"]*', rf"\g<1>{after}://{name}{suffix}", toml, flags=re.MULTILINE)
    return PublicUrl(changed, f"Labels printed with {before}://{name} no longer work. Print them again.")


def only_for_this_box(toml: str) -> str:
    """Let Caddy answer other devices, no longer the service."""
    return re.sub(r'^listen = "0\.0\.0\.0:', 'listen = "127.0.0.1:', toml, flags=re.MULTILINE)


def for_all_devices(toml: str) -> str:
    return re.sub(r'^listen = "127\.0\.0\.1:', 'listen = "0.0.0.0:', toml, flags=re.MULTILINE)


def with_tls_port(toml: str, port: str) -> str:
    return re.sub(r"^tls_port = .*", f"tls_port = {port}", toml, flags=re.MULTILINE)


def plain_suffix(toml: str) -> str:
    """Return the port of plain HTTP as a part of an address."""
    port = re.search(r'^listen = ".*(:[0-9]*)"', toml, re.MULTILINE)
    return "" if not port or port[1] == ":80" else port[1]


def secure_address(toml: str) -> str:
    """Return the address on labels if it is one of HTTPS, or an empty string."""
    found = re.search(r'^public_url = "(https:.*)"', toml, re.MULTILINE)
    return found[1] if found else ""


def filled(template: str, **values: str) -> str:
    """Return a template of the folder `systemd` with values for its @NAMES@."""
    for name, value in values.items():
        template = template.replace(f"@{name.upper()}@", value)
    return template


def write_toml(text: str) -> None:
    """Replace edge.toml, with its owner and mode. The doctor compares its time with the start of the service."""
    if text == TOML.read_text("utf-8"):
        return
    new = TOML.with_name(f"{TOML.name}.new")
    new.unlink(missing_ok=True)
    new.touch(0o600)  # it may contain secrets
    new.write_text(text, "utf-8")
    owner = TOML.stat()
    os.chown(new, owner.st_uid, owner.st_gid)
    shutil.copymode(TOML, new)
    sync(new)
    new.replace(TOML)
