"""Labels in ZPL II, the language of Zebra's label printers that most others speak, too."""

from __future__ import annotations

from collections.abc import Iterable

from edge.labels.label import Code, Label, code_128_modules
from edge.labels.papers import Paper

DOTS_PER_MM = (8, 12, 24)  # 203, 300 and 600 dpi
MARGIN = 2  # mm


def labels_zpl(labels: Iterable[Label], paper: Paper, code: Code, dots_per_mm: int = 8) -> bytes:
    """One format for each label. Texts are sent as hexadecimal UTF-8, so that no letter is taken for a command."""
    return "".join(_format(label, paper, code, dots_per_mm) for label in labels).encode("ascii")


def _format(label: Label, paper: Paper, code: Code, dots: int) -> str:
    width, height, margin = round(paper.width * dots), round(paper.height * dots), MARGIN * dots
    content = _hexadecimal(label.content(code))
    if code is Code.CODE_128:
        bars = height * 2 // 5
        module = max((width - 2 * margin) // code_128_modules(label.content(code)), 1)
        symbol = f"^FO{margin + 10 * module},{margin}^BY{module}^BCN,{bars},N,N,N^FH^FD{content}^FS"
        left, top = margin, margin + bars + dots
    else:
        side = min(height - 2 * margin, width // 2 - margin)
        symbol = f"^FO{margin},{margin}" + (
            f"^BQN,2,{_module(side, _qr_modules(label.content(code)))}^FH^FDMA,{content}^FS"
            if code is Code.QR
            else f"^BXN,{max(side // _matrix_modules(label.content(code)), 2)},200^FH^FD{content}^FS"
        )
        left, top = margin + side + 2 * dots, margin
    letters = max(min(height // 8, 5 * dots), 2 * dots)
    room = width - left - margin
    lines = max((height - top - margin - letters) // letters, 1)
    return (
        f"^XA^CI28^PW{width}^LL{height}{symbol}"
        f"^FO{left},{top}^A0N,{letters},{letters}^FB{room},{lines},0,L^FH^FD{_hexadecimal(label.name)}^FS"
        f"^FO{left},{height - margin - letters}^A0N,{letters * 4 // 5},{letters * 4 // 5}"
        f"^FH^FD{_hexadecimal(label.external_key)}^FS^XZ\n"
    )


def _hexadecimal(text: str) -> str:
    return "".join(f"_{octet:02X}" for octet in text.encode("utf-8"))


def _module(side: int, modules: int) -> int:
    return min(max(side // modules, 2), 10)


def _qr_modules(content: str) -> int:
    """Of the smallest version that holds so many bytes with error correction M, with its quiet zone."""
    capacities = (14, 26, 42, 62, 84, 106, 122, 152, 180, 213, 251, 287, 331, 362, 412)
    size = len(content.encode())
    version = next((number for number, most in enumerate(capacities, 1) if size <= most), len(capacities))
    return 17 + 4 * version + 8


def _matrix_modules(content: str) -> int:
    """Of the smallest square symbol that holds so many characters, with its quiet zone."""
    for side, most in ((10, 3), (12, 5), (14, 8), (16, 12), (18, 18), (20, 22), (22, 30), (24, 36), (26, 44), (32, 62)):
        if len(content) <= most:
            return side + 2
    return 54
