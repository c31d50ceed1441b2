"""Who has borrowed an asset, and until when."""

from __future__ import annotations

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.errors import Invalid, NotFound
from edge.records import assets, loans
from edge.records.assets import AssetRow
from edge.records.loans import LoanFilter
from edge.tracking import board
from edge.tracking.board import BoardFilter
from tests.conftest import Cast
from tests.records.lending import lend_until_yesterday


@pytest.fixture
def cage(cast: Cast) -> AssetRow:
    return assets.create(shell(cast.acme), name="Cage")


def names(cast: Cast, **filters: object) -> list[str]:
    page = board.board(cast.acme, BoardFilter(**filters), limit=50)  # type: ignore[arg-type]
    assert page.total_count == len(page.rows)
    return [row.name for row in page.rows]


def test_a_loan_ends_when_the_asset_is_returned(cast: Cast, cage: AssetRow) -> None:
    due = clock.now() + clock.DAY
    loans.lend(shell(cast.acme), cage.id, " Workshop ", due)
    loan = loans.find(cast.acme, cage.id)
    assert loan
    assert (loan.borrower, loan.due_at, loan.is_overdue) == ("Workshop", due, False)
    assert loans.find(cast.rival, cage.id) is None
    with pytest.raises(NotFound):
        loans.take_back(shell(cast.rival), cage.id)
    with pytest.raises(NotFound):
        loans.lend(shell(cast.rival), cage.id, "Thief")
    loans.take_back(shell(cast.acme), cage.id)
    assert loans.find(cast.acme, cage.id) is None
    with pytest.raises(NotFound):
        loans.take_back(shell(cast.acme), cage.id)


def test_another_day_keeps_the_start_and_another_borrower_does_not(cast: Cast, cage: AssetRow) -> None:
    loans.lend(shell(cast.acme), cage.id, "Workshop")
    first = loans.find(cast.acme, cage.id)
    loans.lend(shell(cast.acme), cage.id, "Workshop", clock.now() + clock.DAY)
    extended = loans.find(cast.acme, cage.id)
    loans.lend(shell(cast.acme), cage.id, "Ada")
    passed_on = loans.find(cast.acme, cage.id)
    assert first
    assert extended
    assert passed_on
    assert first.lent_at == extended.lent_at < passed_on.lent_at
    assert passed_on.due_at is None


@pytest.mark.parametrize(
    ("borrower", "days"), [("", 1), (" ", 1), ("x" * 256, 1), ("Ada", 0), ("Ada", -1), ("Ada", 4000)]
)
def test_invalid_loans(cast: Cast, cage: AssetRow, borrower: str, days: int) -> None:
    with pytest.raises(Invalid):
        loans.lend(shell(cast.acme), cage.id, borrower, clock.now() + days * clock.DAY)


def test_the_board_lists_lent_and_overdue_assets(cast: Cast, cage: AssetRow, monkeypatch: pytest.MonkeyPatch) -> None:
    late = assets.create(shell(cast.acme), name="Late pallet")
    assets.create(shell(cast.acme), name="Pallet here")
    gone = assets.create(shell(cast.acme), name="Retired pallet")
    loans.lend(shell(cast.acme), cage.id, "Workshop", clock.now() + clock.DAY)
    for asset in (late, gone):
        lend_until_yesterday(monkeypatch, cast.acme, asset.id)
    assets.delete(shell(cast.acme), gone.id)
    assert names(cast, loan=LoanFilter.LENT) == ["Cage", "Late pallet"]
    assert names(cast, loan=LoanFilter.OVERDUE) == ["Late pallet"]
    assert names(cast, loan=LoanFilter.LENT, q="pallet") == ["Late pallet"]
    assert names(cast, loan=LoanFilter.LENT, unseen_hours=1) == ["Cage", "Late pallet"]
    assert loans.count_overdue(cast.acme) == 1
    assert loans.count_overdue(cast.rival) == 0
