"""Reasons of a compiler in one line."""

import ast

import pytest
from triton.compiler.errors import CompilationError

from workers.referee.probes import aot_compile
from workers.shims import builder

LOOP = """CompilationError: at 5:4:
def total(x, y, N: tl.constexpr):
    acc = 0
    for k in range(0, N):
    ^
AssertionError("Loop-carried variable acc has initial type int32 but is re-assigned to fp32")
"""


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (LOOP, 'AssertionError("Loop-carried variable acc has initial type int32 but is'),
        ("CompilationError: at 3:9:\n    tl.sum(v)\n         ^\n", "tl.sum(v)"),
        ("", "no reason given"),
        ("x" * 1000, "x" * aot_compile.LONGEST_REASON),
    ],
)
def test_the_reason_is_the_last_line_that_says_something(log: str, reason: str) -> None:
    assert aot_compile.reason(log).startswith(reason)
    assert len(aot_compile.reason(log)) <= aot_compile.LONGEST_REASON


def test_the_reason_of_an_error_in_a_nested_function_is_given() -> None:
    source = "def kernel(p):\n" + "    y = 1\n" * 400 + "    y = helper(p)\n"
    call = next(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    helper = ast.walk(ast.parse("def helper(x):\n    return x * scale"))
    inner = next(node for node in helper if getattr(node, "id", "") == "scale")
    error = CompilationError(source, call, None)
    error.__cause__ = CompilationError(
        "def helper(x):\n    return x * scale", inner, "Cannot access global\nvariable scale"
    )
    said = builder.explained(error)
    assert aot_compile.reason(said) == (
        "Cannot access global variable scale (at 2:15: return x * scale)"
    )
    assert len(said) < 2047
