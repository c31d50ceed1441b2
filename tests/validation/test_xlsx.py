"""Excel files: read as text within bounds, and written without formulas."""

from __future__ import annotations

import io
import re
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime
from zoneinfo import ZoneInfo

import openpyxl
import pytest

from edge.errors import Invalid
from edge.validation import xlsx
from edge.validation.packed_texts import unpack

SHEET = "xl/worksheets/sheet1.xml"


def workbook(*rows: list[object]) -> bytes:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def with_part(name: str, content: bytes, data: bytes | None = None) -> bytes:
    """Replace or add a part of a workbook."""
    file = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data or workbook(["name"], ["A"]))) as old,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for part in old.namelist():
            if part != name:
                new.writestr(part, old.read(part))
        new.writestr(name, content)
    return file.getvalue()


def sheet(rows: bytes) -> bytes:
    main = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    return b'<worksheet xmlns="' + main + b'"><sheetData>' + rows + b"</sheetData></worksheet>"


def test_cells_become_text() -> None:
    data = workbook(
        ["external_key", "name", "when", "ok", "code"],
        [],
        ["K-1", " A ", datetime(2026, 3, 2, 14), True, 4006381333931],
        ["K-2", "B", datetime(2026, 3, 2), False, 12.5],
        ["K-3", None, None, None, 3.07425e23],
    )
    table = xlsx.table_of(data, 10)
    assert list(table.heading) == ["external_key", "name", "when", "ok", "code"]
    assert [(row.number, *row.cells) for row in table.rows] == [
        (3, "K-1", "A", "2026-03-02 14:00:00", "yes", "4006381333931"),
        (4, "K-2", "B", "2026-03-02", "no", "12.5"),
        (5, "K-3", "", "", "", "3.07425e+23"),
    ]


MAIN = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OTHER_ROW, OTHER_TEXT = b'<o:row xmlns:o="o"/>', b'<o:si xmlns:o="o"/>'


def texts(content: bytes) -> bytes:
    return with_part("xl/sharedStrings.xml", b'<sst xmlns="' + MAIN + b'">' + content + b"</sst>")


HOSTILE = [
    pytest.param(
        lambda: with_part(SHEET, sheet(b"<row>" + (b"<x/>" * 9_000 + OTHER_ROW) * 20 + b"</row>")),
        id="rows of another namespace",
    ),
    pytest.param(
        lambda: with_part(SHEET, sheet(b"".join(b"<row><x%d/></row>" % n for n in range(50_000)))),
        id="many different names",
    ),
    pytest.param(
        lambda: texts(b"<si><t>" + "\U0001f4e6".encode() * 1_000 + b"</t></si>" + b"<si><t>ab</t></si>" * 700_000),
        id="too many texts",
    ),
    pytest.param(lambda: with_part("xl/media/bomb.bin", b"\0" * 200_000_000), id="zip bomb"),
    pytest.param(
        lambda: with_part(SHEET, b"<!DOCTYPE x [<!ENTITY a 'aaaa'>]>" + sheet(b"<row><c><v>&a;</v></c></row>")),
        id="entities",
    ),
    pytest.param(  # 4 KB took 250 MB and 6 s
        lambda: with_part("xl/styles.xml", b"<styleSheet><cellXfs>" + b"<xf/>" * 390_000 + b"</cellXfs></styleSheet>"),
        id="many styles",
    ),
    pytest.param(lambda: with_part(SHEET, sheet(b"<x>" * 100_000 + b"</x>" * 100_000)), id="deep"),
]


def test_a_long_list_with_many_columns_is_read() -> None:
    rows = [[f"K-{row}", *(f"{row} {column}" for column in range(9))] for row in range(1_000)]
    assert len(xlsx.table_of(workbook([f"column {n}" for n in range(10)], *rows), 1_000).rows) == 1_000


def test_a_file_as_large_as_people_have_is_read() -> None:
    long = "\u00e4" * 2_000
    rows = [[f"K-{number}", long, number, datetime(2026, 3, 2), "=1+1"] for number in range(3_000)]
    assert len(xlsx.table_of(workbook(["key", "text", "number", "day", "sum"], *rows), 50_000).rows) == 3_000


def test_styles_that_the_library_refuses_are_not_needed() -> None:
    data = workbook(["name", "when"], ["A", datetime(2026, 3, 2)])
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        styles = archive.read("xl/styles.xml")
    styles = re.sub(rb"<fills.*?</fills>", b"<fills><fill/></fills>", styles, flags=re.DOTALL)
    broken = with_part("xl/styles.xml", styles, data)
    [row] = xlsx.table_of(broken, 10).rows
    assert row.cells == ("A", "2026-03-02")


def test_escaped_control_characters_are_read() -> None:
    rows = b"<row><c t='inlineStr'><is><t>name</t></is></c></row>" + b"".join(
        b"<row><c t='inlineStr'><is><t>" + text + b"</t></is></c></row>"
        for text in (b"one_x000D_\ntwo", b"one_x0009_two", b"one_x005F_x000D_two")
    )
    cells = [row.cells[0] for row in xlsx.table_of(with_part(SHEET, sheet(rows)), 10).rows]
    assert cells == ["one\ntwo", "one\ttwo", "one_x000D_two"]


def of_parts(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "<x/>")
    return file.getvalue()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: of_parts("mimetype", "content.xml"), "an OpenDocument file"),
        (lambda: of_parts("photo.jpg"), "a ZIP file"),
        (lambda: with_part("xl/workbook.xml", b"<workbook"), "damaged or no Excel workbook"),
    ],
)
def test_other_files_are_named(make: Callable[[], bytes], reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        xlsx.table_of(make(), 10)


def strict(data: bytes) -> bytes:
    """Return a workbook as Excel saves it as Strict Open XML."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for part in old.namelist():
            content = old.read(part).replace(MAIN, b"http://purl.oclc.org/ooxml/spreadsheetml/main")
            content = content.replace(
                b"http://schemas.openxmlformats.org/officeDocument/2006/relationships",
                b"http://purl.oclc.org/ooxml/officeDocument/relationships",
            )
            new.writestr(part, content)
    return file.getvalue()


def test_a_strict_workbook_is_read() -> None:
    rows = [
        ["key", "name", "when"],
        *([f"K-{number}", "\u00e4" * 300, datetime(2026, 3, 2, 14)] for number in range(900)),
    ]
    data = strict(workbook(*rows))
    assert xlsx.table_of(data, 1000) == xlsx.table_of(workbook(*rows), 1000)
    cells = b'<row><c t="inlineStr"><is><t>when</t></is></c></row><row><c t="d"><v>2026-03-02T14:00:00</v></c></row>'
    [row] = xlsx.table_of(strict(with_part(SHEET, sheet(cells))), 10).rows
    assert row.cells == ("2026-03-02 14:00:00",)


def test_formulas_are_not_evaluated_and_errors_are_faults() -> None:
    rows = (
        b'<row><c t="inlineStr"><is><t>name</t></is></c></row><row><c><f>1+1</f><v>2</v></c></row>'
        b'<row><c t="e"><v>#N/A</v></c></row><row><c><f>WEBSERVICE("http://x")</f></c></row>'
    )
    table = xlsx.table_of(with_part(SHEET, sheet(rows)), 10)
    faults = [(row.cells, unpack(row.fault)) for row in table.rows]
    assert faults == [(("2",), ""), (("#N/A",), "name has the error #N/A")]


def test_more_rows_and_cells_than_the_heading_are_reported() -> None:
    with pytest.raises(Invalid, match="more than 2 rows"):
        xlsx.table_of(workbook(["name"], ["A"], ["B"], ["C"]), 2)
    [row] = xlsx.table_of(workbook(["name"], ["A", "B"]), 2).rows
    assert unpack(row.fault) == "Line 2 has 2 cells but the header has 1"


@pytest.mark.parametrize("make", HOSTILE)
def test_a_hostile_file_costs_the_service_nothing(make: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is refused or read, a program with limits does the work."""
    data = make()  # here, since all processes collect the test and one runs it
    monkeypatch.setattr(xlsx, "MOST_SECONDS", 0)
    began = time.process_time()
    with suppress(Invalid):
        xlsx.table_of(data, 5_000)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: b"PK\x03\x04 not a zip", id="no zip"),
        pytest.param(lambda: with_part(SHEET, sheet(b"<row/>")[:-30]), id="cut off"),
        pytest.param(lambda: with_part("[Content_Types].xml", b"<Types/>"), id="no types"),
        pytest.param(lambda: with_part(SHEET, sheet(b'<row r="x"><c r="1A"/></row>')), id="bad coordinates"),
    ],
)
def test_a_damaged_file_is_refused(make: Callable[[], bytes]) -> None:
    with pytest.raises(Invalid, match="damaged or no Excel workbook"):
        xlsx.table_of(make(), 10)


def with_name(text: str) -> bytes:
    """Return a workbook with a name for the rows to print above each page, which the library takes apart."""
    name = f'<definedNames><definedName name="_xlnm.Print_Titles" localSheetId="0">{text}</definedName></definedNames>'
    data = workbook(["name"], ["A"])
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        book = archive.read("xl/workbook.xml")
    return with_part("xl/workbook.xml", book.replace(b"<calcPr", name.encode() + b"<calcPr"), data)


@pytest.mark.parametrize(
    "make",
    [
        # The library's expressions take time by the square of the length: each file took a minute to an hour.
        pytest.param(lambda: with_name("A" * 1_000_000), id="a long name"),
        pytest.param(
            lambda: with_part(
                "xl/styles.xml",
                b'<styleSheet xmlns="%s"><numFmts><numFmt numFmtId="200" formatCode="%s"/></numFmts><cellXfs>'
                b'<xf numFmtId="200"/></cellXfs></styleSheet>' % (MAIN, b"[" * 1_000_000),
            ),
            id="a long format",
        ),
        pytest.param(
            lambda: with_part(SHEET, sheet(b'<row><c t="str"><v>' + b"x" * 110_000_000 + b"</v></c></row>")),
            id="a cell of 110 MB",
        ),
    ],
)
def test_the_program_that_reads_a_file_is_ended_at_its_limits(
    make: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xlsx, "MOST_SECONDS", 1)
    with pytest.raises(Invalid, match="too large to be opened safely"):
        xlsx.table_of(make(), 10)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ((b"<row>" + b"<c><v>1</v></c>" * 250 + b"</row>") * 4_001, "more than 700,000 cells"),
        ((b'<row><c t="str"><v>' + b"x" * 30_000 + b"</v></c></row>") * 600, "its texts"),
    ],
)
def test_a_sheet_cannot_take_much_memory(rows: bytes, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        xlsx.table_of(with_part(SHEET, sheet(rows)), 50_000)


def test_a_cell_far_away_costs_nothing() -> None:
    rows = (
        b'<row r="1"><c r="A1" t="inlineStr"><is><t>name</t></is></c></row><row r="1048576"><c r="XFD1048576"/></row>'
    )
    began = time.process_time()
    assert xlsx.table_of(with_part(SHEET, sheet(rows)), 10).rows == []
    assert time.process_time() - began < 3


def test_what_is_written_is_text() -> None:
    with xlsx.write(["name"], [["=1+1"], ["007"], ["http://x"], ["\x01"]]) as file:
        book = openpyxl.load_workbook(file)
        assert [(cell.value, cell.data_type) for (cell,) in book.active.iter_rows()][:4] == [
            ("name", "s"), ("=1+1", "s"), ("007", "s"), ("http://x", "s"),
        ]  # fmt: skip


def test_times_and_numbers_are_real_and_the_heading_stays_in_view() -> None:
    zone = ZoneInfo("Europe/Berlin")
    times = [
        datetime(2026, 3, 2, 14, tzinfo=zone),
        datetime(2026, 3, 2, 14, 0, 0, 123000, tzinfo=zone),
        datetime(2026, 10, 25, 2, 30, tzinfo=zone),  # occurs twice: Excel has no zone
        datetime(1899, 5, 1, tzinfo=zone),  # Excel has no such day
    ]
    with xlsx.write(["day", "time", "number"], [[date(2026, 3, 2), time, 7.5] for time in times]) as file:
        data = file.read()
    sheet = openpyxl.load_workbook(io.BytesIO(data)).active
    assert (sheet.freeze_panes, sheet.auto_filter.ref) == ("A2", "A1:C5")
    written = [sheet.cell(row, 2) for row in range(2, 6)]
    assert [cell.is_date for cell in written] == [True, True, False, False]
    assert (sheet["A2"].is_date, sheet["C2"].value, sheet["B2"].value) == (True, 7.5, datetime(2026, 3, 2, 14))
    assert [row.cells[1] for row in xlsx.table_of(data, 9).rows] == [
        "2026-03-02 14:00:00", "2026-03-02 14:00:00.123", "2026-10-25 02:30:00+02:00", str(times[3]),
    ]  # fmt: skip


def test_a_text_that_excel_would_cut_is_refused() -> None:
    with xlsx.write(["name"], [["x" * xlsx.MOST_OF_CELL]]) as file:
        [cut] = xlsx.table_of(file.read(), 9).rows  # Excel may have cut it: it drops all after that without notice
    assert unpack(cut.fault).startswith("name has 32,767 characters or more")
    with pytest.raises(Invalid, match="Row 3, column 2 has more than 32,767 characters"):
        xlsx.write(["key", "name"], [["A", "a"], ["B", "x" * (xlsx.MOST_OF_CELL + 1)]])
    long = with_part(
        SHEET, sheet(b'<row><c t="str"><v>n</v></c></row><row><c t="str"><v>%s</v></c></row>' % (b"x" * 40_000))
    )
    [row] = xlsx.table_of(long, 9).rows
    assert (len(row.cells[0]), bool(row.fault)) == (40_000, True)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "find_spec", lambda _: None)
    with pytest.raises(Invalid, match=r"pip install 'edge\[xlsx\]'"):
        xlsx.table_of(workbook(["name"]), 10)
