"""`value` of a constant parameter in Triton's interpreter, which passes constants as they are.

Compiled code has a `tl.constexpr` there, and kernels ask it for its value (FlagGems).
"""

from __future__ import annotations

import ast
from typing import Any

from triton.runtime import interpreter

from workers.backends.interpreter import loop_variables

_VALUE = "_assay_value"
"""Name of `_value` in Triton's module, whose globals rewritten functions see."""


class _Transformer(loop_variables.Transformer):
    """Replaces reads of `value` by calls, in addition to the other changes."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:  # noqa: N802 (ast names it)
        self.generic_visit(node)
        if node.attr != "value" or not isinstance(node.ctx, ast.Load):
            return node
        return ast.Call(func=ast.Name(_VALUE, ast.Load()), args=[node.value], keywords=[])


def install() -> None:
    """Install these reads in the interpreter, with the loops of loop_variables."""
    loop_variables.install()
    setattr(interpreter, _VALUE, _value)
    rewriter: Any = interpreter.FunctionRewriter
    rewriter.ast_transformer = _Transformer()


def _value(constant: Any) -> Any:
    return constant.value if hasattr(constant, "value") else constant
