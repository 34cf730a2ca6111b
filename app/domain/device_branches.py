"""Sources that work in another way where their inputs are not on a GPU, parsed and never run."""

from __future__ import annotations

import ast

from app.domain import syntax_tree
from app.domain.source_ablation import MAX_BYTES

DEVICES = frozenset({"cpu", "cuda"})


def asks_for_a_gpu(source: bytes) -> bool:
    """True if a condition in the source asks whether a tensor is on a GPU (`x.is_cuda`,
    `x.device.type == "cpu"`), or whether there is one.
    """
    if len(source) > MAX_BYTES:
        return False
    try:
        conditions = [
            node.test
            for node in ast.walk(syntax_tree.parse(source))
            if isinstance(node, ast.If | ast.IfExp | ast.While)
        ]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(_asks(node) for condition in conditions for node in ast.walk(condition))


def _asks(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr="is_cuda"):
            return True
        case ast.Attribute(attr="is_available", value=ast.Attribute(attr="cuda")):
            return True
        case ast.Attribute(attr="type", value=ast.Attribute(attr="device")):
            return True
        case ast.Compare(left=left, comparators=others):
            return any(
                isinstance(each, ast.Constant) and each.value in DEVICES for each in (left, *others)
            )
    return False
