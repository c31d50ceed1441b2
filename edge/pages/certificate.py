"""The certificate of this box's own authority, for devices that shall trust its HTTPS. Nobody has to sign in for it."""

from __future__ import annotations

import re
import ssl
from hashlib import sha256
from pathlib import Path

from flask import Response, abort, render_template, request

from edge.pages.guard import open_to_all, pages
from edge.pages.installation import installation

_PORT = re.compile(r":[0-9]*$")


@pages.get("/certificate")
@open_to_all
def certificate() -> str:
    pem = _pem()
    host = _PORT.sub("", request.host)
    return render_template("certificate.html", fingerprint=_fingerprint(pem) if pem else None, host=host)


@pages.get("/certificate/edge-authority.crt")
@open_to_all
def authority() -> Response:
    pem = _pem()
    if pem is None:
        abort(404, "HTTPS is not switched on at this box.")
    # The type that makes Android and iOS offer to install it.
    return Response(
        pem,
        mimetype="application/x-x509-ca-cert",
        headers={"Content-Disposition": 'attachment; filename="edge-authority.crt"'},
    )


def _pem() -> str | None:
    file: Path | None = installation().authority_file
    return file.read_text("ascii") if file and file.is_file() else None


def _fingerprint(pem: str) -> str:
    """As devices and OpenSSL show it: `AB:CD:…`."""
    return sha256(ssl.PEM_cert_to_DER_cert(pem)).digest().hex(":").upper()
