"""Loans: who has borrowed an asset, and until when."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from edge import clock
from edge.audit import quotas
from edge.audit.actors import Actor
from edge.audit.audit import acting, non_empty
from edge.database.connection import execute, scalar
from edge.errors import Invalid, NotFound
from edge.records import assets
from edge.texts import N_, fill
from edge.validation import json_text
from edge.validation.values import MAX_TEXT

MAX_YEARS = 10


class LoanFilter(StrEnum):
    LENT = "lent"
    OVERDUE = "overdue"


class Loan(NamedTuple):
    asset_id: int
    borrower: str
    lent_at: int
    due_at: int | None  # end of the last day, exclusive
    lender: str

    @property
    def last_moment(self) -> int | None:
        """A moment on the last day."""
        return None if self.due_at is None else self.due_at - 1

    @property
    def is_overdue(self) -> bool:
        return self.due_at is not None and self.due_at <= clock.now()


_COLUMNS = "asset_id, borrower, lent_at, due_at, lender"
# Of the asset `a`. The first is also the filter of all lent assets.
CONDITIONS = {
    LoanFilter.LENT: "a.id IN (SELECT asset_id FROM asset_loan WHERE organization_id = :organization_id)",
    LoanFilter.OVERDUE: "a.id IN (SELECT asset_id FROM asset_loan WHERE organization_id = :organization_id "
    "AND due_at <= :loan_now)",
}


def lend(actor: Actor, asset_id: int, borrower: str, due_at: int | None = None) -> None:
    """Store who borrows the asset; a present loan is replaced. Raises NotFound, Invalid, OverQuota."""
    borrower = borrower.strip()
    if not 1 <= len(borrower) <= MAX_TEXT:
        message = fill(N_("Enter a name of at most %(number)s characters"), number=MAX_TEXT)
        raise Invalid.one("borrower", "invalid_value", message)
    now = clock.now()
    if due_at is not None and not now < due_at < now + MAX_YEARS * 366 * clock.DAY:
        message = fill(N_("Choose a day from today on, at most %(number)s years ahead"), number=MAX_YEARS)
        raise Invalid.one("due", "invalid_value", message)
    with acting(actor) as act:
        asset = assets.get(actor.organization_id, asset_id)
        present = find(actor.organization_id, asset_id)
        lent_at = present.lent_at if present and present.borrower == borrower else now
        execute(
            "INSERT INTO asset_loan (asset_id, organization_id, borrower, lent_at, due_at, lender) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (asset_id) DO UPDATE SET borrower = excluded.borrower, "
            "lent_at = excluded.lent_at, due_at = excluded.due_at, lender = excluded.lender",
            (asset_id, actor.organization_id, borrower, lent_at, due_at, actor.name),
        )
        quotas.charge(actor, quotas.ROW_BYTES)
        due = None if due_at is None else clock.rfc3339(due_at)
        act.note("asset.lent", assets.subject_of(asset), non_empty({"borrower": borrower, "due_at": due}))


def take_back(actor: Actor, asset_id: int) -> None:
    """End the loan of an asset. Raises NotFound."""
    with acting(actor) as act:
        row = execute(
            "DELETE FROM asset_loan WHERE asset_id = ? AND organization_id = ? RETURNING borrower",
            (asset_id, actor.organization_id),
        ).fetchone()
        if row is None:
            raise NotFound("no such loan")
        asset = assets.get_any(actor.organization_id, asset_id)
        act.note("asset.returned", assets.subject_of(asset), {"borrower": row[0]})


def find(organization_id: int, asset_id: int) -> Loan | None:
    return of_assets(organization_id, [asset_id]).get(asset_id)


def of_assets(organization_id: int, asset_ids: Sequence[int]) -> dict[int, Loan]:
    """Return the loans of some assets, by asset."""
    rows = execute(
        f"SELECT {_COLUMNS} FROM asset_loan WHERE +organization_id = ? "
        "AND asset_id IN (SELECT value FROM json_each(?))",
        (organization_id, json_text.text(list(asset_ids))),
    )
    return {row[0]: Loan(*row) for row in rows}


def count_overdue(organization_id: int) -> int:
    """Return the number of live assets that are overdue."""
    return scalar(
        "SELECT count(*) FROM asset_loan l JOIN asset a ON a.id = l.asset_id AND a.deleted_at IS NULL "
        "WHERE l.organization_id = ? AND l.due_at <= ?",
        (organization_id, clock.now()),
    )
