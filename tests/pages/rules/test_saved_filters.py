"""Saved filters on the board, and the page that sends their lists by email."""

from __future__ import annotations

from edge.audit.actors import shell
from edge.people.people import Role
from edge.rules import saved_filters
from edge.rules.channels import channels
from edge.rules.channels.channels import NewChannel, Schedule
from tests.conftest import Cast
from tests.pages.conftest import SignIn, Site


def test_a_filter_is_saved_on_the_board_and_removed(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    editor, viewer = sign_in_as(Role.EDITOR), sign_in_as(Role.VIEWER)
    assert "Save filter" not in editor.get("/").text
    assert "Save filter" in editor.get("/?show=overdue").text
    fields = {"name": "Late ones", "show": "overdue", "location": str(site.hall.id)}
    saved = editor.post("/filters", fields)
    assert saved.location == f"/?location={site.hall.id}&show=overdue&done=filter-saved"
    assert f"/?location={site.hall.id}&amp;show=overdue" in viewer.get("/").text
    assert "Save filter" not in editor.get(f"/?location={site.hall.id}&show=overdue").text
    again = editor.post("/filters", fields)
    assert again.status_code == 409
    assert "A filter Late ones already exists" in again.text
    (row,) = saved_filters.list_filters(cast.acme)
    assert "Remove" not in viewer.get("/filters").text
    assert editor.post(f"/filters/{row.no}/remove").status_code == 303
    assert "Late ones" not in viewer.get("/").text


def test_an_administrator_sends_a_list_by_email(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    admin, path = sign_in_as(Role.ADMINISTRATOR), ""
    admin.post("/filters", {"name": "Missing", "unseen": "24"})
    (row,) = saved_filters.list_filters(cast.acme)
    path = f"/filters/{row.no}/mail"
    assert "No channel for email" in admin.get(path).text
    new = NewChannel("email", "Office", {"host": "mail.example.com"}, b"", Schedule())
    channel = channels.add(shell(cast.acme), new).no
    assert admin.post(path, {"channel": str(channel), "day": "1", "time": "07:30"}).location == "/filters?done=changed"
    row = saved_filters.get(cast.acme, row.no)
    assert (row.channel_no, row.minute, row.weekday) == (channel, 450, 0)
    assert "Mondays at 07:30" in admin.get("/filters").text
    for wrong in ({"time": "25:00"}, {"time": ""}, {"day": "9"}, {"channel": "12345"}):
        assert admin.post(path, {"channel": str(channel), "day": "0", "time": "07:30", **wrong}).status_code == 400
    admin.post(path, {"channel": "", "day": "0", "time": "06:00"})
    assert saved_filters.get(cast.acme, row.no).next_at is None
