"""README and manual: links, anchors, names of files and commands are right, and each block of commands has its test."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

from edge.cli import cli
from edge.formats import registry
from edge.manual import INDEX
from edge.manual.markdown import anchor
from tests.manual.documents import DOCUMENTS, FOLDER, ROOT, Block, blocks
from tests.test_imports import FLOORS

BLOCKS = list(blocks())
OF_COMMANDS = [one for one in BLOCKS if one.language in ("sh", "python")]
OF_DATA = [one for one in BLOCKS if one.language in ("json", "toml")]
TEXTS = {path: path.read_text("utf-8") for path in DOCUMENTS}
QUOTED = sorted({code for text in TEXTS.values() for code in re.findall(r"`((?:sudo )?edge [a-z][^`\n]*)`", text)})
TYPED = sorted({line for block in BLOCKS if block.language == "sh" for line in block.lines})
COMMANDS = sorted({line.removeprefix("sudo ") for line in (*QUOTED, *TYPED) if re.match("(sudo )?edge ", line)})
UPGRADE = (ROOT / "systemd" / "edge-upgrade").read_text("utf-8")  # `edge upgrade`, of an installed site
SITE_ONLY = {"systemd/answers"}  # made by the technician
README_LINES = 150


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_exists_with_its_options(line: str) -> None:
    arguments = shlex.split(line, comments=True)[1:]
    if arguments[0] == "upgrade":
        assert all(word in UPGRADE for word in arguments if word.startswith("--"))
        return
    command: click.Command = cli
    while isinstance(command, click.Group) and (arguments or not command.invoke_without_command):
        assert arguments, f"{line} is not complete"
        if arguments[0].startswith("-"):
            break
        inner = command.get_command(click.Context(command), arguments[0])
        assert inner, f"{line}: no such command"
        command, arguments = inner, arguments[1:]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word.partition("=")[0] for word in arguments if word.startswith("--")} <= known | {"--help"}


@pytest.mark.parametrize("block", OF_COMMANDS, ids=lambda one: one.place)
def test_each_block_of_commands_is_run_or_says_why_not(block: Block) -> None:
    kind, _, name = block.marker.partition(":")
    assert kind in ("run", "site", "not run"), block.marker
    assert name.strip(), block.marker


@pytest.mark.parametrize("block", OF_DATA, ids=lambda one: one.place)
def test_an_example_can_be_parsed(block: Block) -> None:
    if block.language == "json":
        json.loads(block.code)
    else:
        tomllib.loads(block.code)


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_every_link_leads_to_a_file_and_a_heading(document: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", TEXTS[document]):
        path, _, part = (link[0] or link[1]).partition("#")
        if ":" in path or path.startswith("/"):
            continue
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), f"{document.name}: {link}"
        if document.is_relative_to(FOLDER) and path:
            assert target.is_relative_to(FOLDER), f"{document.name}: {link} is not on the box"
        if part:
            headings = re.findall(r"(?m)^#+ (.*)$", target.read_text("utf-8"))
            assert part in {anchor(heading.replace("`", "")) for heading in headings}, f"{document.name}: {link}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_every_file_folder_and_module_that_is_named_exists(document: Path) -> None:
    for path in re.findall(r"`((?:edge|web|tests|systemd|data|\.ci)/[\w./-]*)[ `]", TEXTS[document]):
        assert (ROOT / path).exists() or path in SITE_ONLY, path
    for module in re.findall(r"\b(tests(?:\.\w+)+)", TEXTS[document]):
        path = ROOT / module.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").exists(), module


def test_every_format_of_a_reader_is_listed() -> None:
    listed = set(re.findall(r"(?m)^\| .* \| `(\w+)`", TEXTS[FOLDER / "readers.md"]))
    assert set(registry.FORMATS) <= listed


@pytest.mark.parametrize("document", DOCUMENTS[1:], ids=ids)
def test_a_chapter_begins_with_its_title_and_has_each_heading_once(document: Path) -> None:
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", TEXTS[document])
    assert text.startswith("# ")
    headings = re.findall(r"(?m)^#+ (.*)$", text)
    assert len(headings) == len(set(headings))
    assert len(re.findall(r"(?m)^# ", text)) == 1


def test_the_index_leads_to_every_chapter() -> None:
    from edge.manual.manual import Manual

    assert set(Manual(FOLDER).names) == {path.relative_to(FOLDER).with_suffix("").as_posix() for path in DOCUMENTS[1:]}
    assert Manual(FOLDER).names[0] == INDEX


def test_the_readme_is_short_and_has_the_commands_that_scripts_run() -> None:
    readme = TEXTS[ROOT / "README.md"]
    assert len(readme.splitlines()) <= README_LINES
    assert {block.marker for block in BLOCKS if block.document == ROOT / "README.md"} >= {"run:demo", "run:test"}


QUOTATIONS = {"database is locked", "this record is kept at BER; change it there"}  # of SQLite; with the code of a site


def test_every_quoted_text_of_the_program_is_in_it() -> None:
    folders = [(ROOT / "edge", "*.py"), (ROOT / "web", "*.html"), (ROOT / "web", "*.js"), (ROOT / "systemd", "edge-*")]
    sources = [path.read_text("utf-8") for folder, names in folders for path in folder.rglob(names)]
    program = " ".join(sources).casefold()
    for document in DOCUMENTS[1:]:
        prose = re.sub(r"(?ms)^ *```.*?^ *```$|`[^`]*`", "", TEXTS[document])
        for quoted in set(re.findall(r'"([^"\n]+)"', prose)) - QUOTATIONS:
            assert quoted.casefold() in program, f"{document.name}: {quoted}"


def test_every_room_is_in_the_map() -> None:
    named = set(re.findall(r"`edge/(\w+)(?:/|\.py)", TEXTS[FOLDER / "architecture.md"]))
    small = {"clock", "errors", "logs", "metrics", "terminal", "texts"}  # "and others"
    assert {room for rooms in FLOORS for room in rooms} - small <= named


def test_every_decision_record_that_code_names_exists() -> None:
    sources = [path.read_text("utf-8") for path in (ROOT / "edge").rglob("*.py")]
    records = {record for text in sources for record in re.findall(r"Decision record: (web/manual/\S+)", text)}
    assert len(records) >= 6
    assert [record for record in records if not (ROOT / record).exists()] == []
