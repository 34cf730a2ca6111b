"""EXPORT: problems and texts that are too similar to held-out ones.

Problems are held against a list by four rules, from the surest to the widest:

    exact     the same syntax tree
    task      the same with numbers masked: the benchmark's problem in another shape
    family    the same class with numbers masked and names renamed
    ngram     at least half of the held-out class's 13-token windows stand in the problem's

Conversations (prompts with examples in them, answers that quote) are held against the list by
n-grams only.  The 13 is GPT-3's (arXiv 2005.14165, appendix C).
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from app.domain.dataset import problem_family
from app.domain.source import source_tokens, syntax_tree
from app.domain.source.source_text import display

GRAM = 13
"""Tokens of a window, as in GPT-3."""
PROBLEM_SHARE = 0.5
"""A class that shares this much of its windows is the same class with a step added."""
TEXT_SHARE = 0.8
"""A text that has nearly all windows of a held-out class quotes it."""
MIN_GRAMS = 12
"""A shorter class (a bare activation) has too few windows to tell a quotation from the language."""


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """A problem that must not be trained on."""

    name: str
    """`<list>/<problem>`, for the report."""
    reference: bytes
    entry_point: str = "Model"


@dataclass(frozen=True, kw_only=True)
class Match:
    """Reason for an exclusion."""

    held_out: str
    rule: str
    similarity: float
    """1 for the rules that are yes or no."""

    def __str__(self) -> str:
        shown = "" if self.similarity == 1 else f" {self.similarity:.2f}"
        return f"{self.rule}{shown} {self.held_out}"


@dataclass(frozen=True, kw_only=True)
class _Known:
    name: str
    keys: problem_family.Keys
    grams: frozenset[tuple[str, ...]]


@dataclass(kw_only=True)
class Index:
    """A held-out list, indexed for queries."""

    held_out: Iterable[HeldOut]
    _known: list[_Known] = field(init=False)
    _owners: dict[tuple[str, ...], list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self._known, self._owners = [], {}
        for one in self.held_out:
            grams = frozenset(_grams(_model_words(one.reference, one.entry_point)))
            for gram in grams:
                self._owners.setdefault(gram, []).append(len(self._known))
            self._known.append(
                _Known(
                    name=one.name,
                    keys=problem_family.keys(one.reference, one.entry_point),
                    grams=grams,
                )
            )
        self.held_out = ()

    def __len__(self) -> int:
        return len(self._known)

    def problem(self, reference: bytes, entry_point: str = "Model") -> Match | None:
        """The surest match of a problem; None if it is like nothing held out."""
        own = problem_family.keys(reference, entry_point)
        for rule in ("exact", "task", "family"):
            for known in self._known:
                if getattr(known.keys, rule) == getattr(own, rule):
                    return Match(held_out=known.name, rule=rule, similarity=1.0)
        return self._quoted(_model_words(reference, entry_point), PROBLEM_SHARE)

    def text(self, text: str) -> Match | None:
        """The held-out class that a text quotes, if it quotes one."""
        return self._quoted(source_tokens.words(text), TEXT_SHARE) if self._owners else None

    def _quoted(self, words: Sequence[str], share: float) -> Match | None:
        shared: dict[int, int] = {}
        for gram in set(_grams(words)):
            for owner in self._owners.get(gram, ()):
                shared[owner] = shared.get(owner, 0) + 1
        found = [
            (count / len(self._known[owner].grams), self._known[owner].name)
            for owner, count in shared.items()
            if len(self._known[owner].grams) >= MIN_GRAMS
            and count / len(self._known[owner].grams) >= share
        ]
        if not found:
            return None
        most, name = max(found, key=lambda each: (each[0], each[1]))
        return Match(held_out=name, rule="ngram", similarity=most)


def _grams(words: Sequence[str]) -> Iterable[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(GRAM)), strict=False)


def _model_words(reference: bytes, entry_point: str) -> list[str]:
    """Tokens of the reference's class alone: imports and input shapes are everybody's."""
    text = display(reference)
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = syntax_tree.parse(reference)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source_tokens.words(text)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == entry_point:
            return source_tokens.words(ast.get_source_segment(text, node) or text)
    return source_tokens.words(text)
