"""Encodings of text files: recognized with certainty, or asked for with words in each that is possible."""

from __future__ import annotations

import time

import pytest

from edge.validation.encodings import decode_any, decode_as
from edge.validation.tables import UNREADABLE

JAPANESE = "商品番号,名前\nA1,青いパレット\nA2,冷蔵庫の棚\n"
CYRILLIC = "ключ;название\nA1;Поддон синий\nA2;Склад\n"
CHINESE = "编号,名称\nA1,蓝色托盘\nA2,冷库货架\n"
TAIWANESE = "編號,名稱\nA1,藍色棧板\nA2,冷藏倉庫\nA3,一號門\n"
KOREAN = "번호,이름\nA1,파란 팔레트\nA2,냉동 창고\n"
GREEK = "κλειδί;όνομα\nA1;Παλέτα μπλε\nA2;Αποθήκη\n"
TURKISH = "anahtar;ad\nA1;Şişe kasası\nA2;Yeşil kapı ölçüsü\n"
CZECH = "klíč;název\nA1;Příhradový vozík\nA2;Žluté přepravky\n"
POLISH = "klucz;nazwa\nA1;Wózek żółty\nA2;Półka łączna\n"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp932", JAPANESE),
        ("euc-jp", JAPANESE),
        ("gb18030", CHINESE),
        ("cp950", TAIWANESE),
        ("cp949", KOREAN),
        ("cp1251", CYRILLIC),
        ("koi8-r", CYRILLIC),
        ("cp866", CYRILLIC),
        ("cp1253", GREEK),
        ("cp1254", TURKISH),
        ("cp1254", "ad\nkasası\n"),
        ("cp1250", CZECH),
        ("cp852", CZECH),
        ("cp852", POLISH),
        ("cp852", "nazwa\nPółka\n"),
        ("cp1256", "اسم\nمنصة زرقاء\nمستودع\n"),
        ("cp1251", "key;name\n" + "K;Pallet\n" * 300 + "K;Склад\n"),
    ],
)
def test_another_script_is_never_read_wrong_without_a_question(encoding: str, text: str) -> None:
    """Regression: these files had "No errors" with letters of Western Europe, or the right encoding was not offered."""
    found = decode_any(text.encode(encoding))
    assert found.text == text or not found.is_certain
    position = list(found.samples).index(encoding)
    assert position < 8
    words = found.samples[encoding].split(", ")
    assert words
    assert all(word in text for word in words)
    assert decode_as(text.encode(encoding), encoding)[:3] == (text, encoding, True)


@pytest.mark.parametrize("encoding", ["cp932", "cp1251", "cp1253", "gb18030", "cp950", "cp949", "cp852", "cp1250"])
def test_the_likely_encoding_is_the_first(encoding: str) -> None:
    texts = {"cp932": JAPANESE, "cp1251": CYRILLIC, "cp1253": GREEK, "cp852": POLISH, "cp1250": CZECH}
    texts |= {"gb18030": CHINESE, "cp950": TAIWANESE, "cp949": KOREAN}
    found = decode_any(texts[encoding].encode(encoding))
    assert (next(iter(found.samples)), found.text) == (encoding, texts[encoding])


def test_one_byte_of_another_encoding_does_not_change_the_rest_of_the_file() -> None:
    rows = [f"K-{number};Größe {number}" for number in range(2_000)]
    data = "\n".join(["key;name", *rows]).encode() + b"\nK-LAST;R\xfcck"
    found = decode_any(data)
    assert (found.encoding, found.is_certain, found.text.count(UNREADABLE)) == ("utf-8", True, 1)
    assert found.text.startswith("key;name\nK-0;Größe 0\n")
    assert decode_as(data, "utf-8").text == found.text


def test_words_of_ascii_ask_for_nothing() -> None:
    assert decode_any(b"name\nPallet\n")[1:] == ("utf-8", True, {})


def test_letters_late_in_a_long_line_are_judged_too() -> None:
    """Regression: only the beginning of a line was judged, so such a file could not be read at all."""
    data = ("name,description\n" + "BOX-1," + "x" * 30_000 + "," + JAPANESE).encode("cp932")
    samples = decode_any(data).samples
    assert "冷蔵庫の棚" in samples["cp932"]


def test_a_long_word_takes_no_more_time_than_many_short_ones() -> None:
    """Regression: words were tried from each of their letters, in 20 encodings: 20 KB took half a minute."""
    began = time.process_time()
    decoded = decode_any(b"name,\xc3\xa9," + b"a" * 1_000_000 + b"\nx,y\n")
    assert decoded.encoding == "utf-8"
    assert time.process_time() - began < 10  # 40 by the square of the length
