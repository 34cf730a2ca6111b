"""Constants in Triton's interpreter.

* `value` of a constant parameter: the interpreter passes constants as they are, compiled code has a
  `tl.constexpr` there, and kernels ask it for its value (FlagGems).  That of a parameter which is a
  member of an enumeration is the member, not the member's value (apex).
* Operators of a constant of the module (`alpha = tl.constexpr(0.8)`) and a block: the interpreter
  makes a constant of the result, which functions refuse (`tl.sigmoid(alpha * x)`).
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any

import triton.language as tl
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
        named = ast.Constant(isinstance(node.value, ast.Name))
        return ast.Call(func=ast.Name(_VALUE, ast.Load()), args=[node.value, named], keywords=[])


def install() -> None:
    """Install these reads and operators in the interpreter, with the loops of loop_variables."""
    loop_variables.install()
    for name, method in inspect.getmembers(tl.constexpr, inspect.isfunction):
        if "other" in inspect.signature(method).parameters:
            setattr(tl.constexpr, name, _with_blocks(method))
    setattr(interpreter, _VALUE, _value)
    rewriter: Any = interpreter.FunctionRewriter
    rewriter.ast_transformer = _Transformer()


def _value(constant: Any, named: bool) -> Any:
    if named and isinstance(constant, Enum):
        return constant
    return constant.value if hasattr(constant, "value") else constant


def _with_blocks(operator: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def run(constant: Any, other: Any) -> Any:
        result = operator(constant, other)
        inner = getattr(result, "value", None)
        return inner if isinstance(inner, tl.tensor) else result

    return run
