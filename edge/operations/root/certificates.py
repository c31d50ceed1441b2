"""Authority of this box, and its one certificate for all names that the authority covers.

Only root can read the authority's key. The authority is limited to local names and addresses, so a stolen key cannot
impersonate public sites.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from edge.operations.root.programs import fail, last_line, result, sync, works

SETTINGS = Path("/etc/edge")
AUTHORITY, AUTHORITY_KEY = SETTINGS / "authority.crt", SETTINGS / "authority.key"
FOLDER = Path("/etc/caddy/edge")
CERTIFICATE, NAMES, UNCOVERED = (FOLDER / f"edge.{kind}" for kind in ("crt", "names", "uncovered"))
MOSQUITTO_FOLDER = Path("/etc/mosquitto/certs")
_AUTHORITY_DAYS = 3650  # people install it on each device by hand, so it is valid for the lifetime of a box
_DAYS = 90
_DOMAINS = ("local", "lan", "internal", "home.arpa", "localhost")
_ONE_V4, _ONE_V6 = "255.255.255.255", ":".join(["ffff"] * 8)
_NETWORKS = (
    "10.0.0.0/255.0.0.0",
    "100.64.0.0/255.192.0.0",
    "172.16.0.0/255.240.0.0",
    "192.168.0.0/255.255.0.0",
    "169.254.0.0/255.255.0.0",
    "127.0.0.0/255.0.0.0",
    "fc00::/fe00::",
    "fe80::/ffc0::",
    f"::1/{_ONE_V6}",
)
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_CONF = """[ca]
default_ca = box
[box]
database = {0}/index.txt
rand_serial = yes
new_certs_dir = {0}
default_md = sha256
policy = any
unique_subject = no
x509_extensions = leaf
[any]
commonName = supplied
[leaf]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = {1}
"""


def permitted(names: Iterable[str], addresses: Iterable[str]) -> str:
    """Return the name constraints of an authority: local names and networks, and the present names and addresses."""
    own = [f"{address}/{_ONE_V6 if ':' in address else _ONE_V4}" for address in addresses]
    lines = [f"DNS:{name}" for name in (*_DOMAINS, *names)] + [f"IP:{network}" for network in (*_NETWORKS, *own)]
    return ",".join(f"permitted;{line}" for line in lines)


def make_authority(host: str, chosen: Iterable[str], addresses: Iterable[str]) -> None:
    """Make the authority, unless it exists. A power cut may have left one of its files empty."""
    if all(file.is_file() and file.stat().st_size for file in (AUTHORITY, AUTHORITY_KEY)):
        return
    new = AUTHORITY.with_name(f"{AUTHORITY.name}.new")
    done = result(
        "openssl", "req", "-x509", *_KEY, "-sha256", "-days", _AUTHORITY_DAYS,
        "-subj", f"/CN=edge on {host}, {time.strftime('%F')}", "-keyout", AUTHORITY_KEY, "-out", new,
        "-addext", "basicConstraints=critical,CA:TRUE,pathlen:0", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
        "-addext", f"nameConstraints=critical,{permitted([host, *chosen], addresses)}",
    )  # fmt: skip
    if done.returncode:
        fail(f"the authority cannot be made: {last_line(done.stderr)}")
    new.chmod(0o644)
    for file in (AUTHORITY_KEY, new):  # a power cut must not leave a certificate without its key
        sync(file)
    new.replace(AUTHORITY)


def make_certificate(names: Sequence[str]) -> None:
    """Make and install a certificate for the names that the authority covers, and a list of the others."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        covered, uncovered = divide(names, lambda some: _sign(folder, some))
        if not covered:
            why = last_line(result("openssl", "verify", "-CAfile", AUTHORITY, folder / "edge.crt").stderr)
            fail(
                f"{AUTHORITY} makes no valid certificate ({why}): "
                "remove it, then edge-https on --as-before, and give every device the new one"
            )
        (folder / NAMES.name).write_text("".join(f"{name}\n" for name in names), "utf-8")
        (folder / UNCOVERED.name).write_text("".join(f"{name}\n" for name in uncovered), "utf-8")
        _install(folder)


def divide(names: Sequence[str], makes_certificate: Callable[[Sequence[str]], bool]) -> tuple[list[str], list[str]]:
    """Return the names that the authority covers, and the others. The last certificate made is that of the former.

    One name outside the authority's constraints, such as a VPN address, would make the whole certificate invalid. In
    that case each name is tried alone. No name is covered if there is no valid certificate.
    """
    if makes_certificate(names):
        return list(names), []
    covered = [name for name in names if makes_certificate([name])]
    uncovered = [name for name in names if name not in covered]
    if not covered or not makes_certificate(covered):
        return [], list(names)
    return covered, uncovered


def _sign(folder: Path, names: Sequence[str]) -> bool:
    """Make a new key and a certificate. Returns whether the authority covers all these names."""
    key, request, certificate, conf = (folder / name for name in ("edge.key", "edge.csr", "edge.crt", "ca.conf"))
    (folder / "index.txt").write_text("")
    conf.write_text(_CONF.format(folder, ",".join(names)), "utf-8")
    result("openssl", "req", "-new", *_KEY, "-subj", "/CN=edge", "-keyout", key, "-out", request)
    now = datetime.now(UTC)
    start, end = ((now + timedelta(days=days)).strftime("%Y%m%d%H%M%SZ") for days in (-1, _DAYS))
    # Valid from yesterday, for devices with a slow clock.
    done = result(
        "openssl", "ca", "-batch", "-notext", "-config", conf, "-cert", AUTHORITY, "-keyfile", AUTHORITY_KEY,
        "-startdate", start, "-enddate", end, "-in", request, "-out", certificate,
    )  # fmt: skip
    if done.returncode:
        fail(done.stderr.strip())
    return not result("openssl", "verify", "-CAfile", AUTHORITY, certificate).returncode


def _install(folder: Path) -> None:
    """Install the certificate for Caddy and mosquitto, readable by each of them only."""
    works("install", "-d", "-o", "root", "-g", "caddy", "-m", "0750", FOLDER)
    _install_for("caddy", [folder / f"edge.{kind}" for kind in ("crt", "key", "names", "uncovered")], FOLDER)
    sync(FOLDER)
    if MOSQUITTO_FOLDER.is_dir():
        _install_for("mosquitto", [folder / f"edge.{kind}" for kind in ("crt", "key")], MOSQUITTO_FOLDER)


def _install_for(group: str, files: Iterable[Path], folder: Path) -> None:
    for file in files:
        target = folder / file.name
        if not works("install", "-o", "root", "-g", group, "-m", "0640", file, target):
            fail(f"{target} cannot be written")
        sync(target)


def needs_renewal(names: Iterable[str], days: int) -> bool:
    """True if the certificate is for other names, or valid for less than so many days."""
    if set(names) != set(listed(NAMES)):
        return True
    check = ("-noout", "-checkend", days * 86400)
    return bool(result("openssl", "x509", "-in", CERTIFICATE, *check).returncode)


def listed(file: Path) -> list[str]:
    """Return the names in a list, none if there is no list, as for certificates of earlier releases."""
    return file.read_text("utf-8").split() if file.is_file() else []


def is_before_authority(now: float) -> bool:
    """True for a clock that is not set yet: it would make a certificate that no device accepts."""
    began = result("openssl", "x509", "-in", AUTHORITY, "-noout", "-startdate").stdout.strip().partition("=")[2]
    return now < datetime.strptime(began, "%b %d %H:%M:%S %Y %Z").replace(tzinfo=UTC).timestamp()


def fingerprint() -> str:
    line = result("openssl", "x509", "-in", AUTHORITY, "-noout", "-fingerprint", "-sha256").stdout
    return line.strip().rpartition("=")[2]
