from __future__ import annotations

import html
import re

import pytest
from markupsafe import escape

from app.domain.trajectory import Message
from app.store.browse.trajectory import TurnText
from app.web import conversation, rendered_markdown, source_view

HOSTILE = (
    b"</script><script>alert(1)</script>\n'''\n<img src=x onerror=alert(2)>\n'''  # \x00 \xff"
    b" \xed\xa0\x80 &amp;\n"
)


def _text(listing: source_view.Listing) -> str:
    return "\n".join(html.unescape(re.sub(r"<[^>]*>", "", line)) for line in listing.lines)


def test_markup_holds_nothing_but_spans_with_classes() -> None:
    markup = "".join(source_view.listing(HOSTILE).lines)
    assert set(re.findall(r"<[^>]*>", markup)) <= {
        "</span>",
        *re.findall(r'<span class="k-\w+">', markup),
    }
    assert "&lt;img src=x onerror=alert(2)&gt;" in markup


def test_every_line_closes_its_spans() -> None:
    for line in source_view.listing(b"'''one\ntwo\nthree'''\n").lines:
        assert line.count("<span") == line.count("</span>")


def test_lines_are_those_of_the_source() -> None:
    source = b"\n\nimport torch\r\n\rx = 1  \n\n"
    assert _text(source_view.listing(source)) == "\n\nimport torch\n\nx = 1  \n"


def test_source_without_a_final_newline_keeps_its_last_line() -> None:
    assert _text(source_view.listing(b"x = 1")) == "x = 1"


def test_an_empty_file_has_no_bytes() -> None:
    listing = source_view.listing(b"")
    assert listing.total_bytes == 0
    assert _text(listing) == ""


def test_large_files_are_cut_and_say_so() -> None:
    listing = source_view.listing(b"x = 1\n" * 200_000)
    assert listing.total_bytes == 1_200_000
    assert listing.hidden_bytes == 1_200_000 - source_view.SHOWN_BYTES


def test_a_cut_inside_a_character_is_still_text() -> None:
    source_view.listing("é".encode() * source_view.SHOWN_BYTES)


def test_diff_names_lines_of_both_sides() -> None:
    change = source_view.diff(b"a\nb\nc\n", b"a\nB\nc\nd\n")
    assert [
        (line.kind, line.old, line.new, re.sub("<.*?>", "", line.text)) for line in change.lines
    ] == [
        ("same", 1, 1, "a"),
        ("removed", 2, None, "b"),
        ("added", None, 2, "B"),
        ("same", 3, 3, "c"),
        ("added", None, 4, "d"),
    ]
    assert (change.added, change.removed) == (2, 1)


def test_diff_leaves_out_what_is_far_from_a_change() -> None:
    old = "".join(f"line {n}\n" for n in range(100))
    change = source_view.diff(old.encode(), old.replace("line 50\n", "fifty\n").encode())
    assert change.lines[0].kind == "gap"
    assert len(change.lines) == 2 * source_view.CONTEXT_LINES + 3


def test_long_files_are_escaped_without_colours() -> None:
    line = source_view.listing(b"<b> # " + b"x" * source_view.HIGHLIGHTED_BYTES).lines[0]
    assert line.startswith("&lt;b&gt; # x")
    assert "<span" not in line


def test_what_takes_highlighters_and_matchers_long_ends_soon() -> None:
    source_view.listing((b"'\\N{" * source_view.SHOWN_BYTES)[: source_view.SHOWN_BYTES])
    assert source_view.diff(b"x\n" * 60_000, b"y\nx\n" * 30_000).cut


def test_diff_of_equal_sources_is_empty() -> None:
    assert source_view.diff(b"x\n", b"x\n").lines == ()


def test_a_diff_of_long_sources_says_how_much_was_compared() -> None:
    old, new = (
        b"a = 1\n",
        b"".join(b"line_%06d = 'something that is long enough'\n" % n for n in range(6_000)),
    )
    found = source_view.diff(old, new)
    assert found.cut
    assert found.of == (1, 6_000)
    assert found.compared[1] == found.added < 6_000
    assert not source_view.diff(b"a\r\nb\rc", b"a\nb\nd\n").cut


def test_a_source_that_takes_too_long_is_shown_without_colours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = b"x = '<b>'\nyield x\n"
    monkeypatch.setattr(source_view, "HIGHLIGHT_S", -1.0)
    assert source_view.listing(source).lines == ("x = &#39;&lt;b&gt;&#39;", "yield x")
    fence = rendered_markdown.rendered("```cuda\nint <b>;\n```", "slow")
    assert "int &lt;b&gt;;" in fence
    assert "k-" not in fence


@pytest.mark.timeout(20)
def test_newlines_do_not_hold_the_server_up() -> None:
    """Pygments' lexer of C++ takes 45 s for them."""
    assert "</code>" in rendered_markdown.rendered(f"```cuda\n{chr(10) * 32_000}```", "newlines")


def test_a_table_of_too_many_cells_is_text() -> None:
    """A line `|` has a cell for every column: 2 KB made 65,000 cells, and took 2 s."""
    head = "|".join("a" * 150) + "\n" + "|".join("-" * 150) + "\n"
    assert "<table>" in rendered_markdown.rendered(head + "|\n" * 20, "small")
    assert "<table>" not in rendered_markdown.rendered(head + "|\n" * 500, "large")


def test_rows_of_a_table_are_counted_without_bars_too() -> None:
    head = "> a|b\n> -|-\n"
    assert "<table>" in rendered_markdown.rendered(head + "> x\n" * 20 + "\nThe end.", "few")
    assert "<table>" not in rendered_markdown.rendered(head + "> x\n" * 10_000, "many")
    text = "a|b\n-|-\n1|2\n\n" + "A line.\n" * 20_000
    assert "<table>" in rendered_markdown.rendered(text, "a small table in a long text")


@pytest.mark.parametrize("source", ["a\n" * 9, "`b`" * 9, "```python\n<c>\n```"])
def test_markdown_that_takes_too_long_is_shown_as_it_was_sent(
    monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setattr(rendered_markdown, "RENDER_S", -1.0)
    shown = rendered_markdown.rendered.__wrapped__(source, "slow")
    assert shown == f'<pre class="log tall" tabindex="0">{escape(source)}</pre>'


def test_the_messages_of_a_page_share_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = TurnText(
        turn_index=0,
        messages=(Message(role="user", content="*a*"),),
        response=b"*b*",
        response_bytes=3,
    )
    [shown] = conversation.said([turn])
    assert ["<em>" in entry.body for entry in shown.entries] == [True, True]
    monkeypatch.setattr(conversation, "PAGE_S", -1.0)
    [shown] = conversation.said([turn])
    assert ["*" in entry.body for entry in shown.entries] == [True, True]
