"""Python sources as syntax trees."""

from __future__ import annotations

import ast
import threading

_PARSING = threading.Lock()
"""Held by the thread that parses.  Until Python 3.11.5 (gh-106905) threads share the depth of a
recursion in the parser, and two that parse at once get a SystemError ("AST constructor recursion
depth mismatch"), some of them for valid sources.
"""


def parse(source: str | bytes) -> ast.Module:
    """The tree of a source.  Raises what ast.parse does: SyntaxError, ValueError, RecursionError,
    MemoryError.
    """
    with _PARSING:
        return ast.parse(source)


def parse_expression(source: str) -> ast.expr:
    """The tree of an expression.  Raises as `parse`."""
    with _PARSING:
        return ast.parse(source, mode="eval").body
