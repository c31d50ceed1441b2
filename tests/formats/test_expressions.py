from __future__ import annotations

import json
import time

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


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("a*a*a*a*a*a*a*b", "a" * 400),
        ("(?:a?){20}b", "a" * 400),
        ("a?" * 30 + "a" * 30, "a" * 30),
        ("(a|aa)" * 20 + "$", "a" * 40 + "b"),
        ("(a+)+$", "a" * 40 + "b"),
        ("(.*)" * 10 + "x", "y" * 60),
        (r"(a*)\1$", "a" * 60),
        ("(?=a)a", "a"),
        (r"\\\\*" * 9 + "x", "\\" * 400),
        ("x{1,65000}" * 4, "x" * 400),
        (r"\d+\u0663" * 9 + "x", "\u0663" * 400),
        (r"\d+-?" * 9 + "x", "1" * 400),
        (r"\d+[1-]" * 9 + "x", "1" * 400),
        ("(", "a"),
        ("a" * 300, "a"),
    ],
)
def test_a_slow_pattern_is_refused_in_time(pattern, text):
    expression = expression_from(f"match(@, '{pattern}')")
    began = time.process_time()
    with pytest.raises(ExpressionFault):
        Evaluator(len(text)).search(expression, text)
    assert time.process_time() - began < 0.1


@pytest.mark.parametrize(
    ("pattern", "text", "result"),
    [
        (
            r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})",
            "read at 2026-03-02T08:15:30.412345+01:00 ok",
            "2026-03-02T08:15:30",
        ),
        (r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):", "read at 2026-03-02T08:15:30.412345+01:00 ok", "2026"),
    ],
)
def test_a_pattern_of_a_date_is_little_work(pattern, text, result):
    assert search(f"match(text, '{pattern}')", {"text": text}, size=len(text)) == result


def test_all_patterns_of_a_message_share_its_steps():
    expression = expression_from("[*].match(@, '[a-z]+-[0-9]+')")
    evaluator = Evaluator(100)
    assert evaluator.search(expression, ["dock-3", "x"]) == ["dock-3"]
    began = time.process_time()
    with pytest.raises(TooMuchWork):
        evaluator.search(expression, ["a" * 60] * 2000)
    assert time.process_time() - began < 0.2


@pytest.mark.parametrize(
    ("written", "value", "result"),
    [
        ("scale(@, `0.1`)", "215", 21.5),
        ("scale(@, `0.5`, `-110`)", 112, -54.0),
        ("scale(@, `2`)", None, None),
        ("base64(@)", "eyJhIjoxfQ==", '{"a":1}'),
        ("hex(@)", "wwoRTn8h", "C30A114E7F21"),
        ("json(@).a", '{"a":1}', 1),
        ("items(@)", {"k": 1}, [{"key": "k", "value": 1}]),
        ("zip(a, b)", {"a": [1, 2], "b": [3]}, [[1, 3], [2, None]]),
        ("split(@, '/')[1]", "a/b", "b"),
        ("part(@, `-2`, `0`)", "abcd", "cd"),
        ("hex_number(@)", "B9", 185),
        ("match(@, 'tag:([0-9A-F]+)')", "x tag:30AA y", "30AA"),
        ("match(@, '[0-9]+')", "none", None),
    ],
)
def test_functions_beyond_jmespath(written, value, result):
    assert Evaluator(100).search(expression_from(written), value) == result


@pytest.mark.parametrize(
    "written", ['hex(`"äö"`)', "json('{')", "scale('x', `1`)", "split(@, '')", "hex_number('xy')", "scale(`1`)"]
)
def test_a_function_that_fails_is_an_expression_fault(written):
    with pytest.raises(ExpressionFault):
        Evaluator(100).search(expression_from(written), "text")


def test_what_a_function_unpacks_counts():
    text = json.dumps([[0] * 50] * 100)
    with pytest.raises(TooMuchWork):
        Evaluator(100).search(expression_from("json(@)"), text)
