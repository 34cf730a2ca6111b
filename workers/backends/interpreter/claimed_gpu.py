"""A candidate's own checks that its tensors are on a GPU (`assert x.is_cuda`), on a device that has
none.

Most launchers of Triton kernels refuse other tensors or leave them to the library.  The interpreter
runs the same kernel on them, so `is_cuda` is true where the candidate's file asks.  It is the truth
for all other code, and where the answer decides on a use of torch's GPU functions (`if x.is_cuda:
torch.cuda.synchronize()`), which would raise.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

NAME = "is_cuda"


def install(path: Path) -> None:
    """Make `Tensor.is_cuda` true in the code of the file at `path`, except in lines_of_truth."""
    file, lines = str(path), lines_of_truth(path.read_bytes())
    actual: Any = torch._C.TensorBase.is_cuda

    def is_cuda(tensor: torch.Tensor) -> bool:
        asker = sys._getframe(1)
        is_claimed = asker.f_code.co_filename == file and asker.f_lineno not in lines
        return is_claimed or actual.__get__(tensor)

    torch.Tensor.is_cuda = property(is_cuda)  # type: ignore[assignment]


def lines_of_truth(source: bytes) -> frozenset[int]:
    """Numbers of the lines that ask `is_cuda` to decide whether a GPU is used by name.  None of a
    source that cannot be parsed.
    """
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    questions = (
        asked
        for node in nodes
        for asked in _asked(_condition(node))
        if _uses_a_gpu(_on_a_gpu(node))
    )
    return frozenset(
        line for node in questions for line in range(node.lineno, (node.end_lineno or 0) + 1)
    )


def _condition(node: ast.AST) -> list[ast.AST]:
    """The conditions of a branch or of a chain of `and` and `or`."""
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            return [test]
        case ast.BoolOp(values=values):
            return list(values)
    return []


def _on_a_gpu(node: ast.AST) -> list[ast.AST]:
    """The code that runs if the tensors of a condition are on a GPU, the condition included."""
    condition = _condition(node)
    match node:
        case ast.If(body=body, orelse=otherwise) | ast.While(body=body, orelse=otherwise):
            return [*condition, *(otherwise if _is_negated(condition) else body)]
        case ast.IfExp(body=value, orelse=other):
            return [*condition, other if _is_negated(condition) else value]
    return condition


def _is_negated(nodes: Iterable[ast.AST]) -> bool:
    """Test whether a condition holds where tensors are not on a GPU: `not x.is_cuda`."""
    return any(
        isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.Not) and bool(_asked([each]))
        for node in nodes
        for each in ast.walk(node)
    )


def _asked(nodes: Iterable[ast.AST]) -> list[ast.Attribute]:
    return [
        each
        for node in nodes
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and each.attr == NAME
    ]


def _uses_a_gpu(nodes: Iterable[ast.AST]) -> bool:
    """Test whether code names a GPU: `torch.cuda`, `x.cuda()`, `device="cuda"`."""
    return any(
        (isinstance(each, ast.Attribute) and each.attr == "cuda")
        or (isinstance(each, ast.Constant) and str(each.value).split(":")[0] == "cuda")
        for node in nodes
        for each in ast.walk(node)
    )
