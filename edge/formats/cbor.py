"""CBOR payloads, with the library of the extra `cbor`.

Tags of CBOR give values a meaning, such as a date or a number with a huge exponent. A few bytes could make a value as
large as memory. Mappings need no tags, so only their content is read.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

EXTRA = "edge[cbor]"
MOST_DEPTH = 100
MOST_BYTES = 65_536  # of a payload; a million empty lists take 1.4 s
# All tags that the library knows. It passes other ones to `tag_hook`.
_KNOWN_TAGS = (0, 1, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37, 100, 256, 258, 260, 261, 1004, 43000, 55799)


def is_available() -> bool:
    return find_spec("cbor2") is not None


def decode(payload: bytes) -> Any:
    """Return the value of a payload. Raises ValueError."""
    if len(payload) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES:,} bytes")
    if not is_available():
        raise ValueError(f"CBOR needs an extra: pip install '{EXTRA}'")
    import cbor2  # a library of an extra

    stream = io.BytesIO(payload)
    try:
        decoder = cbor2.CBORDecoder(
            stream,
            tag_hook=lambda tag, _is_immutable: tag.value,
            semantic_decoders=dict.fromkeys(_KNOWN_TAGS, lambda content, _is_immutable: content),
            max_depth=MOST_DEPTH,
            strict_hashable_types=True,
            read_size=1,
            str_errors="replace",
        )
        value = _plain(decoder.decode())
    except (cbor2.CBORDecodeError, RecursionError) as error:
        raise ValueError(str(error) or type(error).__name__) from None
    if stream.tell() < len(payload):
        raise ValueError("there is more after the value")
    return value


def _plain(value: Any) -> Any:
    """Return the value with lists and objects for the immutable ones inside of tags."""
    import cbor2

    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if value is cbor2.undefined or isinstance(value, cbor2.CBORSimpleValue) else value
