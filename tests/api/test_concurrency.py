"""Concurrent writes have one consistent outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from flask import Flask

from edge.database.connection import close_database
from tests.api.conftest import Api, data


def at_once(app: Flask, api: Api, count: int, request: Callable[[Api, int], Any]) -> list[Any]:
    start, answers = threading.Barrier(count), []

    def run(number: int) -> None:
        mine = object.__new__(Api)
        mine.__dict__ |= api.__dict__ | {"client": app.test_client()}
        start.wait()
        answers.append(request(mine, number))
        close_database()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_parallel_creates_without_a_key_get_consecutive_keys(app: Flask, acme: Api) -> None:
    """interface: Auto-mint 3"""
    answers = at_once(app, acme, 16, lambda api, _: data(api.post("/locations", {"name": "x"}))["external_key"])
    assert sorted(answers) == [f"LOC-{number:03d}" for number in range(1, 17)]


def test_exactly_one_of_several_parallel_creates_with_one_key_wins(app: Flask, acme: Api) -> None:
    """interface: Write operations 5; Identifiers external_key, tag natural key"""
    body = {"name": "x", "external_key": "ONE", "tags": [{"tag_type": "rfid", "value": "E1"}]}
    answers = at_once(app, acme, 16, lambda api, _: api.post("/assets", body).status_code)
    assert sorted(answers) == [201] + [409] * 15


def test_two_reparentings_cannot_make_a_cycle_together(app: Flask, acme: Api) -> None:
    """interface: Write operations 2"""
    for _ in range(5):
        a, b = acme.make("/locations"), acme.make("/locations")
        moves = [(a, b), (b, a)]
        answers = at_once(
            app,
            acme,
            2,
            lambda api, number, moves=moves: (
                api.patch(f"/locations/{moves[number][0]['id']}", {"parent_id": moves[number][1]["id"]}).status_code
            ),
        )
        assert sorted(answers) == [200, 409]


def test_one_of_several_parallel_patches_of_the_same_version_wins(app: Flask, acme: Api) -> None:
    """interface: Asset updated_at; Errors 5"""
    made = acme.make("/assets")
    answers = at_once(
        app,
        acme,
        8,
        lambda api, number: (
            api.patch(f"/assets/{made['id']}", {"name": f"n{number}", "updated_at": made["updated_at"]}).status_code
        ),
    )
    assert sorted(answers) == [200] + [400] * 7


def test_exactly_one_of_several_parallel_deletes_wins(app: Flask, acme: Api) -> None:
    path = f"/assets/{acme.make('/assets')['id']}"
    answers = at_once(app, acme, 8, lambda api, _: api.delete(path).status_code)
    assert sorted(answers) == [204] + [404] * 7
