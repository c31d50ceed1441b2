"""The log of mosquitto, line by line, and what follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge import clock
from edge.audit import actors
from edge.audit.actors import shell
from edge.operations import saved_state
from edge.people.organizations import add_organization, list_organizations
from edge.readers import sign_ins
from edge.readers.broker_accounts import BrokerAccountRow, list_accounts, set_account
from edge.readers.readers import add_reader
from edge.readers.sign_ins import FEWEST, Refused, SignIn, SignIns
from edge.runtime import readiness
from tests.chance import began

OWN = ("edge", "edge-doctor")


def after(*lines: str, at: int = 7) -> SignIns:
    known = SignIns()
    for line in lines:
        known.note(f"1795893197: {line}", OWN, at)
    return known


def opened(address: str, port: int = 1883) -> str:
    return f"New connection from {address} on port {port}."


def signed_in(address: str, account: str) -> str:
    return f"New client connected from {address} as {account} (p2, c1, k60, u'{account}')."


def test_refused_addresses_are_counted_by_address() -> None:
    """mosquitto names neither the account nor the address in the line of a refusal."""
    lines = [
        *[opened("192.168.4.30:5001"), opened("192.168.4.31:5002"), signed_in("192.168.4.30:5001", "dock")],
        "Client <unknown> disconnected, not authorised.",
        *[opened("192.168.4.31:5003"), "Client <unknown> disconnected, not authorised."] * 2,
        *[opened("192.168.4.32:5004"), "Client <unknown> closed its connection."] * 5,
        *[opened("127.0.0.1:5005"), "Client probe disconnected, not authorised."] * 5,  # of the doctor
        "Client dock disconnected.",
    ]
    known = after(*lines)
    assert known.refused(0) == [Refused("192.168.4.31", 3, 7, "<unknown>")]
    assert known.refused(8) == []
    assert known.of("dock") == SignIn("192.168.4.30", 7, is_clear=True, since=7, is_connected=False)


def test_a_client_without_a_user_name_has_its_own_id() -> None:
    known = after(*[opened("192.168.4.31:5002"), "Client cid disconnected, not authorised."] * 3)
    assert known.refused(0) == [Refused("192.168.4.31", 3, 7, "cid")]


def test_newer_brokers_name_the_address() -> None:
    lines = [opened("fd00::7:5001"), opened("fd00::8:5002")]
    refusal = "Client <unknown> [fd00::8:5002] disconnected: not authorised."
    known = after(*lines, *[refusal] * 3)
    assert [row.address for row in known.refused(0)] == ["fd00::8"]


def test_a_wrong_password_that_was_corrected_is_forgotten_after_an_hour() -> None:
    known = SignIns()
    for number in range(4):
        known.refuse("192.168.4.31", number * clock.HOUR)
    assert known.refused(0) == []


def test_two_programs_with_the_account_of_edge() -> None:
    ours, theirs = signed_in("127.0.0.1:4001", "edge"), signed_in("192.168.4.99:4002", "edge")
    taken = "Client edge already connected, closing old connection."
    assert after(*[ours] * 20).others(0) == [], "the service was restarted often"
    assert after(theirs, taken, ours, taken).others(0) == []
    assert after(*[theirs, taken, ours] * FEWEST).others(0) == ["127.0.0.1", "192.168.4.99"]
    assert after(*[ours, taken] * FEWEST).others(0) == ["127.0.0.1"]
    assert after(*[ours, "Client dock already connected, closing old connection."] * FEWEST).others(0) == []


@pytest.fixture
def known(store: Path, monkeypatch: pytest.MonkeyPatch) -> SignIns:
    add_organization(actors.shell(actors.THE_BOX), "Acme")
    known = SignIns()
    monkeypatch.setattr(sign_ins, "SIGN_INS", known)
    return known


def test_a_reader_that_publishes_on_another_topic_is_named(known: SignIns) -> None:
    actor = shell(list_organizations()[0].id)
    reader = add_reader(actor, name="dock", topic="site/dock1/reads", format="edge")
    set_account(actor, reader.id, "x")
    accounts = list_accounts()
    assert sign_ins.unheard(accounts, {reader.id: None}) == []
    known.note(signed_in("192.168.4.31:5001", accounts[0].name), OWN, began() - clock.HOUR)
    (text,) = sign_ins.unheard(accounts, {reader.id: None})
    assert "signs in from 192.168.4.31, but nothing comes on the topic site/dock1/reads" in text
    assert sign_ins.unheard(accounts, {reader.id: 5}) == []
    known.unheard = [text]
    assert readiness.check_sign_ins().detail == text


@pytest.fixture
def account(known: SignIns) -> BrokerAccountRow:
    actor = shell(list_organizations()[0].id)
    reader = add_reader(actor, name="dock", topic="site/dock1/reads", format="edge")
    set_account(actor, reader.id, "x")
    return list_accounts()[0]


def test_a_reader_that_stays_connected_is_named_after_a_restart(
    known: SignIns, account: BrokerAccountRow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known.note(opened("192.168.4.31:5001"), OWN, began() - clock.HOUR)
    known.note(signed_in("192.168.4.31:5001", account.name), OWN, began() - clock.HOUR)
    saved_state.save(tmp_path)
    monkeypatch.setattr(sign_ins, "SIGN_INS", SignIns())
    assert sign_ins.unheard([account], {account.reader_id: None}) == []
    saved_state.load(tmp_path)
    assert len(sign_ins.unheard([account], {account.reader_id: None})) == 1
    assert sign_ins.SIGN_INS.in_clear() == known.in_clear() == [account.name]
    (tmp_path / saved_state.SIGN_INS_FILE).write_text('[["dock"]]')
    saved_state.load(tmp_path)
    assert len(sign_ins.SIGN_INS.saved()) == 1, "a damaged file changes nothing"


def test_a_reader_that_reconnects_each_minute_is_named(known: SignIns, account: BrokerAccountRow) -> None:
    for minutes in range(9, 0, -1):
        known.note(signed_in("192.168.4.31:5001", account.name), OWN, began() - minutes * clock.HOUR // 60)
    assert len(sign_ins.unheard([account], {account.reader_id: None})) == 1


def test_a_topic_that_was_changed_later_is_named_after_a_day_of_silence(
    known: SignIns, account: BrokerAccountRow
) -> None:
    last = began() - 3 * clock.DAY
    connected = signed_in("192.168.4.31:5001", account.name)
    known.note(connected, OWN, last - clock.DAY)
    assert sign_ins.unheard([account], {account.reader_id: last}) == [], "connected before the last message"
    known.note(connected, OWN, last + clock.DAY)
    assert len(sign_ins.unheard([account], {account.reader_id: last})) == 1
    known.note(connected, OWN, began() - clock.HOUR)
    assert len(sign_ins.unheard([account], {account.reader_id: last})) == 1
    known.note(f"Client {account.name} disconnected.", OWN, began())
    assert sign_ins.unheard([account], {account.reader_id: last}) == [], "it may be switched off"
    assert known.saved() == [], "and then a restart forgets it, since it may have been removed"
    known.note(connected, OWN, began() - clock.HOUR)
    assert len(sign_ins.unheard([account], {account.reader_id: last})) == 1
    assert sign_ins.unheard([account], {account.reader_id: began()}) == []


def test_readers_without_encryption_are_named_where_the_broker_offers_it(known: SignIns) -> None:
    assert readiness.check_encryption(is_accepted=False).ok
    known.tls_port = 8883
    for address, port, account in (
        ("192.168.4.30:5001", 1883, "dock"), ("fd00::7:5002", 1883, "gate"), ("192.168.4.31:5003", 8883, "safe"),
        ("127.0.0.1:5004", 1883, "bridge"), ("::1:5005", 1883, "local"), ("192.168.4.32:5006", 1883, "edge"),
    ):  # fmt: skip
        known.note(opened(address, port), OWN, began())
        known.note(signed_in(address, account), OWN, began())
    known.note(signed_in("192.168.4.33:5007", "before"), OWN, began())  # connected before edge read the log
    assert known.in_clear() == ["dock", "gate"]
    check = readiness.check_encryption(is_accepted=False)
    assert (check.ok, check.is_outside) == (False, True)
    assert "dock, gate. Set TLS with port 8883 in the reader" in check.detail
    assert readiness.check_encryption(is_accepted=True) == check._replace(ok=True), "named all the same"
    add_organization(actors.shell(actors.THE_BOX), "Rival")
    assert "2 readers without encryption" in readiness.check_encryption(is_accepted=False).detail
    for account in ("dock", "gate"):
        known.note(opened("192.168.4.30:5010", 8883), OWN, began())
        known.note(signed_in("192.168.4.30:5010", account), OWN, began())
    assert readiness.check_encryption(is_accepted=False).ok


def test_a_broker_without_tls_is_no_fault_of_a_reader(known: SignIns) -> None:
    known.note(opened("192.168.4.30:5001"), OWN, began())
    known.note(signed_in("192.168.4.30:5001", "dock"), OWN, began())
    check = readiness.check_encryption(is_accepted=False)
    assert check.ok
    assert check.detail == "without encryption, which the broker does not offer: dock"


def test_the_service_reports_refusals_and_rivals(known: SignIns) -> None:
    assert readiness.check_sign_ins().ok
    for _ in range(FEWEST):
        known.refuse("192.168.4.31", began())
    check = readiness.check_sign_ins()
    assert "the broker refuses 192.168.4.31 (3)" in check.detail
    assert check.is_outside, "a stranger must not cause the rollback of an upgrade"
    for address in ["127.0.0.1:1", "192.168.4.99:2"] * FEWEST:
        known.note(signed_in(address, "edge"), OWN, began())
        known.note("Client edge already connected, closing old connection.", OWN, began())
    assert "another program signs in at the broker as edge" in readiness.check_sign_ins().detail


def test_a_refusal_of_the_embedded_broker_names_the_version() -> None:
    known = SignIns()
    for _ in range(FEWEST):
        known.refuse("192.168.4.40", 5)
    assert sign_ins.refusals(known.refused(0)) == "the broker refuses 192.168.4.40 (3): set MQTT 3.1.1 on these devices"
