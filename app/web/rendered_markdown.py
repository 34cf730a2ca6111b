"""BROWSE: Markdown of a model's answer as HTML that is safe to show: no raw HTML, no
images, highlighted code.

markdown-it-py escapes all text and refuses `javascript:` and `data:` links; the content security
policy forbids inline scripts and styles besides.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import MutableMapping, Sequence
from functools import lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererProtocol
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import (
    BashLexer,
    CppLexer,
    CudaLexer,
    DiffLexer,
    JsonLexer,
    PythonLexer,
    PythonTracebackLexer,
)

from app.web import safe_text, source_view

LEXERS: dict[str, type[Lexer]] = {
    "python": PythonLexer,
    "py": PythonLexer,
    "python3": PythonLexer,
    "triton": PythonLexer,
    "cuda": CudaLexer,
    "cu": CudaLexer,
    "cpp": CppLexer,
    "c++": CppLexer,
    "c": CppLexer,
    "bash": BashLexer,
    "sh": BashLexer,
    "json": JsonLexer,
    "diff": DiffLexer,
    "pytb": PythonTracebackLexer,
}
"""First word of a fence → lexer; other code is shown without colours."""
CELLS = 10_000
"""Cells up to which tables are drawn, in 0.4 s: a line of a wide table makes a cell for each of its
columns, whatever is in it, so that 3 KB make 65,000.
"""
RENDER_S = 0.5
"""Processor time after which a text is shown as it was sent, in seconds: 48 KiB of an answer take
0.05 s, the slowest that are known (brackets that close nothing) 0.4 s.
"""
_DELIMITERS = re.compile(r"[\s>*+\d.)|:-]*-[\s|:-]*")
"""Line below the headings of a table, in a list or a quotation, too."""


@lru_cache(maxsize=1024)
def rendered(source: str, prefix: str) -> Markup:
    """The text as HTML.  Code blocks have the ids `<prefix>-code-1`, `-2` …, which
    copy buttons name.
    """
    text = safe_text.visible(source)
    parser = _PARSER if _most_cells(text) <= CELLS else _WITHOUT_TABLES
    until_s = time.thread_time() + RENDER_S
    try:
        html = parser.render(
            text, {"prefix": prefix, "numbers": itertools.count(1), "until_s": until_s}
        )
    except _SlowError:
        return Markup('<pre class="log tall" tabindex="0">{}</pre>').format(text)
    return Markup(html)  # noqa: S704 (markdown-it escapes text; raw HTML and images are switched off)


def _most_cells(text: str) -> int:
    """Limit on the cells of all tables: of each its columns, times the lines down to an empty one,
    which are its rows, with bars or without.
    """
    cells = rows = 0
    for line in reversed(text.splitlines()):
        rows = rows + 1 if line.strip() else 0
        if _DELIMITERS.fullmatch(line):
            cells += rows * (line.count("|") + 1)
    return cells


class _SlowError(Exception):
    """RENDER_S have passed."""


def _watch(state: StateBlock | StateInline, *_: object) -> bool:
    """A rule that matches nothing and ends a parsing that takes too long."""
    if time.thread_time() > state.env["until_s"]:
        raise _SlowError
    return False


def _adapt(state: StateCore) -> None:
    """Headings of an answer are no headings of the page; links are marked; alignment
    by inline style is dropped.
    """
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = "p"
            if token.type == "heading_open":
                token.attrSet("class", "said-heading")
        elif token.type in ("th_open", "td_open"):
            token.attrs = {"scope": "col"} if token.type == "th_open" else {}
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("rel", "noopener noreferrer nofollow")


def _fence(
    _renderer: RendererProtocol,
    tokens: Sequence[Token],
    idx: int,
    _options: Any,
    env: MutableMapping[str, Any],
) -> str:
    return _block(tokens[idx].content, tokens[idx].info.strip().partition(" ")[0].lower(), env)


def _block(content: str, language: str, env: MutableMapping[str, Any]) -> str:
    if time.thread_time() > env["until_s"]:
        raise _SlowError
    name = f"{env['prefix']}-code-{next(env['numbers'])}"
    label = f"Code, {language}" if language in LEXERS else "Code"
    return str(
        Markup(
            '<div class="fence"><button class="button small" type="button" data-copy="{}"'
            ' hidden>Copy</button><pre class="log" tabindex="0" role="group" aria-label="{}"><code'
            ' id="{}">{}</code></pre></div>\n'
        ).format(name, label, name, _highlighted(content, language))
    )


def _highlighted(content: str, language: str) -> Markup:
    lexer = LEXERS.get(language)
    if lexer is None or len(content) > source_view.HIGHLIGHTED_BYTES:
        return escape(content)
    html = source_view.highlighted(content, lexer(stripnl=False))
    return escape(content) if html is None else html


def _parser(*more: str) -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "breaks": True})
    parser.enable(["strikethrough", *more]).disable(["image", "html_block", "html_inline"])
    parser.block.ruler.before("table", "watch", _watch, {"alt": ["paragraph", "blockquote"]})
    parser.inline.ruler.before("text", "watch", _watch)
    parser.core.ruler.push("adapt", _adapt)
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule("code_block", _fence)
    return parser


_PARSER, _WITHOUT_TABLES = _parser("table"), _parser()
