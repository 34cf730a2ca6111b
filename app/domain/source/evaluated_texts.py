"""Expressions that a source holds as texts: `eval("…")` of a constant is that expression.

Published kernels write decorators so, which Triton's own reader of sources does not accept.
"""

from __future__ import annotations

import ast

from app.domain.source import syntax_tree


def written_out(tree: ast.Module) -> ast.Module:
    """The module, changed in place, with such calls replaced by their expressions.  The caller has
    made sure that `eval` is Python's.
    """
    written: ast.Module = _WrittenOut().visit(tree)
    return written


def text_of(node: ast.AST) -> str | None:
    """The text of a call that evaluates a constant one; None of every other node."""
    match node:
        case ast.Call(func=ast.Name(id="eval"), args=[ast.Constant(value=str(text))], keywords=[]):
            return text
    return None


class _WrittenOut(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        if (text := text_of(node)) is None:
            return self.generic_visit(node)
        try:
            written = syntax_tree.parse_expression(text.strip())
        except (SyntaxError, ValueError):
            return node  # it raises, or is judged as a text
        return self.visit(written)  # type: ignore[no-any-return]
