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
    output = edge.ok("reader", "try", "dock1", "--message", f'{{"tags":[{{"epc":"{EPC}","rssi":"-58"}}]}}')
    assert "Result: recorded" in output
    assert "DOCK" in output
    output = edge.ok("reader", "try", "dock1", "--message", '{"seq":1}')
    assert output == "Result: ignored\n"
    output = edge.ok("reader", "try", "dock1", "--message", '{"type":"SIMPLE","data":{"idHex":"30aa"}}')
    assert output == "Result: ignored\nBut it looks like zebra\n"
    mapping = tmp_path / "mapping.json"
    mapping.write_text('{"tag_path": "tag"}')
    file = tmp_path / "message.json"
    file.write_text(f'{{"tag":"{EPC}"}}')
    output = edge.ok("reader", "try", "dock1", "--file", str(file), "--mapping", str(mapping))
    assert "Result: recorded" in output


def test_without_a_reader_the_format_is_recognized_or_required(edge: Shell) -> None:
    output = edge.ok("reader", "try", "--message", '{"type":"SIMPLE","data":{"idHex":"30aa"}}')
    assert "looks like zebra" in output
    code, output = edge("reader", "try", "--message", '{"mac":"C30A114E7F21","rssi":-70}')
    assert code == 2
    assert "possibly" in output
    code, output = edge("reader", "try", "--message", json.dumps({"devid": "gate", "reads": [{"EPC": EPC, "ant": 1}]}))
    assert (code, 'the mapping "Keonn AdvanNet' in output) == (2, True)
    code, output = edge("reader", "try")
    assert (code, "--file FILE or --message TEXT" in output) == (2, True)


def test_a_mapping_to_begin_with_is_printed(edge: Shell) -> None:
    assert "cassia" in edge.ok("reader", "mappings")
    assert json.loads(edge.ok("reader", "mappings", "cassia"))["tag_type"] == "ble"
    assert edge("reader", "mappings", "nosuch")[0] == 2


def test_antenna_kinds_are_explained_as_in_the_documentation(edge: Shell) -> None:
    edge.ok("location", "add", "Docks", "--key", "DOCKS")
    edge.ok("reader", "add", "dock1", "--topic", "site/dock1", "--format", "csl", "--location", "DOCKS")
    for kind in ("portal", "zone", "direct", "inherit"):
        edge.ok("reader", "kind", "dock1", kind, "--antenna", "2")
        edge.ok("location", "antennas", "DOCKS", kind)
