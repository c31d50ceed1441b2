"""Correction of history after an antenna had a wrong location: an offer after the change, a preview, then one click.

Corrections too large for a request have to be made by the command that the page shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from urllib.parse import urlencode

from flask import render_template, request

from edge import clock
from edge.errors import Invalid, NotFound
from edge.pages.forms import Errors, errors_of, text, whole
from edge.pages.guard import Answer, actor, administrators, has_role, organization_id
from edge.pages.notices import done
from edge.people.people import Role
from edge.readers import correction_offers, location_corrections, readers
from edge.readers.correction_offers import Offer
from edge.readers.location_corrections import Correction, Preview
from edge.services import services
from edge.texts import N_
from edge.tracking import antenna_names, location_board


@administrators.get("/readers/<int:reader_id>/correct", manual="positions#location-corrections")
def show_correction(reader_id: int) -> str | tuple[str, int]:
    """Show the form and, once filled in, a preview of the changes."""
    if not request.args:
        return _page(reader_id, {}, None, {})
    try:
        correction = _entered(reader_id, request.args)
        preview = location_corrections.preview(organization_id(), correction, is_bounded=True)
    except (Invalid, NotFound) as error:
        return _page(reader_id, request.args, None, errors_of(error)), 400
    return _page(reader_id, request.args, preview, {}, correction)


@administrators.post("/readers/<int:reader_id>/correct")
def correct_history(reader_id: int) -> Answer:
    try:
        correction = _entered(reader_id, request.form)
        preview = location_corrections.preview(organization_id(), correction, is_bounded=True)
        if preview.is_too_large:
            return _page(reader_id, request.form, preview, {}, correction), 409
        location_corrections.correct(actor(), correction, services().config.sighting_gap)
    except (Invalid, NotFound) as error:
        return _page(reader_id, request.form, None, errors_of(error)), 400
    return done(f"/readers/{reader_id}", "changed")


def saved_location(reader_id: int, port: int | None, was_id: int | None) -> Answer:
    """Redirect to the reader, with an offer to correct history if the location of an antenna changed."""
    offered = correction_offers.offers(organization_id(), reader_id, port, was_id)
    if not offered:
        return done(f"/readers/{reader_id}", "changed")
    asked = {"was": was_id, **({} if port is None else {"port": port})}
    return done(f"/readers/{reader_id}?{urlencode(asked)}", "changed")


def offers_shown(reader_id: int) -> list[tuple[Offer, str]]:
    """Return the offers in the URL, each with the URL of its preview."""
    was_id, port = request.args.get("was", type=whole), request.args.get("port", type=whole)
    if was_id is None or not has_role(Role.ADMINISTRATOR):
        return []
    offers = correction_offers.offers(organization_id(), reader_id, port, was_id)
    return [(offer, f"/readers/{reader_id}/correct?{urlencode(_filled_in(offer))}") for offer in offers]


def _filled_in(offer: Offer) -> dict[str, str]:
    """Return the form values for an offer."""
    since = clock.to_datetime(offer.since).astimezone(services().zone)
    values = {"was": str(offer.was.id), "right": str(offer.right.id), "since": f"{since:%Y-%m-%dT%H:%M:%S}"}
    return values if offer.port is None else {"port": str(offer.port), **values}


def _entered(reader_id: int, values: Mapping[str, str]) -> Correction:
    readers.get_reader(organization_id(), reader_id)
    port = text(values, "port")
    return Correction(
        reader_id,
        antenna_names.port_from(reader_id, port) if port else None,
        _location("was", values),
        _location("right", values),
        _moment("since", values),
        _moment("until", values) if values.get("until") else clock.now(),
    )


def _location(field: str, values: Mapping[str, str]) -> int:
    try:
        return whole(values.get(field, ""))
    except ValueError as error:
        raise Invalid.one(field, "required", N_("Choose a location")) from error


def _moment(field: str, values: Mapping[str, str]) -> int:
    """Parse a time in the time zone of the site unless it contains an offset."""
    try:
        entered = datetime.fromisoformat(values.get(field, ""))
    except ValueError as error:
        raise Invalid.one(field, "invalid_value", N_("Enter a day and a time")) from error
    return clock.to_micros(entered if entered.tzinfo else entered.replace(tzinfo=services().zone))


def _page(
    reader_id: int,
    values: Mapping[str, str],
    preview: Preview | None,
    errors: Errors,
    correction: Correction | None = None,
) -> str:
    is_too_large = preview is not None and preview.is_too_large
    return render_template(
        "readers/correct-location.html",
        reader=readers.get_reader(organization_id(), reader_id),
        values=values,
        preview=preview,
        command=correction_offers.command(organization_id(), correction) if is_too_large and correction else None,
        errors=errors,
        locations=location_board.choices(organization_id()),
    )
