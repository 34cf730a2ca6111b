"""Fenced blocks of answers, at the margin and in lists."""

from __future__ import annotations

import pytest

from app.domain.collection.answers import Why, candidate_of
from app.domain.collection.call import End
from app.domain.source import fences

CODE = "class ModelNew:\n    def forward(self, x):\n        return x\n"


def indented(text: str, indent: str) -> str:
    return "".join(f"{indent}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize("indent", ["", "  ", "   ", "      ", "\t"])
def test_a_block_in_a_list_is_the_code_without_its_indentation(indent):
    answer = "1. The kernel:\n\n" + indented(f"```python\n{CODE}```", indent) + "2. Done.\n"
    (block,), whole = fences.blocks(answer)
    assert (block.info, block.text, whole) == ("python", f"\n{CODE}", True)
    found = candidate_of(answer, entry_point="Model", end=End.STOP)
    assert (found.why, found.source) == (Why.OK, CODE)


def test_a_fence_further_in_is_a_line_of_the_code():
    code = f'{CODE}        """\n        ```\n        x\n        ```\n        """\n'
    (block,), whole = fences.blocks(f"```python\n{code}```")
    assert (block.text, whole) == (f"\n{code}", True)


def test_lines_at_the_margin_stay_as_they_are():
    (block,), _ = fences.blocks("  ```\n  a\nb\n c\n\n  ```")
    assert block.text == "\na\nb\nc\n\n"


def test_an_open_fence_is_told():
    assert fences.blocks("  ```python\n  x = 1\n") == ([], False)
    assert fences.blocks("a ``` in a line is none") == ([], True)


def test_long_runs_of_blanks_are_read_at_once() -> None:
    # a second reading for each blank would take minutes
    assert fences.blocks("```" + " " * 400_000 + "`") == ([], True)
