"""The lists of versions: an installation gets the tested versions, and every file has a known hash."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def versions(file: str) -> dict[str, str]:
    pairs = re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / file).read_text("utf-8"), re.M)
    return {re.sub("[_.]", "-", name.lower()): version for name, version in pairs}


def test_what_is_installed_is_what_was_tested() -> None:
    tested, installed = versions("tests/constraints.txt"), versions("systemd/constraints.txt")
    assert {name: version for name, version in installed.items() if tested.get(name) != version} == {}


@pytest.mark.parametrize("folder", ["systemd", "tests"])
def test_the_hashes_are_those_of_the_versions(folder: str) -> None:
    """Otherwise run .ci/lock."""
    chosen, locked = versions(f"{folder}/constraints.txt"), versions(f"{folder}/requirements.txt")
    assert {name: version for name, version in locked.items() if chosen.get(name) != version} == {}
    assert folder == "systemd" or set(chosen) == set(locked)  # a box has no use for the broker of the demo
    for entry in re.split(r"\n(?=[\w])", (ROOT / folder / "requirements.txt").read_text("utf-8"))[1:]:
        assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry)) >= 1, entry


def test_every_library_of_the_program_is_among_them() -> None:
    wanted = re.search(r"^dependencies = \[$(.*?)^\]$", (ROOT / "pyproject.toml").read_text("utf-8"), re.M | re.S)
    assert wanted
    names = set(re.findall(r'^  "([\w-]+)', wanted[1], re.M))
    assert names
    assert names <= set(versions("systemd/requirements.txt")) & set(versions("tests/requirements.txt"))


def test_a_box_has_the_libraries_of_all_extras_but_the_broker_of_the_demo() -> None:
    """An upgrade would otherwise lose them, and a box without internet could not get them."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    names = {
        re.split(r"[\[><=]", library)[0]
        for extra, libraries in extras.items()
        if extra not in ("broker", "test")
        for library in libraries
    }
    assert names
    assert names | {"psycopg-binary", "psycopg-pool"} <= set(versions("systemd/requirements.txt"))
