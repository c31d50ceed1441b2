"""Refresh tokens: each works once within 30 days, and reuse revokes the family."""

from __future__ import annotations

import threading

import pytest

from edge import clock
from edge.database.connection import execute
from edge.people import refresh_tokens, tokens
from tests.api.conftest import Api, error, refresh, works


def test_a_refresh_rotates_the_pair(acme: Api) -> None:
    """interface: Authentication 4; States 4"""
    first = acme.exchange().json or {}
    second = refresh(acme, first["refresh_token"]).json
    assert second["refresh_token"] != first["refresh_token"]
    assert works(acme, second["access_token"])
    assert works(acme, first["access_token"])


def test_replaying_a_refresh_token_is_401_and_ends_the_whole_chain_at_once(acme: Api) -> None:
    """interface: Authentication 4; States 4; Type unauthorized; Authentication"""
    first = acme.exchange().json or {}
    second = refresh(acme, first["refresh_token"]).json
    replay = refresh(acme, first["refresh_token"])
    assert (replay.status_code, error(replay)["type"]) == (401, "unauthorized")
    assert not works(acme, first["access_token"])
    assert not works(acme, second["access_token"])
    assert refresh(acme, second["refresh_token"]).status_code == 401
    assert works(acme), "another chain of the same key goes on"


def test_exactly_one_of_several_concurrent_refreshes_with_one_token_wins(acme: Api) -> None:
    """interface: Authentication"""
    token = (acme.exchange().json or {})["refresh_token"]
    start, answers = threading.Barrier(8), []

    def race() -> None:
        start.wait()
        answers.append(tokens.refresh("production", token))

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [pair for pair in answers if pair]
    assert len(winners) == 1
    assert not works(acme, winners[0].access_token), "the others count as replays"


@pytest.mark.parametrize(("back", "is_valid"), [(59, True), (61, False), (60 * 24 * 365, False)])
def test_tokens_of_a_clock_ahead_expire_when_it_is_set_back(
    acme: Api, monkeypatch: pytest.MonkeyPatch, back: int, is_valid: bool
) -> None:
    """Otherwise they would be valid for too long."""
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now + back * 60 * clock.SECOND)
    pair = acme.exchange().json or {}
    monkeypatch.setattr(clock, "now", lambda: now)
    assert works(acme, pair["access_token"]) is is_valid
    assert (refresh(acme, pair["refresh_token"]).status_code == 200) is is_valid


def test_a_refresh_token_works_for_30_days(acme: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """interface: Authentication 3; Limit refresh token"""
    first, second = acme.exchange().json or {}, acme.exchange().json or {}
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now + 30 * clock.DAY - 2 * clock.SECOND)
    assert refresh(acme, first["refresh_token"]).status_code == 200
    monkeypatch.setattr(clock, "now", lambda: now + 30 * clock.DAY)
    assert refresh(acme, second["refresh_token"]).status_code == 401


def test_exchanges_and_refreshes_keep_a_limited_number_of_rows(acme: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """50 exchanges a second, which the rate limit lets through, would add a gigabyte in two days."""
    monkeypatch.setattr(refresh_tokens, "MOST_FAMILIES", 3)
    monkeypatch.setattr(refresh_tokens, "MOST_SPENT", 2)
    pairs = [acme.exchange().json or {} for _ in range(5)]
    assert execute("SELECT count(*) FROM token_family").fetchone()[0] == 3
    assert [works(acme, pair["access_token"]) for pair in pairs] == [False, False, True, True, True]
    token = pairs[-1]["refresh_token"]
    for _ in range(6):
        token = (refresh(acme, token).json or {})["refresh_token"]
    newest = "SELECT count(*) FROM refresh_token WHERE family_id = (SELECT max(no) FROM token_family)"
    assert execute(newest).fetchone()[0] == 3, "two that are spent and the valid one"
    assert refresh(acme, token).status_code == 200


def test_the_chain_that_was_used_longest_ago_makes_room(acme: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh_tokens, "MOST_FAMILIES", 3)
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    pairs = []
    for _ in range(3):
        now += clock.SECOND
        pairs.append(acme.exchange().json or {})
    now += clock.SECOND
    in_use = refresh(acme, pairs[0]["refresh_token"]).json or {}
    now += clock.SECOND
    acme.exchange()
    assert works(acme, in_use["access_token"])
    assert [works(acme, pair["access_token"]) for pair in pairs] == [True, False, True]
