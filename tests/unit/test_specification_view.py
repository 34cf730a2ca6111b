"""Specifications as people read them: every setting with a value, by its table."""

from __future__ import annotations

from app.web import specification_view
from app.web.specification_view import Part


def test_settings_stand_under_their_table() -> None:
    spec = {
        "name": "softmax",
        "endpoints": [],
        "seed": 0,
        "fresh": False,
        "problems": {"source_set": "kernelbench", "level": None, "names": ["a", "b"]},
        "options": {},
        "sampling": {"temperature": 0.5, "extra": {"seeds": [[1], [2]]}},
        "budgets": {"collection": {"usd": 20, "calls": None}, "call": {"tokens": 4096}},
    }
    assert specification_view.parts(spec) == [
        Part(title="general", settings=(("name", "softmax"), ("seed", "0"), ("fresh", "no"))),
        Part(title="problems", settings=(("source_set", "kernelbench"), ("names", "a, b"))),
        Part(title="sampling", settings=(("temperature", "0.5"), ("extra, seeds", "[[1], [2]]"))),
        Part(title="budgets", settings=(("collection, usd", "20"), ("call, tokens", "4096"))),
    ]
