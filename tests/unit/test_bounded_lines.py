"""Lines that are too long are named, passed over, and never held in memory."""

from __future__ import annotations

import tracemalloc
from io import BytesIO
from pathlib import Path

import pytest

from app.cli import batch
from app.domain.bounded_lines import lines
from app.imports import fields
from app.imports.base import BadImportError


def test_lines_have_their_numbers_and_long_ones_are_none() -> None:
    file = BytesIO(b"1\n\n1234\n12345\r\n123456789\nab")
    found = list(lines(file, 4))
    assert found == [(1, b"1\n"), (2, b"\n"), (3, b"1234\n"), (4, None), (5, None), (6, b"ab")]
    assert list(lines(BytesIO(b"12345"), 4)) == [(1, None)]
    assert list(lines(BytesIO(b""), 4)) == []


def test_a_batch_goes_on_after_a_line_without_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cases.jsonl"
    with path.open("wb") as file:
        file.write(b"[]\n")
        file.seek(100_000_000)  # a hole: it takes no room
        file.write(b"\n{}\n")
    tracemalloc.start()
    assert list(batch.read(path, {}, batch.Tally())) == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    told = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1].rsplit(":")[-1] for line in told] == ["1", "2", "3"]
    assert "expected a line of at most" in told[1]
    assert peak < 10 * batch.LONGEST_LINE


def test_an_import_names_a_line_that_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fields, "LONGEST_LINE", 10)
    path = tmp_path / "samples.jsonl"
    path.write_bytes(b'{"a": 1}\n' + b"x" * 100 + b"\n{}\n")
    found = list(fields.lines(path))
    assert [where.rsplit(":")[-1] for _, where in found] == ["1", "2", "3"]
    assert fields.object_of(*found[0]) == {"a": 1}
    with pytest.raises(BadImportError, match=r":2: expected a line of at most 10 bytes"):
        fields.object_of(*found[1])
