"""`and`, `or` and `not` of blocks in Triton's interpreter, element by element as in compiled code.

Python evaluates these operators by the truth value of the first block, which is that of its first
element, and returns one operand: a mask of rows and columns would lose one of them, and loads
beyond the tensor end the process.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import triton.language as tl
from triton.runtime import interpreter

_JOINED, _NEGATED = "_assay_joined", "_assay_negated"
"""Names of `_joined` and `_negated` in Triton's module, whose globals rewritten functions see."""


class Transformer(interpreter.ASTTransformer):  # type: ignore[misc]
    """Replaces boolean operators by calls, in addition to Triton's own changes."""

    def visit_Assign(self, node: ast.Assign) -> Any:  # noqa: N802 (ast names it)
        """Visit the value, which Triton's transformer does not."""
        node.value = self.visit(node.value)
        return super().visit_Assign(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.Call:  # noqa: N802 (ast names it)
        """Pass operands as functions, so that a number that decides ends the evaluation."""
        self.generic_visit(node)
        method = ast.Constant("logical_or" if isinstance(node.op, ast.Or) else "logical_and")
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        operands = [ast.Lambda(args=nothing, body=value) for value in node.values]
        return ast.Call(func=ast.Name(_JOINED, ast.Load()), args=[method, *operands], keywords=[])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:  # noqa: N802 (ast names it)
        """Replace `not`; the other unary operators are methods of a block."""
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return ast.Call(func=ast.Name(_NEGATED, ast.Load()), args=[node.operand], keywords=[])


def install() -> None:
    """Install these operators in the interpreter."""
    module: Any = interpreter
    setattr(module, _JOINED, _joined)
    setattr(module, _NEGATED, _negated)
    module.FunctionRewriter.ast_transformer = Transformer()


def _joined(method: str, *operands: Callable[[], Any]) -> Any:
    decides, blocks, found = method == "logical_or", None, None
    for operand in operands:
        found = operand()
        if blocks is not None:
            blocks = _semantic(method)(blocks, interpreter.interpreter_semantic.to_tensor(found))
        elif _is_block(found):
            blocks = found
        elif bool(found) is decides:
            return found
    return found if blocks is None else blocks


def _negated(value: Any) -> Any:
    return _semantic("not_")(value) if _is_block(value) else not value


def _is_block(value: Any) -> bool:
    return isinstance(value, tl.tensor) and value.type.is_block()


def _semantic(name: str) -> Callable[..., Any]:
    method: Callable[..., Any] = getattr(interpreter.interpreter_semantic, name)
    return method
