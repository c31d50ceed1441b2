"""Test certificates, made with the openssl command."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple


class Certificate(NamedTuple):
    """A certificate for 127.0.0.1; `authority` is the file that a client must trust."""

    file: Path
    key: Path
    authority: Path


def make(folder: Path, *, days: int = 2, names: str = "IP:127.0.0.1", authority_days: int = 30) -> Certificate:
    """Create a certificate valid since five days ago; with negative `days` it has expired."""
    folder.mkdir(exist_ok=True)
    ca_key, ca, key, request, file = (folder / name for name in ("ca.key", "ca.crt", "hub.key", "hub.csr", "hub.crt"))
    extensions = folder / "hub.ext"
    identifiers = "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
    extensions.write_text(f"subjectAltName={names}\nextendedKeyUsage=serverAuth\n{identifiers}")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    _openssl(
        *("req", "-x509", *curve, "-keyout", ca_key, "-out", ca, "-subj", "/CN=Test authority"),
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign", "-days", authority_days),
    )
    _openssl("req", "-new", *curve, "-keyout", key, "-out", request, "-subj", "/CN=hub")
    (folder / "index.txt").write_text("")
    (folder / "serial").write_text("01\n")
    settings = folder / "ca.cnf"
    settings.write_text(
        f"[ca]\ndefault_ca=d\n[d]\ndatabase={folder}/index.txt\nserial={folder}/serial\nnew_certs_dir={folder}\n"
        f"default_md=sha256\npolicy=p\ncertificate={ca}\nprivate_key={ca_key}\n[p]\ncommonName=supplied\n"
    )
    now = datetime.now(UTC)
    dates = [f"{now + timedelta(days=distance):%y%m%d%H%M%SZ}" for distance in (-5, days)]
    _openssl(
        *("ca", "-batch", "-config", settings, "-in", request, "-out", file, "-extfile", extensions),
        *("-startdate", dates[0], "-enddate", dates[1], "-notext"),
    )
    return Certificate(file, key, ca)


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
