"""Sources that work in another way where their inputs are not on a GPU, parsed and never run."""

from __future__ import annotations

import ast

from app.domain.source import syntax_tree
from app.domain.source.source_ablation import MAX_BYTES

DEVICES = frozenset({"cpu", "cuda"})

QUESTIONS = frozenset({"is_cuda", "is_cpu"})


def asks_for_a_gpu(source: bytes) -> bool:
    """True if a condition in the source, or a truth value that it keeps or returns, asks whether a
    tensor is on a GPU (`x.is_cuda`, `x.device.type == "cpu"`), or whether there is one.
    """
    if len(source) > MAX_BYTES:
        return False
    try:
        conditions = [_condition(node) for node in ast.walk(syntax_tree.parse(source))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(_asks(node) for condition in conditions if condition for node in ast.walk(condition))


def _condition(node: ast.AST) -> ast.AST | None:
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            return test
        case ast.Assign(value=value) | ast.AnnAssign(value=value) | ast.Return(value=value):
            match value:
                case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                    return value
                case ast.Attribute(attr=name) if name in QUESTIONS:
                    return value
                case ast.Call(func=ast.Attribute(attr="is_available") as asked):
                    return asked
    return None


def _asks(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name) if name in QUESTIONS:
            return True
        case ast.Attribute(attr="is_available", value=ast.Attribute(attr="cuda")):
            return True
        case ast.Attribute(attr="type", value=ast.Attribute(attr="device")):
            return True
        case ast.Compare(left=left, comparators=others):
            return any(_names_a_device(each) for each in (left, *others))
    return False


def _names_a_device(node: ast.AST) -> bool:
    """Test for `"cpu"` and `torch.device("cpu")`."""
    match node:
        case ast.Constant(value=value):
            return value in DEVICES
        case ast.Call(func=ast.Attribute(attr="device"), args=[ast.Constant(value=value), *_]):
            return value in DEVICES
    return False
