"""Shared handhelds: an administrator creates a link, and the device that opens it is enrolled."""

from __future__ import annotations

from flask import abort, redirect, render_template, request

from edge.operations.own_address import in_numbers
from edge.pages import cookies, record_links
from edge.pages.actions import add_action
from edge.pages.double_submit import once
from edge.pages.forms import Errors, text
from edge.pages.guard import Answer, actor, administrators, organization_id, public
from edge.people import devices
from edge.texts import N_


def _page(errors: Errors) -> str:
    return render_template("people/devices.html", devices=devices.list_devices(organization_id()), errors=errors)


@administrators.form("/devices", _page, "scanning#shared-handhelds")
@once
def new_device() -> str:
    """Create an enrollment link, valid for one device and one day. The response is the only page that shows it."""
    device, code = devices.invite(actor(), text(request.form, "name"))
    return _invitation(device.name, code)


@administrators.post("/devices/<int:device_id>/invite")
def invite_device_again(device_id: int) -> str:
    device = devices.get(organization_id(), device_id)
    return _invitation(device.name, devices.renew_invitation(actor(), device_id))


add_action(administrators, "/devices/<int:device_id>/revoke", devices.revoke_device, "/devices", "device-revoked")


@public.get("/enrol/<code>", manual="scanning#shared-handhelds")
def enrollment(code: str) -> str:
    """Show a confirmation page only, because a preview in the camera app must not use up the link."""
    return render_template("people/enrol.html", device=devices.find_by_code(code) or abort(404, _SPENT), code=code)


@public.post("/enrol/<code>")
def enrol(code: str) -> Answer:
    enrolled = devices.enrol(code)
    if enrolled is None:
        abort(404, _SPENT)
    _, token = enrolled
    response = redirect("/sign-in?next=/scan", 303)
    cookies.write(response, cookies.DEVICE, token, cookies.LONGEST_SECONDS)
    return response


_SPENT = N_("This link was used or has expired. Ask an administrator for a new one (Devices).")


def _invitation(name: str, code: str) -> str:
    link = f"{record_links.address()}/enrol/{code}"
    numbers = in_numbers(link)
    return render_template(
        "people/invite-device.html",
        name=name,
        links=[(url, record_links.qr(url)) for url in (link, numbers) if url],
    )
