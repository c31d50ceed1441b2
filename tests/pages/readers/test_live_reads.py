"""Live reads of a reader, kept only while somebody watches."""

from __future__ import annotations

from edge import clock
from edge.audit.actors import shell
from edge.pages.readers.live_reads import by_tag_and_antenna
from edge.people.people import Role
from edge.readers import live_reads, readers
from edge.readers.live_reads import LiveRead
from edge.tracking import antenna_names
from tests.conftest import Cast
from tests.pages.conftest import SignIn


def test_live_reads_are_kept_only_while_somebody_watches(sign_in_as: SignIn, cast: Cast) -> None:
    reader = readers.add_reader(shell(cast.acme), name="P", topic="t", format="edge")
    theirs = readers.add_reader(shell(cast.rival), name="P", topic="rival/u", format="edge")
    editor = sign_in_as(Role.EDITOR)
    read = LiveRead(reader.id, 1, "rfid", "E2AA", -55.0, clock.now(), "unmatched_tag", None)
    live_reads.note([read])
    assert "E2AA" not in editor.get(f"/readers/{reader.id}/reads").text
    live_reads.note([read, read._replace(rssi=-61.0), read._replace(antenna=2, value="E2BB")])
    text = editor.get(f"/readers/{reader.id}/reads/now").text
    assert "E2AA" in text
    assert "-61 to -55" in text
    assert "Unmatched tag" in text
    assert "E2BB" not in editor.get(f"/readers/{reader.id}/reads/now?antenna=1").text
    assert "E2AA" not in editor.get(f"/readers/{reader.id}/reads/now?tag=e2b").text
    port = antenna_names.port_of(reader.id, "North door")
    live_reads.note([read._replace(antenna=port or 0, value="E2CC")])
    text = editor.get(f"/readers/{reader.id}/reads?antenna=north+door").text
    assert "E2CC" in text
    assert "E2AA" not in text
    assert ">North door</td>" in text
    assert editor.get(f"/readers/{theirs.id}/reads").status_code == 404
    assert editor.get(f"/readers/{theirs.id}/reads/now").status_code == 404


def test_rows_of_live_reads_keep_their_order() -> None:
    came = [("B", 1), ("A", 2), ("B", 1), ("A", 1)]
    reads = [LiveRead(1, port, "rfid", tag, None, at, "recorded", 5) for at, (tag, port) in enumerate(came)]
    rows = [(row.value, row.antenna, row.reads) for row in by_tag_and_antenna(reads, 0)]
    assert rows == [("A", 1, 1), ("A", 2, 1), ("B", 1, 2)]
