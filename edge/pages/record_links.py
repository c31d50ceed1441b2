"""Labels: a QR code of the record's link, which a phone's camera opens and a scanner types."""

from __future__ import annotations

import io

import segno
from flask import render_template, request
from markupsafe import Markup

from edge.limits import is_loopback
from edge.services import services


def address() -> str:
    """Where people open the pages: what the site has set, or what this browser used, or else the box's own address.

    One that leads each device to itself is used only if there is no other.
    """
    used = request.host_url.rstrip("/")
    urls = [url for url in (services().config.http_public_url, used, services().own_address) if url]
    return next((url for url in urls if not is_loopback(url)), used)


def has_no_address() -> bool:
    """Whether no other device reaches this box, as far as it knows: labels then carry the key only."""
    return is_loopback(address())


def asset_link(external_key: str) -> str:
    """What the QR code of an asset's label holds."""
    return external_key if has_no_address() else f"{address()}/a/{external_key}"


def location_link(external_key: str) -> str:
    """What the QR code of a location's label holds."""
    return external_key if has_no_address() else f"{address()}/l/{external_key}"


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
    """An SVG that scales with its box: a fixed size would need a style, which the policy of the pages forbids."""
    out = io.BytesIO()
    segno.make(text, error="m", micro=False).save(
        out, kind="svg", xmldecl=False, svgns=True, omitsize=True, border=4, light="#fff", svgclass="qr", lineclass=None
    )
    return Markup(out.getvalue().decode())  # noqa: S704 - made of squares, the text is not in it
