"""`edge channel`: channels from the shell."""

from __future__ import annotations

from datetime import UTC

from edge.events.worker import EventsWorker
from edge.people import organizations, secrets
from edge.rules.channels import channels
from edge.rules.channels.worker import Messages
from tests.commands.conftest import Shell
from tests.events.conftest import PACE
from tests.rules.channels.mail_server import mail_server

ADDRESSES = ("--sender", "edge@example.com", "--to", "lead@example.com")


def test_an_email_channel_from_its_first_to_its_last_day(edge: Shell) -> None:
    assert "There are no channels" in edge.ok("channel", "list")
    with mail_server() as server:
        more = ("--security", "none", "--network", "loopback", *ADDRESSES)
        edge.ok("channel", "add-email", "Shift lead", "--server", f"127.0.0.1:{server.port}", *more)
        worker = EventsWorker(PACE, messages=Messages(lambda: UTC).due)
        worker.start()
        try:
            output = edge.ok("channel", "test", "shift lead")
            assert "Shift lead accepted it in" in output
            assert "accepted for 1 recipient" in output
            server.refuse = {"lead@example.com": "550 5.1.1 no such user"}
            code, output = edge("channel", "test", "Shift lead")
            assert (code, "Shift lead did not accept it: 127.0.0.1:" in output, "550 5.1.1" in output) == (
                1,
                True,
                True,
            )
        finally:
            worker.stop()
    assert [mail.parsed["Subject"] for mail in server.mails] == ["Test: Shift lead"]
    edge.ok("channel", "disable", "Shift lead")
    assert "disabled" in edge.ok("channel", "list")
    edge.ok("channel", "enable", "Shift lead")
    edge.ok("channel", "remove", "Shift lead", "--yes")
    assert "There are no channels" in edge.ok("channel", "list")


def test_a_password_is_asked_for_and_sealed(edge: Shell) -> None:
    arguments = ("channel", "add-email", "Office", "--server", "mail.example.com", "--user", "edge", *ADDRESSES)
    assert edge(*arguments, typed="correct horse\n")[0] == 0
    (row,) = channels.list_channels(organizations.find_organization(None).id)
    assert secrets.unseal(row.secret) == "correct horse"
    assert (row.settings["port"], row.settings["security"]) == (587, "starttls")
    code, output = edge("channel", "add-email", "Two", "--server", "mail.example.com", "--security", "none", *ADDRESSES)
    assert (code, "use encryption" in output) == (1, True)
