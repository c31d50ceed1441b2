from collections.abc import Callable

from edge.store import retention
from edge.store.people import Role
from tests.pages.conftest import Browser


def test_what_was_dropped_is_shown(sign_in_as: Callable[..., Browser]) -> None:
    editor = sign_in_as(Role.EDITOR)
    assert "Dropped" not in editor.get("/status").text
    retention.record_dropped("only 3 MB of disk were free", {"history": 120, "dead_letters": 2})
    page = editor.get("/status").text
    assert "120 history, 2 dead letters" in page
    assert "only 3 MB of disk were free" in page
