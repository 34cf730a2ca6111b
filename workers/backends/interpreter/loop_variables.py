"""Loop variables of a kernel in Triton's interpreter, as the scalars that compiled code has.

The interpreter runs `range` and `tl.range` as Python does, over integers.  Kernels call methods of
a scalar (`i.to(tl.int64)`), which integers lack.  Variables of `tl.static_range` are constants in
both.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

import triton.language as tl
from triton.runtime import interpreter

from workers.backends.interpreter import block_logic

_COUNTED = "_assay_counted"
"""Name of `_counted` in Triton's module, whose globals rewritten functions see."""


class Transformer(block_logic.Transformer):
    """Replaces the ranges of loops, in addition to the changes of block_logic."""

    def visit_For(self, node: ast.For) -> ast.For:  # noqa: N802 (ast names it)
        """Hand the function of a range and its bounds to `_counted`."""
        self.generic_visit(node)
        call = node.iter
        if isinstance(call, ast.Call) and _is_range(call.func):
            node.iter = ast.Call(
                func=ast.Name(_COUNTED, ast.Load()),
                args=[call.func, *call.args],
                keywords=call.keywords,
            )
        return node


def install() -> None:
    """Install these loops in the interpreter, with the operators of block_logic."""
    block_logic.install()
    module: Any = interpreter
    setattr(module, _COUNTED, _counted)
    module.FunctionRewriter.ast_transformer = Transformer()


def _is_range(function: ast.expr) -> bool:
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    return bool(name == "range")


def _counted(function: Callable[..., Any], *bounds: Any, **options: Any) -> Iterator[Any]:
    """Numbers of a range as scalars: of 64 bits where a bound has as many, else of 32."""
    semantic = interpreter.interpreter_semantic
    named = [value for name, value in options.items() if name in ("arg1", "arg2", "step")]
    wide = any(
        isinstance(bound, tl.tensor) and bound.dtype.primitive_bitwidth == 64
        for bound in (*bounds, *named)
    )
    for number in function(*bounds, **options):
        scalar = semantic.to_tensor(number, False)
        yield semantic.cast(scalar, tl.int64) if wide else scalar
