"""Python sources are parsed by one thread at a time."""

from __future__ import annotations

import ast
import gc
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import app
from app.domain.source import syntax_tree

DEEP = "x = " + "(" * 60 + "1" + ")" * 60 + "\ny = [" + "[1, 2, 3], " * 200 + "]\n"


class Cycle:
    """Garbage whose end lets another thread run, in the middle of a tree that is being made."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        time.sleep(1e-4)


def _parsed(parse: Callable[[str], ast.Module]) -> str:
    for _ in range(3):
        Cycle()
    return ast.dump(parse(DEEP))


def test_threads_that_parse_at_once_all_get_their_tree() -> None:
    """Without the lock most of these raise SystemError in Python 3.11.2."""
    expected, threshold = ast.dump(ast.parse(DEEP)), gc.get_threshold()
    gc.set_threshold(50)
    try:
        with ThreadPoolExecutor(4) as pool:
            trees = set(pool.map(_parsed, [syntax_tree.parse] * 40))
    finally:
        gc.set_threshold(*threshold)
    assert trees == {expected}


@pytest.mark.parametrize("text", ["x =", "\0"])
def test_errors_of_the_parser_pass_and_the_next_source_is_parsed(text: str) -> None:
    with pytest.raises((SyntaxError, ValueError)):
        syntax_tree.parse(text)
    assert isinstance(syntax_tree.parse_expression("1 + 1"), ast.BinOp)


def test_the_application_parses_sources_in_no_other_way() -> None:
    folder = Path(app.__file__).parent
    others = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if re.search(r"\bast\.parse\(", path.read_text())
    }
    # The wheel for trainers' environments stands alone, and parses in one thread.
    assert others == {"domain/source/syntax_tree.py", "kernel_assay/backend.py"}
