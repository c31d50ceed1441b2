"""The kinds of channels: one folder each, which declares its `KIND`. The name of the folder is stored."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from edge.rules.channels.kind import ChannelKind

_NAMES = sorted(found.name for found in iter_modules(__path__))
KINDS: dict[str, ChannelKind] = {name: import_module(f"{__name__}.{name}").KIND for name in _NAMES}
