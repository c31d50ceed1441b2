"""Steps of install.sh once Python is installed: `installation STEP ARGUMENT...`.

data-folder FILE                          prints the folder of the database, from a settings file
public-url NAME HTTP_PORT [HTTPS_PORT]    prints the address on labels
take-names FOLDER                         takes the names of the box whose settings are in the folder
broker                                    sets mosquitto up
summary [FOLDER]                          prints the addresses of this box, and those that the old box had
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from edge.operations.root import local_broker, old_box
from edge.operations.root.box_names import addresses
from edge.operations.root.https_settings import CHOSEN, chosen
from edge.operations.root.places import EDGE, TOML, VENV, data_folder
from edge.operations.root.programs import begin, fail, read, say, works
from edge.operations.root.summary import Box, addresses_of, next_steps


def main() -> None:
    """Run with the folder of install.sh, the step, and its arguments."""
    begin("install.sh")
    scripts, *words = sys.argv[1:]
    try:
        _act(words, Path(scripts))
    except OSError as error:
        fail(str(error))


def _act(words: list[str], scripts: Path) -> None:
    match words:
        case ["data-folder", file]:
            say(_data_folder(Path(file)))
        case ["public-url", name, http_port, *https_port]:
            say(public_url(name, http_port, *https_port))
        case ["take-names", folder]:
            old_box.take_names(old_box.read_names(Path(folder), TOML), scripts / "edge-mdns")
        case ["broker"]:
            local_broker.configure(scripts, setting(_config(), "mqtt.broker"))
        case ["summary"]:
            _summarize([])
        case ["summary", folder]:
            _summarize(old_box.read_names(Path(folder), TOML).missing(addresses()))
        case _:
            fail(f"not a step: {' '.join(words)}")


def _data_folder(toml: Path) -> Path:
    try:
        return data_folder(toml)
    except ValueError as error:
        fail(f"{toml} cannot be read ({error}), and nothing was changed: fix it, or move it away")


def public_url(name: str, http_port: str, https_port: str = "") -> str:
    """Return the address on labels. Without HTTPS the port is always part of it."""
    if not https_port:
        return f"http://{name}:{http_port}"
    return f"https://{name}" if https_port == "443" else f"https://{name}:{https_port}"


def setting(config: str, name: str) -> str:
    """Return a value from the output of `edge config`."""
    found = re.search(rf"^{re.escape(name)} = (.*)$", config, re.MULTILINE)
    return found[1] if found else ""


def _config() -> str:
    output = read(EDGE, "config")
    if output is None:
        fail("the settings of edge cannot be read: sudo edge config")
    return output


def _summarize(old_addresses: list[str]) -> None:
    config = _config()
    box = Box(
        setting(config, "http.public_url"),
        setting(config, "http.listen").rpartition(":")[2],
        setting(config, "mqtt.broker").rpartition(":")[2],
        chosen() if CHOSEN.is_file() else None,
        [address for address in addresses() if ":" not in address],
        old_addresses,
    )
    say("\n== edge runs on this box and starts with it")
    say("\n".join(addresses_of(box)))
    works("sh", "-c", 'exec "$@" 2>/dev/null', "sh", VENV / "bin/segno", "--compact", "--border", "2", f"{box.url}/")
    say(next_steps(box))
