"""What is on one label."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Code(StrEnum):
    """QR carries the link, which any phone opens. The others are for scanners that type, and carry the key."""

    QR = "qr"
    DATA_MATRIX = "datamatrix"
    CODE_128 = "code128"


class Label(NamedTuple):
    name: str
    external_key: str
    link: str

    def content(self, code: Code) -> str:
        return self.link if code is Code.QR else self.external_key
