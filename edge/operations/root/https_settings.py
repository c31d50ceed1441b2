"""Settings for HTTPS: the choice of an administrator, and its effects in edge.toml, Caddy and mosquitto."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from edge.operations.root.places import TOML
from edge.operations.root.programs import sync

SETTINGS = Path("/etc/edge")
CHOSEN = SETTINGS / "https.conf"
_LISTEN = r'^(\[http\]\n(?:[^\[\n].*\n|\n)*?listen = ")(0\.0\.0\.0|127\.0\.0\.1):([0-9]{1,5})"'
_PUBLIC_URL = r'^public_url = "{}://([^]:/"[]+)(:[0-9]+)?/?".*'


class Chosen(NamedTuple):
    """Ports and additional names. `plain_port` had plain HTTP before, and Caddy serves it; empty: it is not known."""

    port: str = "443"
    redirect_port: str = "80"
    mqtt_port: str = "8883"
    names: tuple[str, ...] = ()
    plain_port: str = ""

    @property
    def suffix(self) -> str:
        """Return the port as a part of an address."""
        return "" if self.port == "443" else f":{self.port}"

    def __str__(self) -> str:
        return (
            f"PORT={self.port}\nREDIRECT_PORT={self.redirect_port}\nMQTT_PORT={self.mqtt_port}\n"
            f"NAMES={' '.join(self.names)}\nPLAIN_PORT={self.plain_port}\n"
        )

    @property
    def plain_site(self) -> str:
        """Return the plain port as one more address of a site of Caddy, unless it is the redirect's."""
        return f", http://:{self.plain_port}" if self.plain_port not in ("", self.redirect_port) else ""


def chosen() -> Chosen:
    """Return the present choice. Raises FileNotFoundError if HTTPS is off."""
    values = dict(line.split("=", 1) for line in CHOSEN.read_text("utf-8").splitlines() if "=" in line)
    usual = Chosen()
    return Chosen(
        values.get("PORT", usual.port),
        values.get("REDIRECT_PORT", usual.redirect_port),
        values.get("MQTT_PORT", usual.mqtt_port),
        tuple(values.get("NAMES", "").split()),
        values.get("PLAIN_PORT", ""),
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


def only_for_this_box(toml: str, before: Chosen, is_on: bool) -> tuple[str, Chosen]:
    """Move the service to a port for this box only, so Caddy can answer other devices on its plain port.

    Releases that left that port to the service are recognized. A listening address of another kind is kept.
    """
    listen = re.search(_LISTEN, toml, re.MULTILINE)
    is_ours = is_on and before.plain_port in ("", listen[3] if listen else "")
    if not listen or (listen[2] != "0.0.0.0" and not is_ours):  # noqa: S104  compared
        return toml, before
    return _listening(toml, f"127.0.0.1:{free_port()}"), before._replace(plain_port=listen[3])


def for_all_devices(toml: str, before: Chosen) -> str:
    """Let the service answer other devices again, at the port that it had before."""
    listen = re.search(_LISTEN, toml, re.MULTILINE)
    if not listen or listen[2] == "0.0.0.0":  # noqa: S104  compared
        return toml
    return _listening(toml, f"0.0.0.0:{before.plain_port or listen[3]}")


def _listening(toml: str, address: str) -> str:
    return re.sub(_LISTEN, rf'\g<1>{address}"', toml, count=1, flags=re.MULTILINE)


def free_port() -> str:
    """Return a port that no program of this box uses, and no outgoing connection."""
    return next((str(port) for port in range(18080, 18180) if _is_free(port)), "18080")


def _is_free(port: int) -> bool:
    with socket.socket() as one, suppress(OSError):
        one.bind(("127.0.0.1", port))
        return True
    return False


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
