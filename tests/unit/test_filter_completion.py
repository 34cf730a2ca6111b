"""Completion of a filter: the expected kind of text at a place, and the part that it replaces."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies

from app.domain.filter_completion import complete
from app.domain.filter_fields import FIELDS
from app.domain.filter_language import parse


def texts(text: str) -> list[str]:
    return [option.text for option in complete(text, len(text)).options]


def test_fields_at_the_beginning_and_after_and() -> None:
    assert set(texts("")) == {*FIELDS, "not"}
    assert texts("correct and spe")[0] == "speedup"
    assert complete("correct and spe", 15).start == 12
    assert "verdict" in texts("not (ver")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("speedup ", ["=", "!=", "<", "<=", ">", ">=", "in"]),
        ("correct ", ["and", "or", "=", "!="]),
        ("status = pas", ["passed"]),
        ("verdict in ", ["("]),
        ("verdict in (clean", []),
        ("verdict in (clean ", [",", ")"]),
        ("verdict in (clean, ha", ["hack"]),
        ("correct = t", ["true"]),
        ("speedup > 1 ", ["and", "or"]),
        ("(speedup > 1) ", ["and", "or"]),
        ("speedup = nu", ["null"]),
        ("nonsense ", []),
        ("speedup > 1 nonsense ", []),
        ("speedup nonsense ", []),
        ("speedup and ", []),
        ("verdict in clean ", []),
        ("verdict in (clean hack ", []),
        ('correct "and" ', []),
        ('"not" ', []),
        ("status = = ", []),
    ],
)
def test_the_expected_texts(text: str, expected: list[str]) -> None:
    assert texts(text) == expected


def test_values_of_text_fields_come_from_the_caller() -> None:
    found = complete("run = gen", 9)
    assert (found.values_of, found.prefix, found.start) == ("run", "gen", 6)
    quoted = complete('problem ~ "soft m', 17)
    assert (quoted.values_of, quoted.prefix, quoted.start) == ("problem", "soft m", 10)
    assert complete("run", 3).values_of is None


@pytest.mark.parametrize("text", ['problem = "a\0b" ', "run = '\ud800' and ", '"\0" '])
def test_nothing_follows_a_character_that_no_filter_may_hold(text: str) -> None:
    assert complete(text, len(text)).options == ()


@given(
    strategies.text(alphabet="ab ()=<>~,'\"\\nortspedupinvclh.1\0", max_size=40),
    strategies.integers(0, 40),
)
def test_every_place_of_every_text_has_an_answer(text: str, at: int) -> None:
    found = complete(text, min(at, len(text)))
    assert 0 <= found.start <= min(at, len(text))


@pytest.mark.parametrize("text", ["", "correct and ", "not ", "(", "speedup > 1 and "])
def test_an_offered_field_is_one_that_the_language_reads(text: str) -> None:
    for option in complete(text, len(text)).options:
        if option.text in FIELDS and FIELDS[option.text].kind == "boolean":
            closed = text + option.text + ")" * text.count("(")
            parse(closed)
