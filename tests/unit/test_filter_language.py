"""The filter language: reading, refusals and their messages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.domain import filter_fields, filter_language, filter_tokens
from app.domain.filter_fields import FieldType
from app.domain.filter_language import And, Compare, Everything, Expression, Not, OneOf, Or
from app.domain.filter_tokens import WhereError


def _text() -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


def _values(name: str) -> st.SearchStrategy[Any]:
    field = filter_fields.FIELDS[name]
    by_kind: dict[FieldType, st.SearchStrategy[Any]] = {
        FieldType.BOOLEAN: st.booleans(),
        FieldType.INTEGER: st.integers(-filter_language.MAX_INTEGER, filter_language.MAX_INTEGER),
        FieldType.NUMBER: st.floats(allow_nan=False, allow_infinity=False),
        FieldType.TEXT: _text(),
        FieldType.CHOICE: st.sampled_from(field.choices or ("",)),
        FieldType.TIME: (
            st.integers(-600_000_000, 30_000_000_000).map(
                lambda seconds: datetime.fromtimestamp(seconds, UTC)
            )
        ),
        FieldType.ID: st.uuids(),
    }
    return by_kind[field.kind]


@st.composite
def comparisons(draw: st.DrawFn) -> Expression:
    name = draw(st.sampled_from(sorted(filter_fields.FIELDS)))
    operator = draw(st.sampled_from(filter_fields.OPERATORS[filter_fields.FIELDS[name].kind]))
    if operator == "in":
        return OneOf(
            field=name, values=tuple(draw(st.lists(_values(name), min_size=1, max_size=3)))
        )
    values = _values(name) | st.none() if operator in ("=", "!=") else _values(name)
    return Compare(field=name, operator=operator, value=draw(values))


def _deeper(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return (
        inner.map(lambda operand: Not(operand=operand))
        | several.map(lambda operands: And(operands=operands))
        | several.map(lambda operands: Or(operands=operands))
    )


expressions = st.just(Everything()) | st.recursive(comparisons(), _deeper, max_leaves=6)


@given(expressions)
def test_what_is_written_reads_back_as_the_same_tree(expression: Expression) -> None:
    assert filter_language.parse(filter_language.unparse(expression)) == expression


_TEXT = "and or not in null ( ) , = != ~ < >= == \" ' \\ 1 -1e999 nan clean passed true ٣ Ⅷ"
_WORDS = _TEXT.split()
_ODD = ("9" * 5000, "\0", "\ud800", "2026-11-21", "0001-01-01T00:00+23:59")
_PIECES = st.sampled_from([*filter_fields.FIELDS, *_WORDS, *_ODD])


@given(st.text() | st.lists(_PIECES, max_size=12).map(" ".join))
@example("(" * 3000)
@example("not " * 900)
@example("\ud800 = 1")
@example("level = " + "9" * 3000)
def test_no_input_raises_anything_else(text: str) -> None:
    try:
        expression = filter_language.parse(text)
    except WhereError:
        return
    assert filter_language.parse(filter_language.unparse(expression)) == expression


def test_the_example_of_the_readme() -> None:
    assert filter_language.parse("correct and verdict=clean and speedup_ci_low>1.1") == And(
        operands=(
            Compare(field="correct", operator="=", value=True),
            Compare(field="verdict", operator="=", value="clean"),
            Compare(field="speedup_ci_low", operator=">", value=1.1),
        )
    )


def test_and_binds_closer_than_or_and_not_closer_than_both() -> None:
    parsed = filter_language.parse("not valid or correct and compiled")
    valid, correct, compiled = (
        Compare(field=name, operator="=", value=True) for name in ("valid", "correct", "compiled")
    )
    assert parsed == Or(operands=(Not(operand=valid), And(operands=(correct, compiled))))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("model = Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("problem = '19 ReLU'", "19 ReLU"),
        (r'problem = "a \"b\" \\ c"', r'a "b" \ c'),
        ("model = 'null'", "null"),
        ("model = NULL", None),
        ("created_at >= 2026-11-21", datetime(2026, 11, 21, tzinfo=UTC)),
        ("created_at >= '2026-11-21 10:00'", datetime(2026, 11, 21, 10, tzinfo=UTC)),
        (
            "job_id = 0199a5a4-7d61-7000-8000-000000000000",
            UUID("0199a5a4-7d61-7000-8000-000000000000"),
        ),
        ("level != -3", -3),
        ("speedup < .5e1", 5.0),
    ],
)
def test_values_have_the_type_of_their_field(text: str, value: object) -> None:
    parsed = filter_language.parse(text)
    assert isinstance(parsed, Compare)
    assert parsed.value == value
    assert type(parsed.value) is type(value)


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        (
            "speedup_ci_lo > 1",
            1,
            "expected a field, got 'speedup_ci_lo'; did you mean speedup_ci_low?",
        ),
        ("Correct", 1, "did you mean correct?"),
        ("zzz = 1", 1, "(fields: correct, compiled"),
        (
            "verdict = claen",
            11,
            "expected one of clean, suspect, hack, got 'claen'; did you mean clean?",
        ),
        ("status in (passed, inccorect)", 20, "did you mean incorrect?"),
        ("backend=tritn", 9, "did you mean triton?"),
        (
            "speedup",
            8,
            "expected one of = != < <= > >= in after speedup, which is a number, got the end",
        ),
        ("speedup ~ 2", 9, "expected one of = != < <= > >= in after speedup"),
        ("model < b", 7, "expected one of = != ~ in after model, which is a text, got '<'"),
        ("speedup == 2", 9, "got '=='"),
        ("speedup > fast", 11, "expected a finite number, got 'fast'"),
        ("speedup > nan", 11, "expected a finite number"),
        ("speedup > null", 11, "expected a number for speedup"),
        ("level = 2147483648", 9, "expected an integer of at most 2147483647"),
        ("correct = yes", 11, "expected true or false, got 'yes'"),
        ("job_id = 12", 10, "expected a UUID, got '12'"),
        (
            "job_id = bb332d4c",
            10,
            "expected a UUID in full (the search finds it by these 8 digits), got 'bb332d4c'",
        ),
        ("created_at > yesterday", 14, "expected a date or time such as"),
        ("(correct", 9, "expected 'and', 'or' or ')', got the end"),
        ("correct valid", 9, "expected 'and', 'or' or the end, got 'valid'"),
        ("correct and", 12, "expected a field, 'not' or '(', got the end"),
        ("gpu in h200", 8, "expected '(' after in, got 'h200'"),
        ("gpu in ()", 9, "expected a text for gpu, got ')'"),
        ("gpu in (a b)", 11, "expected ',' or ')', got 'b'"),
        ("model = and", 9, "expected a text for model (in quotes if it is text), got 'and'"),
        ("model = 'open", 9, "expected a closing quote"),
        ("model = 'a\0b'", 11, "expected text without NUL and lone surrogates"),
    ],
)
def test_errors_say_where_what_was_expected_and_what_came(
    text: str, position: int, message: str
) -> None:
    with pytest.raises(WhereError) as caught:
        filter_language.parse(text)
    assert caught.value.position == position
    assert message in str(caught.value)


def test_names_are_all_the_fields_mentioned() -> None:
    parsed = filter_language.parse("not (verdict=hack or finding in (a, b)) and correct")
    assert filter_language.names(parsed) == {"verdict", "finding", "correct"}
    assert filter_language.names(filter_language.parse("  ")) == frozenset()


def test_too_long_a_filter_is_refused() -> None:
    with pytest.raises(WhereError, match="at most 4000 characters"):
        filter_language.parse(" " * (filter_tokens.MAX_LENGTH + 1))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("gpu = h200", ""),
        ("run = r and gpu = h200", "run = r"),
        ("run = r and (gpu = h200 or device ~ H200) and level = 1", "run = r and level = 1"),
        ("not (gpu = cpu)", ""),
        ("not (gpu = cpu and level = 2)", "not level = 2"),
        ("gpu in (h200, h100) or correct", "correct"),
        ("speedup > 1", "speedup > 1"),
    ],
)
def test_a_filter_without_some_fields_says_what_the_rest_says(text: str, left: str) -> None:
    assert filter_language.without(
        filter_language.parse(text), filter_fields.ON_DEVICE
    ) == filter_language.parse(left)
