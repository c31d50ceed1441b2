"""Pages of expected lists: prepared from lines or CSV, live at the door, signed off as seen, downloaded; roles."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from werkzeug.test import TestResponse

from edge.database.connection import execute
from edge.doors.passage_rule import Direction
from edge.expected_lists import expected_lists
from edge.expected_lists.expected_lists import MOST_ITEMS
from edge.pages.expected_lists import expected_lists as expected_list_pages
from edge.people.people import Role
from edge.validation import xlsx
from tests.conftest import Cast
from tests.expected_lists.yard import Yard
from tests.pages.conftest import Browser

SignIn = Callable[..., Browser]


@pytest.fixture
def yard(cast: Cast) -> Yard:
    return Yard(cast.acme)


def version_in(page: str) -> str:
    return page.split('name="version" value="')[1].split('"')[0]


def test_from_preparation_to_the_signed_report(sign_in_as: SignIn, yard: Yard) -> None:
    editor, operator, viewer = (sign_in_as(role) for role in (Role.EDITOR, Role.OPERATOR, Role.VIEWER))
    assert f'value="door-{yard.door}-2"' in editor.get("/expected-lists/new").text
    table = io.BytesIO(b"external_key;tag\nP-1;\nP-2;\n")
    form: dict[str, object] = {
        "name": "Truck 12",
        "place": f"door-{yard.door}-2",
        "codes": "P-0\r\nP-1",
        "file": (table, "truck.csv"),
        "once": "truck",
    }
    answer = editor.post("/expected-lists/new", form)
    assert answer.status_code == 303
    (list_id,) = execute("SELECT id FROM expected_list").fetchone()
    path = f"/expected-lists/{list_id}"
    assert "prepared" in viewer.get("/expected-lists").text
    assert operator.post(f"{path}/start").status_code == 303
    execute("UPDATE expected_list SET started_at = ?", (yard.began,))
    live = viewer.get(f"{path}/now")
    assert viewer.get(f"{path}/now", headers={"If-None-Match": live.headers["ETag"]}).status_code == 304
    at_door = viewer.get(f"/doors/{yard.door}/now")
    yard.pass_door(0, 1)
    yard.pass_door(4, 2)
    assert "<b>1</b> of 3" in viewer.get(f"{path}/now", headers={"If-None-Match": live.headers["ETag"]}).text
    door = viewer.get(f"/doors/{yard.door}/now", headers={"If-None-Match": at_door.headers["ETag"]}).text
    assert "Surplus: " in door
    assert "<b>1</b> of 3" in door
    version = version_in(operator.get(f"{path}/sign-off").text)
    yard.pass_door(1, 3)
    refused = operator.post(f"{path}/sign-off", {"version": version})
    assert refused.status_code == 409
    assert "The list changed while you looked at it" in refused.text
    assert operator.post(f"{path}/sign-off", {"version": version_in(refused.text)}).status_code == 303
    lines = viewer.get(f"{path}.csv").text.removeprefix("\ufeff").splitlines()
    assert lines[0] == "result,external_key,name,how,time,expected_on"
    assert [line.split(",")[:2] for line in lines[1:]] == [
        ["missing", "P-2"],
        ["surplus", "P-4"],
        ["ticked", "P-0"],
        ["ticked", "P-1"],
    ]
    report = viewer.get(path).text
    assert "Signed off" in report
    assert "data-live=" not in report
    assert 'id="signed"' in viewer.get("/expected-lists").text
    assert "Surplus: " not in viewer.get(f"/doors/{yard.door}").text


def test_a_refused_form_keeps_its_input_and_names_the_codes(sign_in_as: SignIn, yard: Yard) -> None:
    editor = sign_in_as(Role.EDITOR)
    place = f"location-{yard.dock}"
    answer = editor.post("/expected-lists/new", {"name": "Truck", "place": place, "codes": "P-0\nNOPE", "once": "nope"})
    assert answer.status_code == 400
    assert "No asset has the key or tag NOPE" in answer.text
    assert f'value="{place}" selected' in answer.text
    mixed: dict[str, object] = {"name": "Truck", "place": place, "codes": "NOPE\nP-0", "once": "mixed"}
    mixed["file"] = (io.BytesIO(b"external_key\nP-1\nBC-9999\nP-1\nBC-8888\n"), "a.csv")
    answer = editor.post("/expected-lists/new", mixed)
    assert "No asset has the key or tag NOPE<" in answer.text
    assert "No asset has the key or tag in these lines. 3: BC-9999, 5: BC-8888<" in answer.text, (
        "at the field of the file"
    )
    for wrong in ("", "door-1", "door-x-2", "shelf-1", f"door-{yard.door}-4"):
        answer = editor.post("/expected-lists/new", {"name": "Truck", "place": wrong, "codes": "P-0", "once": "b"})
        assert answer.status_code == 400
    form: dict[str, object] = {"name": "Truck", "place": place, "file": (io.BytesIO(b"colour\nred\n"), "a.csv")}
    assert "is missing. The columns are external_key, tag" in editor.post("/expected-lists/new", form).text
    assert execute("SELECT count(*) FROM expected_list").fetchone() == (0,)


def test_the_file_is_read_like_a_table_of_records(sign_in_as: SignIn, yard: Yard) -> None:
    """0x8A is ä on a Macintosh and è in DOS, and both letters are common: the page asks instead of guessing."""
    editor = sign_in_as(Role.EDITOR)

    def send(data: bytes, **chosen: str) -> TestResponse:
        form = {"name": "Truck", "place": f"location-{yard.dock}", "file": (io.BytesIO(data), "truck"), **chosen}
        return editor.post("/expected-lists/new", form)

    data = "external_key\nGerät\n".encode("mac-roman")
    asked = send(data)
    assert asked.status_code == 400
    assert "DOS, Western Europe: èt" in asked.text
    assert "Macintosh: ät" in asked.text
    assert "No asset has the key or tag in these lines. 2: Gerät" in send(data, encoding="mac-roman").text
    assert send(data, encoding="rot13").status_code == 400
    with xlsx.write(["Tag", "external_key"], [["", "P-0"], ["", "P-1"]]) as file:
        assert send(file.read()).status_code == 303
    assert send(b"external_key|tag\nP-0|\n", separator="|").status_code == 303
    assert execute("SELECT count(*) FROM expected_item").fetchone() == (3,)


@pytest.mark.parametrize("is_excel", [False, True])
def test_a_file_with_more_rows_than_a_list_can_have_is_not_read_to_its_end(
    sign_in_as: SignIn, yard: Yard, *, is_excel: bool
) -> None:
    rows = [["P-0"] for _ in range(MOST_ITEMS + 1)]
    with xlsx.write(["external_key"], rows) as file:
        data = file.read() if is_excel else b"external_key\n" + b"P-0\n" * len(rows)
    form = {"name": "Truck", "place": f"location-{yard.dock}", "file": (io.BytesIO(data), "truck")}
    refused = sign_in_as(Role.EDITOR).post("/expected-lists/new", form)
    assert refused.status_code == 400
    assert "There are more than 5,000 rows" in refused.text


def test_one_file_is_read_at_a_time(sign_in_as: SignIn, yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected_list_pages, "WAIT_SECONDS", 0.01)
    editor = sign_in_as(Role.EDITOR)

    def send() -> TestResponse:
        file = (io.BytesIO(b"external_key\nP-0\n"), "truck.csv")
        return editor.post("/expected-lists/new", {"name": "Truck", "place": f"location-{yard.dock}", "file": file})

    with expected_list_pages._turns.turn(1, 0.01):
        busy = send()
    assert (busy.status_code, "The server is busy" in busy.text) == (503, True)
    assert send().status_code == 303


def test_a_second_start_and_a_start_at_a_busy_place_are_explained(sign_in_as: SignIn, yard: Yard) -> None:
    operator = sign_in_as(Role.OPERATOR)
    yard.add_list(0)
    second = yard.add_list(1, name="Truck 13", is_started=False)
    answer = operator.post(f"/expected-lists/{second}/start")
    assert answer.status_code == 409
    assert "Truck 12 is open at Gate" in answer.text


def test_roles_and_organizations(cast: Cast, sign_in_as: SignIn, yard: Yard) -> None:
    list_id = yard.add_list(0)
    theirs = Yard(cast.rival).add_list(0)
    viewer, operator, editor = (sign_in_as(role) for role in (Role.VIEWER, Role.OPERATOR, Role.EDITOR))
    assert viewer.post(f"/expected-lists/{list_id}/start").status_code == 403
    assert viewer.get(f"/expected-lists/{list_id}/sign-off").status_code == 403
    assert "Sign off</a>" not in viewer.get(f"/expected-lists/{list_id}").text
    assert operator.get("/expected-lists/new").status_code == 403
    assert operator.post(f"/expected-lists/{list_id}/remove").status_code == 403
    for path in ("", "/now", ".csv", "/sign-off"):
        assert editor.get(f"/expected-lists/{theirs}{path}").status_code == 404
    for path in ("start", "sign-off", "remove"):
        assert editor.post(f"/expected-lists/{theirs}/{path}").status_code == 404
    assert editor.post(f"/expected-lists/{list_id}/remove").status_code == 303
    assert [one.id for one in expected_lists.open_lists(cast.acme)] == []


def test_long_groups_are_cut_on_the_live_page_only(
    sign_in_as: SignIn, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expected_list_pages, "MOST_LINES", 2)
    list_id = yard.add_list(0, 1, 2)
    operator = sign_in_as(Role.OPERATOR)
    assert "1 more in the CSV file" in operator.get(f"/expected-lists/{list_id}").text
    assert "more in the CSV file" not in operator.get(f"/expected-lists/{list_id}/sign-off").text


def test_a_list_inward_says_so(sign_in_as: SignIn, yard: Yard) -> None:
    list_id = expected_lists.create(yard.olga, "Delivery", ["P-0"], door_id=yard.door, direction=Direction.IN)
    assert "Gate, in" in sign_in_as(Role.VIEWER).get(f"/expected-lists/{list_id}").text


def test_a_delivery_note_has_more_columns(sign_in_as: SignIn, yard: Yard) -> None:
    editor = sign_in_as(Role.EDITOR)
    file = io.BytesIO(b"Pos;External_Key;Menge\n1;P-0;5\n2;P-1;7\n")
    answer = editor.post(
        "/expected-lists/new", {"name": "Truck", "place": f"location-{yard.dock}", "file": (file, "a.csv"), "once": "x"}
    )
    assert answer.status_code == 303
    assert yard.results(int(answer.location.split("?")[0].rsplit("/", 1)[1])) == {"missing": ["P-0", "P-1"]}
