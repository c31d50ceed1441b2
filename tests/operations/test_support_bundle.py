import time
import zipfile
from pathlib import Path

import pytest

from edge.operations.support_bundle import redact, write_bundle

SECRETS = [
    "edge_" + "0a" * 32,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl",
    "hunter2hunter2",
    "ada@example.com",
    "$7$101$cP/8mEMNDyN98wcn$76HPvLuGqFR9ihMr3hiYf7RwSc7h2h36cZjQ3ZYTrGBYTrXtL7JK1uq3CUCWuNLysG==",
    "scrypt:32768:8:1$abc$def",
    "edge-0123456789abcdef",
    "Zx9-cookie_of_a_session",
    "Zx9-cookie_of_a_device",
    "qJ2-k_T8cVZzYw1v3m5n7p9r0s2t4u6x8y0A2C4E6G8",
]
TEXT = f"""
key {SECRETS[0]} was refused; Authorization: Bearer {SECRETS[1]}
password = {SECRETS[2]}  mqtt://edge:{SECRETS[2]}@broker:1883
{SECRETS[3]} signed in
dock:{SECRETS[4]}
{SECRETS[5]}
New client connected from 127.0.0.1:41981 as {SECRETS[6]} (p2, c0, k60, u'edge').
a page failed: POST '/enrol/{SECRETS[9]}'
Cookie: edge_session={SECRETS[7]}; edge_device={SECRETS[8]}
antenna 4 of dock1 reads nothing
"""


def test_what_nobody_else_may_know_is_taken_out_and_the_rest_stays() -> None:
    text = redact(TEXT)
    assert not [secret for secret in SECRETS if secret in text]
    assert "antenna 4 of dock1 reads nothing" in text
    assert "broker:1883" in text


@pytest.mark.parametrize(
    "unit", ["a", "token", "-eyJ", "://a:", "a@", "a@a.", "secret\t\t\t", "edge-join-", "://a?", 'token="']
)
def test_redaction_takes_linear_time(unit: str) -> None:
    """Regression: 2,000 lines of hostile input took 37 s."""

    def seconds(line: str, times: int) -> float:
        began = time.process_time()
        for _ in range(times):
            redact(line)
        return time.process_time() - began

    redact(unit)
    long, short = (unit * 2_000)[:1_990], (unit * 200)[:199]
    assert min(seconds(long, 20) for _ in range(3)) < 40 * min(seconds(short, 20) for _ in range(3))


@pytest.mark.parametrize(
    "line",
    [
        *(f"x_{SECRETS[1]}", f"a-{SECRETS[1]}", f'"password": "{SECRETS[2]}"', f"my_token_file={SECRETS[2]}"),
        f'"password": "two words {SECRETS[2]}", "name": "x"',
        f"password='two words {SECRETS[2]}' host=db",
        f"Authorization: Basic {SECRETS[2]}",
        f"mqtt://:{SECRETS[2]}@broker:1883",
        f"postgresql://edge:a@b{SECRETS[2]}@db/edge",
        f"https://teams.example:8443/hook?api=1&sig={SECRETS[2]}",
        f"https://hooks.slack.com/services/T0/B0/{SECRETS[2]}",
        f"whsec_{SECRETS[2]} AGE-SECRET-KEY-1{SECRETS[2].upper()}",
    ],
)
def test_secrets_next_to_other_characters_are_taken_out(line: str) -> None:
    shown = redact(line)
    assert not [secret for secret in (*SECRETS, SECRETS[2].upper()) if secret in shown]


def test_other_words_of_the_line_stay() -> None:
    shown = redact('"password": "two words", "name": "Hall 7", "url": "https://a.example/x?y=1" and more')
    assert '"name": "Hall 7"' in shown
    assert "https://a.example/x?<hidden>" in shown
    assert shown.endswith("and more")


def test_a_bundle_tells_how_the_site_is(tmp_path: Path) -> None:
    write_bundle(tmp_path / "bundle.zip", {"doctor.json": TEXT})
    with zipfile.ZipFile(tmp_path / "bundle.zip") as bundle:
        assert {"doctor.json", "packages.txt", "journal.txt", "disk.txt"} <= set(bundle.namelist())
        everything = "".join(bundle.read(name).decode() for name in bundle.namelist())
    assert not [secret for secret in SECRETS if secret in everything]
    assert "peewee==" in everything
