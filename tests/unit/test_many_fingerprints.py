"""Fingerprints of many sources are read on every processor and come back in order."""

from __future__ import annotations

import pytest

from app.domain import near_duplicates
from app.export import prepare

SOURCES = [f"class ModelNew:\n    number = {number}\n" for number in range(12)]


@pytest.mark.parametrize("many", [5, 100])
def test_processes_read_what_one_process_reads(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    monkeypatch.setattr(prepare, "MANY", many)
    monkeypatch.setattr(prepare, "MOST_READERS", 2)
    with prepare._fingerprints(len(SOURCES)) as read:
        found = list(read(SOURCES))
    assert found == list(map(near_duplicates.fingerprint, SOURCES))
