"""Tests are in the folder of the tested code: those of `edge/tracking/stays.py` are in `tests/tracking`."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
EDGE = TESTS.parent / "edge"

# These test more than one room: pages in a browser, the whole application, the installation.
SUBJECTS = {"browser", "security", "simulation", "systemd", "soak", "bench"}


def folders_of_tests() -> set[str]:
    return {file.parent.relative_to(TESTS).as_posix() for file in TESTS.rglob("test_*.py")}


def test_a_folder_of_tests_is_called_after_a_room() -> None:
    rooms = {folder for folder in folders_of_tests() if folder != "." and folder.split("/")[0] not in SUBJECTS}
    rooms -= {"api/model"}
    assert sorted(room for room in rooms if not (EDGE / room).is_dir()) == []


def test_every_room_has_tests() -> None:
    rooms = {folder.name for folder in EDGE.iterdir() if (folder / "__init__.py").is_file()}
    assert sorted(rooms - {folder.split("/")[0] for folder in folders_of_tests()}) == []
