"""Annotations of a kernel as its source has them, in Triton's interpreter.

The interpreter rewrites a kernel and compiles it in a module that postpones annotations, which
puts quotes around those that are text already.  `BLOCK: "tl.constexpr"` is then no constant, as it
is in compiled code, and `tl.arange` refuses it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from triton.runtime import interpreter


def install() -> None:
    """Make rewritten kernels keep their annotations."""
    rewriter: Any = interpreter.FunctionRewriter
    compiled = rewriter._compile_and_exec

    def kept(self: Any, tree: Any) -> Callable[..., Any]:
        function: Callable[..., Any] = compiled(self, tree)
        function.__annotations__ = dict(self.fn.__annotations__)
        return function

    rewriter._compile_and_exec = kept
