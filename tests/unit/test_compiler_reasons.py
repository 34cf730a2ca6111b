"""Reasons of a compiler in one line."""

import pytest

from workers.referee.probes import aot_compile

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
