"""Tables as CSV: the separator, the ends of lines, and codes written as formulas."""

from __future__ import annotations

import pytest

from edge.validation import csv_text


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("heading", "separator"),
    [
        ("key;description (free text, optional);barcode (EAN, UPC, own)", ";"),
        ("key,description (a; b; c),barcode (d; e)", ","),
        ("key\tdescription (free text, optional)\tbarcode (EAN, UPC, own)", "\t"),
        ("key|description (free text, optional)|barcode (EAN, UPC, own)", "|"),
    ],
)
def test_the_separator_is_that_of_all_rows(heading: str, separator: str, end: str) -> None:
    rows = [separator.join((f"K-{number}", "a text", "123")) for number in range(3)]
    table = csv_text.table_of(end.join([heading, *rows]))
    assert len(table.heading) == 3
    assert [row.cells for row in table.rows] == [(f"K-{number}", "a text", "123") for number in range(3)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_separator_may_be_named(end: str) -> None:
    table = csv_text.table_of(end.join(["sep=;", "key;a,b", "K-1;c,d"]))
    assert (table.heading, table.rows[0].cells) == (["key", "a,b"], ("K-1", "c,d"))


def test_one_column_has_no_separator() -> None:
    assert csv_text.table_of("name\nA\nB").heading == ["name"]


@pytest.mark.parametrize(
    ("text", "known", "line"),
    [
        ("Stock list\n\nkey;name;place\nA;B;C", (), 3),
        ("Stock;list\nKey;Name\nA;B", ("name",), 2),
        ("name\nA;B;C", ("name",), 1),
        ("key;name\nA;B", (), 1),
        ("\n\nkey;name\nA;B", (), 3),
    ],
)
def test_the_heading_may_be_below_titles(text: str, known: tuple[str, ...], line: int) -> None:
    table = csv_text.table_of(text, separator=";", known=known)
    assert (table.heading_line, table.rows[0].number) == (line, line + 1)
    assert csv_text.table_of(text, separator=";", heading_line=table.rows[0].number).rows == []


def test_a_code_written_as_a_formula_keeps_its_zeros() -> None:
    [row] = csv_text.table_of('key,barcode,text\nK-1,="0036000291469",=SUM(A1)').rows
    assert row.cells == ("K-1", "0036000291469", "=SUM(A1)")
    [quoted] = csv_text.table_of('key,barcode\nK-1,"=""0036000291469"""').rows
    assert quoted.cells[1] == "0036000291469"


def test_a_formula_that_was_exported_comes_back_as_it_was() -> None:
    text = "".join(csv_text.write_rows(["name"], [['="0036"']])).removeprefix(csv_text.MARK)
    assert csv_text.table_of(text).rows[0].cells == ('="0036"',)
