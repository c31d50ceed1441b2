"""Sources of settings: the settings file, the environment and --set. Each returns values by setting name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edge.errors import SetupError


def from_file(file: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(file.read_text("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise SetupError(f"The settings file {file} is not UTF-8. Save it as UTF-8.") from error
    except OSError as error:
        raise SetupError(
            f"The settings file {file} cannot be read: {error}. Pass a readable file to --config."
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise SetupError(f"The settings file {file} is not valid TOML: {error}. Fix that line.") from error
    flat: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, dict):
            flat.update({f"{key}.{inner}": item for inner, item in value.items()})
        else:
            flat[key] = value
    return flat


def from_environment(environment: Mapping[str, str], names: list[str]) -> dict[str, str]:
    by_variable = {"EDGE_" + name.replace(".", "_").upper(): name for name in names}
    own = {key: value for key, value in environment.items() if key.startswith("EDGE_") and key != "EDGE_CONFIG"}
    return {by_variable.get(key, key): value for key, value in own.items()}


def from_flags(flags: Sequence[str]) -> dict[str, str]:
    values = {}
    for flag in flags:
        name, separator, value = flag.partition("=")
        if not separator:
            raise SetupError(f"--set {flag}: write --set NAME=VALUE.")
        values[name] = value
    return values
