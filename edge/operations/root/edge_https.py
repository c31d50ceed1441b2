"""HTTPS for the pages and TLS for readers on the local network, with certificates of this box's own authority.

edge-https on [--port 443] [--redirect-port 80] [--mqtt-port 8883] [--name NAME]...
                     what is not given stays as it is while HTTPS is on; names replace the earlier ones
edge-https off
edge-https show      the authority's fingerprint, to compare on a device
edge-https renew     renews the certificate if a name or address changed or it is old; run by a timer
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import NoReturn

from edge.operations.root import certificates, https_settings
from edge.operations.root.box_names import addresses, first_address, host_name_of_avahi, hostname, names_of_box
from edge.operations.root.certificates import AUTHORITY
from edge.operations.root.https_settings import CHOSEN, Chosen, chosen
from edge.operations.root.places import EDGE, ROOT_COMMANDS, TOML, UNITS, VENV
from edge.operations.root.programs import begin, fail, must, read, result, say, works

CADDYFILE = Path("/etc/caddy/Caddyfile")
CADDYFILE_BEFORE = CADDYFILE.with_name("Caddyfile.before-edge")
MOSQUITTO_CONF = Path("/etc/mosquitto/conf.d/edge-tls.conf")
SANDBOX = UNITS / "caddy.service.d/edge.conf"
WARNINGS = Path("/run/edge-https/warnings")  # shown by the doctor and on the status page until deleted
RENEW_DAYS = 30
_FIRST_YEAR = 2026


def main() -> None:
    """Run with the folder of systemd/edge-https, the caller's folder, and the arguments."""
    begin("edge-https")
    os.umask(0o077)
    words = sys.argv[3:]
    try:
        match words:
            case ["on", *options]:
                switch_on(choice(options))
            case ["off", *_]:
                switch_off()
            case ["show", *_]:
                show()
            case ["renew", *_]:
                renew()
            case _:
                _refuse()
    except OSError as error:
        fail(str(error))


def _refuse() -> NoReturn:
    say((__doc__ or "").rstrip())
    sys.exit(2)


def choice(options: list[str]) -> Chosen:
    """Return the present choice, changed by the options of `on`. `--as-before` is that of earlier releases."""
    new, names = chosen() if CHOSEN.is_file() else Chosen(), []
    options = options[options[:1] == ["--as-before"] :]
    while options:
        match options:
            case ["--port", value, *options] if value:
                new = new._replace(port=value)
            case ["--redirect-port", value, *options] if value:
                new = new._replace(redirect_port=value)
            case ["--mqtt-port", value, *options] if value:
                new = new._replace(mqtt_port=value)
            case ["--name", value, *options] if value:
                if not re.fullmatch(r"[A-Za-z0-9.-]+", value):
                    fail(f"{value} is not a name")
                names.append(value)
            case _:
                _refuse()
    return new._replace(names=tuple(names)) if names else new


def switch_on(new: Chosen) -> None:
    if time.localtime().tm_year < _FIRST_YEAR:
        today = time.strftime("%F")
        fail(f"the clock says {today}; set it first (timedatectl set-time), because certificates are valid from today")
    _install_packages()
    before, is_on = TOML.read_text("utf-8"), CHOSEN.is_file()
    toml, new = https_settings.only_for_this_box(before, new, is_on)
    CHOSEN.write_text(str(new), "utf-8")
    make_certificate(new)
    write_settings(toml, new)
    must("install", "-d", SANDBOX.parent)
    must("install", "-m", "0644", VENV / "systemd/caddy.conf", SANDBOX)
    must("systemctl", "daemon-reload")
    must("systemctl", "enable", "--quiet", "caddy", "edge-https.timer")
    if TOML.read_text("utf-8") != before:
        must("systemctl", "try-restart", "edge")  # before Caddy, which takes its port
    must("systemctl", "restart", "caddy", "edge-https.timer")
    if MOSQUITTO_CONF.is_file():
        must("systemctl", "try-restart", "mosquitto")
    _announce()
    os.sync()
    address = https_settings.secure_address(TOML.read_text("utf-8")) or f"https://{first_address()}{new.suffix}"
    say(f"HTTPS is on: {address}/")
    port = "" if new.redirect_port == "80" else f":{new.redirect_port}"
    say(f"Devices trust it after installing the certificate from http://{first_address()}{port}/certificate")
    show()


def make_certificate(new: Chosen) -> None:
    """Make the authority if there is none, and a certificate. Reports the names that it does not cover."""
    certificates.make_authority(hostname(), new.names, addresses())
    certificates.make_certificate(names_of_box(new.names))
    report_uncovered()


def switch_off() -> None:
    if not CHOSEN.is_file():
        return
    must("systemctl", "disable", "--quiet", "--now", "caddy", "edge-https.timer")
    before = chosen()
    toml = https_settings.with_tls_port(https_settings.for_all_devices(TOML.read_text("utf-8"), before), "0")
    plain = https_settings.plain_suffix(toml)
    _write_toml(https_settings.change_public_url(toml, "https", "http", plain, names_of_box(before.names)))
    if CADDYFILE_BEFORE.is_file():
        CADDYFILE_BEFORE.replace(CADDYFILE)
    for file in (
        CHOSEN,
        MOSQUITTO_CONF,
        SANDBOX,
        *(certificates.MOSQUITTO_FOLDER / f"edge.{k}" for k in ("crt", "key")),
    ):
        file.unlink(missing_ok=True)
    for folder in (WARNINGS, certificates.FOLDER):
        shutil.rmtree(folder, ignore_errors=True)
    works("rmdir", "--ignore-fail-on-non-empty", SANDBOX.parent)
    must("systemctl", "daemon-reload")
    must("systemctl", "try-restart", "edge", "mosquitto")
    _announce()
    say(f"HTTPS is off; {AUTHORITY} is kept. If HTTPS is switched on again, devices still trust it.")
    say("A browser that opened a page by name insists on HTTPS for that name for a week.")


def show() -> None:
    if not AUTHORITY.is_file():
        fail("HTTPS is off: edge-https on")
    say("Fingerprint of the authority, SHA-256; compare it with the one that the device shows:")
    say(f"  {certificates.fingerprint()}")


def renew() -> None:
    """Make a new certificate if names changed or the present one is old."""
    if not CHOSEN.is_file():
        return
    report_uncovered()
    names = names_of_box(chosen().names)
    if not certificates.needs_renewal(names, RENEW_DAYS):
        return
    if certificates.is_before_authority(time.time()):
        fail("the clock is set to a date before the authority was created. Set it: timedatectl")
    certificates.make_certificate(names)
    report_uncovered()
    if works("systemctl", "is-enabled", "--quiet", "caddy"):
        must("systemctl", "restart", "caddy")  # restart also if it failed with the old certificate
    if MOSQUITTO_CONF.is_file():
        must("systemctl", "try-restart", "mosquitto")
    uncovered = certificates.listed(certificates.UNCOVERED)
    say(f"a new certificate for {' '.join(name for name in names if name not in uncovered)}")


def report_uncovered() -> None:
    """Write a warning with the names that the authority does not cover; remove it if all are covered."""
    file = WARNINGS / "uncovered-names"
    for folder in (WARNINGS.parent, WARNINGS):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    text = warning_of(certificates.listed(certificates.UNCOVERED), chosen().suffix)
    if not text:
        file.unlink(missing_ok=True)
    elif not file.is_file() or file.read_text("utf-8") != text:
        print(text, end="", file=sys.stderr)
        file.write_text(text, "utf-8")
        file.chmod(0o644)


def warning_of(uncovered: list[str], suffix: str) -> str:
    if not uncovered:
        return ""
    names = ", ".join(name.partition(":")[2] for name in uncovered)
    name = host_name_of_avahi() or hostname()
    return (
        f"HTTPS does not work at {names}: the authority of this box covers the names and local addresses it had "
        f"when it was made. Use https://{name}.local{suffix}, which devices trust as before. All other names have a "
        "valid certificate, which is renewed by itself; after a change at once: sudo edge-https renew\n"
    )


def write_settings(toml: str, new: Chosen) -> None:
    """Write the settings of edge, Caddy and mosquitto."""
    changed = https_settings.change_public_url(toml, "http", "https", new.suffix, names_of_box(new.names))
    has_broker = MOSQUITTO_CONF.with_name("edge.conf").is_file()
    if has_broker:
        changed = changed._replace(toml=https_settings.with_tls_port(changed.toml, new.mqtt_port))
    _write_toml(changed)
    if CADDYFILE.is_file() and not CADDYFILE_BEFORE.is_file():
        CADDYFILE.replace(CADDYFILE_BEFORE)
    _write_from_template(
        "Caddyfile",
        CADDYFILE,
        http_port=port_of_service(),
        https_port=new.port,
        suffix=new.suffix,
        redirect_port=new.redirect_port,
        plain_site=new.plain_site,
        name=hostname(),
    )
    if has_broker:
        _write_from_template("mosquitto-tls.conf", MOSQUITTO_CONF, mqtt_port=new.mqtt_port)


def port_of_service() -> str:
    """Return the port of plain HTTP. The service's user can write this setting."""
    listen = re.search(r"^http\.listen = .*:([0-9]{1,5})$", read(EDGE, "config") or "", re.MULTILINE)
    if not listen:
        fail("the port of http.listen is not known: sudo edge config")
    return listen[1]


def _write_from_template(template: str, target: Path, **values: str) -> None:
    text = (VENV / "systemd" / template).read_text("utf-8")
    target.write_text(https_settings.filled(text, **values), "utf-8")
    target.chmod(0o644)


def _write_toml(changed: https_settings.PublicUrl) -> None:
    https_settings.write_toml(changed.toml)
    if changed.message:
        print(changed.message, file=sys.stderr if changed.is_error else sys.stdout, flush=True)


def _install_packages() -> None:
    missing = [package for package in ("caddy", "openssl") if not _is_installed(package)]
    if missing:
        must("apt-get", "update", "-qq")
        options = ("-y", "-qq", "--no-install-recommends")
        must("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", *options, *missing, is_quiet=True)


def _is_installed(package: str) -> bool:
    return result("dpkg-query", "-W", "-f", "${db:Status-Status}", package).stdout == "installed"


def _announce() -> None:
    mdns = ROOT_COMMANDS / "edge-mdns"
    if os.access(mdns, os.X_OK):
        must(mdns, "on")
