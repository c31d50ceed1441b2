"""Lending and returning on the page of an asset."""

from __future__ import annotations

from flask import request

from edge.errors import EdgeError, Invalid
from edge.pages.actions import add_action
from edge.pages.dates import begin_of_day
from edge.pages.forms import errors_of, typable
from edge.pages.guard import Answer, actor, operators
from edge.pages.notices import done
from edge.pages.records.asset import asset_page
from edge.records import loans
from edge.texts import N_


@operators.post("/assets/<int:asset_id>/loan")
def lend_asset(asset_id: int) -> Answer:
    """Store the borrower and the last day, or change them."""
    borrower, due = typable(request.form.get("borrower", "")), request.form.get("due", "").strip()
    try:
        due_at = begin_of_day(due, 1) if due else None
        if due and due_at is None:
            raise Invalid.one("due", "invalid_value", N_("Choose a day"))
        loans.lend(actor(), asset_id, borrower, due_at)
    except EdgeError as error:
        errors = errors_of(error)
        return asset_page(asset_id, loan_errors=errors, borrower=borrower, due=due), 400
    return done(f"/assets/{asset_id}", "lent")


add_action(operators, "/assets/<int:asset_id>/loan/end", loans.take_back, "/assets/{asset_id}", "returned")
