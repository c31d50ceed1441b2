"""Links of records and their QR codes, which a phone's camera opens and a scanner types."""

from __future__ import annotations

import io

from flask import render_template, request
from markupsafe import Markup

from edge.rate_limits import is_loopback
from edge.services import services


def address() -> str:
    """Return the URL of the pages: from the settings, else as this browser used it, else the box's own address.

    A loopback URL is returned only if there is no other.
    """
    used = request.host_url.rstrip("/")
    urls = [url for url in (services().config.http_public_url, used, services().own_address) if url]
    return next((url for url in urls if not is_loopback(url)), used)


def has_no_address() -> bool:
    """True if other devices cannot reach this box. Labels then contain the key only."""
    return is_loopback(address())


def link(kind: str, external_key: str) -> str:
    """Return the content of the QR code on the label of an asset or location."""
    return external_key if has_no_address() else f"{address()}/{kind[0]}/{external_key}"


def page(name: str, key: str, link: str, back: str) -> str:
    return render_template(
        "labels/scanned-label.html",
        name=name,
        key=key,
        link=link,
        code=qr(link),
        back=back,
        has_no_address=has_no_address(),
    )


def qr(text: str) -> Markup:
    """Return a scalable SVG. A fixed size would need a style attribute, which the Content-Security-Policy forbids."""
    import segno  # first needed on the page of a record

    out = io.BytesIO()
    segno.make(text, error="m", micro=False).save(
        out, kind="svg", xmldecl=False, svgns=True, omitsize=True, border=4, light="#fff", svgclass="qr", lineclass=None
    )
    return Markup(out.getvalue().decode())  # noqa: S704 - contains squares only, not the text
