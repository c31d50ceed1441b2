"""The way of a request through the code stays short. A change that needs more raises a number and says why."""

from __future__ import annotations

from tests import ways
from tests.api.conftest import Api


def test_get_of_one_asset(acme: Api) -> None:
    made = acme.make("/assets", name="Pallet")
    files, functions = ways.of(lambda: acme.get(f"/assets/{made['id']}"))
    assert files <= 13
    assert functions <= 38  # one is the look at the User-Agent, for which no text of a stranger is kept


def test_patch_of_one_asset(acme: Api) -> None:
    made = acme.make("/assets", name="Pallet")
    names = iter("ABCDEF")
    files, functions = ways.of(lambda: acme.patch(f"/assets/{made['id']}", {"name": next(names)}))
    assert files <= 27
    assert functions <= 95
