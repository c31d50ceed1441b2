from __future__ import annotations

import pytest

from edge.formats.expressions import MOST_STEPS, Evaluator, ExpressionFault, TooMuchWork, expression_from

MIB = 1_048_576
READS = {"reads": [{"epc": f"{number:024X}", "ant": number % 4, "rssi": -50 - number % 20} for number in range(5_000)]}
DOUBLED = "|".join(["[@,@]"] * 60)
FLATTENED = "|".join(["[@,@][]"] * 60)


def search(expression, value, size=MIB):
    return Evaluator(size).search(expression_from(expression), value)


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(FLATTENED, id="a list that doubles"),
        pytest.param(f"{DOUBLED}|to_string(@)", id="one value many times, as text"),
        pytest.param(f"[{DOUBLED},{DOUBLED}]|[0]==[1]", id="one value many times, compared"),
        pytest.param("|".join(["{a:@,b:@}"] * 40) + "|to_string(@)", id="objects that double"),
        pytest.param("|".join(["[join('',[@.text||@,@.text||@])]|[0]"] * 14), id="a text that doubles"),
        pytest.param("join(text, reads[].to_string(ant))", id="a long separator"),
        pytest.param("reads[].[join('', [" + ",".join(["'" + "x" * 100 + "'"] * 3) + "])]", id="text for each"),
        pytest.param("map(&reads[?ant==`1`], [@,@,@])", id="a list in a list"),
    ],
)
def test_an_expression_ends_after_its_steps(expression):
    evaluator, document = Evaluator(MIB), {**READS, "text": "x" * 500_000}
    several = [expression_from(expression)] * 50  # evaluated for many reads, which share the steps
    with pytest.raises(TooMuchWork, match="too much work"):
        [evaluator.search(one, document) for one in several]


def test_a_small_message_has_few_steps():
    search("reads[?ant==`1`].epc", {"reads": READS["reads"][:100]}, size=5_000)
    with pytest.raises(TooMuchWork):
        search("reads[?ant==`1`].epc", READS, size=5_000)


def test_a_message_full_of_reads_is_within_its_steps():
    assert len(search("reads[?ant==`1` && rssi > `-60`].epc", READS)) == 750
    evaluator = Evaluator(400_000)
    paths = [expression_from(path) for path in ("epc || tag", "join('-', ['A', to_string(ant)])", "to_number(rssi)")]
    rows = [[evaluator.search(path, read) for path in paths] for read in READS["reads"]]
    assert rows[1] == ["000000000000000000000001", "A-1", -51]
    assert MOST_STEPS < 2 * 400_000


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("ceil(to_number('1e999'))", {}),
        ("reads[::0]", {"reads": [1]}),
        ("sort(@)", [1, "a"]),
        ("length(@)", 5),
    ],
)
def test_any_error_of_an_expression_is_an_expression_fault(expression, value):
    with pytest.raises(ExpressionFault):
        search(expression, value)
