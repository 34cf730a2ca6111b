from __future__ import annotations

import time

import pytest

from app.domain import filter_language
from app.web import jinja_filters, safe_text


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("a\x00b", "a\ufffdb"),
        ("if a\u202e == b", "if a⟨U+202E⟩ == b"),
        ("zero\u200bwidth", "zero⟨U+200B⟩width"),
        ("\x1b[31m", "⟨U+001B⟩[31m"),
        ("c1\x9b", "c1⟨U+009B⟩"),
        ("größe µs 你好 🙂", "größe µs 你好 🙂"),
    ],
)
def test_hidden_characters_are_named(given: str, shown: str) -> None:
    assert safe_text.visible(given) == shown


def test_a_name_breaks_between_its_words() -> None:
    assert safe_text.breakable("run/a_b_") == "run/<wbr>a_<wbr>b_"
    assert safe_text.breakable("<b>\u202e_&") == "&lt;b&gt;⟨U+202E⟩_<wbr>&amp;"


def test_lone_surrogates_become_encodable() -> None:
    safe_text.visible("a\ud800b").encode("utf-8")


def test_visible_twice_is_visible_once() -> None:
    once = safe_text.visible("a\u202e\x07\ud800")
    assert safe_text.visible(once) == once


def test_of_terminal_escapes_colours_stay_in_logs() -> None:
    shown = safe_text.log("\x1b[1;31merror\x1b[0m: \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\")
    assert shown == '<span class="ansi-1 ansi-31">error</span>: link'


def test_an_open_escape_sequence_hides_nothing() -> None:
    shown = safe_text.log("before \x1b]0;all of this\nand this")
    assert "all of this" in shown
    assert "and this" in shown


def test_escape_floods_take_no_more_than_linear_time() -> None:
    started = time.process_time()
    safe_text.log("\x1b]" * 200_000 + "\x1b[" * 200_000)
    assert time.process_time() - started < 30  # quadratic would be hours: this is no benchmark


def test_content_hashes_are_shortened_and_names_are_not() -> None:
    digest = "1596d58497c9e0eaeb67d428bf371c1b7b50e13c08408794fcbba902eb89ced6"
    assert jinja_filters.shortened(f"assay@{digest}") == "assay@1596d58497c9…"
    assert jinja_filters.shortened("deadbeef-run 12") == "deadbeef-run 12"


def test_conditions_of_a_link_are_a_filter_that_parses() -> None:
    text = jinja_filters.conditions(
        {"run": 'a "b" and c', "verdict": "hack", "level": None, "source_set": ""}
    )
    assert filter_language.parse(text) == filter_language.And(
        operands=(
            filter_language.Compare(field="run", operator="=", value='a "b" and c'),
            filter_language.Compare(field="verdict", operator="=", value="hack"),
        )
    )
