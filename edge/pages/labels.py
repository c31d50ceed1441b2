"""Labels: a QR code of the record's link, which a phone's camera opens and a scanner types."""

from __future__ import annotations

import io
from ipaddress import ip_address
from urllib.parse import urlsplit

import segno
from flask import render_template, request
from markupsafe import Markup

from edge.pages.installation import installation


def address() -> str:
    """Where people open the pages: what the site has set, or else what this browser used."""
    site = installation()
    return site.public_url or request.host_url.rstrip("/")


def loopback_address() -> str | None:
    """The address on labels if it leads a phone to the phone itself: the browser is on the box, and none is set."""
    host = urlsplit(address()).hostname or ""
    try:
        is_loopback = ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost" or host.endswith(".localhost")
    return address() if is_loopback else None


def asset_link(external_key: str) -> str:
    return f"{address()}/a/{external_key}"


def location_link(external_key: str) -> str:
    return f"{address()}/l/{external_key}"


def page(name: str, key: str, link: str, back: str) -> str:
    return render_template(
        "label.html", name=name, key=key, link=link, code=qr(link), back=back, loopback=loopback_address()
    )


def qr(text: str) -> Markup:
    """An SVG that scales with its box: a fixed size would need a style, which the policy of the pages forbids."""
    out = io.BytesIO()
    segno.make(text, error="m", micro=False).save(
        out, kind="svg", xmldecl=False, svgns=True, omitsize=True, border=4, light="#fff", svgclass="qr", lineclass=None
    )
    return Markup(out.getvalue().decode())  # noqa: S704 - made of squares, the text is not in it
