"""Order of test files: the longest are begun first."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from tests import conftest

TESTS = Path(conftest.__file__).parent


def test_files_that_are_begun_first_exist_once() -> None:
    names = Counter(
        path.stem for tier in ("unit", "integration") for path in (TESTS / tier).glob("test_*.py")
    )
    assert {name: names[name] for name in conftest.LONGEST} == dict.fromkeys(conftest.LONGEST, 1)


def test_the_longest_come_first_and_the_rest_stays_in_order() -> None:
    class Item:
        def __init__(self, stem: str) -> None:
            self.path = Path(f"{stem}.py")

    items: list[Any] = [
        Item(stem)
        for stem in ("test_b", conftest.LONGEST[1], "test_a", conftest.LONGEST[0], "test_b")
    ]
    conftest.pytest_collection_modifyitems(items)
    assert [item.path.stem for item in items] == [
        *conftest.LONGEST[:2],
        "test_b",
        "test_a",
        "test_b",
    ]
