"""Sizes of files and of functions: short enough that each can be read alone."""

from __future__ import annotations

import ast

from tests import language

MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 60
FROZEN = ("migrations",)
"""Migrations that have run are not edited."""

FILES = list(
    language.sources(language.ROOT / tree for tree in language.TREES if tree not in FROZEN)
)
TESTS = list(
    language.sources(
        language.ROOT / "tests" / tree for tree in ("unit", "integration", "gpu", "bench")
    )
)


def test_no_file_is_long():
    long = {
        str(path.relative_to(language.ROOT)): len(path.read_text().splitlines())
        for path in (*FILES, *TESTS)
    }
    assert {name: lines for name, lines in long.items() if lines > MOST_LINES} == {}


def test_no_function_is_long():
    found = {}
    for path in (*FILES, *TESTS):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                found[f"{path.relative_to(language.ROOT)}:{node.name}"] = (
                    node.end_lineno - node.lineno + 1
                )
    assert {name: lines for name, lines in found.items() if lines > MOST_LINES_OF_A_FUNCTION} == {}
