"""Token budgets by a trainer's own tokenizer."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from app.domain.dataset.selection import COUNTER
from app.export import tokens


def test_a_file_is_read_by_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tokenizer:
        @staticmethod
        def from_file(path: str) -> Any:
            assert path == "/x/tokenizer.json"
            return SimpleNamespace(
                encode_batch=lambda texts, add_special_tokens: [
                    SimpleNamespace(ids=text.split()) for text in texts
                ]
            )

    monkeypatch.setitem(sys.modules, "tokenizers", SimpleNamespace(Tokenizer=Tokenizer))
    count = tokens.counter("file:/x/tokenizer.json")
    assert count is not None
    assert count(["two words", "and three more"]) == 5


def test_what_is_no_tokenizer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tokens.counter(COUNTER) is None
    with pytest.raises(ValueError, match="expected utf8/4@1 or file:PATH"):
        tokens.counter("gpt2")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ValueError, match="expected the package tokenizers"):
        tokens.counter("file:/x/tokenizer.json")
