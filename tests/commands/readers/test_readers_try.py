"""`edge reader try` and `edge reader mappings`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.commands.conftest import Shell

EPC = "3074257BF7194E4000001A85"


def test_a_message_is_tried_with_the_settings_of_a_reader_and_with_others(edge: Shell, tmp_path: Path) -> None:
    edge.ok("location", "add", "Dock", "--key", "DOCK")
    edge.ok("asset", "add", "Pallet", "--tag", f"rfid:{EPC}")
    edge.ok("reader", "add", "dock1", "--topic", "site/dock1", "--format", "csl", "--location", "DOCK")
    told = edge.ok("reader", "try", "dock1", "--message", f'{{"tags":[{{"epc":"{EPC}","rssi":"-58"}}]}}')
    assert "ends as recorded" in told
    assert "DOCK" in told
    told = edge.ok("reader", "try", "dock1", "--message", '{"seq":1}')
    assert told == "The message ends as ignored\n"
    told = edge.ok("reader", "try", "dock1", "--message", '{"type":"SIMPLE","data":{"idHex":"30aa"}}')
    assert told == "The message ends as ignored\nBut it looks like zebra\n"
    mapping = tmp_path / "mapping.json"
    mapping.write_text('{"tag_path": "tag"}')
    file = tmp_path / "message.json"
    file.write_text(f'{{"tag":"{EPC}"}}')
    told = edge.ok("reader", "try", "dock1", "--file", str(file), "--mapping", str(mapping))
    assert "ends as recorded" in told


def test_without_a_reader_the_format_is_recognised_or_asked_for(edge: Shell) -> None:
    told = edge.ok("reader", "try", "--message", '{"type":"SIMPLE","data":{"idHex":"30aa"}}')
    assert "looks like zebra" in told
    code, told = edge("reader", "try", "--message", '{"mac":"C30A114E7F21","rssi":-70}')
    assert code == 2
    assert "perhaps" in told
    code, told = edge("reader", "try", "--message", json.dumps({"devid": "gate", "reads": [{"EPC": EPC, "ant": 1}]}))
    assert (code, 'the mapping "Keonn AdvanNet' in told) == (2, True)
    code, told = edge("reader", "try")
    assert (code, "--file FILE or --message TEXT" in told) == (2, True)


def test_a_mapping_to_begin_with_is_printed(edge: Shell) -> None:
    assert "cassia" in edge.ok("reader", "mappings")
    assert json.loads(edge.ok("reader", "mappings", "cassia"))["tag_type"] == "ble"
    assert edge("reader", "mappings", "nosuch")[0] == 2


def test_what_an_antenna_means_is_said_in_the_words_of_the_documentation(edge: Shell) -> None:
    edge.ok("location", "add", "Docks", "--key", "DOCKS")
    edge.ok("reader", "add", "dock1", "--topic", "site/dock1", "--format", "csl", "--location", "DOCKS")
    for kind in ("portal", "zone", "direct", "inherit"):
        edge.ok("reader", "kind", "dock1", kind, "--antenna", "2")
        edge.ok("location", "antennas", "DOCKS", kind)
