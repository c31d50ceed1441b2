"""Large responses are sent in turns, and newcomers are looked for in between."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from edge.server import turns as module
from edge.server.turns import SENDING_SECONDS, Turns
from tests.server.test_server import ASK, app_that_answers, serving


def test_who_is_cut_off_comes_before_those_who_had_a_turn() -> None:
    now, had = [0.0], list[str]()
    turns = Turns(lambda: now[0])

    def time_around(*connections: str) -> None:
        turns.begin()
        for connection in connections:
            if turns.take(connection):
                had.append(connection)
                now[0] += 0.6 * SENDING_SECONDS

    time_around("a", "b", "c", "d", "e")
    time_around("a", "b", "c", "d", "e")
    time_around("a", "b", "c", "d", "e")
    assert had == ["a", "b", "c", "d", "e"]
    time_around("a", "b")
    assert had[5:] == ["a", "b"]


def test_the_first_always_has_a_turn() -> None:
    turns = Turns(iter(range(0, 1_000, 100)).__next__)
    for _ in range(3):
        turns.begin()
        assert turns.take("a")
        assert turns.is_over()
        turns.begin()


def test_the_server_looks_for_newcomers_between_the_pieces_of_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SENDING_SECONDS", 0.0)
    sent_at_once: list[int] = [0]
    begin, take = Turns.begin, Turns.take

    def look(turns: Turns) -> None:
        sent_at_once.append(0)
        begin(turns)

    def count(turns: Turns, connection: object) -> bool:
        may = take(turns, connection)
        sent_at_once[-1] += may
        return may

    monkeypatch.setattr(Turns, "begin", look)
    monkeypatch.setattr(Turns, "take", count)
    content = b"#" * 3_000_000

    def download(address: tuple[str, int]) -> int:
        with socket.create_connection(address, 30) as client:
            client.sendall(ASK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            return len(b"".join(iter(lambda: client.recv(65_536), b"")))

    with serving(app_that_answers(content)) as listener, ThreadPoolExecutor(4) as clients:
        address = ("127.0.0.1", listener.effective_port)
        assert all(length > len(content) for length in clients.map(download, [address] * 4))
    assert max(sent_at_once) == 1
