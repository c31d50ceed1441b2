"""The certificate of this box's own authority, for devices that shall trust its HTTPS. Nobody has to sign in for it."""

from __future__ import annotations

from pathlib import Path

from flask import Response, abort, current_app, render_template, request

from edge.pages.guard import open_to_all, pages


@pages.get("/certificate")
@open_to_all
def certificate() -> str:
    is_there = _file().is_file()
    return render_template("certificate.html", is_there=is_there, host=request.host.partition(":")[0])


@pages.get("/certificate/edge-authority.crt")
@open_to_all
def authority() -> Response:
    file = _file()
    if not file.is_file():
        abort(404, "HTTPS is not switched on at this box.")
    # The type that makes Android and iOS offer to install it.
    return Response(
        file.read_bytes(),
        mimetype="application/x-x509-ca-cert",
        headers={"Content-Disposition": 'attachment; filename="edge-authority.crt"'},
    )


def _file() -> Path:
    file: Path = current_app.extensions["authority_file"]
    return file
