"""Row locks never conflict with a foreign key's: rows that refer to a row neither
wait for them nor are skipped.
"""

from __future__ import annotations

import ast
from pathlib import Path

STORE = Path(__file__).parents[2] / "app" / "store"


def locks(text: str) -> list[ast.Call]:
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return [
        call
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "with_for_update"
    ]


def test_no_row_lock_takes_the_key() -> None:
    found = 0
    for path in sorted(STORE.rglob("*.py")):
        text = path.read_text()
        for call in locks(text):
            found += 1
            assert "key_share" in {keyword.arg for keyword in call.keywords}, (
                f"{path.name}:{call.lineno}"
            )
        assert "FOR UPDATE SKIP" not in text, path.name
    assert found > 5
