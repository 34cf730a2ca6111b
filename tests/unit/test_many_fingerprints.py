"""Fingerprints of many sources are read on every processor and come back in order."""

from __future__ import annotations

import hashlib
import random
import statistics

import pytest

from app.domain.source import near_duplicates, source_tokens
from app.export import text_facts

SOURCES = [f"class ModelNew:\n    number = {number}\n" for number in range(12)]


@pytest.mark.parametrize("many", [5, 100])
def test_processes_read_what_one_process_reads(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    monkeypatch.setattr(text_facts, "MANY", many)
    monkeypatch.setattr(text_facts, "MOST_READERS", 2)
    with text_facts._fingerprints(len(SOURCES)) as read:
        found = list(read(SOURCES))
        assert list(read([])) == []
        assert list(read(SOURCES[:1])) == found[:1]
    assert found == list(map(near_duplicates.fingerprint, SOURCES))


def test_a_fingerprint_is_the_same_in_every_python() -> None:
    """Fixed values: a change of them needs another `near_duplicates.VERSION`."""
    found = near_duplicates.fingerprint(SOURCES[3])
    assert near_duplicates.VERSION == 2
    assert (found.normalised, found.renamed) == (
        "defb0756d122c8f6193713bc3c46520b",
        "a94e27936a34faf88fdf35a69216b373",
    )
    assert hashlib.sha256(found.signature).hexdigest()[:16] == "475bc39f996fe888"


def test_what_is_remembered_of_tokens_changes_no_fingerprint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remembered = list(map(near_duplicates.fingerprint, SOURCES))
    monkeypatch.setattr(source_tokens, "KNOWN", 3)
    for known in (source_tokens._known, near_duplicates._hashes):
        known.clear()
    assert list(map(near_duplicates.fingerprint, SOURCES)) == remembered


def test_a_signature_estimates_the_jaccard_similarity_of_shingles() -> None:
    """Over 200 pairs of similarity 0.2 to 1: no bias beyond 0.02, a deviation of
    about √(s(1 − s)/64).
    """
    draw = random.Random(5)
    apart = []
    for _ in range(200):
        one = [f"word{draw.randrange(60)}" for _ in range(400)]
        other = [
            draw.choice(one) if draw.random() < draw.choice((0.01, 0.05, 0.1)) else word
            for word in one
        ]
        sets = [
            set(zip(*(words[n:] for n in range(near_duplicates.SHINGLE)), strict=False))
            for words in (one, other)
        ]
        true = len(sets[0] & sets[1]) / len(sets[0] | sets[1])
        signatures = map(near_duplicates.signature, (one, other))
        apart.append(near_duplicates.similarity(*signatures) - true)
    assert abs(statistics.mean(apart)) < 0.02
    assert statistics.pstdev(apart) < 0.08
