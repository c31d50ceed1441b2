"""Suggestions for misspelled names."""

from __future__ import annotations

import pytest

from edge.validation.suggestions import did_you_mean

KNOWN = ("external_key", "name", "description", "is_active", "valid_from", "valid_to")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("nmae", "name"),
        ("Name", "name"),
        ("externalKey", "external_key"),
        ("external-key", "external_key"),
        ("isActive", "is_active"),
        ("validfrom", "valid_from"),
        ("descripton", "description"),
    ],
)
def test_a_misspelt_name_gets_the_one_that_was_meant(written: str, meant: str) -> None:
    assert did_you_mean(written, KNOWN) == f"; did you mean `{meant}`?"


@pytest.mark.parametrize("written", ["zz", "colour", "", "\ud800", "n" * 100_000])
def test_a_name_like_none_gets_none(written: str) -> None:
    assert did_you_mean(written, KNOWN) == ""
