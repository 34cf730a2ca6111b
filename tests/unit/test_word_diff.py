"""Words that changed within a line, in plain text and in markup."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from app.web import source_view, word_diff


def changed(old: str, new: str) -> tuple[word_diff.Ranges, word_diff.Ranges]:
    return word_diff.changed(old, new, word_diff.Budget())


def test_changed_words_are_found() -> None:
    old, new = changed("x = tl.load(a, mask=m)", "x = tl.load(b, mask=m, other=0.0)")
    assert [("x = tl.load(a, mask=m)")[first:last] for first, last in old] == ["a"]
    assert [("x = tl.load(b, mask=m, other=0.0)")[first:last] for first, last in new] == [
        "b",
        ", other=0.0",
    ]
    assert changed("import torch", "class Model:") == ([], [])
    assert changed("x" * 600, "y") == ([], [])


def test_marks_keep_the_nesting_of_tags_and_whole_entities() -> None:
    markup = '<span class="k-n">a</span> &lt;b&gt; c'
    assert (
        str(word_diff.marked(markup, [(0, 3)]))
        == '<span class="k-n"><mark>a</mark></span><mark> &lt;</mark>b&gt; c'
    )


@given(st.text(max_size=60), st.text(max_size=60))
def test_marking_changes_no_text(old: str, new: str) -> None:
    for side, ranges in zip((old, new), changed(old, new), strict=True):
        markup = str(escape(side))
        assert re.sub(r"</?mark>", "", str(word_diff.marked(markup, ranges))) == markup


def test_a_difference_marks_words_and_shows_the_whole_file() -> None:
    old = "\n".join(f"line_{number} = {number}" for number in range(40)).encode()
    new = old.replace(b"line_20 = 20", b"line_20 = 21")
    short, whole = source_view.diff(old, new), source_view.diff(old, new, whole=True)
    added = next(line for line in short.lines if line.kind == "added")
    assert re.sub(r"</?span[^>]*>", "", added.text) == "line_20 = <mark>21</mark>"
    assert any(line.kind == "gap" for line in short.lines)
    assert [line.kind for line in whole.lines].count("same") == 39
    assert not any(line.kind == "gap" for line in whole.lines)


def test_a_diff_compares_so_many_words_and_no_more() -> None:
    """300 lines of 500 brackets each took 10 s, in which the server answered nothing."""
    budget = word_diff.Budget(pairs=9)
    line = "a b", "a c"  # three words each, of which one is a blank
    assert word_diff.changed(*line, budget) == ([(2, 3)], [(2, 3)])
    assert word_diff.changed(*line, budget) == ([], [])
    old, new = "(" * 499 + "a\n", "b" + "(" * 499 + "\n"
    lines = source_view.diff((old * 30).encode(), (new * 30).encode()).lines
    marked = [number for number, line in enumerate(lines) if "<mark>" in line.text]
    assert 0 < len(marked) < len(lines) == 60
